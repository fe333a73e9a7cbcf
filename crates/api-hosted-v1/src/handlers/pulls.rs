use branchyard_deployments::access::Observe;
use branchyard_http_common::{ApiResponse, HandlerError, RequestContext};
use branchyard_problem_details::{ErrorCode, Problem};

use super::{HandlerResult, unsupported, whole};
use crate::wire;

const STATES: &[(&str, ())] = &[("open", ()), ("closed", ()), ("merged", ())];

/// `GET …/pulls`: there are none yet.
pub(crate) async fn list_pulls(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let database = call.query(|query| {
        query.choice("state", STATES);
        query.required_text("database").map(str::to_owned)
    })?;
    if !access.deployment().databases.iter().any(|known| known.as_str().eq_ignore_ascii_case(&database)) {
        return Err(HandlerError::not_found(format!("no database {database} in the deployment")));
    }
    Ok(whole(&Vec::<wire::Pull>::new()))
}

/// `POST …/pulls`
pub(crate) async fn create_pull(call: RequestContext) -> HandlerResult {
    call.deployment::<Observe>().await?;
    Err(unsupported("pulls inside a deployment"))
}

/// Everything below a pull: there are none yet.
pub(crate) async fn no_pull(call: RequestContext) -> Result<ApiResponse, HandlerError> {
    call.deployment::<Observe>().await?;
    let id = call.segment("pull_id");
    Err(Problem::new(ErrorCode::NotFound, format!("no pull {id} in the deployment")).into())
}
