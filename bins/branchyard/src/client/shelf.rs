//! A server on the loopback interface from which the engine clones what was received. It has one path, which is not to be guessed.

use std::io::{self, BufRead as _, BufReader, BufWriter, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;

use branchyard_remote_protocol::{Hash, parse_hashes};

use super::part_file::PartFile;

/// The longest line of a request, in bytes.
const LINE: u64 = 8_192;
/// The longest body of a request, in bytes.
const BODY: u64 = 1 << 20;
/// In place of a length: there is no such chunk.
const ABSENT: u32 = u32::MAX;

/// Serves the branches and tags, and the received chunks, to one client after another. Returns the address of the database. The
/// thread ends with the process.
pub(super) fn serve(refs: Vec<u8>, mut part: PartFile, secret: &str) -> io::Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let path = format!("/{secret}/database");
    let url = format!("http://{}{path}", listener.local_addr()?);
    thread::Builder::new().name("shelf".to_owned()).spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // A client that breaks off comes again.
            let _ = stream.set_nodelay(true).and_then(|()| answer_all(&stream, &path, &refs, &mut part));
        }
    })?;
    Ok(url)
}

fn answer_all(stream: &TcpStream, path: &str, refs: &[u8], part: &mut PartFile) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut writer = BufWriter::with_capacity(1 << 20, stream);
    loop {
        let first = line(&mut reader)?;
        if first.is_empty() {
            return Ok(());
        }
        let mut length = 0;
        loop {
            let line = line(&mut reader)?.to_ascii_lowercase();
            match line.split_once(':') {
                Some(("content-length", value)) => length = value.trim().parse().map_err(io::Error::other)?,
                Some(_) => {}
                None => break,
            }
        }
        if length > BODY {
            return Ok(());
        }
        let mut body = Vec::new();
        (&mut reader).take(length).read_to_end(&mut body)?;
        let asked = first.split(' ').nth(1).and_then(|asked| asked.strip_prefix(path));
        match asked {
            Some("/refs") => {
                head(&mut writer, 200, refs.len() as u64)?;
                writer.write_all(refs)?;
            }
            Some("/get-chunks") => chunks(&mut writer, &body, part)?,
            _ => head(&mut writer, 404, 0)?,
        }
        writer.flush()?;
    }
}

fn line(reader: &mut BufReader<&TcpStream>) -> io::Result<String> {
    let mut line = String::new();
    reader.take(LINE).read_line(&mut line)?;
    Ok(line.trim_end().to_owned())
}

fn head(writer: &mut impl io::Write, status: u16, length: u64) -> io::Result<()> {
    write!(writer, "HTTP/1.1 {status} -\r\nContent-Type: application/octet-stream\r\nContent-Length: {length}\r\n\r\n")
}

fn chunks(writer: &mut impl io::Write, body: &[u8], part: &mut PartFile) -> io::Result<()> {
    let Ok(hashes) = parse_hashes(body) else { return head(writer, 400, 0) };
    let length = |hash: &Hash| part.length(hash).map_or(4, |length| 4 + u64::from(length));
    head(writer, 200, hashes.iter().map(length).sum())?;
    for hash in &hashes {
        match part.get(hash)? {
            Some(content) => {
                let length = u32::try_from(content.len()).map_err(io::Error::other)?;
                writer.write_all(&length.to_be_bytes())?;
                writer.write_all(&content)?;
            }
            None => writer.write_all(&ABSENT.to_be_bytes())?,
        }
    }
    Ok(())
}
