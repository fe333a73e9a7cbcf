//! Exact and estimated sizes of tables.

use std::time::Duration;

use branchyard_domain::access::Read;
use branchyard_domain::ports::{RowTest, Test};
use branchyard_domain::usecases::TableSize;

use crate::harness::{DomainHarness, world};

const PATIENCE: Duration = Duration::from_secs(10);

fn size(world: &DomainHarness, table: &str) -> TableSize {
    let access = world.access::<Read>(&world.ada);
    let at = world.hub.sql().resolve(&access, None).unwrap();
    let schema = world.hub.browse().table(&access, &at, table).unwrap();
    world.hub.browse().size(&access, &at, &schema, PATIENCE).unwrap().unwrap()
}

/// Creates a table of `count` rows, each with a number and a text of `width` bytes.
fn fill(world: &DomainHarness, table: &str, count: usize, width: usize) {
    let rows: Vec<String> = (0..count).map(|number| format!("({number},'{}')", "x".repeat(width))).collect();
    world.wrote("main", &format!("CREATE TABLE {table}(id INTEGER PRIMARY KEY, a TEXT)"));
    if count > 0 {
        world.wrote("main", &format!("INSERT INTO {table} VALUES {}", rows.join(",")));
    }
}

#[test]
fn a_size_is_exact_up_to_the_rows_that_are_weighed_and_estimated_beyond() {
    let world = world();
    for (table, rows, is_estimate) in
        [("none", 0, false), ("few", 3, false), ("mid", 100, false), ("full", 128, false), ("past", 129, true)]
    {
        fill(&world, table, rows, 12);
        let rows = rows as u64;
        assert_eq!(size(&world, table), TableSize { rows, bytes: rows * 20, is_estimate }, "{table}");
    }
}

#[test]
fn heavy_rows_are_weighed_one_at_a_time() {
    let world = world();
    fill(&world, "heavy", 6, 600_000);
    assert_eq!(size(&world, "heavy"), TableSize { rows: 6, bytes: 6 * 600_008, is_estimate: true });
}

/// Rows at a commit never change, so they are counted once.
#[test]
fn rows_that_pass_tests_are_counted_once() {
    let world = world();
    fill(&world, "few", 3, 1);
    let access = world.access::<Read>(&world.ada);
    let at = world.hub.sql().resolve(&access, None).unwrap();
    let count = |value: &str, patience| {
        let test = RowTest { column: "id".to_owned(), test: Test::Equals, value: value.to_owned() };
        world.hub.browse().count(&access, &at, "few", &[test], patience).unwrap()
    };
    assert_eq!(count("1", PATIENCE), Some(1));
    assert_eq!(count("1", Duration::ZERO), Some(1), "known without a look");
    assert_eq!(count("2", Duration::ZERO), None, "another test");
}
