//! The OpenAPI document.

/// The OpenAPI 3.1 document of this API, as pretty JSON.
pub fn openapi() -> String {
    String::from("{}")
}
