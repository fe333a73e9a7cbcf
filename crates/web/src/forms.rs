//! Submitted forms, and forms that are shown again with their errors.

use std::ops::Deref;

use actix_web::dev::Payload;
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpRequest, web};
use branchyard_http_common::BodyRoom;
use branchyard_http_common::{HandlerError, MAX_FORM_BYTES};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::LocalBoxFuture;

use crate::csrf;
use crate::error_page::{PageError, sentence};
use crate::page_context::PageContext;

/// A form that was submitted by a page of this session, with its visit.
pub(crate) struct FormPost {
    visit: PageContext,
    /// The submitted fields.
    pub(crate) form: Form,
    #[expect(dead_code, reason = "held for as long as the form")]
    room: BodyRoom,
}

impl FormPost {
    /// Checks that the user has entered the password in this session recently enough for what is hard to undo.
    ///
    /// # Errors
    /// [`PageError::SignIn`] if no user is signed in; [`PageError::Confirm`], which asks for the password and continues with the
    /// page `next`.
    pub(crate) fn confirmed(&self, next: &str) -> Result<(), PageError> {
        let user = self.user()?;
        let session = self.session.as_ref().ok_or(PageError::SignIn)?;
        if self.state.services.sessions().is_confirmed(session, &user) {
            Ok(())
        } else {
            Err(PageError::Confirm(next.to_owned()))
        }
    }
}

impl Deref for FormPost {
    type Target = PageContext;

    fn deref(&self) -> &PageContext {
        &self.visit
    }
}

impl FromRequest for FormPost {
    type Error = PageError;
    type Future = LocalBoxFuture<'static, Result<Self, PageError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            match CheckedPost::read(&request, payload).await? {
                CheckedPost::Ours(posted) => Ok(posted),
                CheckedPost::OutOfDate(_) => Err(PageError::ForeignForm),
            }
        })
    }
}

/// A form of this site, of this session or not.
pub(crate) enum CheckedPost {
    /// A page of this session submitted it.
    Ours(FormPost),
    /// Its page was made for another session, which may have ended. It must have no effect.
    OutOfDate(FormPost),
}

impl FromRequest for CheckedPost {
    type Error = PageError;
    type Future = LocalBoxFuture<'static, Result<Self, PageError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move { Self::read(&request, payload).await })
    }
}

impl CheckedPost {
    async fn read(request: &HttpRequest, payload: Payload) -> Result<Self, PageError> {
        let visit = PageContext::begin(request).await?;
        if !csrf::is_from_here(&visit.state, request) {
            return Err(PageError::ForeignForm);
        }
        let read = visit.read_form(payload, MAX_FORM_BYTES).await?;
        let fields = web::Form::<Vec<(String, String)>>::from_request(request, &mut Payload::from(read.bytes)).await;
        let unreadable = |_| Problem::new(ErrorCode::ValidationFailed, "the form could not be read");
        let form = Form(fields.map_err(unreadable)?.into_inner());
        // A body may take long, and the session may have ended while it arrived.
        let is_ours = csrf::has_token(&visit.state, request, visit.secret.expose(), form.get(csrf::FIELD))
            && visit.is_still_signed_in().await?;
        let posted = FormPost { visit, form, room: read.room };
        Ok(if is_ours { Self::Ours(posted) } else { Self::OutOfDate(posted) })
    }
}

/// A body in JSON that a script of a page of this session sent, with its visit. Its length is limited as that of the API's bodies.
pub(crate) struct JsonPost {
    visit: PageContext,
    pub(crate) body: Bytes,
    #[expect(dead_code, reason = "held for as long as the body")]
    room: BodyRoom,
}

impl Deref for JsonPost {
    type Target = PageContext;

    fn deref(&self) -> &PageContext {
        &self.visit
    }
}

impl FromRequest for JsonPost {
    type Error = PageError;
    type Future = LocalBoxFuture<'static, Result<Self, PageError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let visit = PageContext::begin(&request).await?;
            if !csrf::is_of_script(&visit.state, &request, visit.secret.expose()) {
                return Err(PageError::ForeignForm);
            }
            let read = visit.read_form(payload, visit.state.config.max_json_body_bytes).await?;
            if !visit.is_still_signed_in().await? {
                return Err(PageError::ForeignForm);
            }
            Ok(Self { visit, body: read.bytes, room: read.room })
        })
    }
}

/// The fields of a submitted form.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl From<Vec<(String, String)>> for Form {
    fn from(fields: Vec<(String, String)>) -> Self {
        Self(fields)
    }
}

impl Form {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// Returns the value of a field, with Unix line ends. Empty if the field is absent.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().replace("\r\n", "\n")
    }

    /// Returns the value of a field without surrounding white space.
    pub(crate) fn line(&self, name: &str) -> String {
        self.text(name).trim().to_owned()
    }

    /// Returns all values of a field that may occur more than once.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// Returns `true` if the checkbox is checked.
    pub(crate) fn is_checked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// Returns the submitted values, to be shown again. Secrets are left out.
    pub(crate) fn again(&self) -> Filled {
        let is_secret = |name: &str| name == csrf::FIELD || name.contains("password");
        Filled { values: self.0.iter().filter(|(name, _)| !is_secret(name)).cloned().collect(), errors: Vec::new() }
    }
}

/// A form as a page shows it: values and errors.
#[derive(Debug, Default, Clone)]
pub(crate) struct Filled {
    values: Vec<(String, String)>,
    errors: Vec<(&'static str, String)>,
}

impl Filled {
    /// Adds an initial value.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.values.push((name.to_owned(), value.into()));
        self
    }

    /// Records an error for a field. The name `""` stands for the whole form.
    pub(crate) fn fault(&mut self, name: &'static str, text: impl ToString) {
        self.errors.push((name, text.to_string()));
    }

    /// Records an error and returns the form.
    pub(crate) fn wrong(mut self, name: &'static str, text: impl ToString) -> Self {
        self.fault(name, text);
        self
    }

    /// Returns the parsed value, or records the error and returns `None`.
    pub(crate) fn checked<T, E: ToString>(&mut self, name: &'static str, parsed: Result<T, E>) -> Option<T> {
        parsed.map_err(|error| self.fault(name, error)).ok()
    }

    /// Records the errors of a failed operation next to their fields, or above the form if it has no such field. Failures that other
    /// input cannot fix are returned as an error.
    pub(crate) fn refused(mut self, failure: HandlerError, fields: &[&'static str]) -> Result<Self, PageError> {
        let HandlerError::Problem(problem) = &failure else { return Err(failure.into()) };
        match problem.code() {
            ErrorCode::ValidationFailed
            | ErrorCode::NotFound
            | ErrorCode::Conflict
            | ErrorCode::PreconditionFailed
            | ErrorCode::PayloadTooLarge
            | ErrorCode::Unprocessable
            | ErrorCode::Unsupported
            | ErrorCode::SpendingLimitExceeded
            | ErrorCode::CapacityExceeded
            | ErrorCode::RateLimited => {}
            _ => return Err(failure.into()),
        }
        if problem.errors().is_empty() {
            self.fault("", sentence(problem.detail()));
        }
        for error in problem.errors() {
            let place = error.pointer().map(|pointer| pointer.trim_start_matches('/')).unwrap_or_default();
            match fields.iter().find(|field| **field == place) {
                Some(field) => self.fault(field, error.detail()),
                None if place.is_empty() => self.fault("", sentence(error.detail())),
                None => self.fault("", format!("{place}: {}", error.detail())),
            }
        }
        Ok(self)
    }

    /// Returns the value of a field.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Returns all values of a field that may occur more than once.
    pub(crate) fn all(&self, name: &str) -> Vec<&str> {
        self.values.iter().filter(|(key, _)| key == name).map(|(_, value)| value.as_str()).collect()
    }

    /// Returns `true` if the field has this value. Used for options.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.value(name) == value
    }

    /// Returns `true` if the form has errors.
    pub(crate) fn has_faults(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns all errors as one text.
    pub(crate) fn all_errors(&self) -> String {
        self.errors.iter().map(|(_, text)| sentence(text)).collect::<Vec<_>>().join(" ")
    }

    /// Returns `true` if one of the field's values equals `value`.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.values.iter().any(|(key, one)| key == name && one == value)
    }

    /// Returns the error of a field.
    pub(crate) fn error(&self, name: &str) -> Option<&str> {
        self.errors.iter().find(|(key, _)| *key == name).map(|(_, text)| text.as_str())
    }
}
