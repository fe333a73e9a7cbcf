//! A store of objects in the memory of the bench, with the part of the protocol of S3 that nodes use, whose PUTs take as long as asked
//! for. Signatures are not checked.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// The bucket.
pub(crate) const BUCKET: &str = "bench";
/// Objects of one page of a listing.
const PAGE: usize = 1_000;

/// The store. Its threads end with the process.
pub(crate) struct ObjectServer {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    objects: Mutex<BTreeMap<String, Arc<Vec<u8>>>>,
    parts: Mutex<BTreeMap<(String, u32), Vec<u8>>>,
    put_micros: AtomicU64,
    puts: AtomicU64,
}

impl ObjectServer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared::default());
        let serving = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let shared = Arc::clone(&serving);
                thread::spawn(move || serve(&shared, &stream));
            }
        });
        Self { address, shared }
    }

    /// Has each PUT from now on take this long.
    pub(crate) fn delay_puts(&self, delay: Duration) {
        self.shared.put_micros.store(u64::try_from(delay.as_micros()).unwrap(), Ordering::Relaxed);
    }

    /// Returns the number of PUTs so far.
    pub(crate) fn puts(&self) -> u64 {
        self.shared.puts.load(Ordering::Relaxed)
    }

    /// Returns the objects whose keys contain a text, with their sizes.
    pub(crate) fn objects(&self, text: &str) -> Vec<(String, usize)> {
        let objects = self.shared.objects.lock().unwrap();
        objects.iter().filter(|(key, _)| key.contains(text)).map(|(key, bytes)| (key.clone(), bytes.len())).collect()
    }
}

struct Request {
    method: String,
    path: String,
    query: BTreeMap<String, String>,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Request {
    /// Returns the key of the object. Empty for the bucket itself.
    fn key(&self) -> String {
        let below = self.path.trim_start_matches('/').strip_prefix(BUCKET).unwrap_or_default();
        decoded(below.trim_start_matches('/'))
    }

    fn asks(&self, name: &str) -> bool {
        self.query.contains_key(name)
    }
}

struct Answer {
    status: u16,
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl Answer {
    fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: vec![("ETag", "\"e\"".to_owned())], body: body.into() }
    }

    fn error(status: u16, code: &str) -> Self {
        Self::new(status, format!("<Error><Code>{code}</Code><Message>{code}</Message></Error>"))
    }

    fn with(mut self, name: &'static str, value: impl ToString) -> Self {
        self.headers.push((name, value.to_string()));
        self
    }
}

/// Serves a connection until the client closes it.
fn serve(shared: &Shared, mut stream: &TcpStream) {
    stream.set_nodelay(true).unwrap();
    let mut reader = BufReader::new(stream);
    while let Some(request) = read_request(&mut reader) {
        let answer = shared.answer(&request);
        let mut head = format!("HTTP/1.1 {} OK\r\nLast-Modified: Wed, 01 Jul 2026 00:00:00 GMT\r\n", answer.status);
        for (name, value) in &answer.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if !answer.headers.iter().any(|(name, _)| *name == "Content-Length") {
            head.push_str(&format!("Content-Length: {}\r\n", answer.body.len()));
        }
        head.push_str("\r\n");
        let sent = [head.into_bytes(), answer.body].concat();
        if stream.write_all(&sent).is_err() {
            return;
        }
    }
}

/// Returns the next request, or `None` at the end of the connection.
fn read_request(reader: &mut BufReader<&TcpStream>) -> Option<Request> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let mut words = line.split_whitespace();
    let (method, target) = (words.next()?.to_owned(), words.next()?);
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    let query = pairs.map(|pair| {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        (name.to_owned(), decoded(value))
    });
    let (path, query) = (path.to_owned(), query.collect());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Request { method, path, query, headers, body })
}

impl Shared {
    fn answer(&self, request: &Request) -> Answer {
        let key = request.key();
        match request.method.as_str() {
            "PUT" => {
                self.puts.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_micros(self.put_micros.load(Ordering::Relaxed)));
                if let Some(number) = request.query.get("partNumber") {
                    let part = (request.query["uploadId"].clone(), number.parse().unwrap());
                    self.parts.lock().unwrap().insert(part, request.body.clone());
                    return Answer::new(200, "");
                }
                let mut objects = self.objects.lock().unwrap();
                if request.headers.contains_key("if-none-match") && objects.contains_key(&key) {
                    return Answer::error(412, "PreconditionFailed");
                }
                objects.insert(key, Arc::new(request.body.clone()));
                Answer::new(200, "")
            }
            "POST" if request.asks("uploads") => {
                // The key is the upload's id: no object is stored twice at once.
                let upload = format!("<UploadId>{key}</UploadId>");
                Answer::new(200, format!("<InitiateMultipartUploadResult>{upload}</InitiateMultipartUploadResult>"))
            }
            "POST" if request.asks("uploadId") => {
                let mut parts = self.parts.lock().unwrap();
                let whole: Vec<u8> =
                    parts.iter().filter(|((of, _), _)| *of == key).flat_map(|(_, part)| part).copied().collect();
                parts.retain(|(of, _), _| *of != key);
                self.objects.lock().unwrap().insert(key, Arc::new(whole));
                let done = "<CompleteMultipartUploadResult><ETag>e</ETag></CompleteMultipartUploadResult>";
                Answer::new(200, done)
            }
            "POST" if request.asks("delete") => {
                let body = String::from_utf8_lossy(&request.body).into_owned();
                let mut objects = self.objects.lock().unwrap();
                for named in body.split("<Key>").skip(1).filter_map(|rest| rest.split("</Key>").next()) {
                    objects.remove(named);
                }
                Answer::new(200, "<DeleteResult></DeleteResult>")
            }
            "GET" if request.asks("list-type") => self.list(request),
            "GET" | "HEAD" => self.read(request, &key),
            "DELETE" => {
                self.objects.lock().unwrap().remove(&key);
                Answer::new(204, "")
            }
            _ => Answer::error(400, "BadRequest"),
        }
    }

    fn list(&self, request: &Request) -> Answer {
        let of = |name: &str| request.query.get(name).cloned().unwrap_or_default();
        let (prefix, after) = (of("prefix"), of("start-after").max(of("continuation-token")));
        let most = of("max-keys").parse().unwrap_or(PAGE).min(PAGE);
        let objects = self.objects.lock().unwrap();
        let found = objects.iter().filter(|(key, _)| key.starts_with(&prefix) && **key > after);
        let mut page: Vec<_> = found.take(most + 1).collect();
        let is_more = page.len() > most;
        page.truncate(most);
        let mut body = format!("<ListBucketResult><IsTruncated>{is_more}</IsTruncated>");
        for (key, bytes) in &page {
            let size = bytes.len();
            body.push_str(&format!(
                "<Contents><Key>{key}</Key><LastModified>2026-07-01T00:00:00.000Z</LastModified><ETag>\"e\"</ETag><Size>{size}</Size></Contents>"
            ));
        }
        if let Some((last, _)) = page.last().filter(|_| is_more) {
            body.push_str(&format!("<NextContinuationToken>{last}</NextContinuationToken>"));
        }
        Answer::new(200, body + "</ListBucketResult>")
    }

    fn read(&self, request: &Request, key: &str) -> Answer {
        let Some(object) = self.objects.lock().unwrap().get(key).cloned() else {
            return Answer::error(404, "NoSuchKey");
        };
        if request.method == "HEAD" {
            return Answer::new(200, "").with("Content-Length", object.len());
        }
        let Some(range) = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")) else {
            return Answer::new(200, object.as_slice());
        };
        let (start, end) = range.split_once('-').unwrap();
        let start: usize = start.parse().unwrap();
        let end = end.parse().map_or(object.len(), |end: usize| (end + 1).min(object.len()));
        if start >= end {
            return Answer::error(416, "InvalidRange");
        }
        let place = format!("bytes {start}-{}/{}", end - 1, object.len());
        Answer::new(206, &object[start..end]).with("Content-Range", place)
    }
}

/// Decodes a part of a URL.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
