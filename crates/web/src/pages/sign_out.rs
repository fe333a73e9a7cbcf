//! `/sign-out`

use branchyard_domain::errors::PortError;

use crate::forms::FormPost;
use crate::page_context::PageResult;
use crate::session::CookieKind;

/// `POST /sign-out`
pub(crate) async fn send(posted: FormPost) -> PageResult {
    if let (Some(session), Ok(user)) = (posted.session.clone(), posted.user()) {
        posted.write_session(move |hub| -> Result<_, PortError> { hub.sessions().end(&user, session.id) }).await?;
    }
    posted.redirect_with("/", [CookieKind::Session.clear(&posted.state)])
}
