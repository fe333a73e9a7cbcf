//! The rules of quotes, delimiters and line ends, as a state machine that processes the file piece by piece.
//!
//! Pieces of the file are cut between characters, so a delimiter outside ASCII is never divided. All other significant bytes are ASCII.

use super::Delimiter;
use super::record::DelimitedRecord;
use crate::format::FileLimits;

/// A defect in one field. The first defect of a record is reported, except that [`FaultKind::NeverClosed`] takes precedence,
/// because it explains the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FieldDefect {
    /// Position of the field, from 0.
    pub(super) field: usize,
    pub(super) kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FaultKind {
    AfterQuote,
    NeverClosed,
    TooLong,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MachineState {
    /// At the start of a line, before any record.
    LineStart,
    /// After a CR at the start of a line. A following LF makes the line empty; otherwise the CR is data.
    LineStartCr,
    FieldStart,
    Unquoted,
    /// After a CR in an unquoted field. A following LF ends the line; otherwise the CR is data.
    UnquotedCr,
    Quoted,
    /// After a quote in a quoted field, which is either the first half of a doubled quote or the closing one.
    QuotedQuote,
    /// After the closing quote and a CR. A following LF ends the line; anything else is a defect.
    QuotedCr,
    Ended,
}

/// A delimiter in UTF-8.
#[derive(Debug)]
struct DelimiterBytes {
    bytes: [u8; 4],
    len: usize,
}

impl DelimiterBytes {
    fn of(delimiter: Delimiter) -> Self {
        let mut bytes = [0; 4];
        let len = delimiter.as_char().encode_utf8(&mut bytes).len();
        Self { bytes, len }
    }

    fn begins(&self, text: &[u8]) -> bool {
        text.starts_with(&self.bytes[..self.len])
    }

    /// Returns the position of the first delimiter or line end.
    fn field_end(&self, text: &[u8]) -> Option<usize> {
        let first = self.bytes[0];
        let stop = |byte: &u8| *byte == first || *byte == b'\n' || *byte == b'\r';
        let mut from = 0;
        loop {
            let at = from + text[from..].iter().position(stop)?;
            // Other characters may begin with the same byte as a delimiter outside ASCII.
            if self.len == 1 || text[at] != first || self.begins(&text[at..]) {
                return Some(at);
            }
            from = at + 1;
        }
    }
}

#[derive(Debug)]
pub(super) struct Machine {
    delimiter: DelimiterBytes,
    value_bytes: usize,
    kept_fields: usize,
    state: MachineState,
    line: u64,
    fields: usize,
    fault: Option<FieldDefect>,
}

impl Machine {
    pub(super) fn new(delimiter: Delimiter, limits: FileLimits) -> Self {
        Self {
            delimiter: DelimiterBytes::of(delimiter),
            value_bytes: limits.value_bytes,
            kept_fields: limits.columns,
            state: MachineState::LineStart,
            line: 1,
            fields: 0,
            fault: None,
        }
    }

    /// Keeps only the first `fields` fields of a record. Further ones are counted and skipped.
    pub(super) fn keep_fields(&mut self, fields: usize) {
        self.kept_fields = fields;
    }

    /// Returns the current physical line, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of fields in the record so far, including skipped ones.
    pub(super) fn fields(&self) -> usize {
        self.fields
    }

    pub(super) fn fault(&self) -> Option<FieldDefect> {
        self.fault
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state == MachineState::Ended
    }

    /// Prepares for the next record.
    pub(super) fn begin(&mut self, record: &mut DelimitedRecord) {
        record.clear();
        self.state = MachineState::LineStart;
        self.fields = 0;
        self.fault = None;
    }

    /// Processes `text` up to the end of the record or of `text`, and returns the number of bytes processed.
    pub(super) fn feed(&mut self, text: &str, record: &mut DelimitedRecord) -> usize {
        let mut read = 0;
        while let Some(byte) = text.as_bytes().get(read)
            && !self.has_ended()
        {
            read += self.step(&text[read..], *byte, record);
        }
        read
    }

    /// Processes the end of the file. Returns `false` if there is no unfinished record.
    pub(super) fn finish(&mut self, record: &mut DelimitedRecord) -> bool {
        match self.state {
            MachineState::LineStart => return false,
            MachineState::LineStartCr | MachineState::UnquotedCr => self.keep("\r", record),
            MachineState::QuotedCr => self.blame(FaultKind::AfterQuote),
            MachineState::Quoted => {
                self.fault = None;
                self.blame(FaultKind::NeverClosed);
            }
            MachineState::FieldStart | MachineState::Unquoted | MachineState::QuotedQuote | MachineState::Ended => {}
        }
        self.end_field(record);
        self.state = MachineState::Ended;
        true
    }

    /// Performs one transition. Returns the number of bytes of `rest`, which begins with `byte`, that were processed; 0 if only
    /// the state changed.
    fn step(&mut self, rest: &str, byte: u8, record: &mut DelimitedRecord) -> usize {
        match self.state {
            MachineState::LineStart => self.start_line(byte, record),
            MachineState::LineStartCr if byte == b'\n' => self.skip_line(),
            MachineState::UnquotedCr | MachineState::QuotedCr if byte == b'\n' => self.end_record(record),
            MachineState::LineStartCr | MachineState::UnquotedCr => self.keep_lone_cr(record),
            MachineState::QuotedCr => self.go_on_after_quote(),
            MachineState::FieldStart if byte == b'"' => self.enter(MachineState::Quoted, 1),
            MachineState::FieldStart => self.enter(MachineState::Unquoted, 0),
            MachineState::Unquoted => self.read_unquoted(rest, record),
            MachineState::Quoted => self.read_quoted(rest, record),
            MachineState::QuotedQuote => self.leave_quotes(rest, byte, record),
            MachineState::Ended => 0,
        }
    }

    fn enter(&mut self, state: MachineState, read: usize) -> usize {
        self.state = state;
        read
    }

    fn start_line(&mut self, byte: u8, record: &mut DelimitedRecord) -> usize {
        record.begin_on(self.line);
        match byte {
            b'\n' => self.skip_line(),
            b'\r' => self.enter(MachineState::LineStartCr, 1),
            _ => self.enter(MachineState::FieldStart, 0),
        }
    }

    fn skip_line(&mut self) -> usize {
        self.line += 1;
        self.enter(MachineState::LineStart, 1)
    }

    fn end_record(&mut self, record: &mut DelimitedRecord) -> usize {
        self.end_field(record);
        self.line += 1;
        self.enter(MachineState::Ended, 1)
    }

    fn keep_lone_cr(&mut self, record: &mut DelimitedRecord) -> usize {
        self.keep("\r", record);
        self.enter(MachineState::Unquoted, 0)
    }

    fn read_unquoted(&mut self, rest: &str, record: &mut DelimitedRecord) -> usize {
        let Some(end) = self.delimiter.field_end(rest.as_bytes()) else {
            self.keep(rest, record);
            return rest.len();
        };
        self.keep(&rest[..end], record);
        end + self.separate(rest.as_bytes()[end], MachineState::UnquotedCr, record)
    }

    fn read_quoted(&mut self, rest: &str, record: &mut DelimitedRecord) -> usize {
        let end = rest.bytes().position(|byte| byte == b'"');
        let data = &rest[..end.unwrap_or(rest.len())];
        self.line += data.bytes().map(|byte| u64::from(byte == b'\n')).sum::<u64>();
        self.keep(data, record);
        match end {
            Some(end) => self.enter(MachineState::QuotedQuote, end + 1),
            None => rest.len(),
        }
    }

    fn leave_quotes(&mut self, rest: &str, byte: u8, record: &mut DelimitedRecord) -> usize {
        if byte == b'"' {
            self.keep("\"", record);
            self.enter(MachineState::Quoted, 1)
        } else if self.delimiter.begins(rest.as_bytes()) || byte == b'\n' || byte == b'\r' {
            self.separate(byte, MachineState::QuotedCr, record)
        } else {
            self.go_on_after_quote()
        }
    }

    /// Reads the rest of a malformed field as unquoted, so that the following fields and the next record are found.
    fn go_on_after_quote(&mut self) -> usize {
        self.blame(FaultKind::AfterQuote);
        self.enter(MachineState::Unquoted, 0)
    }

    /// Processes a delimiter, LF or CR after a field. A CR only changes to the state that waits for its LF.
    fn separate(&mut self, byte: u8, after_cr: MachineState, record: &mut DelimitedRecord) -> usize {
        match byte {
            b'\r' => self.enter(after_cr, 1),
            b'\n' => self.end_record(record),
            _ => {
                self.end_field(record);
                self.enter(MachineState::FieldStart, self.delimiter.len)
            }
        }
    }

    fn end_field(&mut self, record: &mut DelimitedRecord) {
        if self.keeps_field() {
            record.end_field();
        }
        self.fields += 1;
    }

    fn keep(&mut self, part: &str, record: &mut DelimitedRecord) {
        if !self.keeps_field() {
            return;
        }
        if part.len() > self.value_bytes.saturating_sub(record.open_len()) {
            self.blame(FaultKind::TooLong);
        } else {
            record.push(part);
        }
    }

    /// Returns `false` for the rest of a defective record, and for fields without a name in the header. Both are skipped.
    fn keeps_field(&self) -> bool {
        self.fault.is_none() && self.fields < self.kept_fields
    }

    fn blame(&mut self, kind: FaultKind) {
        let field = self.fields;
        self.fault.get_or_insert(FieldDefect { field, kind });
    }
}
