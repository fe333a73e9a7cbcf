use branchyard_http_common::{Answer, Call};

use super::Outcome;
use crate::wire;

/// `GET /user`
pub(crate) async fn get_current_user(call: Call) -> Outcome {
    let user = call.signed_in()?;
    Ok(Answer::resource(200, &wire::User::from(user.as_ref())))
}
