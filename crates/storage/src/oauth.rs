//! OAuth: applications, grants with their tokens, codes, and devices.

mod applications;
mod codes;
mod devices;
mod grants;

pub(crate) use applications::remove_applications;
pub(crate) use grants::remove_grants;

use branchyard_domain::ports::MetadataError;

type Result<T> = std::result::Result<T, MetadataError>;
