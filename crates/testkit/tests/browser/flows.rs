//! User flows over several pages.

use branchyard_testkit::{Actor, Receiver, Server};
use serde_json::json;

use super::chromium::{Chromium, JavaScript};

pub(super) fn start() -> Server {
    Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned()];
    })
}

/// Signs up a user in a browser and creates a database for the user.
pub(super) fn at_work(server: &Server, javascript: JavaScript) -> Option<(Chromium, Actor)> {
    let chromium = Chromium::open(server, javascript)?;
    chromium.sign_up("ada");
    let actor = server.actor_of("ada");
    actor.database("rivers");
    Some((chromium, actor))
}

fn from_sign_up_to_the_first_call_and_back(javascript: JavaScript) {
    let server = start();
    let Some(chromium) = Chromium::open(&server, javascript) else { return };
    chromium.sign_up("ada");
    chromium.go("/settings/tokens");
    chromium.fill("#token-form [name=name]", "laptop");
    chromium.send("#token-form button");
    let token = chromium.property("#token-secret", "value");
    let program = Actor::new(server.address(), Some(token), "ada");
    assert_eq!(program.get("/user").expect(200).data()["username"], "ada");
    chromium.go("/settings/tokens");
    assert!(!chromium.has("#token-secret"), "a secret is shown once");
    chromium.shows("#tokens", "laptop");
    chromium.send("#tokens a.danger");
    chromium.send("#delete-form button");
    program.get("/user").expect(401);
    assert!(!chromium.text("main").contains("laptop"));
}

#[test]
fn sign_up_to_first_call_and_token_deletion() {
    from_sign_up_to_the_first_call_and_back(JavaScript::On);
}

#[test]
fn sign_up_to_first_call_and_token_deletion_without_javascript() {
    from_sign_up_to_the_first_call_and_back(JavaScript::Off);
}

/// Writes a CSV file with this many rows.
fn file(server: &Server, rows: usize) -> std::path::PathBuf {
    let mut text = "id,name,length\n".to_owned();
    for id in 0..rows {
        text.push_str(&format!("{id},river number {id} with a name that takes some room,{}.5\n", id % 1_000));
    }
    let path = server.dir.path().join("Rivers.csv");
    std::fs::write(&path, text).unwrap();
    path
}

fn import(chromium: &Chromium) {
    chromium.shows("#preview-table", "river number 1 with");
    chromium.shows("#preview-table", "INTEGER");
    assert_eq!(chromium.property("#table_name", "value"), "rivers");
    chromium.click("#preview-table input[type=checkbox][value=id]");
    chromium.send("#start-import");
}

#[test]
fn a_file_is_sent_in_parts_looked_at_and_imported_with_its_progress() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    let rows = 200_000;
    chromium.go("/ada/rivers/imports/new");
    assert!(!chromium.text("#file-hint").contains("without JavaScript"));
    chromium.choose("#file", &file(&server, rows));
    chromium.click("#send-file");
    chromium.wait("progress, or what follows", |this| {
        this.text("#upload-text").contains('%') || this.has("#preview-table")
    });
    import(&chromium);
    // The page follows the operation without a reload.
    chromium.shows("#operation-status", "Succeeded");
    chromium.shows("#operation-results", "Commit");
    let count = actor.read("ada/rivers", "main", "select count(*) as n from rivers");
    assert_eq!(count[0][0], rows.to_string());
}

/// Drops a file with two rows on the zone of the page.
fn drop_file(chromium: &Chromium, name: &str) {
    chromium.run(&format!(
        "const files = new DataTransfer(); \
         files.items.add(new File(['id,name\\n1,Rhine\\n2,Loire\\n'], '{name}', {{type: 'text/csv'}})); \
         const dropped = new DragEvent('drop', {{dataTransfer: files, bubbles: true, cancelable: true}}); \
         document.getElementById('drop-zone').dispatchEvent(dropped);",
    ));
}

#[test]
fn a_dropped_file_becomes_a_database() {
    let server = start();
    let Some(chromium) = Chromium::open(&server, JavaScript::On) else { return };
    chromium.sign_up("ada");
    chromium.go("/");
    chromium.shows("#file-hint", "Or drop it here");
    drop_file(&chromium, "Rivers.csv");
    chromium.shows("#operation-status", "Succeeded");
    chromium.shows("#notice", "ada/rivers was created.");
    let actor = server.actor_of("ada");
    assert_eq!(actor.read("ada/rivers", "main", "select name from rivers where id = 2")[0][0], "Loire");

    // The form with all fields proposes a name, and waits for the choice of visibility.
    chromium.go("/new");
    drop_file(&chromium, "Lakes of Europe.csv");
    assert_eq!(chromium.property("#name", "value"), "lakes-of-europe");
    chromium.send("#send-file");
    chromium.shows("#operation-status", "Succeeded");
    assert_eq!(actor.read("ada/lakes-of-europe", "main", "select count(*) from lakes_of_europe")[0][0], "2");
    chromium.go("/new");
    drop_file(&chromium, "notes.txt");
    chromium.click("#send-file");
    chromium.shows("#upload-error", "format");
    actor.get("/databases/ada/notes").expect(404);
    // Without a file the form is sent as any other.
    chromium.go("/new");
    chromium.fill("#name", "plain");
    chromium.send("#send-file");
    chromium.shows("#first-steps", "No tables yet");
    chromium.send("#load-sample");
    chromium.shows("#tables", "trees");

    chromium.go("/ada/plain/tables/trees");
    chromium.click("a[data-opens]");
    assert_eq!(chromium.run("return document.getElementById('api').open"), true);
}

#[test]
fn a_file_becomes_a_database_without_javascript() {
    let server = start();
    let Some(chromium) = Chromium::open(&server, JavaScript::Off) else { return };
    chromium.sign_up("ada");
    chromium.go("/new");
    chromium.choose("#file", &file(&server, 100));
    chromium.send("#send-file");
    let page = chromium.path();
    assert!(page.starts_with("/ada/rivers/operations/"), "{page}");
    chromium.wait("the end of the import", |this| {
        this.go(&page);
        this.text("#operation-status") == "Succeeded"
    });
    assert_eq!(server.actor_of("ada").read("ada/rivers", "main", "select count(*) from rivers")[0][0], "100");
}

#[test]
fn a_file_is_dropped_on_the_page() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    chromium.go("/ada/rivers/imports/new");
    chromium.shows("#file-hint", "Or drop it here");
    drop_file(&chromium, "Rivers.csv");
    chromium.shows("#preview-table", "Loire");
    assert_eq!(chromium.property("#table_name", "value"), "rivers");
    chromium.send("#start-import");
    chromium.shows("#operation-status", "Succeeded");
    assert_eq!(actor.read("ada/rivers", "main", "select count(*) from rivers")[0][0], "2");
}

#[test]
fn an_operation_is_followed_without_reloading_the_page() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    // Slow enough for the page to show it running.
    let q = "create table t (id integer primary key, v text); insert into t with recursive n(i) as \
             (select 1 union all select i + 1 from n where i < 400000) select i, 'row ' || i from n";
    let accepted =
        actor.post("/databases/ada/rivers/sql-writes", &json!({"from_branch": "main", "to_branch": "main", "q": q}));
    let operation = accepted.expect(202).data()["id"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
    chromium.go(&format!("/ada/rivers/operations/{operation}"));
    chromium.run("window.wasHere = true");
    chromium.shows("#operation-status", "Succeeded");
    chromium.shows("#operation-results", "Commit");
    assert_eq!(chromium.run("return window.wasHere"), true, "the page was not loaded again");
    assert!(!chromium.has("#operation-live[data-live]"));
}

/// Counts the requests that the scripts of the page made to addresses with this text.
fn requests(chromium: &Chromium, text: &str) -> u64 {
    let script = format!(
        "return performance.getEntriesByType('resource').filter((entry) => entry.initiatorType === 'fetch' \
         && entry.name.includes('{text}')).length"
    );
    chromium.run(&script).as_u64().unwrap()
}

/// Opens the list of operations while one of them runs for some seconds, and waits for its end. Returns the number of times that the page
/// was fetched meanwhile.
fn looks_until_the_end(chromium: &Chromium, actor: &Actor) -> u64 {
    let q = "create table t (id integer primary key, v text); insert into t with recursive n(i) as \
             (select 1 union all select i + 1 from n where i < 4000000) select i, 'row ' || i from n";
    let body = json!({"from_branch": "main", "to_branch": "b", "q": q});
    actor.post("/databases/ada/rivers/sql-writes", &body).expect(202);
    chromium.go("/ada/rivers/operations");
    chromium.run("window.wasHere = true");
    chromium.shows("#operations", "Running");
    chromium.wait("a request for a stream", |this| requests(this, "/ada/rivers/live") == 1);
    chromium.shows("#operations", "Succeeded");
    assert_eq!(chromium.run("return window.wasHere"), true, "the page was not loaded again");
    assert_eq!(requests(chromium, "/ada/rivers/live"), 1);
    requests(chromium, "/ada/rivers/operations")
}

#[test]
fn an_open_page_waits_on_a_stream_and_looks_when_something_changed() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    let looks = looks_until_the_end(&chromium, &actor);
    assert!((1..=4).contains(&looks), "{looks}: the first event, the begin and the end of the operation");
}

#[test]
fn a_page_without_a_stream_goes_on_looking() {
    let server = Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.web.live_connections = 0;
    });
    let Some((chromium, actor)) = at_work(&server, JavaScript::On) else { return };
    let looks = looks_until_the_end(&chromium, &actor);
    assert!(looks > 4, "{looks}");
}

#[test]
fn a_file_that_cannot_be_read_is_refused_where_it_was_chosen() {
    let server = start();
    let Some((chromium, _)) = at_work(&server, JavaScript::On) else { return };
    let path = server.dir.path().join("notes.txt");
    std::fs::write(&path, "hello").unwrap();
    chromium.go("/ada/rivers/imports/new");
    chromium.choose("#file", &path);
    chromium.click("#send-file");
    chromium.shows("#upload-error", "Choose a format");
}

#[test]
fn a_file_is_imported_without_javascript() {
    let server = start();
    let Some((chromium, actor)) = at_work(&server, JavaScript::Off) else { return };
    chromium.go("/ada/rivers/imports/new");
    chromium.shows("#file-hint", "without JavaScript");
    chromium.choose("#file", &file(&server, 1_000));
    chromium.send("#send-file");
    import(&chromium);
    let page = chromium.path();
    chromium.wait("the end of the import", |this| {
        this.go(&page);
        this.text("#operation-status") == "Succeeded"
    });
    let count = actor.read("ada/rivers", "main", "select count(*) as n from rivers");
    assert_eq!(count[0][0], "1000");
}

fn hook_to_redelivery(javascript: JavaScript) {
    let server = start();
    let Some((chromium, _)) = at_work(&server, javascript) else { return };
    let receiver = Receiver::start();
    chromium.go("/ada/rivers/settings/hooks");
    chromium.send("#new-hook");
    chromium.fill("#url", &receiver.url());
    chromium.send("#hook-form button");
    assert!(chromium.text("#secret").starts_with("whsec_"));
    chromium.send("#to-hook");
    chromium.send("#ping");
    let ends = |number: usize| {
        receiver.wait_for(number);
        let page = chromium.path();
        chromium.wait("the delivery", |this| {
            if javascript == JavaScript::Off {
                this.go(&page);
            }
            this.text("#delivery-state") == "Delivered" && this.text("#tries").contains(&format!("{number}."))
        });
    };
    ends(1);
    assert!(chromium.text("#delivery-body").contains("ping"));
    chromium.send("#redeliver");
    ends(2);
    let received = receiver.received();
    assert_eq!(received[0].header("webhook-id"), received[1].header("webhook-id"));
}

#[test]
fn a_hook_is_set_up_pinged_and_its_delivery_sent_again() {
    hook_to_redelivery(JavaScript::On);
}

#[test]
fn a_hook_is_set_up_pinged_and_its_delivery_sent_again_without_javascript() {
    hook_to_redelivery(JavaScript::Off);
}
