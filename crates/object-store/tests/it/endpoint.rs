//! A server with a part of the protocol of S3, whose answers can fail in every way.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use branchyard_domain::ports::DatabaseStore;
use branchyard_object_store::{StoreOptions, StoreUrl, open};

/// What happens to a request.
#[derive(Debug, Clone)]
pub(crate) enum Fate {
    /// It is answered.
    Served,
    /// It has no effect, and this status and body.
    Refused(u16, String),
    /// It has no effect, and the connection ends.
    Cut,
    /// It has its effect, and the connection ends.
    AnswerLost,
    /// It has its effect, and its answer comes too late.
    AnswerLate(Duration),
    /// The connection ends within the body of the answer.
    Truncated,
    /// The body of the answer is shorter than its range, and its length is that of the body.
    Shortened,
    /// A byte of the body of the answer is wrong.
    Garbled,
    /// It has no effect and no answer.
    Hung,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Seen {
    /// Returns `true` if it stores or ends an object.
    pub(crate) fn is_put(&self) -> bool {
        self.method == "PUT"
    }

    pub(crate) fn is_get(&self) -> bool {
        self.method == "GET"
    }
}

type Plan = dyn Fn(&Seen, usize) -> Fate + Send + Sync;

/// A server. Its threads end with the process.
pub(crate) struct Endpoint {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    plan: Box<Plan>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Vec<u8>>,
    parts: BTreeMap<u32, Vec<u8>>,
    seen: Vec<Seen>,
}

impl Endpoint {
    /// Starts a server. `plan` decides about each request, with how many came before it.
    pub(crate) fn start(plan: impl Fn(&Seen, usize) -> Fate + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { plan: Box::new(plan), state: Mutex::default() });
        let accepting = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&accepting);
                std::thread::spawn(move || {
                    let _ = serve(&shared, stream);
                });
            }
        });
        Self { port, shared }
    }

    /// Returns options with short limits.
    pub(crate) fn options(&self) -> StoreOptions {
        StoreOptions {
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            access_key_id: Some("key".to_owned()),
            secret_access_key: Some("secret".to_owned().into()),
            allow_http: true,
            attempt_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            retries: 3,
            ..StoreOptions::default()
        }
    }

    /// Opens a store.
    pub(crate) fn open(&self) -> Arc<dyn DatabaseStore> {
        self.open_with(&self.options())
    }

    pub(crate) fn open_with(&self, options: &StoreOptions) -> Arc<dyn DatabaseStore> {
        open(&StoreUrl::parse("s3://yard").unwrap(), options).unwrap()
    }

    /// Returns the requests so far.
    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.shared.state.lock().unwrap().seen.clone()
    }

    /// Returns the bytes of an object.
    pub(crate) fn object(&self, key: &str) -> Option<Vec<u8>> {
        self.shared.state.lock().unwrap().objects.get(key).cloned()
    }
}

/// An answer that is not sent yet.
struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status, format!("<Error><Code>{code}</Code><Message>planned</Message></Error>"))
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

fn serve(shared: &Shared, mut stream: TcpStream) -> std::io::Result<()> {
    let Some(request) = read_request(&stream)? else { return Ok(()) };
    let number = {
        let mut state = shared.state.lock().unwrap();
        state.seen.push(request.clone());
        state.seen.len() - 1
    };
    let fate = (shared.plan)(&request, number);
    let mut answer = match &fate {
        Fate::Cut => return stream.shutdown(Shutdown::Both),
        Fate::Hung => {
            std::thread::sleep(Duration::from_secs(60));
            return Ok(());
        }
        Fate::Refused(status, body) => Answer::new(*status, body.clone()),
        _ => effect(&mut shared.state.lock().unwrap(), &request),
    };
    match fate {
        Fate::AnswerLost => return stream.shutdown(Shutdown::Both),
        Fate::AnswerLate(time) => std::thread::sleep(time),
        Fate::Shortened => answer.body.truncate(answer.body.len() / 2),
        Fate::Garbled => {
            if let Some(byte) = answer.body.first_mut() {
                *byte = !*byte;
            }
        }
        _ => {}
    }
    let mut head = format!("HTTP/1.1 {} Planned\r\nConnection: close\r\n", answer.status);
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    if !answer.headers.iter().any(|(name, _)| *name == "Content-Length") {
        head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes())?;
    let sent = if matches!(fate, Fate::Truncated) { answer.body.len() / 2 } else { answer.body.len() };
    stream.write_all(&answer.body[..sent])?;
    stream.shutdown(Shutdown::Write)
}

fn read_request(stream: &TcpStream) -> std::io::Result<Option<Seen>> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Seen { method, target, headers, body }))
}

/// Does what a request asks for.
fn effect(state: &mut State, request: &Seen) -> Answer {
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let key = path.strip_prefix("/yard/").unwrap_or_default().to_owned();
    match (request.method.as_str(), query) {
        ("PUT", "") => {
            if request.headers.contains_key("if-none-match") && state.objects.contains_key(&key) {
                return Answer::error(412, "PreconditionFailed");
            }
            state.objects.insert(key, request.body.clone());
            Answer::new(200, "").with("ETag", "\"e\"")
        }
        ("PUT", query) => {
            let number = query.split('&').find_map(|pair| pair.strip_prefix("partNumber="));
            state.parts.insert(number.unwrap().parse().unwrap(), request.body.clone());
            Answer::new(200, "").with("ETag", "\"e\"")
        }
        ("POST", "uploads" | "uploads=") => {
            state.parts.clear();
            Answer::new(200, "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>")
        }
        ("POST", _) => {
            if state.parts.is_empty() {
                return Answer::error(404, "NoSuchUpload");
            }
            let whole = std::mem::take(&mut state.parts).into_values().flatten().collect();
            state.objects.insert(key, whole);
            Answer::new(200, "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>")
        }
        ("GET" | "HEAD", "") => read(state, request, &key),
        ("DELETE", _) => Answer::new(204, ""),
        other => Answer::error(400, &format!("{other:?}")),
    }
}

fn read(state: &State, request: &Seen, key: &str) -> Answer {
    let Some(object) = state.objects.get(key) else {
        return if request.method == "HEAD" { Answer::new(404, "") } else { Answer::error(404, "NoSuchKey") };
    };
    let described =
        |answer: Answer| answer.with("ETag", "\"e\"").with("Last-Modified", "Wed, 01 Jul 2026 00:00:00 GMT");
    if request.method == "HEAD" {
        return described(Answer::new(200, "")).with("Content-Length", object.len());
    }
    let Some(range) = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return described(Answer::new(200, object.clone()));
    };
    let (start, end) = range.split_once('-').unwrap();
    let (start, end): (usize, usize) = (start.parse().unwrap(), end.parse().unwrap());
    if start >= object.len() {
        return Answer::error(416, "InvalidRange").with("Content-Range", format!("bytes */{}", object.len()));
    }
    let end = (end + 1).min(object.len());
    described(Answer::new(206, &object[start..end]))
        .with("Content-Range", format!("bytes {start}-{}/{}", end - 1, object.len()))
}
