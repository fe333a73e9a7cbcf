//! Endpoints of the APIs. An [`Endpoint`] declares a route, its handler and its description in the OpenAPI document.

use actix_web::http::{Method, header};
use actix_web::{FromRequest, Handler, HttpRequest, HttpResponse, Resource, Responder, Scope, guard, web};
use branchyard_openapi::{Body, Credential, EndpointDocs, Success};
use branchyard_problem_details::{ErrorCode, Problem};
use serde_json::Value;

use crate::body::AnonymousBodies;
use crate::caller::ReadsByPost;
use crate::handler_error::HandlerError;
use crate::request_body::RequestBody;

/// The single declaration of an endpoint: its handler and its description in the OpenAPI document.
pub struct Endpoint {
    operation: EndpointDocs,
    methods: &'static [&'static str],
    mount: Box<dyn FnOnce(Resource) -> Resource>,
    anonymous_bodies: Option<AnonymousBodies>,
}

/// Returns a route for `GET`, and for `HEAD`, which a server supports wherever it supports `GET` (RFC 9110 §9.1).
pub fn get_route() -> actix_web::Route {
    web::route().guard(guard::Any(guard::Get()).or(guard::Head()))
}

macro_rules! methods {
    ($($(#[$doc:meta])* $name:ident: $route:expr, $methods:expr;)+) => {
        $(
            $(#[$doc])*
            pub fn $name<F, Args>(path: &str, id: &'static str, summary: &'static str, handler: F) -> Endpoint
            where
                F: Handler<Args>,
                Args: FromRequest + 'static,
                F::Output: Responder + 'static,
            {
                Endpoint {
                    operation: EndpointDocs::new(stringify!($name), path, id, summary),
                    methods: &$methods,
                    mount: Box::new(move |resource| resource.route($route.to(handler))),
                    anonymous_bodies: None,
                }
            }
        )+

        impl Route {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name<F, Args>(self, handler: F) -> Self
                where
                    F: Handler<Args>,
                    Args: FromRequest + 'static,
                    F::Output: Responder + 'static,
                {
                    self.mount(&$methods, |resource| resource.route($route.to(handler)))
                }
            )+
        }
    };
}

methods! {
    /// Declares the methods `GET` and `HEAD` of a path.
    get: get_route(), ["GET", "HEAD"];
    /// Declares the method `POST` of a path.
    post: web::post(), ["POST"];
    /// Declares the method `PUT` of a path.
    put: web::put(), ["PUT"];
    /// Declares the method `PATCH` of a path.
    patch: web::patch(), ["PATCH"];
    /// Declares the method `DELETE` of a path.
    delete: web::delete(), ["DELETE"];
}

impl Endpoint {
    /// Returns the description of the endpoint in the OpenAPI document.
    pub fn operation(&self) -> &EndpointDocs {
        &self.operation
    }

    /// Returns the method and the path without patterns.
    pub fn route(&self) -> (&'static str, String) {
        (self.methods[0], self.operation.template())
    }

    fn change(mut self, change: impl FnOnce(&mut EndpointDocs)) -> Self {
        change(&mut self.operation);
        self
    }

    /// Sets which credential the endpoint needs. The default is [`Credential::Required`].
    #[must_use]
    pub fn credential(self, credential: Credential) -> Self {
        self.change(|operation| operation.credential = credential)
    }

    /// Sets the query parameters, as names of parameter components of the document.
    #[must_use]
    pub fn query(self, names: &'static [&'static str]) -> Self {
        self.change(|operation| operation.query = names)
    }

    /// Sets the header parameters beyond those that follow from the method and the error sets, as names of components.
    #[must_use]
    pub fn headers(self, names: &'static [&'static str]) -> Self {
        self.change(|operation| operation.headers = names)
    }

    /// Declares a required JSON body.
    #[must_use]
    pub fn json<T>(self, body: &'static RequestBody<T>) -> Self {
        self.json_body(body, true)
    }

    /// Declares a JSON body that may be absent.
    #[must_use]
    pub fn optional_json<T>(self, body: &'static RequestBody<T>) -> Self {
        self.json_body(body, false)
    }

    fn json_body<T>(self, schema: &'static RequestBody<T>, required: bool) -> Self {
        self.change(|operation| operation.body = Body::Json { schema, required })
    }

    /// Declares a binary body.
    #[must_use]
    pub fn bytes(self) -> Self {
        self.change(|operation| operation.body = Body::Bytes)
    }

    /// Declares the responses: status and `data` of a successful one, and the errors.
    #[must_use]
    pub fn responds(self, status: u16, data: Success, errors: impl Into<Errors>) -> Self {
        self.refuses(errors).change(|operation| (operation.status, operation.data) = (status, data))
    }

    /// Declares the errors of an endpoint without a successful response.
    #[must_use]
    pub fn refuses(self, errors: impl Into<Errors>) -> Self {
        let Errors { sets, statuses } = errors.into();
        self.change(|operation| (operation.error_sets, operation.errors) = (sets, statuses))
    }

    /// Sets the description, in Markdown. It holds what a client cannot infer from the rest of the document.
    #[must_use]
    pub fn describe(self, text: &'static str) -> Self {
        self.change(|operation| operation.description = Some(text))
    }

    /// Sets the body of the successful response in the example. The default is the example of the schema.
    #[must_use]
    pub fn shows(self, body: fn() -> Value) -> Self {
        self.change(|operation| operation.shows = Some(body))
    }

    /// Sets how the path treats request bodies of callers without a credential.
    #[must_use]
    pub fn anonymous_bodies(mut self, bodies: AnonymousBodies) -> Self {
        self.anonymous_bodies = Some(bodies);
        self
    }

    /// Declares that this `POST` changes nothing, so that access tokens may use it whose scope is to read.
    #[must_use]
    pub fn reads(self) -> Self {
        self.change(|operation| operation.is_read = true)
    }
}

/// The errors of an endpoint: letters of the contract's error sets (v2 §1.7), and HTTP statuses beyond those sets.
#[derive(Debug, Clone, Copy)]
pub struct Errors {
    sets: &'static str,
    statuses: &'static [u16],
}

impl From<&'static str> for Errors {
    fn from(sets: &'static str) -> Self {
        Self { sets, statuses: &[] }
    }
}

impl<const N: usize> From<&'static [u16; N]> for Errors {
    fn from(statuses: &'static [u16; N]) -> Self {
        Self { sets: "", statuses }
    }
}

impl<const N: usize> From<(&'static str, &'static [u16; N])> for Errors {
    fn from((sets, statuses): (&'static str, &'static [u16; N])) -> Self {
        Self { sets, statuses }
    }
}

/// Returns `endpoints` under a tag, which is a section of the document. Their paths are relative to `prefix`.
pub fn section(tag: &'static str, prefix: &str, endpoints: Vec<Endpoint>) -> Vec<Endpoint> {
    let place = |operation: &mut EndpointDocs| {
        operation.tag = tag;
        operation.path.insert_str(0, prefix);
    };
    endpoints.into_iter().map(|endpoint| endpoint.change(place)).collect()
}

/// Mounts `endpoints` in `scope`, whose path is `prefix`. Each path becomes one resource, which responds to `OPTIONS` and to
/// methods without a handler.
pub fn mount(scope: Scope, prefix: &str, endpoints: Vec<Endpoint>) -> Scope {
    let mut paths: Vec<(String, Vec<Endpoint>)> = Vec::new();
    for endpoint in endpoints {
        match paths.iter_mut().find(|(path, _)| *path == endpoint.operation.path) {
            Some((_, of_path)) => of_path.push(endpoint),
            None => paths.push((endpoint.operation.path.clone(), vec![endpoint])),
        }
    }
    paths.sort_by_cached_key(|(path, _)| precedence(path));
    paths.into_iter().fold(scope, |scope, (path, endpoints)| {
        let route =
            endpoints.into_iter().fold(Route::at(path.strip_prefix(prefix).unwrap_or(&path)), |route, endpoint| {
                let route = route.mount(endpoint.methods, endpoint.mount);
                let route = if endpoint.operation.is_read { route.reads_by_post() } else { route };
                match endpoint.anonymous_bodies {
                    Some(bodies) => route.anonymous_bodies(bodies),
                    None => route,
                }
            });
        scope.service(route.into_resource())
    })
}

/// Returns the sort key of a path: literal paths before paths with a pattern. Among paths with a segment that accepts slashes,
/// longer paths come first, because such a segment would otherwise match the rest of a longer path.
fn precedence(path: &str) -> (bool, Option<std::cmp::Reverse<usize>>) {
    (path.contains('{'), path.contains(":.+}").then_some(std::cmp::Reverse(path.len())))
}

/// One path with its methods. `GET` includes `HEAD`. `OPTIONS` and the status 405 need no declaration.
pub struct Route {
    path: String,
    resource: Resource,
    methods: Vec<&'static str>,
}

impl Route {
    /// Creates a route without methods for a path relative to the scope.
    pub fn at(path: &str) -> Self {
        Self { path: path.to_owned(), resource: web::resource(path), methods: Vec::new() }
    }

    /// Returns the declared path, relative to the scope.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the methods that have a handler.
    pub fn methods(&self) -> &[&'static str] {
        &self.methods
    }

    /// Sets how the path treats request bodies of callers without a credential.
    #[must_use]
    pub fn anonymous_bodies(mut self, bodies: AnonymousBodies) -> Self {
        self.resource = self.resource.app_data(bodies);
        self
    }

    /// Declares that the method `POST` of the path changes nothing, so that access tokens may use it whose scope is to read.
    #[must_use]
    pub fn reads_by_post(mut self) -> Self {
        self.resource = self.resource.app_data(ReadsByPost);
        self
    }

    fn mount(mut self, methods: &'static [&'static str], mount: impl FnOnce(Resource) -> Resource) -> Self {
        self.resource = mount(self.resource);
        self.methods.extend(methods);
        self
    }

    /// Converts the route to an actix resource.
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
