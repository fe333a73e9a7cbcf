//! Imports of files that arrive in one request.

use std::io::{self, Read};

use branchyard_domain::access::Write;
use branchyard_domain::entities::{FailureKind, FileType, ImportMode, ImportOptions, Operation, PullState};
use branchyard_domain::errors::{ImportError, ImportField};
use branchyard_domain::ports::Blobs as _;
use branchyard_domain::usecases::{Limits, NewFileImport};

use crate::harness::{DomainHarness, world, world_with};

const FILE: &str = "id,a\n1,eins\n2,zwei\n";

fn wanted(branch: Option<&str>) -> NewFileImport {
    NewFileImport {
        branch: branch.map(str::to_owned),
        table: "t".to_owned(),
        file_name: "t.csv".to_owned(),
        file_type: FileType::Csv,
        mode: Some(ImportMode::Update),
        primary_keys: Vec::new(),
    }
}

fn import(world: &DomainHarness, file: &str, wanted: NewFileImport) -> Result<Operation, ImportError> {
    let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
    let stored = imports.store_file(&access, &mut file.as_bytes(), 1_000)?;
    imports.start_file(&access, stored, wanted)
}

fn blobs(world: &DomainHarness) -> usize {
    world.fakes.blobs.list().unwrap().len()
}

#[test]
fn a_file_lands_on_a_branch_of_its_own_with_a_pull() {
    let world = world();
    let operation = import(&world, FILE, wanted(Some("main"))).unwrap();
    let digits = operation.id.to_string();
    let branch = format!("ada/import-{}", &digits[digits.len() - 12..]);
    world.work();
    let outcome = world.outcome(operation.id);
    assert_eq!((outcome.previous, outcome.commit), (world.head("main"), world.head(&branch)));
    assert_eq!(world.rows(&branch), ["1|eins", "2|zwei"]);
    let pull = world.transaction().pulls().get(world.db, outcome.pull.unwrap()).unwrap().unwrap();
    assert_eq!(
        (pull.from_branch.as_str(), pull.to_branch.as_str(), pull.state),
        (branch.as_str(), "main", PullState::Open)
    );
    assert_eq!((pull.title.as_str(), blobs(&world)), ("Import t.csv into t", 0));

    let same = import(&world, "id,a\n1,one\n", wanted(Some("main"))).unwrap();
    world.work();
    let outcome = world.outcome(same.id);
    assert_eq!((outcome.pull, outcome.commit), (None, world.head("main")), "identical data opens no pull");
}

#[test]
fn without_a_branch_it_lands_on_the_default_branch() {
    let world = world();
    let operation = import(&world, FILE, wanted(None)).unwrap();
    world.work();
    assert_eq!((world.outcome(operation.id).pull, world.outcome(operation.id).commit), (None, world.head("main")));
    assert_eq!(world.rows("main"), ["1|eins", "2|zwei"]);
}

#[test]
fn a_script_without_a_mode_is_run_as_it_is() {
    let world = world();
    let script = NewFileImport { file_type: FileType::Sql, mode: None, file_name: "s.sql".to_owned(), ..wanted(None) };
    let operation = import(&world, "DELETE FROM t WHERE id = 1;", script.clone()).unwrap();
    world.work();
    assert!(world.outcome(operation.id).commit.is_some());
    assert!(world.rows("main").is_empty());
    let failed = import(&world, "DELETE FROM gone WHERE id = 1;", script).unwrap();
    world.work();
    assert_eq!(world.failure(failed.id).kind, FailureKind::Content);
}

/// A reader that returns one byte, unless the flag is set, then fails.
struct Torn(bool);

impl Read for Torn {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if std::mem::replace(&mut self.0, true) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer[0] = b'x';
        Ok(1)
    }
}

#[test]
fn what_is_refused_leaves_nothing() {
    let world = world_with(Limits { queued_per_database: 1, import_bytes: 100, ..Limits::default() });
    let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
    let store = |bytes: &mut dyn Read, limit| imports.store_file(&access, bytes, limit).map(drop);
    store(&mut [b'x'; 10].as_slice(), 10).unwrap();
    assert!(matches!(store(&mut [b'x'; 11].as_slice(), 10), Err(ImportError::FileTooLarge(10))));
    assert!(matches!(store(&mut [b'x'; 101].as_slice(), 1_000), Err(ImportError::FileTooLarge(100))));
    assert!(matches!(store(&mut io::empty(), 10), Err(ImportError::EmptyFile)));
    assert!(matches!(store(&mut Torn(false), 10), Err(ImportError::PartCutShort(_))));
    let gone = import(&world, FILE, wanted(Some("gone")));
    assert!(matches!(gone, Err(ImportError::NoSuchBranch(branch)) if branch == "gone"));
    let nameless = NewFileImport { table: String::new(), file_name: "a/b".to_owned(), ..wanted(None) };
    let Err(ImportError::Fields(wrong)) = import(&world, FILE, nameless) else { panic!("fields") };
    assert_eq!(
        wrong.iter().map(|(field, _)| field.clone()).collect::<Vec<_>>(),
        [ImportField::Table, ImportField::FileName]
    );
    import(&world, FILE, wanted(None)).unwrap();
    assert_eq!(blobs(&world), 1, "of the one that waits");
    assert!(matches!(import(&world, FILE, wanted(None)), Err(ImportError::QueueFull(1))));
    assert_eq!(blobs(&world), 1);
}

/// Files that are previewed before they are imported.
mod arrived {
    use branchyard_domain::usecases::{ArrivedImport, NewUpload, Preview, PreviewOptions};

    use super::*;

    fn keep(world: &DomainHarness, file: &str) -> branchyard_domain::values::UploadId {
        let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
        let stored = imports.store_file(&access, &mut file.as_bytes(), 1_000).unwrap();
        imports.keep_file(&access, stored, FileType::Csv).unwrap().id
    }

    fn wanted() -> ArrivedImport {
        ArrivedImport {
            branch: "main".to_owned(),
            table: "t".to_owned(),
            file_name: "t.csv".to_owned(),
            mode: ImportMode::Update,
            primary_keys: Vec::new(),
            message: None,
            pull_branch: None,
            options: ImportOptions::default(),
        }
    }

    fn one_row() -> PreviewOptions {
        PreviewOptions { table: "t".to_owned(), limit: 1, ..PreviewOptions::default() }
    }

    #[test]
    fn its_columns_are_seen_before_it_is_imported_once() {
        let world = world();
        let id = keep(&world, FILE);
        let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
        let Preview::Rows { columns, rows, .. } = imports.preview(&access, id, &one_row()).unwrap() else {
            panic!("rows")
        };
        let columns: Vec<_> = columns.iter().map(|c| (c.name.as_str(), c.declared_type.as_str())).collect();
        assert_eq!((columns, rows.len()), (vec![("id", "INTEGER"), ("a", "TEXT")], 1));
        let operation = imports.start_arrived(&access, id, wanted()).unwrap();
        assert!(matches!(imports.start_arrived(&access, id, wanted()), Err(ImportError::UploadUsed(_))));
        assert!(matches!(imports.preview(&access, id, &one_row()), Err(ImportError::UploadUsed(_))));
        world.work();
        assert_eq!(world.outcome(operation.id).commit, world.head("main"));
        assert_eq!(world.rows("main"), ["1|eins", "2|zwei"]);
    }

    #[test]
    fn what_is_wrong_with_it_is_said_before() {
        let world = world();
        let id = keep(&world, "\n1,eins\n");
        let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
        assert!(matches!(imports.preview(&access, id, &one_row()).unwrap(), Preview::Refused { .. }));
    }

    #[test]
    fn a_preview_ends_in_time() {
        let world = world_with(Limits { preview_timeout_ms: 0, ..Limits::default() });
        let id = keep(&world, FILE);
        let preview = world.hub.imports().preview(&world.access::<Write>(&world.ada), id, &one_row());
        assert_eq!(preview.unwrap(), Preview::TooSlow);
    }

    #[test]
    fn parts_come_from_whoever_opened_the_session_and_all_must_be_there() {
        let world = world();
        let (imports, access) = (world.hub.imports(), world.access::<Write>(&world.ada));
        let wanted = NewUpload { content_length: 8, num_parts: 2, file_type: FileType::Csv };
        let id = imports.open_upload(&access, wanted, None).unwrap().upload.id;
        imports.put_own_part(&access, id, 1, &mut &b"id\n"[..]).unwrap();
        assert!(matches!(imports.arrived(&access, id), Err(ImportError::NoSuchUpload)));
        imports.put_own_part(&access, id, 2, &mut &b"1\n22\n"[..]).unwrap();
        assert_eq!(imports.arrived(&access, id).unwrap().parts.len(), 2);
        let unknown = branchyard_domain::values::UploadId::from_uuid(world.hub.fresh_id());
        assert!(matches!(imports.put_own_part(&access, unknown, 1, &mut &b"x"[..]), Err(ImportError::NoSuchUpload)));
    }
}
