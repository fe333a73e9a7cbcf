//! The cost of a token check: reads of a public database with and without a token.

use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::load::{Question, encoded, get, rate};
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;
use crate::topics::reads::{PATH, with_id};

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let table = Table::new(flags.count("--small-rows"), flags.count("--columns"));
    let (connections, seconds) = (flags.count("--connections"), flags.number("--seconds"));
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "bench", table);
    let path = format!("{PATH}{}", encoded(flags.text("--statement")));
    let ask = |head: &str| {
        let request = |id: u64, into: &mut Vec<u8>| get(into, &path.replace("{id}", &id.to_string()), head);
        let question = Question { address: server.address, request: &request, proof: &with_id(flags.text("--proof")) };
        1e6 / rate(&question, connections, seconds, table.rows)
    };
    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    let done = alternate(flags.count("--slices"), || ask(&head), || ask(""));
    let what = "time of a read with a token".to_owned();
    vec![done.row("token check", what, "the same without one", "µs", Aim::AtMost(1.15))]
}
