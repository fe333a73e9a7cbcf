//! A receiver of Branchyard's hooks: verifies, drops repeats, answers, hands events on. Needs the crates `standardwebhooks` and `http`.

use std::collections::HashSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

pub fn serve(listener: &TcpListener, secret: &str, mut handle: impl FnMut(Vec<u8>)) {
    let webhook = standardwebhooks::Webhook::new(secret).expect("whsec_ and base64");
    let mut seen = HashSet::new(); // keep what was seen for four days, in a place that survives a restart
    for mut stream in listener.incoming().flatten() {
        let Some((headers, body)) = read(&stream) else { continue };
        let good = webhook.verify(&body, &headers).is_ok(); // signature and age
        let status = if good { "204 No Content" } else { "401 Unauthorized" };
        let _ = write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        if good && seen.insert(headers["webhook-id"].clone()) {
            handle(body);
        }
    }
}

fn read(stream: &TcpStream) -> Option<(http::HeaderMap, Vec<u8>)> {
    let (mut reader, mut headers, mut line) = (BufReader::new(stream), http::HeaderMap::new(), String::new());
    reader.read_line(&mut line).ok()?;
    while reader
        .read_line({
            line.clear();
            &mut line
        })
        .ok()?
        > 2
    {
        let (name, value) = line.trim_end().split_once(": ")?;
        headers.insert(http::HeaderName::try_from(name).ok()?, value.parse().ok()?);
    }
    let mut body =
        vec![0; headers.get("content-length")?.to_str().ok()?.parse().ok().filter(|length| *length <= 20 << 10)?];
    reader.read_exact(&mut body).ok()?;
    Some((headers, body))
}
