//! A `multipart/form-data` body, part by part, never held in memory (RFC 7578, RFC 2046 §5.1).

use std::io::{self, Read};

use memchr::memmem::Finder;

/// Bytes read at a time.
const CHUNK: usize = 64 << 10;
/// Bytes of the headers of a part.
const HEADERS: usize = 16 << 10;

/// The boundary that a `Content-Type` names; `None` when it is another type.
pub fn form_boundary(content_type: &str) -> Option<Vec<u8>> {
    let mut pieces = content_type.split(';');
    if !pieces.next()?.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let value = pieces.find_map(|piece| {
        let (name, value) = piece.split_once('=')?;
        name.trim().eq_ignore_ascii_case("boundary").then(|| value.trim().trim_matches('"').to_owned())
    })?;
    (1..=200).contains(&value.len()).then(|| value.into_bytes())
}

/// What a part says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// Name of the field; empty when it has none.
    pub name: String,
    /// Name of the file; empty when it is none.
    pub file_name: String,
}

/// The parts of a form, one after another.
pub struct Multipart<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    delimiter: Finder<'static>,
    /// Inside a part, whose bytes go on.
    inside: bool,
    ended: bool,
}

fn malformed(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the form is malformed: {text}"))
}

impl<R: Read> Multipart<R> {
    /// A form whose parts are parted by this boundary.
    pub fn new(source: R, boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        // The first delimiter may stand at the very beginning; what comes before it is like a part that nobody reads.
        let buffer = b"\r\n".to_vec();
        Self { source, buffer, start: 0, delimiter: Finder::new(&delimiter).into_owned(), inside: true, ended: false }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Reads more; a body that ends here was cut short.
    fn fill(&mut self) -> io::Result<()> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let had = self.buffer.len();
        self.buffer.resize(had + CHUNK, 0);
        let read = loop {
            match self.source.read(self.buffer.get_mut(had..).unwrap_or_default()) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.buffer.truncate(had + *read.as_ref().unwrap_or(&0));
        match read? {
            0 => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the form was cut short")),
            _ => Ok(()),
        }
    }

    /// Waits until so many bytes are there.
    fn need(&mut self, bytes: usize) -> io::Result<()> {
        while self.rest().len() < bytes {
            self.fill()?;
        }
        Ok(())
    }

    /// The next part; what was not read of the one before is skipped. `None` after the last.
    ///
    /// # Errors
    /// What the source says; `UnexpectedEof` for a form that is cut short, `InvalidData` for what is no form.
    pub fn next_part(&mut self) -> io::Result<Option<FormPart>> {
        if self.ended {
            return Ok(None);
        }
        io::copy(&mut self.part(), &mut io::sink())?;
        self.start += self.delimiter.needle().len();
        self.need(2)?;
        if self.rest().starts_with(b"--") {
            self.ended = true;
            // Some bytes may follow; taking them lets the client come to its end.
            while self.source.read(&mut [0; 1_024])? > 0 {}
            return Ok(None);
        }
        let headers = self.headers()?;
        self.inside = true;
        Ok(Some(FormPart { name: parameter(&headers, "name"), file_name: parameter(&headers, "filename") }))
    }

    /// The headers of a part, from the end of its delimiter.
    fn headers(&mut self) -> io::Result<String> {
        let end = loop {
            if let Some(end) = memchr::memmem::find(self.rest(), b"\r\n\r\n") {
                break end;
            }
            if self.rest().len() > HEADERS {
                return Err(malformed("the headers of a part are too long"));
            }
            self.fill()?;
        };
        let headers = String::from_utf8_lossy(self.rest().get(..end).unwrap_or_default()).into_owned();
        // White space may stand between a delimiter and the end of its line; nothing else may.
        let (blank, headers) = headers.split_once("\r\n").unwrap_or((&headers, ""));
        if !blank.trim_matches([' ', '\t']).is_empty() {
            return Err(malformed("a boundary is followed by something else"));
        }
        let headers = headers.to_owned();
        self.start += end + 4;
        Ok(headers)
    }

    /// The bytes of this part.
    pub fn part(&mut self) -> PartReader<'_, R> {
        PartReader(self)
    }

    /// The bytes of this part at once, at most `limit`.
    ///
    /// # Errors
    /// As [`Multipart::next_part`]; `InvalidData` past the limit.
    pub fn part_text(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        let mut text = Vec::new();
        let most = u64::try_from(limit).unwrap_or(u64::MAX);
        self.part().take(most.saturating_add(1)).read_to_end(&mut text)?;
        if text.len() > limit {
            return Err(malformed(&format!("a part has more than {limit} bytes")));
        }
        Ok(text)
    }
}

/// The bytes of one part.
pub struct PartReader<'a, R>(&'a mut Multipart<R>);

impl<R: Read> Read for PartReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let form = &mut *self.0;
        if !form.inside || out.is_empty() {
            return Ok(0);
        }
        let length = form.delimiter.needle().len();
        loop {
            // What may be the beginning of a delimiter waits for the rest of it.
            let (ready, found) = match form.delimiter.find(form.rest()) {
                Some(end) => (end, true),
                None => (form.rest().len().saturating_sub(length - 1), false),
            };
            if ready > 0 {
                let taken = ready.min(out.len());
                out[..taken].copy_from_slice(&form.rest()[..taken]);
                form.start += taken;
                return Ok(taken);
            }
            if found {
                form.inside = false;
                return Ok(0);
            }
            form.fill()?;
        }
    }
}

/// A parameter of `Content-Disposition`; `""` when there is none. Browsers write `%22` for a quote in a value (HTML, §4.10.22.8).
fn parameter(headers: &str, wanted: &str) -> String {
    let disposition = headers.split("\r\n").find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.trim().eq_ignore_ascii_case("content-disposition").then_some(value)
    });
    let mut rest = disposition.unwrap_or_default();
    while let Some((_, parameters)) = rest.split_once(';') {
        let Some((name, value)) = parameters.split_once('=') else { break };
        let (value, after) = match value.trim_start().strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').unwrap_or((quoted, "")),
            None => value.split_at(value.find(';').unwrap_or(value.len())),
        };
        if name.trim().eq_ignore_ascii_case(wanted) {
            return value.trim().replace("%22", "\"").replace("%0D", "\r").replace("%0A", "\n");
        }
        rest = after;
    }
    String::new()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read};

    use super::{Multipart, form_boundary as boundary};

    /// Gives a few bytes at a time.
    struct Drops<'a>(&'a [u8], usize);

    impl Read for Drops<'_> {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let taken = self.1.min(out.len()).min(self.0.len());
            let (now, later) = self.0.split_at(taken);
            out[..taken].copy_from_slice(now);
            self.0 = later;
            Ok(taken)
        }
    }

    fn parts(body: &[u8], drop: usize) -> io::Result<Vec<(String, Vec<u8>)>> {
        let mut form = Multipart::new(Drops(body, drop), b"xx");
        let mut found = Vec::new();
        while let Some(part) = form.next_part()? {
            found.push((part.name, form.part_text(1_000)?));
        }
        Ok(found)
    }

    const FORM: &[u8] = b"--xx\r\nContent-Disposition: form-data; name=\"params\"\r\n\r\n{}\r\n--xx  \r\n\
        content-disposition: form-data; filename=\"a;b.csv\"; name=file\r\nContent-Type: text/csv\r\n\r\na\r\n--x\r\n\r\n--xx\r\n\r\n\r\n--xx--\r\n";

    #[test]
    fn parts_come_whole_however_the_bytes_come() {
        for drop in [1, 2, 3, 7, 1_000] {
            let found = parts(FORM, drop).unwrap();
            let expected = [("params", &b"{}"[..]), ("file", b"a\r\n--x\r\n"), ("", b"")];
            let found: Vec<_> = found.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
            assert_eq!(found, expected, "{drop}");
        }
    }

    #[test]
    fn parameters_are_read_whatever_is_in_them() {
        let file =
            |line: &str| super::parameter(&format!("a: b\r\nContent-Disposition: form-data; {line}"), "filename");
        assert_eq!(file("name=file; filename=\"a;b=c.csv\""), "a;b=c.csv");
        assert_eq!(file("filename=\"a.csv\"; name=\"x\""), "a.csv");
        assert_eq!(file("name=\"filename=x\"; filename=\"a%22b\""), "a\"b");
        for nothing in ["name=file", "", "filename", "filename=", "name=\"a"] {
            assert_eq!(file(nothing), "", "{nothing}");
        }
    }

    #[test]
    fn what_is_cut_short_or_malformed_is_an_error() {
        for end in [0, 3, 30, 60, 80, FORM.len() - 8] {
            let cut = parts(&FORM[..end], 5).unwrap_err();
            assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof, "{end}");
        }
        for bad in [&b"--xxy\r\n\r\n\r\n--xx--"[..], &[b"--xx\r\n", [b'a'; 20_000].as_slice()].concat()] {
            assert_eq!(parts(bad, 1_000).unwrap_err().kind(), io::ErrorKind::InvalidData);
        }
        let long = [b"--xx\r\n\r\n\r\n", [b'a'; 1_001].as_slice(), b"\r\n--xx--"].concat();
        assert!(parts(&long, 100).is_err());
    }

    #[test]
    fn the_boundary_is_read_from_the_type() {
        assert_eq!(boundary("multipart/form-data; boundary=ab").as_deref(), Some(&b"ab"[..]));
        assert_eq!(boundary("Multipart/Form-Data;charset=utf-8; BOUNDARY=\"a b\"").as_deref(), Some(&b"a b"[..]));
        for other in [
            "",
            "application/json",
            "multipart/mixed; boundary=x",
            "multipart/form-data",
            "multipart/form-data; boundary=",
        ] {
            assert_eq!(boundary(other), None, "{other}");
        }
    }
}
