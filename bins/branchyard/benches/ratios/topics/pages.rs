//! JSON pages of rows, compared with a bare handler that reads the same rows and serializes them with `serde_json`.

use actix_web::web::{Data, Path as UrlPath};
use actix_web::{HttpResponse, web};

use crate::flags::Flags;
use crate::harness::BenchHarness;
use crate::load::{Question, encoded, get, rate};
use crate::raw::{Bare, Raw};
use crate::report::{Aim, Row};
use crate::slices::alternate;
use crate::table::Table;
use crate::topics::reads::{PATH, with_id};

pub(crate) fn run(flags: &Flags) -> Vec<Row> {
    let page = flags.count("--page-rows");
    let table = Table::new(flags.count("--small-rows").max(page * 2), flags.count("--columns"));
    let (connections, seconds) = (flags.count("--connections"), flags.number("--seconds"));
    let harness = BenchHarness::new();
    let server = harness.start();
    server.database(&harness.token, "bench", table);
    // Pages begin at different rows, so that consecutive requests differ.
    let statement = format!("select * from t where id >= {{id}} order by id limit {page}");
    let last = table.rows - page;
    let path = format!("{PATH}{}&limit={page}", encoded(&statement));
    let head = format!("Authorization: Bearer {}\r\n", harness.token);
    let product = || {
        let request = |id: u64, into: &mut Vec<u8>| get(into, &path.replace("{id}", &id.to_string()), &head);
        let question = Question { address: server.address, request: &request, proof: &with_id("row number {id}") };
        rate(&question, connections, seconds, last)
    };
    let (raw, sql) = (Data::new(Raw::with(table)), Data::new(statement.clone()));
    let bare = Bare::start(move |routes| {
        routes.app_data(raw.clone()).app_data(sql.clone()).route("/page/{id}", web::get().to(read));
    });
    let baseline = || {
        let request = |id: u64, into: &mut Vec<u8>| get(into, &format!("/page/{id}"), "");
        let question = Question { address: bare.address, request: &request, proof: &with_id("row number {id}") };
        rate(&question, connections, seconds, last)
    };
    let done = alternate(flags.count("--slices"), product, baseline);
    let what = format!("JSON page of {page} rows, {connections} connections");
    vec![done.row("JSON page", what, "bare handler, same rows, serde_json", "/s", Aim::AtLeast(1.2))]
}

async fn read(raw: Data<Raw>, sql: Data<String>, id: UrlPath<u64>) -> HttpResponse {
    let rows = web::block(move || raw.read(&sql.replace("{id}", &id.to_string())));
    HttpResponse::Ok().json(rows.await.unwrap())
}
