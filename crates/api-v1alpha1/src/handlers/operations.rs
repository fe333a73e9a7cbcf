use actix_web::HttpResponse;
use branchyard_domain::entities::OperationKind;
use branchyard_domain::ports::OperationFilter;
use branchyard_domain::values::OperationId;
use branchyard_http_common::{HandlerError, bound, cut};

use super::jobs::PAGE;
use super::pulls::raw;
use super::word;
use crate::convert;
use crate::legacy_errors::LegacyError;
use crate::request::{LegacyRequest, signed_in};
use crate::wire::{Done, OperationEcho, UserOperations};

const TYPES: &[(&str, &[OperationKind])] = &[
    ("SqlWrite", &[OperationKind::SqlWrite]),
    ("Import", &[OperationKind::Import]),
    ("Merge", &[OperationKind::Merge]),
    ("Fork", &[OperationKind::Fork]),
    // Types that clients know and that Branchyard never produces.
    ("SqlRead", &[]),
    ("Migrate", &[]),
];

/// The kinds of operations that this API knows.
const ALL: &[OperationKind] =
    &[OperationKind::SqlWrite, OperationKind::Import, OperationKind::Merge, OperationKind::Fork];

/// Handles `GET /users/{username}/operations`.
pub(crate) async fn list_user_operations(asked: LegacyRequest) -> HttpResponse {
    let echo = OperationEcho { username: asked.segment("username"), operation_type: asked.parameter("operationType") };
    asked.answer(list(&asked).await.map(Done::new), &echo)
}

async fn list(asked: &LegacyRequest) -> Result<UserOperations, HandlerError> {
    let call = asked.call()?;
    let user = signed_in(call)?;
    let name = asked.segment("username");
    let (probed, who) = (user.clone(), name.clone());
    // Access to the list is checked before its parameters.
    call.read(move |hub| {
        hub.operations().list_by(&probed, &who, OperationFilter::default(), None, 0).map_err(LegacyError)
    })
    .await?;
    let (page, kinds, kind) = call.open_query(|q| {
        let page = q.page_of(PAGE, "pageToken");
        let kind = q.optional("operationType").filter(|text| !text.is_empty()).map(str::to_owned);
        let kinds = kind.as_deref().map(|text| word(text, TYPES).map_err(|text| q.fault("operationType", text)));
        Some((page, kinds.and_then(Result::ok), kind.unwrap_or_default()))
    })?;
    let bound = bound(&["v1alpha1 operations", &user.id.to_string(), &kind]);
    let before: Option<String> = call.page_key(&page, &bound)?;
    let before = before.and_then(|id| OperationId::parse(&id).ok());
    let fetch = page.fetch();
    let filter = OperationFilter { state: None, kinds: kinds.or(Some(ALL)) };
    let found = call
        .read(move |hub| hub.operations().list_by(&user, &name, filter, before, fetch).map_err(LegacyError))
        .await?;
    let page = cut(&call.state, &page, &bound, found, convert::user_operation, |operation| operation.id.to_string())?;
    Ok(UserOperations { next_page_token: page.next.unwrap_or_default(), operations: raw(page.items) })
}
