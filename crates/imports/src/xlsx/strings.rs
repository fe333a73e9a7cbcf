//! The shared strings of a workbook.

use quick_xml::events::Event;

use super::archive::WorkbookArchive;
use super::xml::{Xml, reference};
use crate::error::FileError;

/// Maximum size in bytes of all shared strings. Any cell may refer to any of them, so they are kept in memory.
pub(super) const MOST_BYTES: usize = 256 << 20;

/// Strings by index, without an allocation for each.
#[derive(Debug, Default)]
pub(super) struct Strings {
    text: String,
    ends: Vec<usize>,
}

impl Strings {
    pub(super) fn get(&self, number: usize) -> Option<&str> {
        let end = *self.ends.get(number)?;
        let start = number.checked_sub(1).map_or(0, |previous| self.ends[previous]);
        self.text.get(start..end)
    }

    fn end(&mut self) -> Result<(), FileError> {
        self.ends.push(self.text.len());
        if self.text.len() + self.ends.len() * size_of::<usize>() > MOST_BYTES {
            let detail = format!("the texts that its cells share take more than {MOST_BYTES} bytes");
            return Err(FileError::whole(detail));
        }
        Ok(())
    }
}

pub(super) fn read(archive: &mut WorkbookArchive<'_>, part: Option<&str>) -> Result<Strings, FileError> {
    let mut strings = Strings::default();
    let Some(part) = part else { return Ok(strings) };
    let mut xml = archive.xml(part)?;
    loop {
        match xml.next()? {
            Event::Eof => return Ok(strings),
            Event::Start(element) if element.local_name().as_ref() == "si" => {
                text_until(&mut xml, "si", &mut strings.text)?;
                strings.end()?;
            }
            _ => {}
        }
    }
}

/// Appends the text of all `t` elements up to the end of `element`. Phonetic text is skipped.
pub(super) fn text_until(xml: &mut Xml, element: &str, text: &mut String) -> Result<(), FileError> {
    let (mut in_text, mut spoken) = (false, false);
    loop {
        let wrong = match xml.next()? {
            Event::Start(inner) => {
                match inner.local_name().as_ref() {
                    "t" => in_text = true,
                    "rPh" => spoken = true,
                    _ => {}
                }
                continue;
            }
            Event::End(inner) => {
                match inner.local_name().as_ref() {
                    "t" => in_text = false,
                    "rPh" => spoken = false,
                    name if name == element => return Ok(()),
                    _ => {}
                }
                continue;
            }
            Event::Eof => "a part of the workbook ends too early".to_owned(),
            _ if !in_text || spoken => continue,
            Event::Text(part) => {
                text.push_str(&part.xml10_content());
                continue;
            }
            Event::CData(part) => {
                text.push_str(&part.xml10_content());
                continue;
            }
            Event::GeneralRef(part) => match reference(&part) {
                Ok(part) => {
                    text.push_str(&part);
                    continue;
                }
                Err(wrong) => wrong,
            },
            _ => continue,
        };
        return Err(xml.wrong(wrong));
    }
}
