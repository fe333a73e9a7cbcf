use std::collections::BTreeMap;

use serde::Serialize;
use utoipa::ToSchema;

/// The URL for one part. It will always have exactly these keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportUploadPart {
    pub(crate) part_number: u32,
    pub(crate) url: String,
}

/// An upload session. It will always have exactly these keys.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportUpload {
    pub(crate) token: String,
    pub(crate) contents_key: String,
    pub(crate) parts: Vec<ImportUploadPart>,
    pub(crate) http_method: &'static str,
    pub(crate) headers: BTreeMap<String, Vec<String>>,
}
