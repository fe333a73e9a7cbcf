//! Idle connections.

use branchyard_domain::entities::Cell;
use branchyard_domain::values::CommitHash;
use branchyard_engine_doltlite::EngineOptions;

use crate::support::EngineHarness;

#[test]
fn idle_connections_hold_a_bounded_amount_of_memory() {
    let idle = |idle_memory: usize| {
        let harness = EngineHarness::with(EngineOptions { idle_memory, ..EngineOptions::default() });
        let rows = "with recursive n(x) as (select 1 union all select x + 1 from n where x < 20000)
            select x, 'value ' || x from n";
        let first = harness
            .write(&harness.base, &format!("create table t(id integer primary key, v text); insert into t {rows}"));
        let others = (1..=4).map(|id| harness.write(&first, &format!("delete from t where id = {id}")));
        let commits: Vec<CommitHash> = others.collect();
        for at in &commits {
            // Reading every row fills the cache of the connection.
            assert_eq!(harness.read(at, "select count(*), max(v) from t")[0][0], Cell::Integer(19_999));
        }
        let (readers, _) = harness.engine.idle_connections();
        assert_eq!(harness.read(&commits[0], "select count(*) from t where v = 'value 1'"), [[Cell::Integer(0)]]);
        readers
    };
    assert_eq!((idle(64 << 20), idle(256 << 10)), (4, 0));
}
