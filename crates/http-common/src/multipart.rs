//! A streaming reader for `multipart/form-data` bodies (RFC 7578, RFC 2046 §5.1).
//!
//! Own code, because imports read a body synchronously on a pool thread, and the maintained readers (`multer`, `actix-multipart`)
//! are asynchronous.

use std::io::{self, Read};

use memchr::memmem::Finder;

/// Bytes read from the source at a time.
const CHUNK: usize = 64 << 10;
/// Maximum bytes of the headers of a part.
const HEADERS: usize = 16 << 10;

/// Returns the boundary of a form's `Content-Type`. Returns `None` for another type, and for a boundary that is missing or longer
/// than 200 bytes.
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

/// The names in the headers of a part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormPart {
    /// Name of the field; empty if the part has none.
    pub name: String,
    /// Name of the file; empty if the part is not a file.
    pub file_name: String,
}

/// A reader over the parts of a form.
pub struct Multipart<R> {
    source: R,
    buffer: Vec<u8>,
    start: usize,
    delimiter: Finder<'static>,
    /// Whether the current part has not been read to its end.
    inside: bool,
    ended: bool,
}

fn malformed(text: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the form is malformed: {text}"))
}

impl<R: Read> Multipart<R> {
    /// Creates a reader of a form with this boundary.
    pub fn new(source: R, boundary: &[u8]) -> Self {
        let delimiter = [b"\r\n--", boundary].concat();
        // The first delimiter may be at the very start of the body, without a line break. The preamble is skipped like the rest of
        // a part.
        let buffer = b"\r\n".to_vec();
        Self { source, buffer, start: 0, delimiter: Finder::new(&delimiter).into_owned(), inside: true, ended: false }
    }

    fn rest(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    /// Reads more bytes. The end of the source is an error, because the form has not ended.
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

    /// Reads until the buffer holds at least `bytes` unread bytes.
    fn need(&mut self, bytes: usize) -> io::Result<()> {
        while self.rest().len() < bytes {
            self.fill()?;
        }
        Ok(())
    }

    /// Skips the rest of the current part and returns the next one; `None` after the last.
    ///
    /// # Errors
    /// Errors of the source; `UnexpectedEof` for a truncated form, `InvalidData` for a malformed one.
    pub fn next_part(&mut self) -> io::Result<Option<FormPart>> {
        if self.ended {
            return Ok(None);
        }
        io::copy(&mut self.part(), &mut io::sink())?;
        self.start += self.delimiter.needle().len();
        self.need(2)?;
        if self.rest().starts_with(b"--") {
            self.ended = true;
            // The epilogue is read to its end, so that the client can finish sending.
            while self.source.read(&mut [0; 1_024])? > 0 {}
            return Ok(None);
        }
        let headers = self.headers()?;
        self.inside = true;
        Ok(Some(FormPart { name: parameter(&headers, "name"), file_name: parameter(&headers, "filename") }))
    }

    /// Reads the headers of a part. The position must be just after the delimiter.
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
        // Only white space may follow a delimiter on its line.
        let (blank, headers) = headers.split_once("\r\n").unwrap_or((&headers, ""));
        if !blank.trim_matches([' ', '\t']).is_empty() {
            return Err(malformed("a boundary is followed by something else"));
        }
        let headers = headers.to_owned();
        self.start += end + 4;
        Ok(headers)
    }

    /// Returns a reader of the current part's content.
    pub fn part(&mut self) -> PartReader<'_, R> {
        PartReader(self)
    }

    /// Reads the rest of the current part, at most `limit` bytes.
    ///
    /// # Errors
    /// As [`Multipart::next_part`]; `InvalidData` above the limit.
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

/// A reader of one part's content.
pub struct PartReader<'a, R>(&'a mut Multipart<R>);

impl<R: Read> Read for PartReader<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let form = &mut *self.0;
        if !form.inside || out.is_empty() {
            return Ok(0);
        }
        let length = form.delimiter.needle().len();
        loop {
            // Bytes that may begin a delimiter are held back until the rest of it has arrived.
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

/// Returns a parameter of `Content-Disposition`, or `""` if it is absent. Decodes the escapes of browsers, such as `%22` for a
/// quote (HTML, §4.10.22.8).
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

    /// A source that returns a few bytes per read.
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
