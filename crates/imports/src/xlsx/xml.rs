//! Reading the XML events of a part.

use std::io::{self, BufRead, BufReader, Read};

use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

use crate::error::FileError;
use crate::failure::FirstFailure;
use crate::format::FileLimits;

const BUFFER_BYTES: usize = 64 * 1024;

/// A reader of XML events. Empty elements are returned as a start and an end.
pub(super) struct Xml {
    reader: Reader<Bounded>,
    buffer: Vec<u8>,
    room: usize,
    failure: FirstFailure,
}

impl Xml {
    pub(super) fn new(part: Box<dyn Read>, limits: FileLimits, failure: FirstFailure) -> Self {
        let room = limits.record_bytes();
        let bounded =
            Bounded { part: BufReader::with_capacity(BUFFER_BYTES, part), room, limit: room, failure: failure.clone() };
        let mut reader = Reader::from_reader(bounded);
        reader.config_mut().expand_empty_elements = true;
        Self { reader, buffer: Vec::new(), room, failure }
    }

    /// Returns the next event. After the last event, it returns the end of the part repeatedly.
    pub(super) fn next(&mut self) -> Result<Event<'_>, FileError> {
        self.buffer.clear();
        self.reader.get_mut().room = self.room;
        let failure = &self.failure;
        self.reader
            .read_event_into(&mut self.buffer)
            .map_err(|error| failure.or_file(format!("not valid XML: {error}")))
    }

    /// Returns the error for invalid content, unless an earlier error was kept.
    pub(super) fn wrong(&self, detail: impl std::fmt::Display) -> FileError {
        self.failure.or_file(detail)
    }
}

/// A reader that bounds the length of one event, because an event is kept whole.
struct Bounded {
    part: BufReader<Box<dyn Read>>,
    room: usize,
    limit: usize,
    failure: FirstFailure,
}

impl Read for Bounded {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(buffer)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Bounded {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.room == 0 {
            let detail = format!("a value or tag is longer than {} bytes", self.limit);
            return Err(self.failure.keep(FileError::whole(detail)));
        }
        let bytes = self.part.fill_buf()?;
        Ok(&bytes[..bytes.len().min(self.room)])
    }

    fn consume(&mut self, read: usize) {
        self.room -= read;
        self.part.consume(read);
    }
}

/// Returns an attribute by its local name.
pub(super) fn attribute(element: &BytesStart<'_>, name: &str) -> Option<String> {
    let found = element.attributes().with_checks(false).flatten().find(|a| a.key.local_name().as_ref() == name)?;
    found.normalized_value(XmlVersion::Implicit1_0).ok().map(std::borrow::Cow::into_owned)
}

/// Returns a boolean attribute.
pub(super) fn flag(element: &BytesStart<'_>, name: &str) -> bool {
    attribute(element, name).is_some_and(|value| value == "1" || value == "true")
}

/// Resolves an entity or character reference. Entities that a document defines itself are rejected.
pub(super) fn reference(reference: &BytesRef<'_>) -> Result<String, String> {
    match reference.resolve_char_ref() {
        Ok(Some(c)) => Ok(c.to_string()),
        Ok(None) => {
            let name: &str = reference;
            let known = quick_xml::escape::resolve_predefined_entity(name);
            known.map(str::to_owned).ok_or_else(|| format!("not valid XML: &{name}; is not defined"))
        }
        Err(error) => Err(format!("not valid XML: {error}")),
    }
}
