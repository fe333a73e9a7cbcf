//! Checks of operations, uploads and leases.

use std::collections::BTreeMap;

use super::{
    account_id, at, database, database_id, hash, id, operation, operation_id, owner, read, reference, scene, user,
    write,
};
use branchyard_domain::entities::{
    Cell, Database, FailureKind, FileType, ImportMode, ImportOptions, ImportRequest, ImportType, Operation,
    OperationFailure, OperationKind, OperationStatus, Outcome, PullEnds, Purged, ResolvedRow, RowProblem,
    RowResolution, Side, TextEncoding, TextOptions, Upload, UploadPart, User, Work,
};
use branchyard_domain::ports::{LeaseTurn, Metadata, OperationBacklog, OperationFilter, OperationState, WriteKeys};
use branchyard_domain::values::{DatabaseName, PullNumber, UploadId};

fn kinds(on: &Database, by: &User) -> Vec<Operation> {
    let mut list: Vec<Operation> = (1..=4).map(|n| operation(n, on, by)).collect();
    list[1].work = Work::Merge {
        ends: PullEnds { from: on.locator.clone(), from_branch: reference("a"), to_branch: reference("main") },
        pull: PullNumber::new(7).unwrap(),
        message: "ü".to_owned(),
        resolve: BTreeMap::from([("t".to_owned(), Side::Ours), ("u".to_owned(), Side::Theirs)]),
        rows: vec![RowResolution {
            table: "t".to_owned(),
            primary_key: vec![("id".to_owned(), Cell::Text(b"7".to_vec()))],
            becomes: ResolvedRow::With(vec![("a".to_owned(), Cell::Null)]),
        }],
        fast_forward: false,
    };
    list[2].work = Work::Fork { owner_id: account_id(2), owner: owner("bob"), fork_id: database_id(77) };
    list[3].work = Work::Import(ImportRequest {
        upload_id: UploadId::from_uuid(id(5)),
        branch: reference("main"),
        table: "t".to_owned(),
        file_name: "t.csv".to_owned(),
        file_type: FileType::Parquet,
        mode: ImportMode::Replace,
        primary_keys: vec!["a".to_owned(), "b".to_owned()],
        message: String::new(),
        pull_branch: Some(reference("imports/1")),
        column_map: BTreeMap::from([("A".to_owned(), "a".to_owned())]),
        options: ImportOptions {
            column_types: BTreeMap::from([("A".to_owned(), ImportType::Numeric)]),
            text: TextOptions { delimiter: Some(';'), encoding: TextEncoding::Windows1252 },
        },
    });
    list
}

/// Checks operations: all fields, lists, single settlement, purging.
pub fn operations(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let list = kinds(&menu, &ann);
    let ids = |operations: Vec<Operation>| operations.iter().map(|o| o.id.as_uuid().as_u128()).collect::<Vec<_>>();
    write(store, |tx| {
        for operation in &list {
            tx.operations().add(operation).unwrap();
        }
        assert_eq!(tx.operations().pending(menu.id).unwrap(), list);
        assert_eq!(tx.operations().get(operation_id(3)).unwrap().unwrap(), list[2]);
        assert_eq!(tx.operations().get(operation_id(9)).unwrap(), None);
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 4);
        let newest = list[3].created_at;
        let mut nth = |owner, since, n| tx.operations().nth_newest_of(owner, since, n).unwrap();
        assert_eq!(nth(ann.id, at(0), 3), Some(list[0].created_at), "three on her database");
        assert_eq!(nth(ann.id, at(0), 4), None, "the fork is bob's");
        assert_eq!((nth(bob.id, at(0), 1), nth(bob.id, at(0), 2)), (Some(list[2].created_at), None));
        assert_eq!(nth(ann.id, newest, 1), None, "the bound itself is excluded");
        assert_eq!(nth(ann.id, newest.plus_seconds(-1), 1), Some(newest));
        assert!(tx.operations().is_held_up(menu.id, at(0)).unwrap());
        assert!(!tx.operations().is_held_up(database_id(77), at(0)).unwrap());
        assert!(tx.operations().is_forking_to(bob.id, &DatabaseName::parse("mENU").unwrap()).unwrap());
        assert!(!tx.operations().is_forking_to(ann.id, &menu.locator.name).unwrap());
        assert!(!tx.operations().is_forking_to(bob.id, &DatabaseName::parse("other").unwrap()).unwrap());
        let mut listed = |state, kinds, before: Option<u128>, limit| {
            let filter = OperationFilter { state, kinds };
            let found = ids(tx.operations().list(menu.id, filter, before.map(operation_id), limit).unwrap());
            let by_ann = tx.operations().list_by(ann.id, filter, before.map(operation_id), limit).unwrap();
            assert_eq!(ids(by_ann), found, "they are all of one database and one user");
            assert!(tx.operations().list_by(bob.id, filter, None, limit).unwrap().is_empty());
            found
        };
        assert_eq!(listed(None, None, None, 10), [4, 3, 2, 1]);
        assert_eq!(listed(None, None, Some(4), 2), [3, 2]);
        assert_eq!(listed(None, Some(&[OperationKind::Merge]), None, 10), [2]);
        assert_eq!(listed(None, Some(&[OperationKind::Merge, OperationKind::Import]), None, 10), [4, 2]);
        assert!(listed(None, Some(&[]), None, 10).is_empty(), "no kind, no operation");
        assert_eq!(listed(Some(OperationState::Queued), Some(&[OperationKind::Import]), None, 10), [4]);
        assert!(listed(Some(OperationState::Failed), None, None, 10).is_empty());
    });
    write(store, |tx| {
        // A queued operation is settled without a holder, and only once.
        let mut canceled = list[2].clone();
        canceled.status = OperationStatus::Failed(OperationFailure {
            rows: vec![RowProblem {
                line: u64::from(u32::MAX) + 1,
                column: Some("ä".to_owned()),
                detail: "d".to_owned(),
            }],
            ..OperationFailure::new(FailureKind::Canceled, "canceled")
        });
        canceled.finished_at = Some(at(30));
        assert!(!tx.operations().settle(&canceled, Some("w1")).unwrap(), "the operation is not leased");
        assert!(tx.operations().settle(&canceled, None).unwrap());
        assert!(!tx.operations().settle(&canceled, None).unwrap());
        assert_eq!(tx.operations().get(canceled.id).unwrap().unwrap(), canceled);
        assert!(!tx.operations().is_forking_to(bob.id, &menu.locator.name).unwrap());

        let mut done = tx.operations().lease("w1", at(31), at(61), LeaseTurn::default()).unwrap().unwrap();
        done.status = OperationStatus::Succeeded(Outcome {
            commit: Some(hash(1)),
            previous: Some(hash(2)),
            rows_affected: Some(u64::from(u32::MAX) + 1),
            pull: Some(PullNumber::FIRST),
            database: Some((database_id(77), menu.locator.clone())),
            purged: Some(Purged { freed_bytes: u64::from(u32::MAX) + 2, kept_by: vec![database_id(77)] }),
        });
        done.finished_at = Some(at(32));
        assert!(!tx.operations().settle(&done, None).unwrap(), "it runs");
        assert!(!tx.operations().settle(&done, Some("w2")).unwrap(), "another holds it");
        assert!(tx.operations().settle(&done, Some("w1")).unwrap());
        assert!(!tx.operations().settle(&done, Some("w1")).unwrap());
        assert_eq!(tx.operations().get(done.id).unwrap().unwrap(), done);
        assert_eq!((done.id, done.started_at, done.attempts), (operation_id(1), Some(at(31)), 1));
        done.conceal();
        tx.operations().replace_work(done.id, &done.work).unwrap();
        let replaced = tx.operations().get(done.id).unwrap().unwrap();
        assert_eq!((&replaced.work, replaced.is_concealed()), (&done.work, false), "the rest stays");
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 2);
        assert_eq!(ids(tx.operations().pending(menu.id).unwrap()), [2, 4]);
    });
    write(store, |tx| {
        assert_eq!(tx.operations().purge(at(30)).unwrap(), 0);
        assert_eq!(tx.operations().purge(at(31)).unwrap(), 1);
        assert_eq!(tx.operations().get(operation_id(3)).unwrap(), None);
        assert_eq!(tx.operations().purge(at(100)).unwrap(), 1, "the unsettled stay");
    });
}

/// Checks leases: one per database, oldest first, and independent of other databases.
pub fn leases(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let other = database(11, &bob, "other");
    write(store, |tx| {
        tx.databases().add(&other).unwrap();
        assert_eq!(tx.operations().lease("w", at(0), at(10), LeaseTurn::default()).unwrap(), None);
        for n in [1, 2, 3] {
            tx.operations().add(&operation(n, &menu, &ann)).unwrap();
        }
        tx.operations().add(&operation(4, &other, &bob)).unwrap();
        tx.operations().add(&operation(5, &other, &bob)).unwrap();
    });
    let lease = |holder: &str, now: i64| {
        let leased =
            write(store, |tx| tx.operations().lease(holder, at(now), at(now + 10), LeaseTurn::default()).unwrap());
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!(lease("w1", 0), Some(1));
    assert_eq!(lease("w2", 1), Some(4), "the other database is not held up");
    assert_eq!(lease("w3", 2), None, "one at a time in a database");
    write(store, |tx| {
        assert!(tx.operations().extend_lease(operation_id(1), "w1", at(20)).unwrap());
        assert!(!tx.operations().extend_lease(operation_id(1), "w2", at(20)).unwrap());
        assert!(!tx.operations().extend_lease(operation_id(2), "w1", at(20)).unwrap());
    });
    assert_eq!(lease("other/3", 11), Some(4), "its lease ended at 11; it goes before what is queued there");
    assert_eq!(lease("w3", 12), None, "the lease of 1 was prolonged");
    let first = read(store, |tx| tx.operations().get(operation_id(4)).unwrap().unwrap());
    assert_eq!((first.attempts, first.started_at, first.status), (2, Some(at(1)), OperationStatus::Running));
    write(store, |tx| {
        assert!(!tx.operations().extend_lease(operation_id(4), "w2", at(99)).unwrap(), "it lost the lease");
        // A released operation keeps its position in the queue.
        tx.operations().release("w9", true).unwrap();
        tx.operations().release("w1", true).unwrap();
        let first = tx.operations().get(operation_id(1)).unwrap().unwrap();
        assert_eq!((first.attempts, first.status), (1, OperationStatus::Queued));
        assert_eq!(tx.operations().get(operation_id(4)).unwrap().unwrap().status, OperationStatus::Running);
        assert_eq!(tx.operations().count_queued(menu.id).unwrap(), 3);
    });
    assert_eq!(lease("w4", 13), Some(1));
    // A release that does not count the attempt undoes it.
    write(store, |tx| tx.operations().release("w4", false).unwrap());
    let first = read(store, |tx| tx.operations().get(operation_id(1)).unwrap().unwrap());
    assert_eq!((first.attempts, first.status), (1, OperationStatus::Queued));
    assert_eq!(lease("w4", 13), Some(1));
    write(store, |tx| {
        let mut settled = tx.operations().get(operation_id(1)).unwrap().unwrap();
        settled.status = OperationStatus::Failed(OperationFailure::new(FailureKind::Internal, "x"));
        settled.finished_at = Some(at(14));
        assert!(tx.operations().settle(&settled, Some("w4")).unwrap());
    });
    assert_eq!(lease("node/4", 14), Some(2));
    assert_eq!(lease("w5", 15), None);
    assert_eq!(read(store, |tx| tx.operations().backlog().unwrap()), OperationBacklog { queued: 2, running: 2 });
    // A restart ends the leases of the node's own workers only.
    assert_eq!(write(store, |tx| tx.operations().recover("n").unwrap()), 0, "not of a node whose name begins so");
    assert_eq!(write(store, |tx| tx.operations().recover("n_de").unwrap()), 0, "not by a pattern");
    assert_eq!(write(store, |tx| tx.operations().recover("node").unwrap()), 1);
    assert!(!write(store, |tx| tx.operations().extend_lease(operation_id(2), "node/4", at(99)).unwrap()), "ended");
    assert_eq!(lease("w6", 15), Some(2));
    assert_eq!(lease("w6", 15), None, "the other node still runs 4");
    assert_eq!(write(store, |tx| tx.operations().recover("other").unwrap()), 1);
    assert_eq!(lease("w6", 15), Some(4));
    assert_eq!(lease("w6", 15), None);
    // A running operation goes before queued ones, even those with smaller ids.
    write(store, |tx| tx.operations().add(&operation(0, &menu, &ann)).unwrap());
    assert_eq!(lease("w6", 30), Some(2));
}

/// Checks the rotation of leases: creators take turns, each with its oldest candidate, and excluded creators are
/// skipped.
pub fn lease_turns(store: &dyn Metadata) {
    let (ann, bob, menu) = scene(store);
    let cyd = user(3, "cyd");
    let others: Vec<Database> = (0..4).map(|n| database(20 + n, &bob, &format!("other{n}"))).collect();
    write(store, |tx| {
        tx.users().add(&cyd).unwrap();
        for other in &others {
            tx.databases().add(other).unwrap();
        }
        // Ann has the oldest operation in three databases. In the first of them, Bob's operation waits for hers.
        for (n, on, by) in [
            (1, &menu, &ann),
            (2, &menu, &bob),
            (3, &others[0], &ann),
            (4, &others[1], &ann),
            (5, &others[1], &bob),
            (6, &others[2], &bob),
            (7, &others[2], &cyd),
            (8, &others[3], &cyd),
        ] {
            tx.operations().add(&operation(n, on, by)).unwrap();
        }
    });
    // Returns the operation that would be leased, and rolls back.
    let next = |after: Option<u128>, without: &[u128]| {
        let without: Vec<_> = without.iter().copied().map(account_id).collect();
        let turn = LeaseTurn { after: after.map(account_id), without: &without, kind: None };
        let mut tx = store.write(&WriteKeys::any()).unwrap();
        let leased = tx.operations().lease("w", at(0), at(10), turn).unwrap();
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!(next(None, &[]), Some(1));
    assert_eq!(next(Some(1), &[]), Some(6), "Bob's oldest that no other one is before");
    assert_eq!(next(Some(2), &[]), Some(8));
    assert_eq!(next(Some(3), &[]), Some(1), "and round again");
    assert_eq!(next(Some(9), &[]), Some(1));
    assert_eq!(next(Some(1), &[2]), Some(8));
    assert_eq!(next(Some(1), &[3, 2]), Some(1), "the one whose turn was last is not passed over");
    assert_eq!(next(Some(1), &[2, 1]), Some(8));
    assert_eq!(next(Some(3), &[1]), Some(6));
    assert_eq!(next(Some(2), &[1, 3]), Some(6));
    assert_eq!(next(None, &[3, 1, 2]), None);
    let of_kind = |kind| {
        let turn = LeaseTurn { kind: Some(kind), ..LeaseTurn::default() };
        store
            .write(&WriteKeys::any())
            .unwrap()
            .operations()
            .lease("w", at(0), at(10), turn)
            .unwrap()
            .map(|operation| operation.id)
    };
    assert_eq!([of_kind(OperationKind::SqlWrite), of_kind(OperationKind::Purge)], [Some(operation_id(1)), None]);
    let lease = |after: Option<u128>| {
        let turn = LeaseTurn { after: after.map(account_id), without: &[], kind: None };
        let leased = write(store, |tx| tx.operations().lease("w", at(0), at(10), turn).unwrap());
        leased.map(|operation| operation.id.as_uuid().as_u128())
    };
    assert_eq!([lease(None), lease(Some(1)), lease(Some(2))], [Some(1), Some(6), Some(8)]);
    assert_eq!(
        [lease(Some(3)), lease(Some(1)), lease(Some(1))],
        [Some(3), Some(4), None],
        "one at a time in a database"
    );
}

/// Checks upload sessions and their parts.
pub fn uploads(store: &dyn Metadata) {
    let (ann, _, menu) = scene(store);
    let upload = |n: u128, expires_at| Upload {
        id: UploadId::from_uuid(id(n)),
        database_id: menu.id,
        user_id: ann.id,
        secret_hash: [7; 32],
        content_length: 5_000_000_000,
        num_parts: 3,
        file_type: FileType::Csv,
        created_at: at(0),
        expires_at,
        used_by: None,
        parts: Vec::new(),
    };
    let upload_id = |n| UploadId::from_uuid(id(n));
    let part = |number, size| UploadPart { number, size, md5: [9; 16] };
    write(store, |tx| {
        for n in 1..=4 {
            tx.uploads().add(&upload(n, at(10))).unwrap();
        }
        let bytes = tx.databases().bytes_of(ann.id).unwrap();
        assert_eq!(bytes, u64::try_from(menu.size_bytes).unwrap() + 4 * 5_000_000_000);
        let Work::SqlWrite { statements, .. } = operation(8, &menu, &ann).work else { panic!("a write") };
        tx.operations().add(&operation(8, &menu, &ann)).unwrap();
        let with_text = tx.databases().bytes_of(ann.id).unwrap();
        assert!(with_text >= bytes + statements.len() as u64 && with_text < bytes + 10_000, "{with_text}");
        assert_eq!(tx.databases().bytes_of(account_id(2)).unwrap(), 0);
        for part in [part(2, 5), part(1, 5_000_000_000), part(2, 6)] {
            tx.uploads().put_part(upload_id(1), &part).unwrap();
        }
        let found = tx.uploads().get(upload_id(1)).unwrap().unwrap();
        assert_eq!(found.parts, [part(1, 5_000_000_000), part(2, 6)]);
        assert_eq!((found.database_id, found.user_id, found.secret_hash), (menu.id, ann.id, [7; 32]));
        assert_eq!((found.content_length, found.num_parts, found.file_type), (5_000_000_000, 3, FileType::Csv));
        assert_eq!((found.created_at, found.expires_at, found.used_by), (at(0), at(10), None));
        assert!(tx.uploads().get(upload_id(9)).unwrap().is_none());
        assert_eq!(tx.uploads().count_open(ann.id, at(9)).unwrap(), 4);
        assert_eq!(tx.uploads().count_open(ann.id, at(10)).unwrap(), 0, "at its end a session is expired");
        assert!(tx.uploads().abandoned(at(9), 10).unwrap().is_empty());

        tx.operations().add(&operation(1, &menu, &ann)).unwrap();
        tx.operations().add(&operation(2, &menu, &ann)).unwrap();
        assert!(tx.uploads().bind(upload_id(1), operation_id(1)).unwrap());
        assert!(!tx.uploads().bind(upload_id(1), operation_id(2)).unwrap());
        assert!(tx.uploads().bind(upload_id(2), operation_id(2)).unwrap());
        assert!(tx.uploads().bind(upload_id(3), operation_id(99)).unwrap(), "an operation that is gone by now");
        assert_eq!(tx.uploads().get(upload_id(1)).unwrap().unwrap().used_by, Some(operation_id(1)));
        assert_eq!(tx.uploads().count_open(ann.id, at(9)).unwrap(), 1);
        let mut settled = operation(2, &menu, &ann);
        settled.status = OperationStatus::Failed(OperationFailure::new(FailureKind::Content, "x"));
        settled.finished_at = Some(at(5));
        assert!(tx.operations().settle(&settled, None).unwrap());
        let mut abandoned = tx.uploads().abandoned(at(9), 10).unwrap();
        abandoned.sort();
        assert_eq!(abandoned, [upload_id(2), upload_id(3)]);
        let mut abandoned = tx.uploads().abandoned(at(10), 10).unwrap();
        abandoned.sort();
        assert_eq!(abandoned, [upload_id(2), upload_id(3), upload_id(4)], "the used one waits for its import");
        assert_eq!(tx.uploads().abandoned(at(10), 1).unwrap().len(), 1);
        tx.uploads().remove(upload_id(1)).unwrap();
        tx.uploads().remove(upload_id(1)).unwrap();
        assert!(tx.uploads().get(upload_id(1)).unwrap().is_none());
    });
}
