//! Routes as a table. Each path answers `OPTIONS` and refuses methods without a handler.

use actix_web::http::{Method, header};
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, guard, web};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::body::AnonymousBodies;
use crate::handler_error::HandlerError;

/// One path with its methods. `GET` implies `HEAD`. `OPTIONS` and 405 are answered automatically.
pub struct Endpoint {
    path: String,
    resource: Resource,
    methods: Vec<&'static str>,
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident: $route:expr, $text:expr;)+) => {$(
        $(#[$doc])*
        #[must_use]
        pub fn $name<F, Args>(mut self, handler: F) -> Self
        where
            F: Handler<Args>,
            Args: FromRequest + 'static,
            F::Output: Responder + 'static,
        {
            self.resource = self.resource.route($route.to(handler));
            self.methods.extend($text);
            self
        }
    )+};
}

impl Endpoint {
    /// Creates an endpoint for a path below the adapter's scope.
    pub fn at(path: &str) -> Self {
        Self { path: path.to_owned(), resource: web::resource(path), methods: Vec::new() }
    }

    /// Returns the path below the scope, as passed to [`Endpoint::at`].
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the methods that have a handler.
    pub fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    methods! {
        /// Adds the handler of `GET` and `HEAD`.
        get: web::route().guard(guard::Any(guard::Get()).or(guard::Head())), ["GET", "HEAD"];
        /// Adds the handler of `POST`.
        post: web::post(), ["POST"];
        /// Adds the handler of `PUT`.
        put: web::put(), ["PUT"];
        /// Adds the handler of `PATCH`.
        patch: web::patch(), ["PATCH"];
        /// Adds the handler of `DELETE`.
        delete: web::delete(), ["DELETE"];
    }

    /// Sets the treatment of request bodies of callers without a credential.
    #[must_use]
    pub fn anonymous_bodies(mut self, bodies: AnonymousBodies) -> Self {
        self.resource = self.resource.app_data(bodies);
        self
    }

    /// Returns the actix resource.
    pub fn into_resource(self) -> Resource {
        let allow = format!("{}, OPTIONS", self.methods.join(", "));
        self.resource.default_service(web::to(move |request: HttpRequest| {
            let allow = allow.clone();
            async move { other_method(&request, allow) }
        }))
    }
}

fn other_method(request: &HttpRequest, allow: String) -> Result<HttpResponse, HandlerError> {
    if request.method() == Method::OPTIONS {
        return Ok(HttpResponse::NoContent().insert_header((header::ALLOW, allow)).finish());
    }
    let detail = format!("this route has the methods {allow}");
    Err(Problem::new(ErrorCode::MethodNotAllowed, detail).allow(allow).into())
}
