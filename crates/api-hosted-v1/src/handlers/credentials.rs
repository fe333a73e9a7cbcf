use branchyard_deployments::access::Manage;
use branchyard_http_common::{Answer, Call, Failure};

use super::{Outcome, unsupported};

/// `GET`, `DELETE …/dolt-credentials`, `POST …/dolt-credentials/reroll`: there never are any.
pub(crate) async fn none_of_them(call: Call) -> Result<Answer, Failure> {
    let access = call.deployment::<Manage>().await?;
    Err(Failure::not_found(format!("{} has no dolt credentials", access.deployment().locator)))
}

/// `POST …/dolt-credentials`
pub(crate) async fn create_credentials(call: Call) -> Outcome {
    call.deployment::<Manage>().await?;
    Err(unsupported("dolt credentials"))
}
