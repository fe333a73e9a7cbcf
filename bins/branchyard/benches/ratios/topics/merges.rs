//! Merges of a few changes from a fork into a large table, compared with the same merge into a small table.

use serde_json::json;

use crate::flags::Flags;
use crate::harness::{BenchHarness, finish, write};
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;

const SMALL: u64 = 1_000;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns, changes) = (flags.count("--rows"), flags.count("--columns"), flags.count("--changes"));
    let harness = BenchHarness::new();
    let token = harness.user("forker");
    let server = harness.start();
    let (bench, forker) = (server.actor("bench", &harness.token), server.actor("forker", &token));
    for (name, rows) in [("small", SMALL), ("large", rows)] {
        server.database(&harness.token, name, Table::new(rows, columns));
        finish(&forker, &format!("/databases/bench/{name}/forks"), &json!({"owner": "forker"}));
    }
    let mut value = 0;
    let mut merge = |name: &str, rows: u64| {
        value += 1;
        // The changed rows are far apart. The target branch changes other rows, so that no fast-forward is possible.
        let step = (rows / changes).max(2);
        let theirs = format!("update t set value = -{value} where id % {step} = 1 and id <= {step} * {changes}");
        finish(&forker, &format!("/databases/forker/{name}/sql-writes"), &write(&theirs));
        let ours = format!("update t set name = 'base {value}' where id = 2");
        finish(&bench, &format!("/databases/bench/{name}/sql-writes"), &write(&ours));
        let branch = |owner: &str| json!({"database": {"owner": owner, "name": name}, "branch_name": "main"});
        let pull = json!({"title": "Changes", "from_branch": branch("forker"), "to_branch": branch("bench")});
        let pull = forker.post(&format!("/databases/bench/{name}/pulls"), &pull).expect(201).data();
        millis(|| finish(&bench, &format!("/databases/bench/{name}/pulls/{}/merge", pull["pull_number"]), &json!({})))
    };
    // Both sides of the comparison share one counter.
    let merge = std::cell::RefCell::new(&mut merge);
    let time = |name, rows| (merge.borrow_mut())(name, rows);
    let done = alternate(flags.count("--repeats"), || time("large", rows), || time("small", SMALL));
    let what = format!("merge of {changes} changes from a fork into {rows} rows, until succeeded");
    vec![done.row("merge", what, &format!("into {SMALL} rows"), "ms", Aim::AtMost(1.3))]
}
