//! `/{owner}/{database}/imports/new` and the following steps: upload a file, preview it, import it.
//!
//! With JavaScript the file is uploaded in parts with a progress bar (`assets/upload.js`), otherwise as a single form. Both ways
//! end on the page that previews the file and asks for the options of the import.

mod columns;
mod one_step;
mod preview;
mod text_options;
pub(super) mod upload;

use branchyard_domain::entities::{FileType, ImportMode};

pub(crate) use self::one_step::start_at_once;
pub(super) use self::one_step::start_proposed;
pub(crate) use self::preview::{show, start};
pub(crate) use self::upload::{choose, open, put_part, receive};

/// Size limit of a file that is uploaded as a form, in bytes. Larger files need JavaScript or the API.
const FORM_FILE_BYTES: u64 = 16 << 20;

/// The formats: names in forms, types, file extensions and labels.
const FORMATS: &[(&str, FileType, &[&str], &str)] = &[
    ("csv", FileType::Csv, &["csv"], "CSV"),
    ("tsv", FileType::Tsv, &["tsv", "tab"], "TSV"),
    ("psv", FileType::Psv, &["psv"], "PSV"),
    ("xlsx", FileType::Xlsx, &["xlsx"], "Excel"),
    ("json", FileType::Json, &["json", "jsonl", "ndjson"], "JSON"),
    ("yaml", FileType::Yaml, &["yaml", "yml"], "YAML"),
    ("parquet", FileType::Parquet, &["parquet"], "Parquet"),
    ("sqlite", FileType::Sqlite, &["sqlite", "sqlite3", "db"], "SQLite"),
    ("sql", FileType::Sql, &["sql"], "SQL script"),
];

/// Returns the chosen format, or detects it from the extension of the file name.
pub(super) fn format_of(chosen: &str, file_name: &str) -> Result<FileType, &'static str> {
    let ending = file_name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default();
    let found = FORMATS.iter().find(|(name, _, endings, _)| match chosen {
        "" => endings.contains(&ending.as_str()),
        _ => *name == chosen,
    });
    found
        .map(|(_, file_type, ..)| *file_type)
        .ok_or("The format can't be detected from the file name. Choose a format.")
}

/// Returns the label of a format.
fn format_name(file_type: FileType) -> &'static str {
    FORMATS.iter().find(|(_, one, ..)| *one == file_type).map(|(.., name)| *name).unwrap_or_default()
}

/// The import modes: names in forms, modes and labels.
const MODES: &[(&str, ImportMode, &str)] = &[
    ("create", ImportMode::Create, "Create a new table"),
    ("overwrite", ImportMode::Overwrite, "Replace the table (structure and data)"),
    ("update", ImportMode::Update, "Add rows and update those with the same key"),
    ("replace", ImportMode::Replace, "Replace all rows, keep the columns"),
];

#[cfg(test)]
mod tests {
    use super::format_of;
    use branchyard_domain::entities::FileType;

    #[test]
    fn the_format_is_chosen_or_in_the_name() {
        assert_eq!(format_of("", "a.b.CSV"), Ok(FileType::Csv));
        assert_eq!(format_of("", "x.yml"), Ok(FileType::Yaml));
        assert_eq!(format_of("psv", "a.csv"), Ok(FileType::Psv));
        for (chosen, name) in [("", "csv"), ("", "a.txt"), ("", ""), ("txt", "a.csv")] {
            assert!(format_of(chosen, name).is_err(), "{chosen} {name}");
        }
    }
}
