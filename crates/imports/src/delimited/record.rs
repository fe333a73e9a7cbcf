//! One record of a delimited file.

/// The fields of a record, in one buffer that is reused for the next record.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DelimitedRecord {
    line: u64,
    text: String,
    /// The end of each field in `text`.
    ends: Vec<usize>,
}

impl DelimitedRecord {
    /// Returns the physical line, from 1, on which the record begins.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of fields.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns `true` if there are no fields, which is never the case after a successful read.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns a field by its position, from 0, without its quotes.
    pub fn get(&self, position: usize) -> Option<&str> {
        let end = *self.ends.get(position)?;
        let start = match position.checked_sub(1) {
            Some(previous) => *self.ends.get(previous)?,
            None => 0,
        };
        self.text.get(start..end)
    }

    /// Returns the fields in the order of the file.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|position| self.get(position))
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.ends.clear();
    }

    pub(super) fn begin_on(&mut self, line: u64) {
        self.line = line;
    }

    pub(super) fn push(&mut self, part: &str) {
        self.text.push_str(part);
    }

    pub(super) fn end_field(&mut self) {
        self.ends.push(self.text.len());
    }

    /// Returns the length in bytes of the field that has not ended yet.
    pub(super) fn open_len(&self) -> usize {
        self.text.len() - self.ends.last().copied().unwrap_or_default()
    }
}
