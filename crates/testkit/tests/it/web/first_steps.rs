//! What an empty server, an empty database and an empty branch offer, and databases that begin with a file or with sample data.

use branchyard_testkit::{Actor, Server};
use serde_json::{Value, json};

use super::browser::{Browser, Page};
use super::programs::{Workplace, code};
use super::{open_server, sign_in, sign_up, user};

fn start() -> (Server, Browser, Actor) {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = server.actor_of("ada");
    (server, ada, actor)
}

/// Sends the form of a new database with a file.
fn create(browser: &Browser, name: &str, (file, bytes): (&str, &[u8])) -> Page {
    let page = browser.get("/new").expect(200);
    let fields = [("owner", "ada"), ("name", name), ("description", ""), ("visibility", "private"), ("mirror_of", "")];
    browser.submit_file(&page, "/new", &fields, (file, bytes))
}

#[test]
fn an_empty_server_says_what_to_do() {
    let server = Server::start();
    let visitor = Browser::at(&server);
    visitor.get("/").expect(200).shows("No public databases yet").shows("Ask your administrator");
    user(&server, "root", true);
    let root = Browser::at(&server);
    sign_in(&root, "root", super::PASSWORD).expect(303);
    root.get("/")
        .expect(200)
        .shows("This server has no databases yet")
        .shows("<a href=\"/settings/invitations\">Invite");

    let (server, ada, actor) = start();
    Browser::at(&server).get("/").expect(200).shows("No public databases yet").shows("href=\"/sign-up\"");
    let home = ada.get("/").expect(200).shows("This server has no databases yet").shows("id=\"drop-zone\"");
    assert!(!home.text.contains("fork an existing one") && !home.text.contains("Invite people"));
    let address = server.address();
    assert_eq!(code(&home, "first-clone"), format!("branchyard clone {address}/ada/first"));
    if let Some(printed) = Workplace::new(actor.token().unwrap()).run("curl", &code(&home, "first-curl")) {
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap()["data"]["name"], "first");
        ada.get("/ada/first").expect(200).shows("Private");
    }
    actor.database("rivers");
    let home = sign_up(&server, "bob").get("/").expect(200);
    home.shows("No databases yet").shows("fork an existing one").shows("id=\"first-curl\"");
    assert!(!ada.get("/").expect(200).text.contains("id=\"first-steps\""));
}

#[test]
fn a_file_becomes_a_database_in_one_step() {
    let (_server, ada, actor) = start();
    let home = ada.get("/").expect(200);
    let done =
        ada.submit_file(&home, "/new", &[], ("Rivers of Europe.csv", b"id,name\n1,Rhine\n2,Loire\n")).expect(303);
    let at = done.location.clone().unwrap();
    assert!(at.starts_with("/ada/rivers-of-europe/operations/"), "{at}");
    ada.follow(&done).expect(200).shows("ada/rivers-of-europe was created.");
    ada.settled(&at).shows(">Succeeded<").shows("Primary key");
    let rows = actor.read("ada/rivers-of-europe", "main", "select * from rivers_of_europe where id = 2");
    assert_eq!(rows, json!([["2", "Loire"]]));
    ada.get("/ada/rivers-of-europe").expect(200).shows("Private");

    // A proposed name gives way, and a typed one does not.
    let again = create(&ada, "", ("Rivers of Europe.csv", b"a\n1\n")).expect(303);
    assert!(again.location.unwrap().starts_with("/ada/rivers-of-europe-2/operations/"));
    create(&ada, "rivers-of-europe", ("x.csv", b"a\n1\n")).expect(422).shows("already exists");
    let script = create(&ada, "made", ("x.sql", b"create table t (id integer primary key); insert into t values (7)"));
    ada.settled(script.expect(303).location.as_deref().unwrap()).shows(">Succeeded<");
    assert_eq!(actor.read("ada/made", "main", "select id from t"), json!([["7"]]));
    // Without a file the same form creates an empty database.
    assert_eq!(create(&ada, "plain", ("", b"")).expect(303).location.as_deref(), Some("/ada/plain"));
}

#[test]
fn a_file_with_something_to_choose_or_fix_is_previewed_in_the_new_database() {
    let (_server, ada, actor) = start();
    let page = ada.follow(&create(&ada, "broken", ("x.csv", b"id,name\n1\n2,b,c\n")).expect(303)).expect(200);
    page.shows("ada/broken was created.").shows("id=\"preview-refused\"");
    let empty = create(&ada, "void", ("x.csv", b"")).expect(303);
    assert_eq!(empty.location.as_deref(), Some("/ada/void/imports/new"));
    ada.follow(&empty).expect(200).shows("ada/void was created. The file was not imported. This file is empty.");
    ada.get("/ada/void").expect(200).shows("No tables yet");

    // Values that the proposed type would change.
    let prices = b"id,price\n1,1.10\n2,3.00\n3,1e5\n";
    let page = ada.follow(&create(&ada, "prices", ("x.csv", prices)).expect(303)).expect(200);
    page.shows("ada/prices was created.").shows("1.10").shows("changes 3 values").shows("id=\"start-import\"");
    ada.get("/ada/prices").expect(200).shows("No tables yet");

    actor.database("two");
    actor.write("ada/two", "main", "create table a (id integer primary key); create table b (id integer primary key)");
    let (_, sqlite) = ada.bytes("/ada/two/export?format=sqlite");
    let page = ada.follow(&create(&ada, "copy", ("two.sqlite", &sqlite)).expect(303)).expect(200);
    page.shows("ada/copy was created.").shows("id=\"start-import\"");

    create(&ada, "notes", ("notes.txt", b"x")).expect(422).shows("The format can&#39;t be detected");
    ada.get("/ada/notes").expect(404);
    let page = ada.get("/new").expect(200);
    let both = [("owner", "ada"), ("name", "both"), ("visibility", "public"), ("sample", "1")];
    ada.submit_file(&page, "/new", &both, ("a.csv", b"a\n1\n")).expect(422).shows("Choose one beginning");
    ada.get("/ada/both").expect(404);
}

#[test]
fn forms_with_files_are_of_this_session() {
    let (server, ada, _) = start();
    let page = ada.get("/new").expect(200);
    let stolen = Page { text: page.text.replace("name=\"csrf\" value=\"", "name=\"csrf\" value=\"x"), ..page };
    let fields = [("owner", "ada"), ("name", "x"), ("visibility", "public")];
    ada.submit_file(&stolen, "/new", &fields, ("a.csv", b"a\n1\n")).expect(403).shows("Your session changed");
    let page = ada.get("/new").expect(200);
    sign_up(&server, "bob").submit_file(&page, "/new", &fields, ("a.csv", b"a\n1\n")).expect(403);
    ada.get("/ada/x").expect(404);
    let others = [("owner", "bob"), ("name", "x"), ("visibility", "public")];
    ada.submit_file(&page, "/new", &others, ("a.csv", b"a\n1\n")).expect(422).shows("you may not create databases");
}

#[test]
fn a_script_creates_the_database_sends_parts_and_starts_the_import() {
    let (_server, ada, actor) = start();
    let token = ada.get("/new").expect(200).hidden_fields("/new").remove(0).1;
    let csv = b"id,name\n1,Rhine\n".as_slice();
    let size = csv.len().to_string();
    let fields = |file: &str, size: &str, name: &str| {
        let visibility = ("visibility", "private");
        [
            ("csrf", token.as_str()),
            ("owner", "ada"),
            ("name", name),
            visibility,
            ("file_name", file),
            ("file_size", size),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
    };
    let told = |page: Page| serde_json::from_str::<Value>(&page.text).unwrap();
    let open = |file: &str, size: &str, name: &str| ada.forge("/new/uploads", &fields(file, size, name), &[]);
    for (file, size) in [("a.bin", "3"), ("a.csv", "0"), ("a.csv", "99999999999999")] {
        assert!(told(open(file, size, "none").expect(422))["error"].is_string());
    }
    ada.get("/ada/none").expect(404);
    let session = told(open("Rivers.csv", &size, "").expect(201));
    assert_eq!(session["created"], "/ada/rivers");
    ada.put(session["parts"][0].as_str().unwrap(), &token, csv).expect(204);
    let start = session["start"].as_str().unwrap();
    let name = ("file_name".to_owned(), "Rivers.csv".to_owned());
    ada.forge(start, std::slice::from_ref(&name), &[]).expect(403);
    let begun = told(ada.forge(start, &[("csrf".to_owned(), token.clone()), name], &[]).expect(200));
    let next = begun["next"].as_str().unwrap();
    ada.get(next).expect(200).shows("ada/rivers was created.");
    ada.settled(next).shows(">Succeeded<");
    assert_eq!(actor.read("ada/rivers", "main", "select name from rivers"), json!([["Rhine"]]));
    assert!(told(open("Rivers.csv", &size, "rivers").expect(422))["error"].as_str().unwrap().contains("exists"));
}

#[test]
fn an_empty_database_says_what_to_do_and_takes_sample_data() {
    let (server, ada, actor) = start();
    actor.database("d");
    let page = ada.get("/ada/d").expect(200).shows("No tables yet").shows("id=\"drop-zone\"");
    let address = server.address();
    assert_eq!(code(&page, "first-clone"), format!("branchyard clone {address}/ada/d"));
    let bob = sign_up(&server, "bob");
    for reader in [&bob, &Browser::at(&server)] {
        let page = reader.get("/ada/d").expect(200).shows("This database is empty.");
        assert!(!page.text.contains("/ada/d/sample") && !page.text.contains("id=\"drop-zone\""));
    }
    let theirs = bob.get("/").expect(200).hidden_fields("/settings/theme");
    bob.forge("/ada/d/sample", &theirs, &[]).expect(403).shows("You don&#39;t have permission");
    ada.forge("/ada/d/sample", &[], &[]).expect(403).shows("Your session changed");

    let done = ada.submit(&page, "/ada/d/sample", &[]).expect(303);
    let loaded = ada.follow(&done).expect(200);
    if loaded.text.contains(" data-live") {
        ada.settled(done.location.as_deref().unwrap()).shows(">Succeeded<");
    } else {
        assert_eq!(done.location.as_deref(), Some("/ada/d"));
        loaded.shows("The sample data was loaded.");
    }
    let filled = ada.get("/ada/d").expect(200).shows("120 rows").shows("Load sample data").shows("Trees of our parks");
    assert!(!filled.text.contains("id=\"first-steps\""));
    assert_eq!(
        actor.read("ada/d", "main", "select count(*), count(distinct species) from trees"),
        json!([["120", "6"]])
    );
    let commits = actor.get("/databases/ada/d/commits").expect(200).data();
    assert_eq!(commits[0]["author"]["name"], "ada", "{commits}");
    let again = ada.submit(&page, "/ada/d/sample", &[]).expect(303);
    ada.follow(&again).expect(200).shows("The sample data was not loaded");

    let home = bob.get("/").expect(200);
    let own = home.text.find("id=\"sample-form\"").map(|at| home.text[..at].rfind("<form").unwrap()).unwrap();
    let form = Page { text: home.text[own..].to_owned(), ..home };
    bob.submit(&form, "/new", &[]).expect(303);
    bob.get("/bob/sample").expect(200).shows("Private");

    actor.database("programmed");
    let page = ada.get("/ada/programmed").expect(200);
    if Workplace::new(actor.token().unwrap()).run("curl", &code(&page, "first-curl")).is_some() {
        ada.get("/ada/programmed/tables/notes").expect(200);
    }
}

#[test]
fn an_empty_branch_leads_to_versions_with_tables() {
    let (server, ada, actor) = start();
    actor.database("d");
    actor.write("ada/d", "main", "create table t (id integer primary key)");
    actor.post("/databases/ada/d/tags", &json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    actor.post("/databases/ada/d/branches", &json!({"name": "draft/a", "from": {"branch": "main"}})).expect(201);
    actor.write("ada/d", "main", "drop table t");
    let page = ada.get("/ada/d").expect(200).shows("id=\"other-versions\"");
    let page = page.shows("<a href=\"/ada/d?ref=draft%2Fa\">draft/a</a>").shows("<a href=\"/ada/d?ref=v1\">v1</a>");
    assert!(!page.text.contains("/ada/d/sample"), "there are tables elsewhere");
    let visitor = Browser::at(&server).get("/ada/d").expect(200);
    visitor.shows("There are tables on").shows("People with write access can add tables here.");
    assert!(!ada.get("/ada/d?ref=v1").expect(200).text.contains("id=\"first-steps\""));
    // An import would go to another version than the one that is shown.
    actor.post("/databases/ada/d/tags", &json!({"name": "v2", "from": {"branch": "main"}})).expect(201);
    let tag = ada.get("/ada/d?ref=v2").expect(200).shows("A tag does not change.");
    assert!(!tag.text.contains("id=\"drop-zone\""));
}
