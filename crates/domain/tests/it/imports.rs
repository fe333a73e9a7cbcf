//! Uploads and imports.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::Hub;
use branchyard_domain::access::Write;
use branchyard_domain::entities::{Cell, FailureKind, FileType, ImportMode, ImportOptions, Operation};
use branchyard_domain::errors::{ImportError, ImportField};
use branchyard_domain::ports::{
    Blobs as _, FormatError, FormatInput, Formats, ImportFile, InferredColumn, RowSource, TargetColumn,
};
use branchyard_domain::usecases::{CompletedPart, Limits, NewImport, NewUpload, OpenedUpload, ProgressStage};
use branchyard_domain_testing::fakes::PlainFormats;
use data_encoding::HEXLOWER;
use md5::{Digest as _, Md5};
use parking_lot::Mutex;

use crate::harness::{DomainHarness, world, world_with};

fn upload(world: &DomainHarness, size: u64, parts: u64) -> Result<OpenedUpload, ImportError> {
    let wanted = NewUpload { content_length: size, num_parts: parts, file_type: FileType::Csv };
    world.hub.imports().open_upload(&world.access::<Write>(&world.ada), wanted, None)
}

fn put(world: &DomainHarness, opened: &OpenedUpload, number: u32, bytes: &str) -> Result<[u8; 16], ImportError> {
    world.hub.imports().put_part(opened.upload.id, number, None, &mut bytes.as_bytes())
}

/// Returns the settings of an import of a file that was uploaded in one part.
fn wanted(opened: &OpenedUpload, file: &str) -> NewImport {
    let md5 = Md5::digest(file.as_bytes());
    NewImport {
        secret: opened.secret.clone(),
        upload: Some(opened.upload.id),
        branch: "main".to_owned(),
        table: "t".to_owned(),
        file_name: "t.csv".to_owned(),
        file_size: u64::try_from(file.len()).unwrap(),
        file_type: FileType::Csv,
        mode: ImportMode::Update,
        parts: vec![CompletedPart { number: 1, etag: HEXLOWER.encode(&md5) }],
        checksum: STANDARD.encode(Md5::digest(STANDARD.encode(md5).as_bytes())),
        primary_keys: Vec::new(),
        message: None,
        pull_branch: None,
        column_map: BTreeMap::new(),
        options: ImportOptions::default(),
        file_columns: None,
    }
}

fn uploaded(world: &DomainHarness, file: &str) -> OpenedUpload {
    let opened = upload(world, u64::try_from(file.len()).unwrap(), 1).unwrap();
    put(world, &opened, 1, file).unwrap();
    opened
}

fn start(world: &DomainHarness, wanted: NewImport) -> Result<Operation, ImportError> {
    world.hub.imports().start(&world.access::<Write>(&world.ada), wanted, None)
}

/// Uploads a file and queues its import into the table.
pub(crate) fn import_of(world: &DomainHarness, file: &str, pull_branch: Option<&str>) -> Operation {
    let opened = uploaded(world, file);
    let pull_branch = pull_branch.map(str::to_owned);
    start(world, NewImport { pull_branch, ..wanted(&opened, file) }).unwrap()
}

fn fields(refused: Result<impl std::fmt::Debug, ImportError>) -> Vec<ImportField> {
    match refused {
        Err(ImportError::Fields(wrong)) => wrong.into_iter().map(|(field, _)| field).collect(),
        other => panic!("{other:?}"),
    }
}

/// Records the progress that the hub reports each time a row is read.
struct Watched {
    asked: OnceLock<(Hub, Operation)>,
    seen: Mutex<Vec<Option<u64>>>,
}

/// Returns the number of rows that an import has written so far.
fn rows_so_far(hub: &Hub, operation: &Operation) -> Option<u64> {
    let progress = hub.operations().progress(operation.id)?;
    (progress.stage == ProgressStage::WritingRows).then_some(progress.done)
}

struct WatchedFile<'a>(Arc<Watched>, Box<dyn ImportFile + 'a>);

struct WatchedRows<'a>(&'a Watched, Box<dyn RowSource + 'a>);

impl ImportFile for WatchedFile<'_> {
    fn columns(&self) -> &[InferredColumn] {
        self.1.columns()
    }

    fn rows(&self, targets: &[TargetColumn]) -> Result<Box<dyn RowSource + '_>, FormatError> {
        Ok(Box::new(WatchedRows(&self.0, self.1.rows(targets)?)))
    }
}

impl RowSource for WatchedRows<'_> {
    fn next(&mut self, row: &mut Vec<Cell>) -> Result<Option<u64>, FormatError> {
        let (hub, operation) = self.0.asked.get().unwrap();
        self.0.seen.lock().push(rows_so_far(hub, operation));
        self.1.next(row)
    }
}

/// A formats port whose rows record the reported progress.
struct Watching(Arc<Watched>);

impl Formats for Watching {
    fn supports(&self, file_type: FileType) -> bool {
        PlainFormats.supports(file_type)
    }

    fn scan<'a>(&self, input: FormatInput<'a>) -> Result<Box<dyn ImportFile + 'a>, FormatError> {
        Ok(Box::new(WatchedFile(Arc::clone(&self.0), PlainFormats.scan(input)?)))
    }
}

#[test]
fn sessions_are_checked_and_counted() {
    let world =
        world_with(Limits { import_bytes: 100, import_parts: 3, open_uploads_per_user: 2, ..Limits::default() });
    assert!(matches!(upload(&world, 101, 1), Err(ImportError::TooLarge { size: 101, limit: 100 })));
    assert_eq!(fields(upload(&world, 0, 0)), [ImportField::ContentLength, ImportField::PartCount]);
    assert_eq!(fields(upload(&world, 100, 4)), [ImportField::PartCount]);
    assert_eq!(fields(upload(&world, 2, 3)), [ImportField::PartCount]);
    let pdf = NewUpload { content_length: 1, num_parts: 1, file_type: FileType::Parquet };
    assert_eq!(fields(world.hub.imports().open_upload(&world.access(&world.ada), pdf, None)), [ImportField::FileType]);
    upload(&world, 100, 3).unwrap();
    upload(&world, 1, 1).unwrap();
    assert!(matches!(upload(&world, 1, 1), Err(ImportError::TooManyUploads(2))));
    world.fakes.clock.advance_seconds(world.hub.limits().upload_session_seconds);
    upload(&world, 1, 1).unwrap();
    world.hub.operations().tidy().unwrap();
}

#[test]
fn parts_arrive_whole_or_not_at_all() {
    struct BrokenFile;
    impl Read for BrokenFile {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("gone"))
        }
    }
    let world = world();
    let opened = upload(&world, 6, 2).unwrap();
    let imports = world.hub.imports();
    for number in [0, 3] {
        assert!(matches!(put(&world, &opened, number, "x"), Err(ImportError::NoSuchUpload)));
    }
    assert!(matches!(put(&world, &opened, 1, ""), Err(ImportError::EmptyPart)));
    assert!(matches!(put(&world, &opened, 1, "1234567"), Err(ImportError::PartTooLarge(6))));
    let wrong = imports.put_part(opened.upload.id, 1, Some([0; 16]), &mut "1234".as_bytes());
    assert!(matches!(wrong, Err(ImportError::PartChecksum)));
    let cut = imports.put_part(opened.upload.id, 1, None, &mut "12".as_bytes().chain(BrokenFile));
    assert!(matches!(cut, Err(ImportError::PartCutShort(_))));
    assert_eq!(world.fakes.blobs.list().unwrap(), [], "nothing of these is kept");
    put(&world, &opened, 1, "1234").unwrap();
    put(&world, &opened, 1, "12345").unwrap();
    assert!(matches!(put(&world, &opened, 2, "67"), Err(ImportError::PartTooLarge(6))));
    put(&world, &opened, 2, "6").unwrap();
    world.fakes.clock.advance_seconds(world.hub.limits().upload_session_seconds);
    assert!(matches!(put(&world, &opened, 2, "6"), Err(ImportError::NoSuchUpload)));
    world.hub.operations().tidy().unwrap();
    assert_eq!(world.fakes.blobs.list().unwrap(), []);
}

#[test]
fn every_wrong_field_is_named_at_once() {
    let world = world();
    let file = "id,a\n2,two\n";
    let opened = uploaded(&world, file);
    let bad = NewImport {
        table: "sqlite_x".to_owned(),
        file_name: "a/b".to_owned(),
        pull_branch: Some("main".to_owned()),
        file_size: 1,
        checksum: String::new(),
        ..wanted(&opened, file)
    };
    let named = [
        ImportField::Table,
        ImportField::FileName,
        ImportField::PullBranch,
        ImportField::FileSize,
        ImportField::Checksum,
    ];
    assert_eq!(fields(start(&world, bad)), named);
    let none = NewImport { parts: Vec::new(), ..wanted(&opened, file) };
    assert_eq!(fields(start(&world, none)), [ImportField::Parts]);
    let mut wrong_tag = wanted(&opened, file);
    wrong_tag.parts[0].etag = "00".to_owned();
    assert_eq!(fields(start(&world, wrong_tag)), [ImportField::Parts]);
    let stolen = NewImport { secret: "up_guess".to_owned(), ..wanted(&opened, file) };
    assert_eq!(fields(start(&world, stolen)), [ImportField::UploadToken]);
    world.invite(&world.ben, branchyard_domain::entities::Role::Write);
    let by_ben = world.hub.imports().start(&world.access::<Write>(&world.ben), wanted(&opened, file), None);
    assert_eq!(fields(by_ben), [ImportField::Upload]);
    let another = uploaded(&world, file);
    let mixed = NewImport { upload: Some(another.upload.id), ..wanted(&opened, file) };
    assert_eq!(fields(start(&world, mixed)), [ImportField::UploadToken]);
    let unknown = NewImport { upload: None, ..wanted(&opened, file) };
    assert_eq!(fields(start(&world, unknown)), [ImportField::Upload]);
    let gone = NewImport { branch: "gone".to_owned(), ..wanted(&opened, file) };
    assert!(matches!(start(&world, gone), Err(ImportError::NoSuchBranch(_))));
    let quoted = {
        let mut quoted = wanted(&opened, file);
        quoted.parts[0].etag = format!("\"{}\"", quoted.parts[0].etag);
        quoted
    };
    let operation = start(&world, quoted).unwrap();
    let again = start(&world, wanted(&opened, file));
    assert!(matches!(again, Err(ImportError::UploadUsed(id)) if id.ends_with(&operation.id.to_string())));
    assert!(matches!(put(&world, &opened, 1, file), Err(ImportError::UploadUsed(_))));
}

#[test]
fn rows_land_on_the_branch_and_the_upload_goes() {
    let world = world();
    let operation = import_of(&world, "id,a\n2,two\n1,eins\n", None);
    world.work();
    assert_eq!(world.outcome(operation.id).commit, world.head("main"));
    assert_eq!(world.rows("main"), ["1|eins", "2|two"]);
    assert_eq!(world.events(), ["push main", "push main"]);
    world.hub.operations().tidy().unwrap();
    assert_eq!(world.fakes.blobs.list().unwrap(), []);
    let same = import_of(&world, "id,a\n2,two\n", None);
    world.work();
    assert_eq!(world.outcome(same.id).commit, world.head("main"));
    assert_eq!(world.events().len(), 2, "nothing changed");
}

#[test]
fn rows_land_beside_with_a_pull() {
    let world = world();
    let operation = import_of(&world, "id,a\n2,two\n", Some("landing"));
    world.work();
    let outcome = world.outcome(operation.id);
    assert_eq!((outcome.commit, outcome.pull.unwrap().get()), (world.head("landing"), 1));
    assert_eq!(world.rows("main"), ["1|one"]);
    let again = import_of(&world, "id,a\n3,three\n", Some("landing"));
    world.work();
    assert_eq!(world.outcome(again.id).pull.unwrap().get(), 1, "the open pull takes it in");
    let expected = ["push main", "+landing", "push landing", "pull 1 Opened by ada", "push landing"];
    assert_eq!(world.events(), expected);
    let nothing = import_of(&world, "id,a\n1,one\n", Some("unused"));
    world.work();
    assert_eq!((world.outcome(nothing.id).pull, world.head("unused")), (None, None));
}

#[test]
fn bad_files_fail_and_change_nothing() {
    let world = world();
    let head = world.head("main");
    let run = |file: &str, change: &dyn Fn(&mut NewImport)| {
        let opened = uploaded(&world, file);
        let mut wanted = wanted(&opened, file);
        change(&mut wanted);
        let operation = start(&world, wanted).unwrap();
        world.work();
        let failure = world.failure(operation.id);
        (failure.kind, failure.detail, failure.rows.len())
    };
    let content = |detail: &str, rows| (FailureKind::Content, detail.to_owned(), rows);
    assert_eq!(run("id,a\nx,two\ny,three\n", &|_| {}), content("line 2: column id: 'x' is not an integer", 2));
    assert_eq!(run("\n", &|_| {}), content("the file has no header", 0));
    assert_eq!(run("id,c\n1,2\n", &|_| {}), content("table 't' has no column 'c'", 0));
    assert_eq!(run("a\nx\n", &|_| {}), content("the file has no column for 'id' of the primary key", 0));
    let (kind, ..) = run("id,a\n1,x\n", &|wanted| wanted.mode = ImportMode::Create);
    assert_eq!(kind, FailureKind::Conflict);
    let (kind, ..) = run("id,a\n1,x\n", &|wanted| wanted.table = "gone".to_owned());
    assert_eq!(kind, FailureKind::NotFound);
    let mapped = run("id,a\n1,x\n", &|wanted| drop(wanted.column_map.insert("z".to_owned(), "a".to_owned())));
    assert_eq!(mapped, content("column_map names 'z', which is not a column of the file", 0));
    assert_eq!((world.head("main"), world.events().len()), (head, 1));
}

#[test]
fn columns_are_mapped_whatever_their_case() {
    let world = world();
    let run = |map: &[(&str, &str)]| {
        let file = "ID,Letter\n1,eins\n";
        let opened = uploaded(&world, file);
        let column_map = map.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect();
        let operation = start(&world, NewImport { column_map, ..wanted(&opened, file) }).unwrap();
        world.work();
        operation.id
    };
    world.outcome(run(&[("letter", "A")]));
    assert_eq!(world.rows("main"), ["1|eins"]);
    let twice = world.failure(run(&[("letter", "a"), ("Letter", "id")]));
    assert_eq!(twice.detail, "column_map names the column 'Letter' twice");
}

#[test]
fn scripts_go_to_the_engine() {
    let world = world();
    let run = |table: &str, script: &str| {
        let size = u64::try_from(script.len()).unwrap();
        let new = NewUpload { content_length: size, num_parts: 1, file_type: FileType::Sql };
        let opened = world.hub.imports().open_upload(&world.access::<Write>(&world.ada), new, None).unwrap();
        put(&world, &opened, 1, script).unwrap();
        let (file_type, table) = (FileType::Sql, table.to_owned());
        let operation = start(&world, NewImport { file_type, table, ..wanted(&opened, script) }).unwrap();
        world.work();
        operation.id
    };
    let done = world.outcome(run("t", "INSERT INTO t VALUES (2,'two');\nDELETE FROM t WHERE id = 1"));
    assert_eq!((done.commit, world.rows("main")), (world.head("main"), vec!["2|two".to_owned()]));
    let failed = world.failure(run("t", "DELETE FROM t WHERE id = 2;\nDELETE FROM gone WHERE id = 1"));
    assert_eq!(failed.detail, "line 2: query error: table not found: gone");
    assert_eq!((failed.rows[0].line, world.rows("main")), (2, vec!["2|two".to_owned()]));
    world.outcome(run("", "CREATE TABLE u(a TEXT)"));
}

#[test]
fn an_import_has_its_time() {
    let world = world_with(Limits { import_timeout_ms: 0, ..Limits::default() });
    let operation = import_of(&world, "id,a\n2,two\n", None);
    world.work();
    let failed = world.failure(operation.id);
    assert_eq!((failed.kind, failed.detail.as_str()), (FailureKind::Content, "timed out after 0 ms"));
}

#[test]
fn rows_are_counted_while_an_import_takes_them() {
    let world = world();
    let watched = Arc::new(Watched { asked: OnceLock::new(), seen: Mutex::default() });
    let hub = world.fakes.reading(Arc::new(Watching(Arc::clone(&watched))));
    // Far more rows than are read ahead of the engine.
    const ROWS: u64 = 20_000;
    let lines: String = (2..ROWS + 2).map(|id| format!("{id},row\n")).collect();
    let operation = import_of(&world, &format!("id,a\n{lines}"), None);
    assert_eq!(rows_so_far(&hub, &operation), None, "it waits");
    watched.asked.set((hub.clone(), operation.clone())).ok().unwrap();
    hub.operations().run_next("worker").unwrap().unwrap();
    assert!(world.outcome(operation.id).commit.is_some());
    let seen = watched.seen.lock();
    assert_eq!((seen.len() as u64, seen[0]), (ROWS + 1, Some(0)));
    assert!(seen.is_sorted() && seen.iter().all(|rows| rows.is_some_and(|rows| rows <= ROWS)));
    assert!(seen[seen.len() - 1] > Some(ROWS / 2), "{:?} when the file ended", seen[seen.len() - 1]);
    assert_eq!(rows_so_far(&hub, &operation), None, "it is over");
}
