//! Settings of a database: general, visibility, collaborators, deletion.

use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_up};

const SETTINGS: &str = "/ada/rivers/settings";

#[test]
fn description_and_default_branch_are_changed_as_they_were_seen() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let page = ada.get(SETTINGS).expect(200);
    let done = ada.submit(&page, SETTINGS, &[("description", "Rivers of <Europe>"), ("default_branch", "main")]);
    ada.follow(&done.expect(303)).expect(200).shows("Settings saved.").shows("Rivers of &#60;Europe&#62;");
    let fields = [("description", "Other"), ("default_branch", "main")];
    ada.submit(&page, SETTINGS, &fields).expect(422).shows("The database changed since it was read");
    let page = ada.get(SETTINGS).expect(200);
    ada.submit(&page, SETTINGS, &[("description", ""), ("default_branch", "nope")]).expect(422).shows("No branch");
    let long = "x".repeat(4_097);
    ada.submit(&page, SETTINGS, &[("description", &long), ("default_branch", "main")]).expect(422).shows("4096");
    let full = "x".repeat(4_096);
    ada.submit(&page, SETTINGS, &[("description", &full), ("default_branch", "main")]).expect(303);
}

#[test]
fn visibility_changes_after_a_question_and_sent_twice_does_not_change_back() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let address = "/ada/rivers/settings/visibility";
    let page = ada.get(address).expect(200).shows("Make this database private?");
    for _ in 0..2 {
        ada.submit(&page, address, &[]).expect(303);
        Browser::at(&server).get("/ada/rivers").expect(404);
    }
    ada.submit(&page, address, &[("visibility", "secret")]).expect(422);
    let page = ada.get(address).expect(200).shows("Make this database public?");
    ada.submit(&page, address, &[]).expect(303);
    Browser::at(&server).get("/ada/rivers").expect(200);
}

#[test]
fn collaborators_come_change_and_go() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    database(&server, &ada, "ada");
    let address = "/ada/rivers/settings/collaborators";
    let remove = "/ada/rivers/settings/collaborators/remove";
    let page = ada.get(address).expect(200).shows("No collaborators yet");
    ada.submit(&page, address, &[("username", "nobody"), ("role", "read")]).expect(422).shows("No user");
    ada.submit(&page, address, &[("username", "bob"), ("role", "king")])
        .expect(422)
        .shows("Choose read, write or admin");
    ada.submit(&page, address, &[("username", "ada"), ("role", "read")]).expect(422).shows("owns the database");
    bob.get(SETTINGS).expect(403);
    ada.submit(&page, address, &[("username", "BOB"), ("role", "admin")]).expect(303);
    bob.get(SETTINGS).expect(200);
    let page = ada.get(address).expect(200).shows("Role of bob");
    ada.submit(&page, address, &[("username", "bob"), ("role", "write")]).expect(303);
    bob.get(SETTINGS).expect(403);
    bob.get("/ada/rivers/branches").expect(200).shows("Create branch");
    let page = ada.get(address).expect(200);
    ada.submit(&page, remove, &[("username", "bob")]).expect(303);
    ada.submit(&page, remove, &[("username", "bob")]).expect(422).shows("No collaborator");
    let seen = bob.get("/ada/rivers/branches").expect(200);
    assert!(!seen.text.contains("Create branch"));
}

#[test]
fn a_database_is_deleted_by_who_types_its_name() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let address = "/ada/rivers/settings/delete";
    let page = ada.get(address).expect(200);
    for wrong in ["", "rivers", "ada/river"] {
        ada.submit(&page, address, &[("name", wrong)]).expect(422).shows("Nothing was deleted");
    }
    let done = ada.submit(&page, address, &[("name", "ada/rivers")]).expect(303);
    ada.follow(&done).expect(200).shows("Database ada/rivers deleted.");
    ada.get("/ada/rivers").expect(404);
}

#[test]
fn a_purge_is_offered_with_what_it_frees_and_its_operation_is_shown() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    ada.get("/ada/rivers/settings").expect(200).shows(" used").shows("About 0").shows("Purge deleted history");
    actor.post("/databases/ada/rivers/branches", &json!({"name": "gone", "from": {"branch": "main"}})).expect(201);
    actor.write("ada/rivers", "gone", "INSERT INTO r VALUES (1, hex(randomblob(100000)))");
    actor.delete("/databases/ada/rivers/branches/gone").expect(200);
    let size = || actor.get("/databases/ada/rivers").expect(200).data()["size_bytes"].as_u64().unwrap();
    let before = size();
    let question = ada.get("/ada/rivers/settings/purge").expect(200).shows("Purge deleted history?");
    let done = ada.submit(&question, "/ada/rivers/settings/purge", &[]).expect(303);
    let operation = done.location.clone().unwrap();
    assert!(operation.starts_with("/ada/rivers/operations/"), "{operation}");
    ada.settled(&operation).shows("Succeeded");
    assert!(size() + 50_000 < before, "{before} {}", size());
}

#[test]
fn a_mirror_is_made_looked_at_and_ended_on_pages() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let form = ada.get("/new").expect(200).shows("Mirror a database elsewhere");
    let filled = |mirror_of: &'static str| {
        [("owner", "ada"), ("name", "copy"), ("visibility", "public"), ("mirror_of", mirror_of), ("interval", "600")]
    };
    ada.submit(&form, "/new", &filled("https://127.0.0.1/bo/trees")).expect(422).shows("mirrors may not reach");
    ada.submit(&form, "/new", &filled("yard")).expect(422).shows("must be an absolute URL");
    ada.submit(&form, "/new", &filled("https://yard.example.invalid/bo/trees")).expect(303);
    let page = ada.get("/ada/copy").expect(200).shows("Mirror of a database elsewhere");
    assert!(!page.text.contains("Edit data"), "{}", page.text);
    ada.get("/ada/copy/settings").expect(200).shows("/ada/copy/settings/mirror");
    let settings = ada.get("/ada/copy/settings/mirror").expect(200);
    let settings = settings.shows("https://yard.example.invalid/bo/trees").shows("Not synced yet").shows("mirror-key");
    let sync = ada.submit(&settings, "/ada/copy/settings/mirror/sync", &[]).expect(303);
    ada.settled(&sync.location.unwrap()).shows("Sync with the source").shows("Failed");
    ada.get("/ada/copy/settings/mirror").expect(200).shows("the name of the remote does not resolve");
    let fields = |url: &'static str, seconds: &'static str| [("url", url), ("interval_seconds", seconds)];
    let edit = "/ada/copy/settings/mirror";
    ada.submit(&settings, edit, &fields("https://yard.example.invalid/bo/oaks", "59"))
        .expect(422)
        .shows("60 to 2592000");
    ada.submit(&settings, edit, &fields("https://yard.example.invalid/bo/oaks", "x"))
        .expect(422)
        .shows("a number of seconds");
    ada.submit(&settings, edit, &fields("ftp://yard.example.invalid/", "60"))
        .expect(422)
        .shows("must be an absolute URL");
    ada.submit(&settings, edit, &fields("https://yard.example.invalid/bo/oaks", "60")).expect(303);
    ada.get(edit).expect(200).shows("bo/oaks");
    let question = ada.get("/ada/copy/settings/mirror/stop").expect(200).shows("Stop mirroring?");
    ada.submit(&question, "/ada/copy/settings/mirror/stop", &[]).expect(303);
    ada.get("/ada/copy/settings/mirror").expect(404);
    ada.get("/ada/copy/sql").expect(200).shows("Edit data");
    sign_up(&server, "bob").get(edit).expect(403);
}

#[test]
fn pages_of_keeping_house_are_for_those_who_may_and_hidden_from_strangers() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let bob = sign_up(&server, "bob");
    let reading = ["branches", "tags", "releases", "forks", "operations", "imports"];
    let writing = ["imports/new", "releases/new", "branches/main/delete"];
    let administering = [
        "settings",
        "settings/visibility",
        "settings/transfer",
        "settings/delete",
        "settings/purge",
        "settings/collaborators",
        "settings/hooks",
        "settings/hooks/new",
    ];
    let at = |below: &str| format!("/ada/rivers/{below}");
    let nobody = Browser::at(&server);
    for below in reading {
        nobody.get(&at(below)).expect(200);
        bob.get(&at(below)).expect(200);
    }
    for below in writing.iter().chain(&administering) {
        nobody.get(&at(below)).expect(303);
        bob.get(&at(below)).expect(403);
        ada.get(&at(below)).expect(200);
    }
    actor.patch("/databases/ada/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    for below in reading.iter().chain(&writing).chain(&administering) {
        let hidden = bob.get(&at(below)).expect(404);
        let missing = bob.get(&at(below).replace("rivers", "mirage")).expect(404);
        assert_eq!(hidden.text.replace("rivers", "mirage"), missing.text, "{below}");
    }
}

#[test]
fn no_form_of_keeping_house_is_taken_without_its_token() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let id = "00000000-0000-7000-8000-000000000000";
    let forms = [
        "branches".to_owned(),
        "branches/main/delete".to_owned(),
        "tags".to_owned(),
        "tags/v1/delete".to_owned(),
        "releases/new".to_owned(),
        "releases/tag/v1/edit".to_owned(),
        "releases/tag/v1/delete".to_owned(),
        "forks".to_owned(),
        "imports/new".to_owned(),
        "imports/uploads".to_owned(),
        format!("imports/uploads/{id}"),
        format!("operations/{id}/cancel"),
        "settings".to_owned(),
        "settings/visibility".to_owned(),
        "settings/rename".to_owned(),
        "settings/transfer".to_owned(),
        "settings/delete".to_owned(),
        "settings/collaborators".to_owned(),
        "settings/collaborators/remove".to_owned(),
        "settings/hooks/new".to_owned(),
        format!("settings/hooks/{id}/edit"),
        format!("settings/hooks/{id}/ping"),
        format!("settings/hooks/{id}/rotate"),
        format!("settings/hooks/{id}/delete"),
        format!("settings/hooks/{id}/deliveries/{id}/redeliver"),
    ];
    let organizations = ["new", "acme/settings", "acme/settings/delete", "acme/members", "acme/members/remove"];
    let forms = forms.iter().map(|below| format!("/ada/rivers/{below}"));
    for form in forms.chain(organizations.iter().map(|below| format!("/organizations/{below}"))) {
        let fields = [("name".to_owned(), "ada/rivers".to_owned())];
        ada.forge(&form, &fields, &[]).expect(403).shows("Your session changed");
        // A form with a file is read only for those who may send one.
        let stranger = Browser::at(&server).forge(&form, &fields, &[]).status;
        assert_eq!(stranger, if form.ends_with("imports/new") { 303 } else { 403 }, "{form}");
    }
    ada.get("/ada/rivers").expect(200);
}

#[test]
fn visitors_run_sql_only_where_the_settings_let_them() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let visitor = Browser::at(&server);
    visitor.get("/ada/rivers/sql?q=select%201").expect(200);
    let page = ada.get(SETTINGS).expect(200).shows("Let visitors run SQL without signing in");
    // A form without the checkbox turns it off.
    ada.submit(&page, SETTINGS, &[("description", ""), ("default_branch", "main")]).expect(303);
    for path in ["/ada/rivers/sql", "/ada/rivers/sql?q=select%201", "/ada/rivers/sql.csv?q=select%201"] {
        visitor.get(path).expect(401).shows("Sign in");
    }
    ada.get("/ada/rivers/sql?q=select%201").expect(200);
    visitor.get("/ada/rivers").expect(200);
    visitor.get("/ada/rivers/schema").expect(200);
    let page = ada.get(SETTINGS).expect(200);
    let fields = [("description", ""), ("default_branch", "main"), ("anonymous_sql", "1")];
    ada.submit(&page, SETTINGS, &fields).expect(303);
    visitor.get("/ada/rivers/sql?q=select%201").expect(200);
}
