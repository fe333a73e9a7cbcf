use branchyard_deployments::access::{Manage, Observe};
use branchyard_http_common::RequestContext;

use super::{HandlerResult, unsupported, whole};
use crate::wire;

/// `GET …/service-windows`: the default one.
pub(crate) async fn list_windows(call: RequestContext) -> HandlerResult {
    call.deployment::<Observe>().await?;
    Ok(whole(&[wire::ServiceWindow {
        id: "00000000-0000-0000-0000-000000000000",
        day_of_week: "sunday",
        start_hour_utc: 7,
        end_hour_utc: 8,
        is_default: true,
    }]))
}

/// `PUT …/service-windows`
pub(crate) async fn put_windows(call: RequestContext) -> HandlerResult {
    call.deployment::<Manage>().await?;
    Err(unsupported("own service windows"))
}
