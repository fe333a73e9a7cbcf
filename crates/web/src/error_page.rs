//! Renders errors as pages that say what to do next.

use std::rc::Rc;

use actix_web::body::BoxBody;
use actix_web::dev::ServiceResponse;
use actix_web::http::{StatusCode, header};
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse, ResponseError};
use askama::Template;
use branchyard_domain::values::Scope;
use branchyard_http_common::PoolError;
use branchyard_http_common::{ApiError, HandlerError, segment};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::layout::LayoutContext;

/// Why a handler returns no page of its own.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PageError {
    /// An error of the domain or of the request.
    #[error(transparent)]
    HandlerError(#[from] HandlerError),
    /// The page requires a signed-in user.
    #[error("sign-in required")]
    SignIn,
    /// Callers without a credential may browse the database and not run SQL. Not a redirect, so that a program that fetches
    /// statements as CSV notices.
    #[error("sign-in required to run SQL")]
    SqlSignIn,
    /// An application asked for something in a way that is not valid. Holds what is wrong, and the address that informs the application.
    #[error("an authorization request that is not valid: {text}")]
    MistakenApplication {
        /// What is wrong.
        text: String,
        /// Where the user may go on.
        to: String,
    },
    /// The request changes something and carries an access token whose scope is to read.
    #[error("the scope of the access token is to read")]
    ReadScope,
    /// The user has to enter the password again. Holds the path of the page to continue with.
    #[error("the password has to be entered again")]
    Confirm(String),
    /// The database exists and is visible, but the ref does not exist.
    #[error("no branch, tag or commit '{name}'")]
    NoSuchRef {
        /// The requested ref.
        name: String,
        /// The path of the database's page.
        database: String,
    },
    /// The database has another address now. Holds the path of the page there, with its query.
    #[error("the page moved to {0}")]
    Moved(String),
    /// The table exists, but the row does not.
    #[error("no such row")]
    NoSuchRow {
        /// The path of the table's page.
        table: String,
    },
    /// The form was not sent by a page of this session.
    #[error("the form was not sent by a page of this session")]
    ForeignForm,
    /// A request to authorize an application that cannot be answered by a redirect, because nothing in it can be trusted (RFC 6749
    /// §4.1.2.1). Holds what is wrong.
    #[error("the authorization request is not valid: {0}")]
    InvalidAuthorization(String),
}

impl From<Problem> for PageError {
    fn from(problem: Problem) -> Self {
        Self::HandlerError(problem.into())
    }
}

impl From<PoolError> for PageError {
    fn from(error: PoolError) -> Self {
        Self::HandlerError(error.into())
    }
}

impl PageError {
    /// Converts a domain error that occurred outside a call.
    pub(crate) fn refused(refusal: ApiError, request: &HttpRequest) -> Self {
        Self::HandlerError(HandlerError::of(refusal, request))
    }

    /// Returns the error for a URL that leads to no page.
    pub(crate) fn nothing_here() -> Self {
        Self::HandlerError(HandlerError::not_found("nothing is here"))
    }

    /// Converts the error of opening a database to run SQL.
    pub(crate) fn of_sql(self) -> Self {
        match self {
            Self::HandlerError(HandlerError::Problem(problem)) if problem.code() == ErrorCode::Unauthenticated => {
                Self::SqlSignIn
            }
            other => other,
        }
    }

    pub(crate) fn unexpected_method() -> Self {
        Problem::new(ErrorCode::MethodNotAllowed, "this URL does not support this method").into()
    }

    fn text(&self) -> ErrorText {
        match self {
            Self::HandlerError(HandlerError::Problem(problem)) => text_of(problem),
            Self::HandlerError(HandlerError::Replay(_)) => text_of(&Problem::internal()),
            Self::SignIn => ErrorText {
                status: StatusCode::UNAUTHORIZED,
                title: "Sign in to continue",
                text: "You need to sign in to do this.".to_owned(),
                retry_after: None,
            },
            Self::SqlSignIn => ErrorText {
                status: StatusCode::UNAUTHORIZED,
                title: "Sign in to run SQL",
                text: "Visitors may browse the tables of this database, but SQL needs an account here.".to_owned(),
                retry_after: None,
            },
            Self::MistakenApplication { text, .. } => ErrorText {
                status: StatusCode::BAD_REQUEST,
                title: "The application made a mistake",
                text: format!("{text} Nothing was granted."),
                retry_after: None,
            },
            Self::ReadScope => ErrorText {
                status: StatusCode::FORBIDDEN,
                title: "The access token may only read",
                text: format!("This needs the scope {}, and the API: pages take no tokens.", Scope::ReadWrite.as_str()),
                retry_after: None,
            },
            Self::Confirm(_) => ErrorText {
                status: StatusCode::FORBIDDEN,
                title: "Confirm your password",
                text: "Enter your password again to do this.".to_owned(),
                retry_after: None,
            },
            Self::NoSuchRef { name, .. } => ErrorText {
                status: StatusCode::NOT_FOUND,
                title: "Branch, tag or commit not found",
                text: format!("There is no branch, tag or commit named '{name}' here. If it was deleted, you can still open its \
                               commits by hash."),
                retry_after: None,
            },
            Self::Moved(_) => ErrorText {
                status: StatusCode::PERMANENT_REDIRECT,
                title: "This page moved",
                text: "The database has another address now.".to_owned(),
                retry_after: None,
            },
            Self::NoSuchRow { .. } => ErrorText {
                status: StatusCode::NOT_FOUND,
                title: "Row not found",
                text: "The table has no such row at this version. It may have been deleted, or its key changed.".to_owned(),
                retry_after: None,
            },
            Self::ForeignForm => ErrorText {
                status: StatusCode::FORBIDDEN,
                title: "Your session changed",
                text: "You signed in or out after this page was loaded, or another site sent this form. Nothing was changed. Go \
                       back, reload the page and submit the form again."
                    .to_owned(),
                retry_after: None,
            },
            Self::InvalidAuthorization(why) => ErrorText {
                status: StatusCode::BAD_REQUEST,
                title: "This authorization request is not valid",
                text: format!("{} Nothing was granted. Go back to the application and start again.", sentence(why)),
                retry_after: None,
            },
        }
    }
}

/// The title of pages that do not exist or are hidden.
const NOT_FOUND: &str = "Page not found";

struct ErrorText {
    status: StatusCode,
    title: &'static str,
    text: String,
    retry_after: Option<String>,
}

fn text_of(problem: &Problem) -> ErrorText {
    let status = StatusCode::from_u16(problem.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let detail = sentence(problem.detail());
    let (title, text) = match problem.code() {
        // The text is constant, so that hidden and missing pages look the same.
        ErrorCode::NotFound => (
            NOT_FOUND,
            "It doesn't exist, or you don't have access. Check the URL, or sign in with an account that has access.".to_owned(),
        ),
        ErrorCode::PermissionDenied => (
            "You don't have permission",
            format!("{detail} Ask an administrator for a higher role."),
        ),
        ErrorCode::RateLimited => ("Too many requests", detail),
        ErrorCode::ServiceUnavailable => ("The server is busy", format!("{detail} Try again in a moment.")),
        ErrorCode::Internal => (
            "Server error",
            "Something went wrong on the server. Reload the page. If it keeps happening, tell your administrator when it \
             happened; the server log has the details."
                .to_owned(),
        ),
        ErrorCode::Conflict | ErrorCode::PreconditionFailed => ("This changed in the meantime", detail),
        _ => ("Something went wrong", detail),
    };
    let retry_after = problem.headers().find(|(name, _)| *name == "retry-after").map(|(_, value)| value);
    ErrorText { status, title, text, retry_after }
}

/// Turns an error message into a sentence: capital letter, final period.
pub(crate) fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first: String = chars.next().into_iter().flat_map(char::to_uppercase).collect();
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{first}{}{end}", chars.as_str())
}

impl ResponseError for PageError {
    fn status_code(&self) -> StatusCode {
        self.text().status
    }

    /// Returns an empty response. [`show`] renders the page.
    fn error_response(&self) -> HttpResponse {
        HttpResponse::new(self.status_code())
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    shell: Rc<LayoutContext>,
    title: &'static str,
    text: String,
    status: u16,
    /// A page to return to, and the label of its link.
    back: Option<(&'static str, String)>,
}

/// Replaces a response that carries a [`PageError`] with its error page, or redirects to the sign-in page. Returns others unchanged.
pub(crate) fn show(response: ServiceResponse<BoxBody>) -> ServiceResponse<BoxBody> {
    let Some(stop) = response.response().error().and_then(|error| error.as_error::<PageError>()) else {
        return response;
    };
    if let PageError::Moved(to) = stop {
        // Not stored (`private, no-cache`): the former address may be taken by another database.
        let moved = HttpResponse::PermanentRedirect().insert_header((header::LOCATION, to.clone())).finish();
        return response.into_response(moved);
    }
    let request = response.request().clone();
    let needs_sign_in = match stop {
        PageError::SignIn => true,
        PageError::HandlerError(HandlerError::Problem(problem)) => problem.code() == ErrorCode::Unauthenticated,
        _ => false,
    };
    if needs_sign_in {
        let target = request.uri().path_and_query().map_or("/", |target| target.as_str());
        // A form cannot be submitted again by following a link.
        let next = if request.method().is_safe() { target } else { "/" };
        let to = format!("/sign-in?next={}", segment(next));
        return response.into_response(HttpResponse::SeeOther().insert_header((header::LOCATION, to)).finish());
    }
    if let PageError::Confirm(next) = stop {
        let to = format!("/settings/confirm?next={}", segment(next));
        return response.into_response(HttpResponse::SeeOther().insert_header((header::LOCATION, to)).finish());
    }
    let mut shown = stop.text();
    let back = match stop {
        PageError::NoSuchRef { database, .. } => Some(("Back to the database", database.clone())),
        PageError::NoSuchRow { table } => Some(("Back to the table", table.clone())),
        PageError::MistakenApplication { to, .. } => Some(("Return to the application", to.clone())),
        _ => None,
    };
    let shell = request.extensions().get::<Rc<LayoutContext>>().map(Rc::clone).unwrap_or_default();
    if shell.viewer.is_some() && shown.title == NOT_FOUND {
        shown.text =
            "It doesn't exist, or you don't have access. Check the URL, or ask its owner for access.".to_owned();
    }
    let page = ErrorPage { shell, title: shown.title, text: shown.text, status: shown.status.as_u16(), back };
    let mut bare = HttpResponse::build(shown.status);
    if let Some(seconds) = shown.retry_after {
        bare.insert_header((header::RETRY_AFTER, seconds));
    }
    if let PageError::ReadScope = stop {
        let problem = Problem::insufficient_scope(Scope::ReadWrite.as_str());
        for (name, value) in problem.headers() {
            bare.insert_header((name, value));
        }
    }
    if shown.status == StatusCode::UNAUTHORIZED {
        // RFC 9110 §15.5.2 requires a challenge. Browsers show no dialog for this scheme.
        bare.insert_header((header::WWW_AUTHENTICATE, "Bearer realm=\"branchyard\""));
    }
    let body = page.render().unwrap_or_else(|_| shown.title.to_owned());
    response.into_response(bare.content_type("text/html; charset=utf-8").body(body))
}
