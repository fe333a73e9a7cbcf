//! Parsing bytes to events, with a bound on the bytes between two of them.

use std::cell::{Cell, RefCell};
use std::io::Read;
use std::rc::Rc;

use saphyr_parser::{BufferedInput, Event, Parser};

use super::scalar;
use crate::error::FileError;
use crate::format::FileLimits;
use crate::source::{Chunk, Source};

/// An event and the line, from 1, on which it begins.
#[derive(Debug)]
pub(super) struct PlacedEvent {
    pub(super) event: Event<'static>,
    pub(super) line: u64,
}

/// State shared between the parser, whose input of characters cannot fail, and its reader.
#[derive(Debug, Default)]
struct SharedInput {
    /// Bytes that may be read before the next event.
    room: Cell<usize>,
    line: Cell<u64>,
    /// The error that ended the characters before the end of the file.
    stopped_by: RefCell<Option<FileError>>,
}

struct Characters<R> {
    source: Source<R>,
    shared: Rc<SharedInput>,
    limits: FileLimits,
}

impl<R: Read> Characters<R> {
    fn read(&mut self) -> Result<Option<char>, FileError> {
        let line = self.shared.line.get();
        let text = match self.source.chunk().map_err(FileError::Io)? {
            Chunk::Text(text) => text,
            Chunk::End => return Ok(None),
            Chunk::Foreign(encoding) => return Err(FileError::at(1, format!("the file is {encoding}, not UTF-8"))),
            Chunk::Invalid => return Err(FileError::at(line, "not valid UTF-8")),
        };
        let Some(c) = text.chars().next() else { return Ok(None) };
        let Some(room) = self.shared.room.get().checked_sub(c.len_utf8()) else {
            return Err(FileError::at(line, self.limits.too_long()));
        };
        self.shared.room.set(room);
        if c == '\n' {
            self.shared.line.set(line + 1);
        }
        self.source.consume(c.len_utf8());
        Ok(Some(c))
    }
}

impl<R: Read> Iterator for Characters<R> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        let mut stopped_by = self.shared.stopped_by.borrow_mut();
        if stopped_by.is_some() {
            return None;
        }
        drop(stopped_by);
        let read = self.read();
        stopped_by = self.shared.stopped_by.borrow_mut();
        read.unwrap_or_else(|error| {
            *stopped_by = Some(error);
            None
        })
    }
}

/// The events of a file.
pub(super) struct Events<R: Read + 'static> {
    parser: Parser<'static, BufferedInput<Characters<R>>>,
    shared: Rc<SharedInput>,
    limits: FileLimits,
}

impl<R: Read + 'static> Events<R> {
    pub(super) fn new(input: R, limits: FileLimits) -> Self {
        let shared = Rc::new(SharedInput::default());
        shared.line.set(1);
        let characters = Characters { source: Source::new(input), shared: Rc::clone(&shared), limits };
        Self { parser: Parser::new_from_iter(characters), shared, limits }
    }

    /// Returns the next event. After the last event, it returns the end of the stream repeatedly.
    pub(super) fn next(&mut self) -> Result<PlacedEvent, FileError> {
        // Covers a value with its escapes, and the white space and comments around it.
        self.shared.room.set(self.limits.record_bytes());
        let next = self.parser.next_event();
        if let Some(error) = self.shared.stopped_by.borrow_mut().take() {
            return Err(error);
        }
        let (event, line) = match next {
            None => (Event::StreamEnd, self.shared.line.get()),
            Some(Ok((event, span))) => (event, u64::try_from(span.start.line()).unwrap_or(u64::MAX)),
            Some(Err(error)) => {
                let line = u64::try_from(error.marker().line()).unwrap_or(u64::MAX);
                return Err(FileError::at(line, format!("not valid YAML: {}", error.info())));
            }
        };
        let (anchor, tag) = match &event {
            Event::Alias(_) => return Err(FileError::at(line, "aliases are not allowed")),
            Event::Scalar(_, _, anchor, tag) | Event::SequenceStart(anchor, tag) | Event::MappingStart(anchor, tag) => {
                (*anchor, tag.as_deref())
            }
            _ => (0, None),
        };
        if anchor != 0 {
            return Err(FileError::at(line, "anchors are not allowed"));
        }
        if let Some(tag) = tag
            && scalar::core_tag(tag).is_none()
        {
            return Err(FileError::at(line, format!("the tag {tag} is not one of the core schema")));
        }
        Ok(PlacedEvent { event, line })
    }
}
