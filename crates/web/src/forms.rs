//! Forms: what was sent, and the form again with what is wrong.

use std::ops::Deref;

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpRequest, web};
use branchyard_http_common::BodyRoom;
use branchyard_http_common::{HandlerError, MAX_FORM_BYTES};
use branchyard_problem_details::{ErrorCode, Problem};
use futures_util::future::LocalBoxFuture;

use crate::csrf;
use crate::error_page::{PageError, sentence};
use crate::page_context::PageContext;

/// A form that one of our pages sent, and who sent it.
pub(crate) struct FormPost {
    visit: PageContext,
    /// What is in it.
    pub(crate) form: Form,
    #[expect(dead_code, reason = "held for as long as the form")]
    room: BodyRoom,
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
            let visit = PageContext::begin(&request).await?;
            if !csrf::is_from_here(&visit.state, &request) {
                return Err(PageError::ForeignForm);
            }
            let read = visit.read_form(payload, MAX_FORM_BYTES).await?;
            let fields =
                web::Form::<Vec<(String, String)>>::from_request(&request, &mut Payload::from(read.bytes)).await;
            let unreadable = |_| Problem::new(ErrorCode::ValidationFailed, "the form could not be read");
            let form = Form(fields.map_err(unreadable)?.into_inner());
            let is_ours = csrf::has_token(&visit.state, &request, visit.secret.expose(), form.get(csrf::FIELD));
            if is_ours { Ok(Self { visit, form, room: read.room }) } else { Err(PageError::ForeignForm) }
        })
    }
}

/// The fields of a form.
#[derive(Debug, Default)]
pub(crate) struct Form(Vec<(String, String)>);

impl Form {
    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    /// A field as it was sent; empty when absent. Line ends are those of Unix.
    pub(crate) fn text(&self, name: &str) -> String {
        self.get(name).unwrap_or_default().replace("\r\n", "\n")
    }

    /// The same without white space around it.
    pub(crate) fn line(&self, name: &str) -> String {
        self.text(name).trim().to_owned()
    }

    /// All values of a field that may come several times.
    pub(crate) fn all(&self, name: &str) -> Vec<String> {
        self.0.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect()
    }

    /// Whether a box is checked.
    pub(crate) fn is_checked(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// What was sent, to be shown again; secrets are left out.
    pub(crate) fn again(&self) -> Filled {
        let is_secret = |name: &str| name == csrf::FIELD || name.contains("password");
        Filled { values: self.0.iter().filter(|(name, _)| !is_secret(name)).cloned().collect(), errors: Vec::new() }
    }
}

/// A form as a page shows it: its values, and what is wrong with them.
#[derive(Debug, Default, Clone)]
pub(crate) struct Filled {
    values: Vec<(String, String)>,
    errors: Vec<(&'static str, String)>,
}

impl Filled {
    /// The same with a value that is there before anything is sent.
    pub(crate) fn with(mut self, name: &str, value: impl Into<String>) -> Self {
        self.values.push((name.to_owned(), value.into()));
        self
    }

    /// Notes what is wrong with a field; `""` is the whole form.
    pub(crate) fn fault(&mut self, name: &'static str, text: impl ToString) {
        self.errors.push((name, text.to_string()));
    }

    /// The same with that noted.
    pub(crate) fn wrong(mut self, name: &'static str, text: impl ToString) -> Self {
        self.fault(name, text);
        self
    }

    /// A value that must follow a rule; otherwise that is noted.
    pub(crate) fn checked<T, E: ToString>(&mut self, name: &'static str, parsed: Result<T, E>) -> Option<T> {
        parsed.map_err(|error| self.fault(name, error)).ok()
    }

    /// The same with what the domain refused: beside the field it names, if the form has it, otherwise above the form. What no
    /// other input could change goes on as it is.
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

    /// What a field shows.
    pub(crate) fn value(&self, name: &str) -> &str {
        self.values.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str()).unwrap_or_default()
    }

    /// Whether a field has this value: for choices.
    pub(crate) fn is(&self, name: &str, value: &str) -> bool {
        self.value(name) == value
    }

    /// Whether anything is wrong.
    pub(crate) fn has_faults(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Whether one of the values of a field is this one.
    pub(crate) fn has(&self, name: &str, value: &str) -> bool {
        self.values.iter().any(|(key, one)| key == name && one == value)
    }

    /// What is wrong with a field.
    pub(crate) fn error(&self, name: &str) -> Option<&str> {
        self.errors.iter().find(|(key, _)| *key == name).map(|(_, text)| text.as_str())
    }
}
