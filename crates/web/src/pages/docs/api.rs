//! `/docs/api/{name}`: the reference of an API.

use std::sync::Arc;

use actix_web::web;
use askama::Template;

use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::reference::{Reference, ReferenceDocument};

#[derive(Template)]
#[template(path = "docs/api.html")]
struct ApiPage<'a> {
    shell: LayoutContext,
    made: &'a ReferenceDocument,
    document: String,
    address: String,
}

/// `GET /docs/api/{name}`
pub(crate) async fn show(visit: PageContext, references: web::Data<Vec<Reference>>) -> PageResult {
    let name = visit.segment("name");
    let references = Arc::clone(&references);
    let wanted = references.iter().find(|reference| reference.name() == name).ok_or_else(PageError::nothing_here)?;
    let (made, document, address) = (wanted.made(), wanted.document(), wanted.address());
    visit.page(|shell| ApiPage { shell, made, document, address })
}
