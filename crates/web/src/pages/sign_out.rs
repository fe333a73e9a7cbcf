//! `/sign-out`

use branchyard_domain::errors::Fault;

use crate::forms::Posted;
use crate::session::Jar;
use crate::visit::Answer;

/// `POST /sign-out`
pub(crate) async fn send(posted: Posted) -> Answer {
    if let (Some(session), Ok(user)) = (posted.session.clone(), posted.user()) {
        posted.write(move |hub| -> Result<_, Fault> { hub.sessions().end(&user, session.id) }).await?;
    }
    posted.redirect_with("/", [Jar::Session.clear(&posted.state)])
}
