//! `yaml`: one document of the YAML 1.2 core schema, in one of the shapes of JSON documents.
//!
//! `saphyr-parser` produces events from a stream of characters. Aliases and anchors are rejected, because they would let a
//! small file expand to any number of values. Tags outside the core schema are rejected too.
//!
//! Memory: the longest value, and the parser's lookahead.

mod events;
mod json;
mod scalar;

use std::io::Read;

use saphyr_parser::Event;

use self::events::{Events, PlacedEvent};
use crate::columns::Columns;
use crate::error::{FileError, RowError, RowErrors};
use crate::format::FileLimits;
use crate::typed::{Record, Records};

const SHAPE: &str =
    "the document is neither a list of mappings nor a mapping with the single key 'rows' that holds one";

/// The position of the reader in the document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum YamlPosition {
    Start,
    /// In the list of records.
    List,
    End,
}

/// A reader that returns a YAML file record by record.
pub(crate) struct YamlRecords<R: Read + 'static> {
    events: Events<R>,
    columns: Columns,
    limits: FileLimits,
    place: YamlPosition,
    /// Whether the list is under the key `rows`.
    wrapped: bool,
}

impl<R: Read + 'static> YamlRecords<R> {
    /// Creates a reader. `columns` are those found by an earlier pass.
    pub(crate) fn new(input: R, columns: &[String], limits: FileLimits) -> Self {
        Self {
            events: Events::new(input, limits),
            columns: Columns::known(columns),
            limits,
            place: YamlPosition::Start,
            wrapped: false,
        }
    }

    /// Reads up to the start of the list. Returns `false` for an empty document.
    fn begin(&mut self) -> Result<bool, FileError> {
        let mut first = self.events.next()?;
        while matches!(first.event, Event::StreamStart | Event::DocumentStart(_)) {
            first = self.events.next()?;
        }
        let wrong = |line| Err(FileError::at(line, SHAPE));
        match &first.event {
            Event::StreamEnd => Ok(false),
            Event::SequenceStart(..) => Ok(true),
            Event::MappingStart(..) => {
                let key = self.events.next()?;
                let value = self.events.next()?;
                match (&key.event, &value.event) {
                    (Event::Scalar(key, ..), Event::SequenceStart(..)) if key == "rows" => {
                        self.wrapped = true;
                        Ok(true)
                    }
                    _ => wrong(key.line),
                }
            }
            _ => wrong(first.line),
        }
    }

    /// Reads what may follow the list.
    fn end(&mut self) -> Result<(), FileError> {
        let mut next = self.events.next()?;
        if self.wrapped {
            if next.event != Event::MappingEnd {
                return Err(FileError::at(next.line, SHAPE));
            }
            next = self.events.next()?;
        }
        while next.event == Event::DocumentEnd {
            next = self.events.next()?;
        }
        match next.event {
            Event::StreamEnd => Ok(()),
            _ => Err(FileError::at(next.line, "more than one document")),
        }
    }

    /// Reads the keys and values of a record whose start has been read.
    fn fill(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<(), FileError> {
        let line = record.line;
        loop {
            let key = self.events.next()?;
            let name = match key.event {
                Event::MappingEnd => return Ok(()),
                Event::Scalar(name, ..) => name,
                _ => return Err(FileError::at(key.line, "a key is not a scalar")),
            };
            let first = self.events.next()?;
            let value = match &first.event {
                Event::Scalar(text, style, _, tag) => scalar::value(text, *style, tag.as_deref(), self.limits),
                _ => json::text(&mut self.events, first, self.limits)?,
            };
            match self.columns.place(&name, self.limits) {
                Err(fault) if fault.fatal => return Err(FileError::at(line, fault.detail)),
                Err(fault) => errors.push(RowError::new(line, None, fault.detail)),
                Ok(place) => {
                    if let Err(detail) = value.and_then(|value| record.set_once(place, value)) {
                        errors.push(RowError::new(line, Some(&name), detail));
                    }
                }
            }
        }
    }
}

impl<R: Read + 'static> Records for YamlRecords<R> {
    fn columns(&self) -> &[String] {
        self.columns.names()
    }

    fn next_record(&mut self, record: &mut Record, errors: &mut RowErrors) -> Result<bool, FileError> {
        if self.place == YamlPosition::Start {
            self.place = if self.begin()? { YamlPosition::List } else { YamlPosition::End };
        }
        while self.place == YamlPosition::List {
            let PlacedEvent { event, line } = self.events.next()?;
            match event {
                Event::SequenceEnd => {
                    self.end()?;
                    self.place = YamlPosition::End;
                }
                Event::MappingStart(..) => {
                    let found_before = errors.total();
                    record.begin(line);
                    self.fill(record, errors)?;
                    if errors.total() == found_before {
                        return Ok(true);
                    }
                }
                Event::Scalar(..) => errors.push(RowError::new(line, None, "the record is not a mapping")),
                _ => return Err(FileError::at(line, "the record is not a mapping")),
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests;
