use actix_web::HttpResponse;
use branchyard_domain::access::Read;
use branchyard_domain::entities::OperationKind;
use branchyard_domain::ports::OperationFilter;
use branchyard_domain::values::OperationId;
use branchyard_http_common::{HandlerError, bound, cut};

use super::pulls::raw;
use crate::access::access;
use crate::convert;
use crate::legacy_errors::LegacyError;
use crate::request::LegacyRequest;
use crate::wire::{Done, Jobs, Place};

/// Number of operations on a page.
pub(super) const PAGE: usize = 15;

/// Handles `GET /{owner}/{database}/jobs`.
pub(crate) async fn list_jobs(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    asked.answer(listed.map(Done::new), &place.echo())
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<Jobs, HandlerError> {
    const JOBS: OperationFilter =
        OperationFilter { state: None, kinds: Some(&[OperationKind::Import, OperationKind::Merge]) };
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing jobs").await?;
    let page = call.open_query(|q| Some(q.page_of(PAGE, "pageToken")))?;
    let bound = bound(&["v1alpha1 jobs", &access.database().id.to_string()]);
    let before: Option<String> = call.page_key(&page, &bound)?;
    let before = before.and_then(|id| OperationId::parse(&id).ok());
    let fetch = page.fetch();
    let found = call.read(move |hub| hub.operations().list(&access, JOBS, before, fetch).map_err(LegacyError)).await?;
    let page = cut(&call.state, &page, &bound, found, convert::job, |operation| operation.id.to_string())?;
    Ok(Jobs { database: place.echo(), next_page_token: page.next.unwrap_or_default(), jobs: raw(page.items) })
}
