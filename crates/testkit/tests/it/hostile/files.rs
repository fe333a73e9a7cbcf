//! Workbooks around a sheet. A mutated archive is refused for its checksums, but a mutated sheet in a good archive is read.

use std::io::{Cursor, Write as _};

use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const WORKBOOK: &str = r#"<workbook xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"><sheets><sheet name="t" sheetId="1" r:id="rId1"/></sheets></workbook>"#;
const LINKS: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/worksheet" Target="worksheets/sheet1.xml"/></Relationships>"#;
const ROOT: &str = r#"<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships"><Relationship Id="rId1" Type="http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument" Target="xl/workbook.xml"/></Relationships>"#;
const TYPES: &str = r#"<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/></Types>"#;

/// Returns a workbook that contains the sheet.
pub(super) fn workbook(sheet: &[u8]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let parts = [
        ("[Content_Types].xml", TYPES.as_bytes()),
        ("_rels/.rels", ROOT.as_bytes()),
        ("xl/workbook.xml", WORKBOOK.as_bytes()),
        ("xl/_rels/workbook.xml.rels", LINKS.as_bytes()),
        ("xl/worksheets/sheet1.xml", sheet),
    ];
    for (name, bytes) in parts {
        archive.start_file(name, SimpleFileOptions::default()).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

pub(super) fn sheets() -> Vec<Vec<u8>> {
    let cells = [
        r#"<row r="1"><c r="A1" t="inlineStr"><is><t>id</t></is></c><c r="B1" t="str"><v>n</v></c></row><row r="2"><c r="A2"><v>1</v></c><c r="B2" t="b"><v>1</v></c></row>"#,
        r#"<row r="1"><c t="inlineStr"><is><t>a</t></is></c></row><row r="1048576"><c r="XFD1048576"><v>1e999</v></c></row>"#,
        r#"<row><c t="s"><v>99</v></c><c t="e"><v>#REF!</v></c><c t="d"><v>2026-01-01T00:00:00</v></c><c><f>1+1</f></c></row>"#,
        "<row><c><v>&lt;&#0;&x;</v></c></row>",
    ];
    let sheet = |rows: &str| {
        format!(
            r#"<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{rows}</sheetData></worksheet>"#
        )
    };
    cells.iter().map(|rows| sheet(rows).into_bytes()).collect()
}
