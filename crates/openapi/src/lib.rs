//! Parts that the OpenAPI documents of all API versions share: the declaration of an operation, the top level of a document,
//! and helpers for schemas.

mod document;
mod operation;
mod schemas;
mod security;

pub use document::{OpenApi, paths};
pub use operation::{Body, BodySchema, Credential, EndpointDocs, Success, list_of, one};
pub use schemas::{Schemas, data_schema, drop_null, error_code, reference, sorted};
pub use security::security_schemes;

/// Returns the names of the parameters in a path template, in order. `{name:.+}` is the parameter `name`.
pub fn path_parameters(path: &str) -> impl Iterator<Item = &str> {
    path.split('{').skip(1).filter_map(|part| part.split([':', '}']).next())
}
