//! What the admission of a connection stored about it, for the requests on it.

use std::rc::Rc;

use actix_web::dev::Extensions;
use actix_web::{HttpMessage as _, HttpRequest};

/// The data of an HTTP/2 connection, as an extension of each request on it. actix stores the data of other connections elsewhere,
/// where only its own dispatchers can.
struct Http2ConnectionData(Rc<Extensions>);

/// Returns what the admission of the connection stored about it, whatever the protocol of the connection.
pub fn connection_data<T: Clone + 'static>(request: &HttpRequest) -> Option<T> {
    if let Some(data) = request.conn_data::<T>() {
        return Some(data.clone());
    }
    request.extensions().get::<Http2ConnectionData>()?.0.get::<T>().cloned()
}

/// Stores the data of an HTTP/2 connection in a request.
pub(crate) fn store(data: Rc<Extensions>, request: &actix_http::Request) {
    request.extensions_mut().insert(Http2ConnectionData(data));
}
