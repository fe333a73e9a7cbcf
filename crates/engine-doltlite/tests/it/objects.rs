//! Indexes, triggers and views as a diff lists them.

use branchyard_domain::entities::{Change, ObjectKind, TableChange};
use branchyard_domain::ports::Engine as _;
use branchyard_domain::values::CommitHash;

use crate::support::{EngineHarness, id};

/// Returns for each table its name and change, and for each object its kind, name and change, and which sides have it.
fn changes(harness: &EngineHarness, from: &CommitHash, to: &CommitHash) -> Vec<String> {
    let of_table = |table: TableChange| {
        let objects = table.objects.iter().map(|object| {
            let sides = [&object.from, &object.to].map(|side| side.as_ref().map_or("-", |_| "+"));
            format!("{:?} {} {:?} {}", object.kind, object.name, object.change, sides.concat())
        });
        format!("{} {:?}: {}", table.table, table.change, objects.collect::<Vec<_>>().join(", "))
    };
    harness.engine.changed_tables(id(1), from, to).unwrap().into_iter().map(of_table).collect()
}

fn change_of(harness: &EngineHarness, from: &CommitHash, to: &CommitHash, table: &str) -> TableChange {
    let changed = harness.engine.changed_tables(id(1), from, to).unwrap();
    changed.into_iter().find(|change| change.table == table).unwrap()
}

const PAY: &str = "create table pay(id integer primary key, name text unique, amount integer);
    insert into pay values (1, 'ada', 10), (2, 'bob', 20)";

#[test]
fn a_trigger_beside_a_harmless_row_is_seen() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, PAY);
    let b = harness.write(
        &a,
        "insert into pay values (3, 'eve', 1);
         create trigger Raise after insert on PAY begin update pay set amount = 1000 where name = 'eve'; end",
    );
    let change = change_of(&harness, &a, &b, "pay");
    assert_eq!((change.change, change.schema_changed, change.rows), (Change::Modified, true, Some((1, 0, 0))));
    let [object] = change.objects.as_slice() else { panic!("{change:?}") };
    assert_eq!((object.kind, object.name.as_str(), object.change), (ObjectKind::Trigger, "Raise", Change::Added));
    assert!(object.from.is_none() && object.to.as_ref().unwrap().contains("amount = 1000"), "{object:?}");
    let schema = harness.engine.tables(id(1), &b).unwrap();
    assert_eq!(schema[0].triggers[0].name, "Raise", "whatever the letter case of the table in its statement");

    let c = harness.write(&b, "drop trigger raise; create trigger raise before delete on pay begin select 1; end");
    assert_eq!(changes(&harness, &b, &c), ["pay Modified: Trigger raise Modified ++"]);
    let change = change_of(&harness, &b, &c, "pay");
    assert_eq!(change.rows, Some((0, 0, 0)));
    let d = harness.write(&c, "drop trigger raise");
    assert_eq!(changes(&harness, &c, &d), ["pay Modified: Trigger raise Removed +-"]);
    assert_eq!(changes(&harness, &d, &d), Vec::<String>::new());
}

#[test]
fn indexes_differ_by_their_statements_and_those_of_constraints_are_not_among_them() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, PAY);
    let b = harness.write(
        &a,
        "create index plain on pay(amount); create unique index half on pay(amount) where amount > 5;
         create index computed on pay(lower(name), amount desc)",
    );
    assert_eq!(
        changes(&harness, &a, &b),
        ["pay Modified: Index computed Added -+, Index half Added -+, Index plain Added -+"]
    );
    // The columns stay the same.
    let c = harness.write(
        &b,
        "drop index half; create unique index half on pay(amount) where amount > 6;
         drop index computed; create index computed on pay(upper(name), amount desc)",
    );
    assert_eq!(changes(&harness, &b, &c), ["pay Modified: Index computed Modified ++, Index half Modified ++"]);
    let kinds = |at| harness.engine.objects(id(1), at).unwrap().len();
    assert_eq!((kinds(&a), kinds(&c)), (0, 3), "the index of the constraint has no statement of its own");
}

#[test]
fn views_stand_under_their_own_name_with_their_triggers() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, PAY);
    let b = harness.write(&a, "create view Rich as select name from pay where amount > 15");
    assert_eq!(changes(&harness, &a, &b), ["Rich Added: View Rich Added -+"]);
    let c = harness.write(
        &b,
        "create trigger enter instead of insert on rich begin insert into pay(name, amount) values (new.name, 99); end",
    );
    assert_eq!(changes(&harness, &b, &c), ["Rich Modified: Trigger enter Added -+"]);
    let schemas = harness.engine.tables(id(1), &c).unwrap();
    let view = schemas.iter().find(|schema| schema.name == "Rich").unwrap();
    assert_eq!(view.triggers[0].name, "enter");
    let d = harness.write(&c, "drop view rich; create view rich as select name from pay where amount > 16");
    assert_eq!(
        changes(&harness, &b, &d),
        ["Rich Removed: View Rich Removed +-", "rich Added: View rich Added -+"],
        "tables and views are told apart by letter case"
    );
    let e = harness.write(&d, "drop view rich; create view rich as select name from pay where amount > 17");
    assert_eq!(changes(&harness, &d, &e), ["rich Modified: View rich Modified ++"]);
    let f = harness.write(&c, "drop view rich; create table Rich(id integer primary key)");
    assert_eq!(changes(&harness, &c, &f), ["Rich Modified: Trigger enter Removed +-, View Rich Removed +-"]);
}

#[test]
fn what_belongs_to_a_table_goes_and_moves_with_it() {
    let harness = EngineHarness::new();
    let a = harness.write(
        &harness.base,
        &format!("{PAY}; create index i on pay(amount); create trigger t after delete on pay begin select 1; end"),
    );
    let b = harness.write(&a, "alter table pay rename to wages");
    assert_eq!(
        changes(&harness, &a, &b),
        ["pay Removed: Index i Removed +-, Trigger t Removed +-", "wages Added: Index i Added -+, Trigger t Added -+"]
    );
    let c = harness.write(&a, "drop table pay");
    assert_eq!(changes(&harness, &a, &c), ["pay Removed: Index i Removed +-, Trigger t Removed +-"]);
    assert_eq!(changes(&harness, &c, &a), ["pay Added: Index i Added -+, Trigger t Added -+"]);
}

#[test]
fn what_virtual_tables_are_made_of_is_left_out() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, PAY);
    let b = harness.write(&a, "create virtual table words using fts5(text); insert into words values ('one')");
    assert_eq!(harness.engine.objects(id(1), &b).unwrap(), []);
    assert_eq!(changes(&harness, &a, &b), ["words Added: "]);
}

#[test]
fn a_name_does_not_hide_an_object() {
    let harness = EngineHarness::new();
    let a = harness.write(&harness.base, PAY);
    for (kind, name, sql) in [
        ("Trigger", "dolt_x", "create trigger dolt_x after insert on pay begin update pay set amount = 0; end"),
        ("View", "dolt_x", "create view dolt_x as select 1 as a"),
        ("Index", "dolt_x", "create index dolt_x on pay(amount)"),
        ("Trigger", "sqlite_x", "create trigger sqlite_x after insert on pay begin update pay set amount = 0; end"),
    ] {
        match harness.try_write(id(1), &a, sql, crate::support::LONG) {
            Err(error) => println!("{sql}: {error}"),
            Ok(branchyard_domain::ports::MergeOutcome::Head(b)) => {
                let told = changes(&harness, &a, &b).join("; ");
                assert!(told.contains(&format!("{kind} {name} Added")), "{sql}: {told}");
            }
            Ok(other) => panic!("{other:?}"),
        }
    }
}
