//! Merges and conflicts.

use std::collections::BTreeMap;

use branchyard_domain::entities::{Cell, Conflict, ConflictKind, Side};
use branchyard_domain::ports::{Engine, EngineError, MergeJob, MergeOutcome, WriteJob};
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, LONG, ada, id, text};

const T: &str = "create table t(id integer primary key, v text, w text);
    insert into t values (1, 'a', 'x'), (2, 'b', 'y'), (3, 'c', 'z');
    create table u(id integer primary key, e text unique);
    create table n(a)";

fn merge(
    harness: &EngineHarness,
    ours: &CommitHash,
    theirs: &CommitHash,
    resolve: &[(&str, Side)],
) -> Result<MergeOutcome, EngineError> {
    let author = ada();
    let resolve: BTreeMap<_, _> = resolve.iter().map(|(table, side)| ((*table).to_owned(), *side)).collect();
    harness.engine.merge(
        id(1),
        &MergeJob {
            ours,
            theirs,
            message: "Merge it",
            author: &author,
            resolve: &resolve,
            rows: &[],
            fast_forward: true,
            timeout: LONG,
        },
    )
}

fn conflicts(harness: &EngineHarness, ours: &CommitHash, theirs: &CommitHash) -> Vec<Conflict> {
    harness.engine.conflicts(id(1), ours, theirs, None, 0, 100).unwrap()
}

#[test]
fn clean_merges_have_two_parents_and_our_author() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    let ours = harness.write(&base, "update t set v = 'o' where id = 1");
    let theirs = harness.write(&base, "update t set w = 't' where id = 1; insert into n values (5)");
    let Ok(MergeOutcome::Head(head)) = merge(&harness, &ours, &theirs, &[]) else { panic!() };
    let commit = harness.engine.commit(id(1), &head).unwrap().unwrap();
    assert_eq!(commit.parents, [ours.clone(), theirs.clone()]);
    assert_eq!(commit.message, "Merge it");
    assert_eq!(commit.author, ada());
    assert_eq!(harness.read(&head, "select v, w from t where id = 1"), [[text("o"), text("t")]]);
    assert_eq!(conflicts(&harness, &ours, &theirs), []);
    // No merge is necessary: the result is the head that contains the other.
    assert_eq!(merge(&harness, &head, &theirs, &[]).unwrap(), MergeOutcome::Head(head.clone()));
    assert_eq!(merge(&harness, &ours, &head, &[]).unwrap(), MergeOutcome::Head(head.clone()));
    assert_eq!(merge(&harness, &head, &head, &[]).unwrap(), MergeOutcome::Head(head.clone()));
    // A write that changes no row makes no commit.
    let same = harness.write(&base, "update t set v = 'o' where id = 1; select 'other'");
    let twin = harness.write(&same, "insert into n values (1); delete from n");
    assert_eq!(twin, same);
}

#[test]
fn row_conflicts_are_told_and_resolved() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    let ours = harness.write(&base, "update t set v = 'o'; insert into t values (9, 'o', 'o')");
    let theirs = harness.write(
        &base,
        "update t set v = 't' where id = 1; delete from t where id = 2; insert into t values (9, 't', 't')",
    );
    assert_eq!(merge(&harness, &ours, &theirs, &[]).unwrap(), MergeOutcome::Conflicts(vec![("t".into(), 3)]));
    let found = conflicts(&harness, &ours, &theirs);
    assert_eq!(found.len(), 3);
    let row = |cells: [Cell; 3]| Some(["id", "v", "w"].map(str::to_owned).into_iter().zip(cells).collect::<Vec<_>>());
    assert_eq!(
        found[0],
        Conflict {
            table: "t".into(),
            kind: ConflictKind::Row,
            primary_key: vec![("id".into(), Cell::Integer(1))],
            base: row([Cell::Integer(1), text("a"), text("x")]),
            ours: row([Cell::Integer(1), text("o"), text("x")]),
            theirs: row([Cell::Integer(1), text("t"), text("x")]),
            detail: None,
        }
    );
    assert_eq!(found[1].theirs, None);
    assert_eq!(found[1].primary_key, [("id".into(), Cell::Integer(2))]);
    assert_eq!(found[2].base, None);
    assert_eq!(harness.engine.conflicts(id(1), &ours, &theirs, Some("T"), 1, 1).unwrap(), found[1..2]);
    assert_eq!(harness.engine.conflicts(id(1), &ours, &theirs, Some("u"), 0, 9).unwrap(), []);

    let Ok(MergeOutcome::Head(head)) = merge(&harness, &ours, &theirs, &[("t", Side::Theirs)]) else { panic!() };
    assert_eq!(
        harness.read(&head, "select id, v from t where id <> 3"),
        [[Cell::Integer(1), text("t")], [Cell::Integer(9), text("t")]]
    );
    let Ok(MergeOutcome::Head(head)) = merge(&harness, &ours, &theirs, &[("T", Side::Ours), ("x", Side::Ours)]) else {
        panic!()
    };
    assert_eq!(harness.read(&head, "select count(*) from t where v = 'o'"), [[Cell::Integer(4)]]);
    assert_eq!(harness.engine.commit(id(1), &head).unwrap().unwrap().parents, [ours, theirs]);
    assert_eq!(harness.engine.verify(id(1), &[head]).unwrap(), [] as [String; 0]);
}

#[test]
fn other_conflicts() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    let ours = harness.write(&base, "insert into u values (1, 'e')");
    let theirs = harness.write(&base, "insert into u values (2, 'e')");
    assert_eq!(
        merge(&harness, &ours, &theirs, &[("u", Side::Ours)]).unwrap(),
        MergeOutcome::Conflicts(vec![("u".into(), 2)])
    );
    let found = conflicts(&harness, &ours, &theirs);
    assert_eq!(found.iter().map(|c| c.kind).collect::<Vec<_>>(), [ConflictKind::Constraint; 2]);
    assert_eq!(found[0].primary_key, [("id".into(), Cell::Integer(1))]);
    assert!(found[0].detail.as_ref().unwrap().contains("unique"));

    let ours = harness.write(&base, "alter table t add column m int");
    let theirs = harness.write(&base, "alter table t add column m text");
    assert_eq!(
        merge(&harness, &ours, &theirs, &[("t", Side::Ours)]).unwrap(),
        MergeOutcome::Conflicts(vec![("t".into(), 1)])
    );
    let found = conflicts(&harness, &ours, &theirs);
    assert_eq!(found[0].kind, ConflictKind::Schema);
    assert!(found[0].detail.as_ref().unwrap().contains("'m'"));

    let ours = harness.write(&base, "alter table t drop column v");
    let theirs = harness.write(&base, "update t set v = 'x' where id = 3");
    assert!(matches!(merge(&harness, &ours, &theirs, &[]), Err(EngineError::CannotMerge(_))));

    let base = harness.write(&base, "insert into n values ('p')");
    let ours = harness.write(&base, "update n set a = 'o'");
    let theirs = harness.write(&base, "update n set a = 't'");
    let found = conflicts(&harness, &ours, &theirs);
    assert_eq!(found[0].primary_key, [("rowid".into(), Cell::Integer(1))]);
    assert_eq!(found[0].theirs, Some(vec![("a".into(), text("t"))]));
    // The write connection is still usable.
    assert_eq!(harness.write(&base, "select 1"), base);
}

#[test]
fn a_write_with_a_merge_is_all_or_nothing() {
    let harness = EngineHarness::new();
    let base = harness.write(&harness.base, T);
    let to = harness.write(&base, "update t set v = 'o' where id = 1");
    let from = harness.write(&base, "update t set v = 'f' where id = 2");
    let author = ada();
    let write = |sql: &str, base: &CommitHash| {
        let job = WriteJob {
            base,
            statements: sql,
            message: "Write",
            then_merge: Some((&from, "Merge main into to")),
            author: &author,
            timeout: LONG,
        };
        harness.engine.write(id(1), &job).unwrap().outcome
    };
    let MergeOutcome::Head(head) = write("update t set v = 'n' where id = 3", &to) else { panic!() };
    assert_eq!(harness.read(&head, "select v from t"), [[text("o")], [text("f")], [text("n")]]);
    assert_eq!(harness.engine.log(id(1), &head.clone().into(), 9).unwrap().len(), 6);
    assert_eq!(write("update t set v = 'x' where id = 2", &to), MergeOutcome::Conflicts(vec![("t".into(), 1)]));
    // A write without changes and a fast-forward; a merge of a commit that is already contained.
    assert_eq!(write("select 1", &base), MergeOutcome::Head(from.clone()));
    assert_eq!(write("select 1", &head), MergeOutcome::Head(head.clone()));
}

#[test]
fn views_and_triggers_in_conflict_are_named_and_resolved() {
    let harness = EngineHarness::new();
    let base = harness.write(
        &harness.base,
        &format!(
            "{T}; create view x as select 1 as n; create view y as select 1 as n;
             create trigger log after insert on n begin delete from u; end"
        ),
    );
    let ours = harness.write(
        &base,
        "drop view x; create view x as select 2 as n; drop view y; create view z as select 'o' as n;
         drop trigger log; create trigger log after insert on n begin delete from u where id = 1; end;
         update t set v = 'o' where id = 1",
    );
    let theirs = harness.write(
        &base,
        "drop view x; create view x as select 3 as n; drop view y; create view y as select 3 as n;
         create view z as select 't' as n;
         drop trigger log; create trigger log after insert on n begin delete from u where id = 2; end;
         update t set v = 't' where id = 1",
    );
    let found = conflicts(&harness, &ours, &theirs);
    let told: Vec<_> =
        found.iter().map(|c| (c.table.as_str(), c.kind, c.detail.as_deref().unwrap_or_default())).collect();
    assert_eq!(
        told,
        [
            ("log", ConflictKind::Object, "the trigger 'log' was changed on both sides"),
            ("t", ConflictKind::Row, ""),
            ("x", ConflictKind::Object, "the view 'x' was changed on both sides"),
            ("y", ConflictKind::Object, "the view 'y' was dropped on our side and changed on theirs"),
            ("z", ConflictKind::Object, "the view 'z' was created on both sides, differently"),
        ]
    );
    let of_x = harness.engine.conflicts(id(1), &ours, &theirs, Some("X"), 0, 100).unwrap();
    assert_eq!(of_x, found[2..3]);
    assert_eq!(harness.engine.conflicts(id(1), &ours, &theirs, None, 3, 1).unwrap(), found[3..4]);

    let left = |tables: &[&str]| MergeOutcome::Conflicts(tables.iter().map(|name| ((*name).to_owned(), 1)).collect());
    assert_eq!(merge(&harness, &ours, &theirs, &[]).unwrap(), left(&["log", "t", "x", "y", "z"]));
    let some = [("X", Side::Theirs), ("t", Side::Ours), ("log", Side::Theirs)];
    assert_eq!(merge(&harness, &ours, &theirs, &some).unwrap(), left(&["y", "z"]));
    let all = [some[0], some[1], some[2], ("y", Side::Ours), ("z", Side::Ours)];
    let Ok(MergeOutcome::Head(head)) = merge(&harness, &ours, &theirs, &all) else { panic!() };
    assert_eq!(harness.read(&head, "select x.n, z.n from x, z"), [[Cell::Integer(3), text("o")]]);
    assert_eq!(harness.read_failure(&head, "select * from y"), "query error: table not found: y");
    let defined = harness.read(&head, "select sql like '%id = 2%' from sqlite_schema where name = 'log'");
    assert_eq!(defined, [[Cell::Integer(1)]]);
    assert_eq!(harness.engine.verify(id(1), &[head]).unwrap(), [] as [String; 0]);
}
