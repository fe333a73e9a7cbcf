//! Reading the cells of a sheet, row by row.

use quick_xml::events::Event;

use super::strings::{Strings, text_until};
use super::styles::{self, NumberStyle};
use super::xml::{Xml, attribute, reference};
use crate::error::{FileError, shortened};
use crate::format::FileLimits;
use crate::value::CellValue;

/// Maximum number of columns in a sheet.
const MOST_COLUMNS: usize = 16_384;

/// The content of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SheetCell {
    /// A value; NULL if the cell is empty.
    Value(CellValue),
    /// Content that cannot be imported, with the reason.
    Wrong(String),
}

/// The properties of a cell's element.
struct Described {
    at: usize,
    kind: String,
    shown: NumberStyle,
}

/// A reader of the rows of a sheet.
pub(super) struct Sheet {
    xml: Xml,
    styles: Vec<NumberStyle>,
    strings: Strings,
    since_1904: bool,
    limits: FileLimits,
    row: u64,
    ended: bool,
}

impl Sheet {
    pub(super) fn new(
        xml: Xml,
        styles: Vec<NumberStyle>,
        strings: Strings,
        since_1904: bool,
        limits: FileLimits,
    ) -> Self {
        Self { xml, styles, strings, since_1904, limits, row: 0, ended: false }
    }

    /// Replaces `cells` by those of the next row. Returns the number of the row, from 1, or `None` after the last.
    pub(super) fn next_row(&mut self, cells: &mut Vec<(usize, SheetCell)>) -> Result<Option<u64>, FileError> {
        cells.clear();
        while !self.ended {
            match self.xml.next()? {
                Event::Start(element) if element.local_name().as_ref() == "row" => {
                    let number = attribute(&element, "r").and_then(|number| number.parse().ok());
                    self.row = number.unwrap_or(self.row + 1);
                    self.read_row(cells)?;
                    return Ok(Some(self.row));
                }
                Event::End(element) if element.local_name().as_ref() == "sheetData" => self.ended = true,
                Event::Eof => return Err(self.xml.wrong("the sheet ends too early")),
                _ => {}
            }
        }
        Ok(None)
    }

    fn read_row(&mut self, cells: &mut Vec<(usize, SheetCell)>) -> Result<(), FileError> {
        let (row, mut next, mut bytes) = (self.row, 0, 0);
        loop {
            let described = match self.xml.next()? {
                Event::End(element) if element.local_name().as_ref() == "row" => return Ok(()),
                Event::Eof => return Err(self.xml.wrong("the sheet ends too early")),
                Event::Start(element) if element.local_name().as_ref() == "c" => {
                    let style = attribute(&element, "s").and_then(|style| style.parse::<usize>().ok());
                    Described {
                        at: attribute(&element, "r").and_then(|place| column(&place)).unwrap_or(next),
                        kind: attribute(&element, "t").unwrap_or_default(),
                        shown: style.and_then(|style| self.styles.get(style).copied()).unwrap_or_default(),
                    }
                }
                _ => continue,
            };
            if described.at >= MOST_COLUMNS || cells.len() >= MOST_COLUMNS {
                return Err(FileError::at(row, format!("more than {MOST_COLUMNS} cells")));
            }
            next = described.at + 1;
            let at = described.at;
            let cell = self.read_cell(&described)?;
            if let SheetCell::Value(value) = &cell {
                bytes += value.len();
            }
            if bytes > self.limits.record_bytes() {
                let detail = format!("the record is longer than {} bytes", self.limits.record_bytes());
                return Err(FileError::at(row, detail));
            }
            cells.push((at, cell));
        }
    }

    fn read_cell(&mut self, cell: &Described) -> Result<SheetCell, FileError> {
        let mut text = String::new();
        let mut in_value = false;
        loop {
            let inline = match self.xml.next()? {
                Event::End(element) if element.local_name().as_ref() == "c" => return Ok(self.value(cell, text)),
                Event::Start(element) => match element.local_name().as_ref() {
                    "is" => true,
                    name => {
                        in_value = name == "v";
                        false
                    }
                },
                Event::End(_) => {
                    in_value = false;
                    false
                }
                Event::Text(part) if in_value => {
                    text.push_str(&part.xml10_content());
                    false
                }
                Event::CData(part) if in_value => {
                    text.push_str(&part.xml10_content());
                    false
                }
                Event::GeneralRef(part) if in_value => match reference(&part) {
                    Ok(part) => {
                        text.push_str(&part);
                        false
                    }
                    Err(wrong) => return Err(self.xml.wrong(wrong)),
                },
                Event::Eof => return Err(self.xml.wrong("the sheet ends too early")),
                _ => false,
            };
            if inline {
                text.clear();
                text_until(&mut self.xml, "is", &mut text)?;
            }
            if text.len() > self.limits.record_bytes() {
                return Err(FileError::at(self.row, self.limits.too_long()));
            }
        }
    }

    fn value(&self, cell: &Described, text: String) -> SheetCell {
        let wrong = |what: &str| SheetCell::Wrong(format!("'{}' is not {what}", shortened(&text)));
        match cell.kind.as_str() {
            "s" if text.is_empty() => SheetCell::Value(CellValue::Null),
            "s" => match text.trim().parse().ok().and_then(|number| self.strings.get(number)) {
                Some("") => SheetCell::Value(CellValue::Null),
                Some(shared) => SheetCell::Value(CellValue::Text(shared.to_owned())),
                None => wrong("the number of a shared text"),
            },
            "str" | "inlineStr" | "d" if text.is_empty() => SheetCell::Value(CellValue::Null),
            "str" | "inlineStr" | "d" => SheetCell::Value(CellValue::Text(text)),
            "e" => SheetCell::Wrong(format!("the cell holds the error {}", shortened(&text))),
            _ if text.is_empty() => SheetCell::Value(CellValue::Null),
            "b" => match text.trim() {
                "1" | "true" => SheetCell::Value(CellValue::Integer(1)),
                "0" | "false" => SheetCell::Value(CellValue::Integer(0)),
                _ => wrong("a boolean"),
            },
            _ => match text.trim().parse::<f64>() {
                Ok(number) if number.is_finite() => {
                    // Whole numbers are parsed as integers, so that they lose no digits.
                    let whole = text.trim().parse::<i64>().ok().filter(|_| cell.shown == NumberStyle::Number);
                    SheetCell::Value(
                        whole.map_or_else(|| styles::value(number, cell.shown, self.since_1904), CellValue::Integer),
                    )
                }
                _ => wrong("a number"),
            },
        }
    }
}

/// Returns the column of a cell reference such as `AB12`, from 0.
fn column(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic);
    let number = letters.take(6).fold(0, |sum, letter| sum * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1);
    number.checked_sub(1)
}

#[cfg(test)]
mod tests {
    use super::column;

    #[test]
    fn places() {
        for (place, expected) in [("A1", 0), ("z9", 25), ("AA10", 26), ("XFD1", 16_383)] {
            assert_eq!(column(place), Some(expected));
        }
        assert_eq!(column("12"), None);
    }
}
