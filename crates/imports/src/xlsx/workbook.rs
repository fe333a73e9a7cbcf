//! Locating the parts of a workbook.

use quick_xml::events::Event;

use super::archive::WorkbookArchive;
use super::xml::{attribute, flag};
use crate::error::FileError;

/// The paths of the parts that an import needs.
#[derive(Debug)]
pub(super) struct WorkbookParts {
    pub(super) sheet: String,
    pub(super) styles: Option<String>,
    pub(super) strings: Option<String>,
    /// Whether dates count from 1904 instead of 1900.
    pub(super) since_1904: bool,
}

/// A reference from one part to another.
struct Relation {
    id: String,
    kind: String,
    path: String,
}

/// Finds the parts of the sheet named `table`, in any letter case, or of the first sheet if there is none.
pub(super) fn parts(archive: &mut WorkbookArchive<'_>, table: &str) -> Result<WorkbookParts, FileError> {
    let workbook =
        find(&relations(archive, "", "_rels/.rels")?, "/officeDocument").unwrap_or("xl/workbook.xml".to_owned());
    let (folder, file) = workbook.rsplit_once('/').unwrap_or(("", &workbook));
    let relations = relations(archive, folder, &join(folder, &format!("_rels/{file}.rels")))?;
    let missing = || FileError::whole(format!("not a workbook: it has no part {workbook}"));
    let mut xml = archive.small_xml(&workbook)?.ok_or_else(missing)?;
    let mut since_1904 = false;
    let mut first = None;
    let mut named = None;
    loop {
        let Event::Start(element) = (match xml.next()? {
            Event::Eof => break,
            event => event,
        }) else {
            continue;
        };
        match element.local_name().as_ref() {
            "workbookPr" => since_1904 = flag(&element, "date1904"),
            "sheet" => {
                let id = attribute(&element, "id").unwrap_or_default();
                // Chart sheets are listed here too, but are not worksheets.
                let sheet = relations.iter().find(|r| r.id == id && r.kind.ends_with("/worksheet"));
                let Some(path) = sheet.map(|relation| relation.path.clone()) else { continue };
                let is_named = attribute(&element, "name").is_some_and(|n| n.to_lowercase() == table.to_lowercase());
                if is_named && named.is_none() {
                    named = Some(path.clone());
                }
                first.get_or_insert(path);
            }
            _ => {}
        }
    }
    let sheet = named.or(first).ok_or_else(|| FileError::whole("the workbook has no sheet"))?;
    let (styles, strings) = (find(&relations, "/styles"), find(&relations, "/sharedStrings"));
    Ok(WorkbookParts { sheet, styles, strings, since_1904 })
}

fn find(relations: &[Relation], kind: &str) -> Option<String> {
    relations.iter().find(|relation| relation.kind.ends_with(kind)).map(|relation| relation.path.clone())
}

/// Returns the relationships in `list`, except for external ones. Their paths are relative to `folder`.
fn relations(archive: &mut WorkbookArchive<'_>, folder: &str, list: &str) -> Result<Vec<Relation>, FileError> {
    let mut relations = Vec::new();
    let Some(mut xml) = archive.small_xml(list)? else { return Ok(relations) };
    loop {
        match xml.next()? {
            Event::Eof => return Ok(relations),
            Event::Start(element) if element.local_name().as_ref() == "Relationship" => {
                let get = |name| attribute(&element, name).unwrap_or_default();
                if get("TargetMode") != "External" {
                    relations.push(Relation { id: get("Id"), kind: get("Type"), path: join(folder, &get("Target")) });
                }
            }
            _ => {}
        }
    }
}

fn join(folder: &str, target: &str) -> String {
    let mut path: Vec<&str> = match target.starts_with('/') {
        true => Vec::new(),
        false => folder.split('/').filter(|part| !part.is_empty()).collect(),
    };
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(path.pop()),
            part => path.push(part),
        }
    }
    path.join("/")
}

#[cfg(test)]
mod tests {
    use super::join;

    #[test]
    fn paths_are_relative_to_their_folder() {
        for (folder, target, path) in [
            ("xl", "worksheets/sheet1.xml", "xl/worksheets/sheet1.xml"),
            ("xl", "/xl/styles.xml", "xl/styles.xml"),
            ("xl", "../a/./b.xml", "a/b.xml"),
            ("", "xl/workbook.xml", "xl/workbook.xml"),
        ] {
            assert_eq!(join(folder, target), path);
        }
    }
}
