//! Number formats of cells. A workbook stores dates as numbers, and only the format distinguishes them.

use std::collections::HashMap;

use quick_xml::events::Event;

use super::archive::WorkbookArchive;
use super::xml::attribute;
use crate::calendar;
use crate::error::FileError;
use crate::number;
use crate::value::CellValue;

/// Days from 1899-12-30, the origin of date numbers, to 1970-01-01.
const EPOCH: i64 = 25_569;
/// Days between the origins of the two calendars that a workbook may use.
const FROM_1900_TO_1904: f64 = 1_462.0;
/// The first date number after the year 9999.
const BEYOND: f64 = 2_958_466.0;
const MILLIS_PER_DAY: f64 = 86_400_000.0;

/// The kind of value that a number is displayed as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum NumberStyle {
    #[default]
    Number,
    Date,
    Time,
    DateTime,
    /// Hours, minutes or seconds that may exceed a day.
    Elapsed,
}

/// Returns the number style of each cell style in the workbook.
pub(super) fn read(archive: &mut WorkbookArchive<'_>, part: Option<&str>) -> Result<Vec<NumberStyle>, FileError> {
    let mut styles = Vec::new();
    let xml = match part {
        Some(part) => archive.small_xml(part)?,
        None => None,
    };
    let Some(mut xml) = xml else { return Ok(styles) };
    let mut formats = HashMap::new();
    let mut in_cells = false;
    loop {
        match xml.next()? {
            Event::Eof => return Ok(styles),
            Event::Start(element) => match element.local_name().as_ref() {
                "numFmt" => {
                    let id = attribute(&element, "numFmtId").and_then(|id| id.parse::<u32>().ok());
                    if let (Some(id), Some(code)) = (id, attribute(&element, "formatCode")) {
                        formats.insert(id, of_code(&code));
                    }
                }
                "cellXfs" => in_cells = true,
                "xf" if in_cells => {
                    let id = attribute(&element, "numFmtId").and_then(|id| id.parse::<u32>().ok()).unwrap_or(0);
                    styles.push(formats.get(&id).copied().unwrap_or_else(|| built_in(id)));
                }
                _ => {}
            },
            Event::End(element) if element.local_name().as_ref() == "cellXfs" => in_cells = false,
            _ => {}
        }
    }
}

/// Returns the style of a built-in format (ECMA-376, 18.8.30).
fn built_in(id: u32) -> NumberStyle {
    match id {
        14..=17 | 27..=31 | 36 | 50..=54 | 57..=58 => NumberStyle::Date,
        18..=21 | 32..=35 | 45 | 47 | 55..=56 => NumberStyle::Time,
        22 => NumberStyle::DateTime,
        46 => NumberStyle::Elapsed,
        _ => NumberStyle::Number,
    }
}

/// Returns the style of a format code, from its letters outside of quotes, escapes and brackets. Only the first section
/// counts, which applies to positive numbers.
fn of_code(code: &str) -> NumberStyle {
    let (mut date, mut time, mut month) = (false, false, false);
    let mut characters = code.chars();
    while let Some(c) = characters.next() {
        match c.to_ascii_lowercase() {
            '"' => drop(characters.by_ref().find(|c| *c == '"')),
            '\\' | '_' | '*' => drop(characters.next()),
            '[' => {
                let inside: String = characters.by_ref().take_while(|c| *c != ']').collect();
                let inside = inside.to_ascii_lowercase();
                if !inside.is_empty() && ["h", "m", "s"].iter().any(|unit| inside.chars().all(|c| unit.starts_with(c)))
                {
                    return NumberStyle::Elapsed;
                }
            }
            ';' => break,
            'g' if characters.as_str().to_ascii_lowercase().starts_with("eneral") => return NumberStyle::Number,
            'y' | 'd' => date = true,
            'h' | 's' => time = true,
            'm' => month = true,
            _ => {}
        }
    }
    match (date, time) {
        (true, true) => NumberStyle::DateTime,
        (true, false) => NumberStyle::Date,
        (false, true) => NumberStyle::Time,
        // Without hours and seconds, `m` stands for months.
        (false, false) if month => NumberStyle::Date,
        (false, false) => NumberStyle::Number,
    }
}

/// Converts a number to the value it is displayed as. Dates and times become ISO 8601 text.
pub(super) fn value(number: f64, shown: NumberStyle, since_1904: bool) -> CellValue {
    let serial = if since_1904 && shown != NumberStyle::Elapsed { number + FROM_1900_TO_1904 } else { number };
    let outside = !(0.0..BEYOND).contains(&serial);
    if shown == NumberStyle::Number || outside || number.is_nan() {
        return match number::exact_integer(number) {
            Some(integer) => CellValue::Integer(integer),
            None => CellValue::Real(number),
        };
    }
    // This calendar contains February 29, 1900, as number 60, so all earlier dates are off by one day.
    let days = if serial < 60.0 && !since_1904 && shown != NumberStyle::Time { serial + 1.0 } else { serial };
    let millis = number::exact_integer((days * MILLIS_PER_DAY).round()).unwrap_or_default();
    let (day, of_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let nanos = i128::from(of_day) * 1_000_000;
    let moment = i128::from(day - EPOCH) * calendar::NANOS_PER_DAY + nanos;
    CellValue::Text(match shown {
        NumberStyle::Date if of_day == 0 => calendar::date(day - EPOCH),
        NumberStyle::Time if serial < 1.0 => calendar::time(nanos),
        NumberStyle::Elapsed => duration(number),
        _ => calendar::timestamp(moment),
    })
}

/// Returns an ISO 8601 duration such as `PT26H30M0S`. chrono prints durations in seconds only.
fn duration(days: f64) -> String {
    let millis = number::exact_integer((days * MILLIS_PER_DAY).round()).unwrap_or_default();
    let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
    let (seconds, fraction) = (millis / 1_000 % 60, millis % 1_000);
    let mut text = format!("PT{hours}H{minutes}M{seconds}");
    if fraction > 0 {
        text.push('.');
        text.push_str(format!("{fraction:03}").trim_end_matches('0'));
    }
    text + "S"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes() {
        for (code, shown) in [
            ("General", NumberStyle::Number),
            ("0.00", NumberStyle::Number),
            ("#,##0;[Red]-#,##0", NumberStyle::Number),
            ("yyyy-mm-dd", NumberStyle::Date),
            ("mmm", NumberStyle::Date),
            ("hh:mm", NumberStyle::Time),
            ("mm:ss.0", NumberStyle::Time),
            ("d/m/yy h:mm AM/PM", NumberStyle::DateTime),
            ("[h]:mm:ss", NumberStyle::Elapsed),
            ("[mm]:ss", NumberStyle::Elapsed),
            ("0 \"days\"", NumberStyle::Number),
            ("0\\d", NumberStyle::Number),
            ("[$-409]dd.mm.yyyy", NumberStyle::Date),
            ("0;yyyy", NumberStyle::Number),
        ] {
            assert_eq!(of_code(code), shown, "{code}");
        }
    }

    #[test]
    fn numbers_as_they_are_shown() {
        let text = |number, shown| match value(number, shown, false) {
            CellValue::Text(text) => text,
            other => panic!("{other:?}"),
        };
        assert_eq!(text(46_269.0, NumberStyle::Date), "2026-09-04");
        assert_eq!(text(46_269.5, NumberStyle::Date), "2026-09-04T12:00:00");
        assert_eq!(text(46_269.0, NumberStyle::DateTime), "2026-09-04T00:00:00");
        assert_eq!(text(46_269.520_833_333, NumberStyle::DateTime), "2026-09-04T12:30:00");
        assert_eq!(text(0.520_833_333, NumberStyle::Time), "12:30:00");
        assert_eq!(text(1.0, NumberStyle::Date), "1900-01-01");
        assert_eq!(text(59.0, NumberStyle::Date), "1900-02-28");
        assert_eq!(text(61.0, NumberStyle::Date), "1900-03-01");
        assert_eq!(text(1.104_166_667, NumberStyle::Elapsed), "PT26H30M0S");
        assert_eq!(value(44_807.0, NumberStyle::Date, true), CellValue::Text("2026-09-04".to_owned()));
        assert_eq!(value(-1.0, NumberStyle::Date, false), CellValue::Integer(-1));
        assert_eq!(value(3.0, NumberStyle::Number, false), CellValue::Integer(3));
        assert_eq!(value(3.5, NumberStyle::Number, false), CellValue::Real(3.5));
        assert_eq!(value(1e300, NumberStyle::Number, false), CellValue::Real(1e300));
    }
}
