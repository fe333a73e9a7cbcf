//! The request for a page: its caller, session and parameters.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::{Method, StatusCode, header};
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, HttpResponse, web};
use askama::Template;
use branchyard_auth::PlainSecret;
use branchyard_domain::access::Caller;
use branchyard_domain::entities::{Session, User};
use branchyard_domain::usecases::Client;
use branchyard_http_common::{AppState, CallerKey, RequestContext, has_read_scope};
use branchyard_problem_details::Problem;
use futures_util::future::LocalBoxFuture;

use crate::error_page::PageError;
use crate::layout::LayoutContext;
use crate::session::{self, CookieKind};

/// The result of a handler.
pub(crate) type PageResult = Result<HttpResponse, PageError>;

/// A request for a page. As an extractor it is for pages that are read; submitted forms use [`FormPost`](crate::forms::Posted).
/// It dereferences to a [`RequestContext`] on behalf of the signed-in user.
pub(crate) struct PageContext {
    call: RequestContext,
    /// The session of the signed-in user.
    pub(crate) session: Option<Session>,
    /// The secret that the forms of this browser are bound to.
    pub(crate) secret: Rc<PlainSecret>,
    is_new_visitor: bool,
    request: HttpRequest,
}

impl Deref for PageContext {
    type Target = RequestContext;

    fn deref(&self) -> &RequestContext {
        &self.call
    }
}

impl FromRequest for PageContext {
    type Error = PageError;
    type Future = LocalBoxFuture<'static, Result<Self, PageError>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let request = request.clone();
        Box::pin(async move {
            if !matches!(*request.method(), Method::GET | Method::HEAD) {
                return Err(PageError::unexpected_method());
            }
            Self::begin(&request).await
        })
    }
}

impl PageContext {
    /// Identifies the caller of a request.
    pub(crate) async fn begin(request: &HttpRequest) -> Result<Self, PageError> {
        let state = request.app_data::<web::Data<AppState>>().ok_or_else(Problem::internal)?.get_ref().clone();
        let sent = CookieKind::Session.secret(&state, request);
        let known = match &sent {
            Some(secret) => {
                let (services, hash) = (state.services.clone(), secret.hash());
                let found =
                    state.reads.run(state.address_key(request), move || services.sessions().check(&hash)).await?;
                found.map_err(|fault| PageError::refused(fault.into(), request))?
            }
            None => None,
        };
        if known.is_none() && !request.method().is_safe() && has_read_scope(&state, request).await? {
            return Err(PageError::ReadScope);
        }
        let (session, caller) = match known {
            Some((session, user)) => (Some(session), Caller::User(Arc::new(user))),
            None => (None, Caller::Anonymous),
        };
        let visitor = match sent.filter(|_| session.is_some()) {
            Some(secret) => Some(secret),
            None => CookieKind::Visitor.secret(&state, request),
        };
        let is_new_visitor = visitor.is_none();
        let secret = visitor.unwrap_or_else(|| PlainSecret::mint_from(&mut |buffer| state.services.random(buffer)));
        let visit = Self {
            call: RequestContext::on_behalf_of(caller, state, request).await?,
            session,
            secret: Rc::new(secret),
            is_new_visitor,
            request: request.clone(),
        };
        visit.note_use();
        // The error page needs it if the handler fails.
        request.extensions_mut().insert(Rc::new(visit.shell()));
        Ok(visit)
    }

    /// Returns `false` if the session of the user has ended since the request began, for example with a new password.
    pub(crate) async fn is_still_signed_in(&self) -> Result<bool, PageError> {
        if self.session.is_none() {
            return Ok(true);
        }
        let hash = self.secret.hash();
        Ok(self.read(move |hub| hub.sessions().check(&hash)).await?.is_some())
    }

    /// Records the use of the session in the background, at most once per interval.
    fn note_use(&self) {
        let (Some(session), now) = (&self.session, self.state.services.now()) else { return };
        let every = branchyard_domain::usecases::Sessions::NOTED_EVERY_SECONDS;
        if session.last_use.at.plus_seconds(every) > now {
            return;
        }
        let (state, session, client) = (self.state.clone(), session.clone(), self.client());
        actix_web::rt::spawn(async move {
            let services = state.services.clone();
            match state
                .writes
                .run(CallerKey::User(session.user_id), move || services.sessions().touch(&session, client))
                .await
            {
                Ok(Ok(())) => {}
                Ok(Err(error)) => {
                    tracing::warn!(error = &error as &dyn std::error::Error, "cannot record the use of a session")
                }
                Err(error) => tracing::debug!(%error, "cannot record the use of a session"),
            }
        });
    }

    /// Returns the client's address and user agent.
    pub(crate) fn client(&self) -> Client {
        Client { address: self.address(), user_agent: self.user_agent() }
    }

    /// Returns the signed-in user.
    ///
    /// # Errors
    /// [`PageError::SignIn`] redirects to the sign-in page if no user is signed in.
    pub(crate) fn user(&self) -> Result<Arc<User>, PageError> {
        self.caller.user().cloned().ok_or(PageError::SignIn)
    }

    pub(crate) fn request(&self) -> &HttpRequest {
        &self.request
    }

    /// Returns the first parameter of the query with this name, unless it is empty.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        branchyard_http_common::sent_parameter(&self.request, name).filter(|value| !value.is_empty())
    }

    /// Returns all parameters of the query with this name, including empty ones.
    pub(crate) fn parameters(&self, name: &str) -> Vec<String> {
        branchyard_http_common::sent_parameters(&self.request, name)
    }

    /// Returns the data of the page layout.
    pub(crate) fn shell(&self) -> LayoutContext {
        LayoutContext::of(self)
    }

    /// Renders a page.
    pub(crate) fn page<T: Template>(&self, fill: impl FnOnce(LayoutContext) -> T) -> PageResult {
        self.render(StatusCode::OK, fill)
    }

    /// Renders a page with a form that has errors (422).
    pub(crate) fn refuse<T: Template>(&self, fill: impl FnOnce(LayoutContext) -> T) -> PageResult {
        self.render(StatusCode::UNPROCESSABLE_ENTITY, fill)
    }

    /// Renders a page with this status.
    pub(crate) fn render<T: Template>(&self, status: StatusCode, fill: impl FnOnce(LayoutContext) -> T) -> PageResult {
        let shell = self.shell();
        let noticed = shell.notice.is_some();
        let mut response = HttpResponse::build(status);
        if self.is_new_visitor {
            response.append_header((header::SET_COOKIE, CookieKind::Visitor.set(&self.state, self.secret.expose())));
        }
        if noticed {
            response.append_header((header::SET_COOKIE, CookieKind::Notice.clear(&self.state)));
        }
        let html = fill(shell).render().map_err(|error| {
            tracing::error!(%error, "cannot render a page");
            Problem::internal()
        })?;
        Ok(response.content_type("text/html; charset=utf-8").body(html))
    }

    /// Redirects to another page.
    pub(crate) fn redirect(&self, to: &str) -> PageResult {
        self.redirect_with(to, [])
    }

    /// Redirects to another page, which shows a message.
    pub(crate) fn redirect_saying(&self, to: &str, text: &str) -> PageResult {
        self.redirect_with(to, [session::notice(&self.state, text)])
    }

    /// Redirects to another page and sets cookies.
    pub(crate) fn redirect_with(&self, to: &str, cookies: impl IntoIterator<Item = String>) -> PageResult {
        let mut response = HttpResponse::SeeOther();
        for cookie in cookies {
            response.append_header((header::SET_COOKIE, cookie));
        }
        Ok(response.insert_header((header::LOCATION, to)).finish())
    }
}
