//! An adapter as an actix application.

use std::cell::RefCell;
use std::collections::HashMap;
use std::pin::Pin;
use std::rc::Rc;

use actix_http::Request;
use actix_web::dev::{Extensions, Service as _, ServiceResponse};
use actix_web::web::ServiceConfig;
use actix_web::{App, HttpMessage as _, test};
use branchyard_openapi_check::Checker;

/// An adapter, and the document that its responses are validated against.
pub struct ApiUnderTest {
    configure: fn(&mut ServiceConfig),
    pub(crate) document: Checker,
}

/// The application data of one request.
struct RequestData(Rc<Extensions>);

type Handler = Rc<dyn Fn(Request) -> Pin<Box<dyn Future<Output = ServiceResponse>>>>;

thread_local! {
    /// The applications of this thread by their `configure`. Compiling the routes of an API takes longer than most requests, so
    /// the requests of a thread share an application. The state of a server comes with each request.
    static APPLICATIONS: RefCell<HashMap<usize, Handler>> = RefCell::default();
}

impl ApiUnderTest {
    /// Creates an API from the function that mounts it and its OpenAPI document.
    pub fn new(configure: fn(&mut ServiceConfig), document: &str) -> Self {
        Self { configure, document: Checker::new(document) }
    }

    /// Sends a request with application data. Returns the response, whose body is not read yet.
    pub(crate) async fn respond(&self, request: Request, data: Extensions) -> ServiceResponse {
        request.extensions_mut().insert(RequestData(Rc::new(data)));
        let known = APPLICATIONS.with_borrow(|applications| applications.get(&(self.configure as usize)).cloned());
        let handler = match known {
            Some(handler) => handler,
            None => {
                let handler = application(self.configure).await;
                APPLICATIONS.with_borrow_mut(|all| all.insert(self.configure as usize, Rc::clone(&handler)));
                handler
            }
        };
        handler(request).await
    }
}

async fn application(configure: fn(&mut ServiceConfig)) -> Handler {
    let app = App::new()
        .wrap_fn(|mut request, next| {
            let data = request.extensions_mut().remove::<RequestData>();
            if let Some(RequestData(data)) = data {
                request.add_data_container(data);
            }
            next.call(request)
        })
        .configure(configure);
    let app = Rc::new(test::init_service(app).await);
    Rc::new(move |request| {
        let app = Rc::clone(&app);
        Box::pin(async move { test::call_service(&*app, request).await.map_into_boxed_body() })
    })
}
