//! What the answers of a store were, as its client does not pass on everything that the kinds of errors depend on.

use std::cell::RefCell;
use std::error::Error;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::{Pin, pin};

use http_body::Body as _;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpRequest, HttpResponse, HttpResponseBody, HttpService, ReqwestConnector,
};

/// How many bytes of the body of an error are read.
const ERROR_MAX: usize = 64 * 1_024;

/// The last answer to a request of an attempt.
#[derive(Debug, Clone, Default)]
pub(super) struct Answer {
    /// The status, or `None` if there was no answer.
    pub(super) status: Option<u16>,
    /// The store's code of the error, or an empty text.
    pub(super) code: String,
    /// The store's text of the error, or an empty text.
    pub(super) message: String,
    /// The host that was asked.
    pub(super) host: String,
    /// Whether the store was asked, and not a service that issues credentials for it.
    pub(super) is_from_store: bool,
    /// Whether TLS could not be established.
    pub(super) is_untrusted: bool,
}

impl Answer {
    /// Returns `true` if the store knows the credentials.
    pub(super) fn is_accepted(&self) -> bool {
        self.is_from_store && self.status.is_some_and(|status| !matches!(status, 401 | 403))
    }
}

tokio::task_local! {
    static LAST: RefCell<Option<Answer>>;
}

/// Runs an attempt, and returns its result with its last answer. Without an answer, no request was made.
pub(super) async fn watched<T>(attempt: impl Future<Output = T>) -> (T, Option<Answer>) {
    LAST.scope(RefCell::new(None), async {
        let result = attempt.await;
        (result, LAST.with(RefCell::take))
    })
    .await
}

fn note(answer: Answer) {
    // Requests outside an attempt, such as the end of an upload that failed, are of no interest.
    let _ = LAST.try_with(|last| last.replace(Some(answer)));
}

/// Makes clients that record their answers.
#[derive(Debug)]
pub(super) struct WatchedConnector {
    pub(super) bucket: String,
}

impl HttpConnector for WatchedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let inner = ReqwestConnector::default().connect(options)?;
        Ok(HttpClient::new(WatchedClient { inner, bucket: self.bucket.clone() }))
    }
}

#[derive(Debug)]
struct WatchedClient {
    inner: HttpClient,
    bucket: String,
}

impl WatchedClient {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let host = request.uri().host().unwrap_or_default().to_owned();
        let is_from_store =
            request.uri().path().split('/').any(|part| part == self.bucket) || host.starts_with(&self.bucket);
        let unanswered = Answer { host, is_from_store, ..Answer::default() };
        // An attempt that is ended by its time limit has had no answer.
        note(unanswered.clone());
        let response = match self.inner.execute(request).await {
            Ok(response) => response,
            Err(error) => {
                note(Answer { is_untrusted: has::<rustls::Error>(&error), ..unanswered });
                return Err(error);
            }
        };
        let status = response.status();
        let mut answer = Answer { status: Some(status.as_u16()), ..unanswered };
        if status.is_success() {
            note(answer);
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        // A body that breaks off does not change what the status says.
        let body = beginning(body).await;
        let text = String::from_utf8_lossy(&body);
        answer.code = element(&text, "Code");
        answer.message = element(&text, "Message");
        note(answer);
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::from(body)))
    }
}

impl HttpService for WatchedClient {
    // The trait is written for a macro, which would be one more dependency.
    fn call<'s, 'f>(
        &'s self,
        request: HttpRequest,
    ) -> Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'f>>
    where
        's: 'f,
        Self: 'f,
    {
        Box::pin(self.send(request))
    }
}

/// Returns the bytes with which a body begins.
async fn beginning(body: HttpResponseBody) -> Vec<u8> {
    let mut body = pin!(body);
    let mut bytes = Vec::new();
    while let Some(Ok(frame)) = poll_fn(|context| body.as_mut().poll_frame(context)).await {
        if let Ok(piece) = frame.into_data() {
            bytes.extend_from_slice(&piece);
        }
        if bytes.len() > ERROR_MAX {
            bytes.truncate(ERROR_MAX);
            break;
        }
    }
    bytes
}

/// Returns the text of the first XML element of this name, without control characters.
fn element(text: &str, name: &str) -> String {
    let after = text.split_once(&format!("<{name}>")).map(|(_, after)| after);
    let inside = after.and_then(|after| after.split_once(&format!("</{name}>"))).map(|(inside, _)| inside);
    inside.unwrap_or_default().chars().filter(|c| !c.is_control()).take(300).collect()
}

/// Returns `true` if an error of this type is the error, one of its sources, or wrapped by an I/O error among them. The wrapped
/// error is not among the sources of an I/O error.
fn has<E: Error + 'static>(error: &(dyn Error + 'static)) -> bool {
    let wrapped = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
    error.is::<E>() || wrapped.is_some_and(|wrapped| has::<E>(wrapped)) || error.source().is_some_and(has::<E>)
}

#[cfg(test)]
mod tests {
    use super::element;

    #[test]
    fn codes_and_messages_are_taken_from_answers() {
        let text = "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>It is\nnot there.</Message></Error>";
        assert_eq!(
            (element(text, "Code").as_str(), element(text, "Message").as_str()),
            ("NoSuchKey", "It isnot there.")
        );
        for text in ["", "<Code>", "</Code><Code>", "Code"] {
            assert_eq!(element(text, "Code"), "");
        }
    }
}
