//! Branches, tags and releases.

use branchyard::config::Span;
use branchyard_testkit::Server;
use serde_json::json;

use super::browser::Browser;
use super::{database, open_server, sign_up};

#[test]
fn branches_are_made_from_any_ref_and_deleted_after_a_question() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let page = ada.get("/ada/rivers/branches").expect(200).shows(">Default<");
    let form = "/ada/rivers/branches";
    let done = ada.submit(&page, form, &[("name", "draft/one"), ("from", "main")]);
    ada.follow(&done.expect(303)).expect(200).shows("Branch draft/one created.").shows(">draft/one<");
    ada.submit(&page, form, &[("name", "draft/one"), ("from", "main")]).expect(422).shows("already exists");
    ada.submit(&page, form, &[("name", "a..b"), ("from", "main")]).expect(422).shows("holds no &#39;..&#39;");
    let nowhere = ada.submit(&page, form, &[("name", "two"), ("from", "nope")]).expect(422);
    nowhere.shows("No branch, tag or commit &#39;nope&#39;").shows("value=\"two\"");
    let head = actor.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"].clone();
    let head = head.as_str().unwrap();
    ada.submit(&page, form, &[("name", "two"), ("from", head)]).expect(303);

    let address = "/ada/rivers/branches/draft%2Fone/delete";
    let question = ada.get(address).expect(200).shows("Delete branch draft/one?");
    actor.write("ada/rivers", "draft/one", "insert into r values (1, 'Rhine')");
    let moved = ada.submit(&question, address, &[]).expect(422).shows("It changed since it was read");
    let done = ada.submit(&moved, address, &[]).expect(303);
    ada.follow(&done).expect(200).shows("Branch draft/one deleted.");
    ada.get(address).expect(404);
    let main = "/ada/rivers/branches/main/delete";
    let question = ada.get(main).expect(200);
    ada.submit(&question, main, &[]).expect(422).shows("is the default branch");
    ada.get("/ada/rivers/branches").expect(200).shows(">main<");
}

#[test]
fn a_deleted_branch_is_restored_by_writers_while_it_is_kept() {
    let server = Server::start_with(|config| {
        config.web.sign_up = "open".to_owned();
        config.store.history = Span::seconds(86_400);
    });
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let body = serde_json::json!({"name": "draft", "from": {"branch": "main"}});
    actor.post("/databases/ada/rivers/branches", &body).expect(201);
    let head = actor.write("ada/rivers", "draft", "insert into r values (1, 'Rhine')");
    assert!(!ada.get("/ada/rivers/branches").expect(200).text.contains("Restore branch"));
    actor.delete("/databases/ada/rivers/branches/draft").expect(200);
    actor.get(&format!("/databases/ada/rivers/commits/{head}")).expect(404);

    let bob = sign_up(&server, "bob");
    assert!(!bob.get("/ada/rivers/branches").expect(200).text.contains("Restore branch"));
    let page = ada.get("/ada/rivers/branches").expect(200).shows("Deleted branches");
    assert!(!page.text.contains(&head[..8]), "what nothing reaches is not named");
    let form = "/ada/rivers/branches/restore";
    let fields = page.hidden_fields(form);
    let id = &fields.iter().find(|(name, _)| name == "id").unwrap().1;
    ada.submit(&page, form, &[("id", "nonsense")]).expect(422).shows("kept any longer");
    let done = ada.submit(&page, form, &[("id", id)]).expect(303);
    ada.follow(&done).expect(200).shows("Branch draft restored.").shows(">draft<");
    let branch = actor.get("/databases/ada/rivers/branches/draft").expect(200).data();
    assert_eq!(branch["head_commit_sha"], head);
    ada.submit(&page, form, &[("id", id)]).expect(422);
}

#[test]
fn an_administrator_restores_a_branch_to_a_time() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    let first = actor.write("ada/rivers", "main", "insert into r values (1, 'Rhine')");
    // The form has whole seconds.
    std::thread::sleep(std::time::Duration::from_millis(1_100));
    let body = json!({"name": "now", "from": {"branch": "main"}});
    let tag = actor.post("/databases/ada/rivers/tags", &body).expect(201).data();
    let at = &tag["tagged_at"].as_str().unwrap()[..19];
    let second = actor.write("ada/rivers", "main", "delete from r");
    assert_ne!(first, second);

    let page = ada.get("/ada/rivers/branches").expect(200).shows("Restore to a time").shows("The history begins");
    let bob = sign_up(&server, "bob");
    assert!(!bob.get("/ada/rivers/branches").expect(200).text.contains("Restore to a time"));
    let form = "/ada/rivers/branches/restore-to-time";
    let fields = |at: &'static str| [("branch", "main"), ("at", at), ("to_branch", "main")];
    ada.submit(&page, form, &fields("soon")).expect(422).shows("Enter a date and a time.").shows("value=\"main\"");
    ada.submit(&page, form, &fields("2001-01-01T00:00")).expect(422).shows("does not reach back so far");
    let unknown = [("branch", "none"), ("at", at), ("to_branch", "main")];
    ada.submit(&page, form, &unknown).expect(422).shows("existed at that time");
    let done = ada.submit(&page, form, &[("branch", "main"), ("at", at), ("to_branch", "main")]).expect(303);
    ada.follow(&done).expect(200).shows("Restore main");
    for _ in 0..200 {
        if actor.get("/databases/ada/rivers/branches/main").expect(200).data()["head_commit_sha"] == first {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the branch was not restored");
}

#[test]
fn long_lists_of_branches_go_on_on_the_next_page() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let actor = database(&server, &ada, "ada");
    for number in 0..51 {
        let body = serde_json::json!({"name": format!("b{number:02}"), "from": {"branch": "main"}});
        actor.post("/databases/ada/rivers/branches", &body).expect(201);
    }
    let first = ada.get("/ada/rivers/branches").expect(200).shows(">b49<").shows("id=\"next-page\"");
    assert!(!first.text.contains(">b50<"));
    ada.get("/ada/rivers/branches?after=b49").expect(200).shows(">b50<").shows(">main<");
}

#[test]
fn tags_keep_what_a_release_stands_on() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let page = ada.get("/ada/rivers/tags").expect(200).shows("No tags yet");
    let fields = [("name", "v1"), ("from", "main"), ("message", "<b>first</b>")];
    let done = ada.submit(&page, "/ada/rivers/tags", &fields).expect(303);
    ada.follow(&done).expect(200).shows("&#60;b&#62;first&#60;/b&#62;");
    ada.submit(&page, "/ada/rivers/tags", &fields).expect(422).shows("already exists");

    let new = "/ada/rivers/releases/new";
    let page = ada.get(&format!("{new}?tag=v1")).expect(200).shows("value=\"v1\"");
    let notes = "# News\n\n<script>alert(1)</script>\n\n- more **rivers**";
    let fields = [("tag", "v1"), ("from", ""), ("title", "<i>One</i>"), ("description", notes)];
    let done = ada.submit(&page, new, &fields).expect(303);
    let shown = ada.follow(&done).expect(200);
    let shown = shown.shows("<h2>News</h2>").shows("<strong>rivers</strong>").shows("&#60;i&#62;One&#60;/i&#62;");
    assert!(!shown.text.contains("<script>alert"), "{}", shown.text);
    ada.submit(&page, new, &fields).expect(422).shows("already has a release");
    ada.submit(&page, new, &[("tag", "v2"), ("from", "main"), ("title", " ")]).expect(422).shows("must not be blank");

    let tag = "/ada/rivers/tags/v1/delete";
    let question = ada.get(tag).expect(200);
    ada.submit(&question, tag, &[]).expect(422).shows("A release uses tag");

    let release = "/ada/rivers/releases/tag/v1";
    let (edit, delete) = (format!("{release}/edit"), format!("{release}/delete"));
    let page = ada.get(&edit).expect(200);
    ada.submit(&page, &edit, &[("title", "Two"), ("description", "")]).expect(303);
    ada.get(release).expect(200).shows("Two").shows("No release notes.");
    ada.submit(&page, &edit, &[("title", "Three"), ("description", "")]).expect(422).shows("changed since it was read");
    let question = ada.get(&delete).expect(200);
    ada.submit(&question, &delete, &[]).expect(303);
    ada.get("/ada/rivers/releases").expect(200).shows("No releases yet");
    let question = ada.get(tag).expect(200);
    ada.submit(&question, tag, &[]).expect(303);
    ada.get("/ada/rivers/tags").expect(200).shows("No tags yet");
}

#[test]
fn readers_see_refs_and_change_none() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    database(&server, &ada, "ada");
    let page = ada.get("/ada/rivers/tags").expect(200);
    ada.submit(&page, "/ada/rivers/tags", &[("name", "v1"), ("from", "main")]).expect(303);
    let (bob, nobody) = (sign_up(&server, "bob"), Browser::at(&server));
    for page in ["branches", "tags", "releases"] {
        let path = format!("/ada/rivers/{page}");
        for reader in [&bob, &nobody] {
            let seen = reader.get(&path).expect(200);
            assert!(!seen.text.contains(&format!("action=\"{path}\"")) && !seen.text.contains("/delete"), "{path}");
        }
    }
    let mine = bob.get("/ada/rivers/branches").expect(200).hidden_fields("/settings/theme");
    let token: Vec<_> = mine.into_iter().filter(|(name, _)| name == "csrf").collect();
    for form in ["branches", "tags", "tags/v1/delete", "releases/new"] {
        bob.forge(&format!("/ada/rivers/{form}"), &token, &[]).expect(403).shows("You don&#39;t have permission");
    }
}

#[test]
fn branches_say_how_far_they_are_from_the_default_one() {
    let server = open_server();
    let browser = sign_up(&server, "ada");
    let ada = database(&server, &browser, "ada");
    ada.post("/databases/ada/rivers/branches", &json!({"name": "work", "from": {"branch": "main"}})).expect(201);
    browser.get("/ada/rivers/branches").expect(200).shows("0 ahead, 0 behind");
    for number in 1..=3 {
        ada.write("ada/rivers", "work", &format!("insert into r values ({number}, 'x')"));
    }
    ada.write("ada/rivers", "main", "insert into r values (9, 'y')");
    browser.get("/ada/rivers/branches").expect(200).shows("3 ahead, 1 behind");
}
