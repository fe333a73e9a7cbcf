//! A fork of a large database beside one of a small one: it should cost what is copied, and little of that by the row.

use serde_json::json;

use crate::flags::Flags;
use crate::report::{Aim, Row};
use crate::slices::{alternate, millis};
use crate::table::Table;
use crate::yard::{Yard, finish};

const SMALL: u64 = 1_000;

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let (rows, columns) = (flags.count("--rows"), flags.count("--columns"));
    let yard = Yard::new();
    let token = yard.user("forker");
    let server = yard.start();
    server.database(&yard.token, "small", Table::new(SMALL, columns));
    server.database(&yard.token, "large", Table::new(rows, columns));
    let forker = server.actor("forker", &token);
    let fork = |name: &str| {
        let body = json!({"owner": "forker"});
        let time = millis(|| finish(&forker, &format!("/databases/bench/{name}/forks"), &body));
        forker.delete(&format!("/databases/forker/{name}")).expect(200);
        time
    };
    let done = alternate(flags.count("--repeats"), || fork("large"), || fork("small"));
    let what = format!("fork of {rows} rows, until succeeded");
    vec![done.row("fork", what, &format!("of {SMALL} rows"), "ms", Aim::AtMost(3.0))]
}
