//! Workbooks from a library, and some that no library writes, read by the rules of the contract (v2 §5.7).

use std::io::Write as _;

use rust_xlsxwriter::{ExcelDateTime, Format as Style, Formula, Workbook};

use crate::format::{FileLimits, Format};
use crate::testing::{errors, int, read, read_bytes, text, with_limits};
use crate::value::CellValue;

fn from_table(file: &[u8], table: &str, limits: FileLimits) -> Result<crate::testing::ReadTable, crate::FileError> {
    with_limits(Format::Xlsx, file, table, limits, read)
}

#[test]
fn cells_have_the_value_they_show() {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    for (at, name) in ["text", "whole", "real", "truth", "date", "moment", "formula", "empty"].into_iter().enumerate() {
        sheet.write(0, u16::try_from(at).unwrap(), name).unwrap();
    }
    let style = |code: &str| Style::new().set_num_format(code);
    let moment = ExcelDateTime::parse_from_str("2026-09-04T12:30:00").unwrap();
    sheet.write(1, 0, "a <b> & \"c\" é\n").unwrap();
    sheet.write(1, 1, 7).unwrap();
    sheet.write(1, 2, 7.5).unwrap();
    sheet.write(1, 3, true).unwrap();
    sheet.write_with_format(1, 4, ExcelDateTime::from_ymd(2026, 9, 4).unwrap(), &style("yyyy-mm-dd")).unwrap();
    sheet.write_with_format(1, 5, &moment, &style("d/m/yy hh:mm")).unwrap();
    sheet.write(1, 6, Formula::new("=B2+1").set_result("8")).unwrap();
    sheet.write(3, 0, "after an empty row").unwrap();
    let (columns, rows) = read_bytes(Format::Xlsx, workbook.save_to_buffer().unwrap()).unwrap();
    let types: Vec<_> = columns.iter().map(|(_, kind)| *kind).collect();
    assert_eq!(types, ["TEXT", "INTEGER", "REAL", "INTEGER", "TEXT", "TEXT", "INTEGER", "TEXT"]);
    let expected = [
        text("a <b> & \"c\" é\n"),
        int(7),
        CellValue::Real(7.5),
        int(1),
        text("2026-09-04"),
        text("2026-09-04T12:30:00"),
        int(8),
        CellValue::Null,
    ];
    assert_eq!(rows[0], (2, expected.to_vec()));
    assert_eq!((rows[1].0, &rows[1].1[0], &rows[1].1[1]), (4, &text("after an empty row"), &CellValue::Null));
}

#[test]
fn the_sheet_is_that_of_the_table_or_the_first() {
    let mut workbook = Workbook::new();
    for name in ["First", "People"] {
        let sheet = workbook.add_worksheet();
        sheet.set_name(name).unwrap();
        sheet.write(0, 0, "sheet").unwrap();
        sheet.write(1, 0, name).unwrap();
    }
    let file = workbook.save_to_buffer().unwrap();
    for (table, sheet) in [("people", "People"), ("PEOPLE", "People"), ("other", "First")] {
        let (_, rows) = from_table(&file, table, FileLimits::default()).unwrap();
        assert_eq!(rows[0].1, [text(sheet)], "{table}");
    }
}

#[test]
fn wrong_cells_are_row_errors() {
    let mut workbook = Workbook::new();
    let sheet = workbook.add_worksheet();
    sheet.write(0, 0, "a").unwrap();
    sheet.write(0, 2, "c").unwrap();
    sheet.write(1, 0, Formula::new("=1/0").set_result("#DIV/0!")).unwrap();
    sheet.write(2, 1, "no name").unwrap();
    sheet.write(3, 2, "fine").unwrap();
    sheet.write(4, 26, 1).unwrap();
    let told = errors(read_bytes(Format::Xlsx, workbook.save_to_buffer().unwrap()));
    let expected = [
        "line 2: column a: the cell holds the error #DIV/0!",
        "line 3: there is a value in column B, which has no name in the header",
        "line 5: there is a value in column AA, which has no name in the header",
    ];
    assert_eq!(told, expected);
    let mut workbook = Workbook::new();
    workbook.add_worksheet().write(0, 0, "a").unwrap().write(0, 1, "A").unwrap();
    let told = errors(read_bytes(Format::Xlsx, workbook.save_to_buffer().unwrap()));
    assert_eq!(told, ["line 1: the column names 'a' and 'A' differ only in case"]);
    let mut workbook = Workbook::new();
    workbook.add_worksheet();
    assert_eq!(
        errors(read_bytes(Format::Xlsx, workbook.save_to_buffer().unwrap())),
        ["line 1: the sheet has no header"]
    );
}

/// Returns a zip archive of deflated parts.
fn archive(parts: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in parts {
        let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        deflate.write_all(content).unwrap();
        let compressed = deflate.finish().unwrap();
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let offset = u32::try_from(file.len()).unwrap();
        let mut fields = vec![20, 0, 0, 0, 8, 0, 0, 0, 0, 0];
        for number in [crc.sum(), u32::try_from(compressed.len()).unwrap(), u32::try_from(content.len()).unwrap()] {
            fields.extend_from_slice(&number.to_le_bytes());
        }
        fields.extend_from_slice(&u16::try_from(name.len()).unwrap().to_le_bytes());
        fields.extend_from_slice(&[0, 0]);
        file.extend_from_slice(b"PK\x03\x04");
        file.extend_from_slice(&fields);
        file.extend_from_slice(name.as_bytes());
        file.extend_from_slice(&compressed);
        directory.extend_from_slice(b"PK\x01\x02\x14\0");
        directory.extend_from_slice(&fields);
        directory.extend_from_slice(&[0; 10]);
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(name.as_bytes());
    }
    let count = u16::try_from(parts.len()).unwrap().to_le_bytes();
    let numbers = [u32::try_from(directory.len()).unwrap(), u32::try_from(file.len()).unwrap()];
    file.extend_from_slice(&directory);
    file.extend_from_slice(b"PK\x05\x06\0\0\0\0");
    file.extend_from_slice(&count);
    file.extend_from_slice(&count);
    for number in numbers {
        file.extend_from_slice(&number.to_le_bytes());
    }
    file.extend_from_slice(&[0, 0]);
    file
}

fn relations(of: &[(&str, &str)]) -> Vec<u8> {
    let one = |(kind, target): &(&str, &str)| {
        format!("<Relationship Id=\"{kind}\" Type=\"http://x/relationships/{kind}\" Target=\"{target}\"/>")
    };
    let all: String = of.iter().map(one).collect();
    format!("<Relationships>{all}</Relationships>").into_bytes()
}

/// Returns a workbook of one sheet with these rows and shared strings.
fn workbook(rows: &str, shared: &str) -> Vec<u8> {
    let parts = [("worksheet", "sheet.xml"), ("sharedStrings", "strings.xml")];
    archive(&[
        ("_rels/.rels", relations(&[("officeDocument", "xl/workbook.xml")])),
        ("xl/workbook.xml", b"<workbook><sheets><sheet name=\"t\" r:id=\"worksheet\"/></sheets></workbook>".to_vec()),
        ("xl/_rels/workbook.xml.rels", relations(&parts)),
        ("xl/sheet.xml", format!("<worksheet><sheetData>{rows}</sheetData></worksheet>").into_bytes()),
        ("xl/strings.xml", format!("<sst uniqueCount=\"99999999999999\">{shared}</sst>").into_bytes()),
    ])
}

#[test]
fn workbooks_of_other_writers_are_read() {
    let rows = "<row><c t=\"s\"><v>1</v></c><c t=\"inlineStr\"><is><r><t>b</t></r><r><t>2</t></r></is></c></row>
        <row r=\"7\"><c r=\"B7\"><v>9007199254740993</v></c><c r=\"A7\" t=\"d\"><v>2026-09-04</v></c></row>
        <row><c t=\"str\"><f>x</f><v>&lt;&#233;</v></c><c t=\"b\"><v>0</v></c></row>";
    let shared = "<si/><si><t>a</t><rPh><t>spoken</t></rPh></si>";
    let (columns, found) = read_bytes(Format::Xlsx, workbook(rows, shared)).unwrap();
    assert_eq!(columns, [("a".to_owned(), "TEXT"), ("b2".to_owned(), "INTEGER")]);
    let expected = [(7, vec![text("2026-09-04"), int(9_007_199_254_740_993)]), (8, vec![text("<é"), int(0)])];
    assert_eq!(found, expected);
}

#[test]
fn bombs_are_refused() {
    let header = "<row><c t=\"inlineStr\"><is><t>a</t></is></c></row>";
    let row = "<row><c><v>1</v></c></row>";
    let limits = |expanded_bytes| FileLimits { expanded_bytes, value_bytes: 1 << 10, ..FileLimits::default() };
    let many = workbook(&format!("{header}{}", row.repeat(100_000)), "");
    assert!(many.len() < 100_000, "{}", many.len());
    assert_eq!(from_table(&many, "t", limits(4 << 20)).unwrap().1.len(), 100_000);
    let told = |file: &[u8], limits| from_table(file, "t", limits).unwrap_err().to_string();
    assert_eq!(told(&many, limits(1 << 20)), "the file expands to more than 1048576 bytes");
    let long = workbook(&format!("{header}<!--{}-->", " ".repeat(1 << 20)), "");
    assert_eq!(told(&long, limits(4 << 20)), "a value or tag is longer than 4096 bytes");
    let wide = workbook(&format!("{header}<row>{}</row>", "<c><v>1</v></c>".repeat(16_385)), "");
    assert_eq!(told(&wide, limits(4 << 20)), "line 2: more than 16384 cells");
    let value =
        |bytes: usize| workbook(&format!("{header}<row><c t=\"str\"><v>{}</v></c></row>", "x".repeat(bytes)), "");
    assert_eq!(from_table(&value(1 << 10), "t", limits(4 << 20)).unwrap().1.len(), 1);
    assert_eq!(told(&value(1_025), limits(4 << 20)), "line 2: column a: the value is longer than 1024 bytes");
}

#[test]
fn other_files_are_refused() {
    let told = |file: &[u8]| errors(read_bytes(Format::Xlsx, file)).remove(0);
    assert_eq!(told(b""), "not a workbook: it is not a zip archive");
    assert_eq!(told(b"id,name\n1,Alice\n"), "not a workbook: it is not a zip archive");
    assert_eq!(told(&archive(&[("a", Vec::new())])), "not a workbook: it has no part xl/workbook.xml");
    assert!(told(&workbook("<row><c><v>1</v>", "")).starts_with("not valid XML"));
    assert_eq!(
        told(&workbook("<row><c t=\"s\"><v>5</v></c></row>", "")),
        "line 1: cell A: '5' is not the number of a shared text"
    );
    let whole = workbook("<row><c><v>1</v></c></row>", "");
    for length in (0..whole.len()).step_by(7) {
        read_bytes(Format::Xlsx, &whole[..length]).unwrap_err();
    }
}
