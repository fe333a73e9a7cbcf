//! Pull requests, from a write to the merge.

use branchyard_testkit::{AMPLE, Actor, Server};

use super::browser::{Browser, Page};
use super::rivers::{HOSTILE, assert_hidden, branch, escaped, rivers, signed_in};

const PULLS: &str = "/ada/rivers/pulls";

/// Opens a pull request from a branch of `ada/rivers` to `main`, and returns its path.
fn open(browser: &Browser, branch: &str, title: &str) -> String {
    let page = browser.get(&format!("{PULLS}/new?from={branch}&to=main")).expect(200);
    let sent = browser.submit(&page, PULLS, &[("title", title), ("description", "Why *not*")]);
    sent.expect(303).location.unwrap()
}

/// Reloads a page until it contains a text.
fn wait_for(browser: &Browser, path: &str, text: &str) -> Page {
    branchyard_testkit::wait_for(text, AMPLE, || {
        let page = browser.get(path).expect(200);
        if page.text.contains(text) { Ok(page) } else { Err(page.text) }
    })
}

#[test]
fn from_a_write_over_a_conflict_to_the_merge() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");

    // A write to a new branch leads to the form for a pull request.
    let form = browser.get("/ada/rivers/sql/write").expect(200);
    let q = "UPDATE rivers SET km = 1000, name = 'Rhine' WHERE id = 1; INSERT INTO rivers VALUES (4,'Lech',256)";
    let fields = [("q", q), ("branch", "main"), ("target", "pull"), ("new_branch", "measure"), ("message", "Measure")];
    let sent = browser.submit(&form, "/ada/rivers/sql/write", &fields).expect(303);
    let written = wait_for(&browser, sent.location.as_deref().unwrap(), "id=\"open-pull\"").shows("2 rows changed");
    let link = written.text.split_once("/ada/rivers/pulls/new?").unwrap().1.split('"').next().unwrap();
    let address = format!("{PULLS}/new?{}", link.replace("&#38;", "&"));
    let page = browser.get(&address).expect(200).shows("No conflicts with main").shows("Rhine").shows("Measure");
    assert_eq!(page.value_of("title"), "Measure");

    // Meanwhile main changes the same row.
    ada.write("ada/rivers", "main", "UPDATE rivers SET km = 1111 WHERE id = 1");
    browser.get(&address).expect(200).shows("resolve the conflicts before merging");
    let sent = browser.submit(&page, PULLS, &[("title", "Measure again")]).expect(303);
    let pull = sent.location.clone().unwrap();
    browser.follow(&sent).expect(200).shows("This branch has conflicts with main");
    browser.get(&format!("{pull}/diff")).expect(200).shows("Lech").shows("<span class=\"cell number\">1000</span>");
    browser.get(&format!("{pull}/commits")).expect(200).shows("Measure");

    // A merge without a decision changes nothing, and the page says so.
    let conflicts = browser.get(&format!("{pull}/conflicts")).expect(200).shows("1 conflict").shows("id = 1");
    let conflicts = conflicts.shows("<mark><span class=\"cell number\">1111</span></mark>");
    let conflicts = conflicts.shows("<mark><span class=\"cell number\">1000</span></mark>").shows("Rhein");
    let merge = format!("{pull}/merge");
    let refused = browser.submit(&conflicts, &merge, &[]).expect(303);
    browser.follow(&refused).expect(200).shows("choose a side for rivers, or for each of its rows").shows("id = 1");
    ada.post("/databases/ada/rivers/pulls/1/merge", &serde_json::json!({})).expect(202);
    wait_for(&browser, &pull, "The last merge failed");

    browser.submit(&conflicts, &merge, &[("side-0", "theirs"), ("message", "Trust the new gauge")]).expect(303);
    wait_for(&browser, &pull, "id=\"end\"")
        .shows("<strong>ada</strong> merged this")
        .shows("state merged\" id=\"state\"");
    let rows = ada.read("ada/rivers", "main", "SELECT id, name, km FROM rivers WHERE id IN (1, 4) ORDER BY id");
    assert_eq!(rows, serde_json::json!([["1", "Rhine", "1000"], ["4", "Lech", "256"]]));
    // What was merged as a whole can be deleted from here.
    let merged =
        browser.get(&pull).expect(200).shows("id=\"delete-branch\"").shows("/ada/rivers/branches/measure/delete");
    assert!(!Browser::at(&server).get(&pull).expect(200).text.contains("id=\"delete-branch\""));
    drop(merged);
    browser.get("/ada/rivers/commits").expect(200).shows("Trust the new gauge");
    browser.get(&format!("{pull}/diff")).expect(200).shows("Lech");
    browser.get(&format!("{pull}/conflicts")).expect(200).shows("This pull request is merged");
}

#[test]
fn pulls_are_listed_by_state_and_found_by_words() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    browser.get(PULLS).expect(200).shows("No open pull requests");
    browser.get(&format!("{PULLS}?state=all")).expect(200).shows("No pull requests yet");
    for n in 0..32 {
        branch(&ada, &format!("b{n}"));
        ada.write("ada/rivers", &format!("b{n}"), &format!("INSERT INTO rivers VALUES ({},'x',1)", 100 + n));
        open(&browser, &format!("b{n}"), &format!("Change number {n}"));
    }
    let page = browser.get(PULLS).expect(200).shows("Change number 31").shows("?before=3\"");
    assert!(!page.text.contains("Change number 1<"));
    browser.get(&format!("{PULLS}?before=3")).expect(200).shows("Change number 1<").shows("Change number 0<");
    let found = browser.get(&format!("{PULLS}?q=number+17")).expect(200).shows("Change number 17");
    assert_eq!(found.text.matches("<a class=\"title\"").count(), 1);
    let pull = browser.get(&format!("{PULLS}/1")).expect(200);
    browser.submit(&pull, &format!("{PULLS}/1/state"), &[("state", "closed")]).expect(303);
    browser.get(&format!("{PULLS}?state=closed")).expect(200).shows("Change number 0<");
    browser.get(&format!("{PULLS}?state=merged")).expect(200).shows("No merged pull requests");
    browser.get(&format!("{PULLS}?q=nothing+like+it")).expect(200).shows("No pull requests found");
}

#[test]
fn a_pull_is_discussed_edited_closed_and_reopened() {
    let (server, ada, _) = rivers();
    branch(&ada, "work");
    ada.write("ada/rivers", "work", "DELETE FROM rivers WHERE id = 3");
    let (browser, ben) = (signed_in(&server, "ada"), signed_in(&server, "ben"));
    let pull = open(&browser, "work", "Less rivers");
    let page = ben.get(&pull).expect(200).shows("<em>not</em>").shows("can merge");
    assert!(!page.text.contains("id=\"close\"") && !page.text.contains("id=\"merge\""));
    let comments = format!("{pull}/comments");
    let said = ben.submit(&page, &comments, &[("body", "It should be **fewer**")]).expect(303);
    assert!(said.location.as_deref().unwrap().starts_with(&format!("{pull}#comment-")));
    ben.get(&pull).expect(200).shows("<strong>fewer</strong>");
    ben.submit(&page, &comments, &[("body", "  ")]).expect(422).shows("Enter a comment first");
    let long = ben.submit(&page, &comments, &[("body", &"x".repeat(65_537))]);
    assert_eq!(long.status, 422);
    ben.get(&format!("{pull}/edit")).expect(403);

    let edit = browser.get(&format!("{pull}/edit")).expect(200);
    let action = format!("{pull}/edit");
    browser
        .submit(&edit, &action, &[("title", ""), ("description", "x")])
        .expect(422)
        .shows("the title must not be blank");
    browser.submit(&edit, &action, &[("title", "Fewer rivers"), ("description", "")]).expect(303);
    let page = browser.get(&pull).expect(200).shows("Fewer rivers").shows("No description.");
    let state = format!("{pull}/state");
    let closed = browser.submit(&page, &state, &[("state", "closed")]).expect(303);
    let page = browser.follow(&closed).expect(200).shows("id=\"reopen\"").shows("<strong>ada</strong> closed this");
    browser.submit(&page, &state, &[("state", "nonsense")]).expect(404);
    let merge = browser.submit(&page, &state, &[("state", "open")]).expect(303);
    let page = browser.follow(&merge).expect(200).shows("id=\"close\"").shows("<strong>ada</strong> reopened this");
    let place = |text: &str| page.text.find(text).unwrap();
    assert!(place("<strong>fewer</strong>") < place("closed this") && place("closed this") < place("reopened this"));
    browser.submit(&page, &format!("{pull}/merge"), &[]).expect(303);
    wait_for(&browser, &pull, "id=\"end\"");
    let late = browser.submit(&page, &state, &[("state", "closed")]).expect(303);
    browser.follow(&late).expect(200).shows("Nothing was changed: the pull request is merged");
    for missing in ["/99", "/0", "/x", "/1/nothing"] {
        browser.get(&format!("{PULLS}{missing}")).expect(404);
    }
}

#[test]
fn a_pull_comes_from_a_fork_and_what_does_not_fit_is_said() {
    let (server, ada, ben) = rivers();
    let forked = ben.finish(&ben.post("/databases/ada/rivers/forks", &serde_json::json!({"owner": "ben"})));
    assert_eq!(forked["status"], "succeeded", "{forked}");
    ben.write("ben/rivers", "main", "INSERT INTO rivers VALUES (9,'Spree',400)");
    ben.database("lakes");
    let browser = signed_in(&server, "ben");
    let new = |query: &str| browser.get(&format!("{PULLS}/new?{query}"));
    new("").expect(200).shows("Choose a branch").shows("ben/rivers");
    let from_fork = "source=ben/rivers&from=main&to=main";
    let page = new(from_fork).expect(200).shows("to see a preview");
    let prepared = browser.submit(&page, &format!("{PULLS}/new/prepare"), &[]).expect(303);
    browser.follow(&prepared).expect(200);
    wait_for(&browser, &format!("{PULLS}/new?{from_fork}"), "Spree");
    let page = new(from_fork).expect(200).shows("Spree").shows("No conflicts with main");
    assert!(!page.text.contains("id=\"publishes\""), "both are public");
    for (query, text) in [
        ("from=main&to=main", "The two branches are the same"),
        ("from=nope&to=main", "No branch"),
        ("source=ben/nothere&from=main&to=main", "The source database doesn't exist"),
        ("source=ben/lakes&from=main&to=main", "is not in the same fork network"),
    ] {
        new(query).expect(200).shows("id=\"refused\"").shows(&escaped(text));
    }
    let action = PULLS;
    browser.submit(&page, action, &[("title", " ")]).expect(422).shows("the title must not be blank").shows("Spree");
    let opened = browser.submit(&page, action, &[("title", "A river of ours")]).expect(303);
    browser.follow(&opened).expect(200).shows("ben/rivers:main");
    new("source=ben/rivers&from=main&to=main").expect(200).shows("A pull request for these branches is already open");
    let again = browser.submit(&page, action, &[("title", "Again")]).expect(422);
    assert!(again.text.contains("/ada/rivers/pulls/1"));
    let owner = signed_in(&server, "ada");
    let page = owner.get(&format!("{PULLS}/1")).expect(200);
    owner.submit(&page, &format!("{PULLS}/1/merge"), &[]).expect(303);
    wait_for(&owner, &format!("{PULLS}/1"), "id=\"end\"");
    assert_eq!(ada.read("ada/rivers", "main", "SELECT name FROM rivers WHERE id = 9")[0][0], "Spree");
}

#[test]
fn a_pull_that_publishes_says_so_and_is_withdrawn_by_an_administrator_of_its_source() {
    let (server, ada, ben) = rivers();
    ben.finish(&ben.post("/databases/ada/rivers/forks", &serde_json::json!({"owner": "ben"})));
    ben.write("ben/rivers", "main", "INSERT INTO rivers VALUES (9,'Spree',400)");
    ben.patch("/databases/ben/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    let browser = signed_in(&server, "ben");
    let form = format!("{PULLS}/new?source=ben/rivers&from=main&to=main");
    let page = browser.get(&form).expect(200).shows("This pull request makes the branch public");
    browser
        .submit(&page, PULLS, &[("title", "Ours")])
        .expect(422)
        .shows("Select the box that makes the branch visible");
    browser.submit(&page, PULLS, &[("title", "Ours"), ("publish", "yes")]).expect(303);
    let pull = format!("{PULLS}/1");
    wait_for(&browser, &format!("{pull}/diff"), "Spree");
    let owner = signed_in(&server, "ada");
    let seen = owner.get(&pull).expect(200).shows("Showing the source branch at");
    assert!(!seen.text.contains("id=\"withdraw\""), "only an administrator of the source");
    owner.get(&format!("{pull}/withdraw")).expect(403);
    browser.get(&pull).expect(200).shows("id=\"withdraw\"");
    let page = browser.get(&format!("{pull}/withdraw")).expect(200).shows("be reopened");
    browser.submit(&page, &format!("{pull}/withdraw"), &[]).expect(303);
    owner.get(&pull).expect(200).shows("Changes are hidden");
    let page = owner.get(&format!("{pull}/diff")).expect(200).shows("Changes are hidden");
    assert!(!page.text.contains("Spree"));
    ada.get("/databases/ada/rivers/pulls/1/diff").expect(422);
    owner.get("/ada/rivers/settings/visibility").expect(200).shows("Existing forks keep their visibility");
}

fn with_pull() -> (Server, Actor, Browser, String) {
    let (server, ada, _) = rivers();
    branch(&ada, "work");
    ada.write("ada/rivers", "work", "DELETE FROM rivers WHERE id = 3");
    let browser = signed_in(&server, "ada");
    let pull = open(&browser, "work", "Less");
    (server, ada, browser, pull)
}

#[test]
fn forms_of_others_and_of_those_without_the_role_change_nothing() {
    let (server, _, ada, pull) = with_pull();
    let ben = signed_in(&server, "ben");
    let token = |browser: &Browser| {
        let fields = browser.get("/").hidden_fields("/settings/theme");
        fields.into_iter().find(|(name, _)| name == "csrf").unwrap()
    };
    let (of_ben, of_ada) = (token(&ben), token(&ada));
    let forms = ["/merge", "/comments", "/state", "/edit"].map(|below| format!("{pull}{below}"));
    let fields = [("body", "x"), ("state", "closed"), ("title", "x"), ("from", "work"), ("to", "main")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()));
    for action in forms.iter().cloned().chain([PULLS.to_owned()]) {
        ada.forge(&action, &fields, &[]).expect(403).shows("Your session changed");
        let foreign: Vec<_> = fields.iter().cloned().chain([of_ben.clone()]).collect();
        ada.forge(&action, &foreign, &[]).expect(403).shows("Your session changed");
        let own: Vec<_> = fields.iter().cloned().chain([of_ada.clone()]).collect();
        ada.forge(&action, &own, &[("Origin", "https://evil.test")]).expect(403);
        let stranger = Browser::at(&server);
        stranger.forge(&action, &fields, &[]).expect(403);
    }
    let own: Vec<_> = fields.iter().cloned().chain([of_ben]).collect();
    for below in ["/merge", "/state", "/edit"] {
        ben.forge(&format!("{pull}{below}"), &own, &[]).expect(403).shows("You don&#39;t have permission");
    }
    let page = ada.get(&pull).expect(200).shows("id=\"close\"").shows("Less");
    assert_eq!(page.text.matches("<article").count(), 1, "only the description");
    Browser::at(&server).get(&format!("{PULLS}/new")).expect(303);
}

#[test]
fn a_pull_goes_on_without_its_source_branch_which_can_be_restored() {
    let (server, actor, ada, pull) = with_pull();
    let head = actor.get("/databases/ada/rivers/branches/work").data()["head_commit_sha"].as_str().unwrap().to_owned();
    let delete = "/ada/rivers/branches/work/delete";
    let page = ada.get(delete).expect(200).shows("1 open pull request can&#39;t be merged without it").shows("#1 Less");
    assert!(!ada.get("/ada/rivers/branches/main/delete").text.contains("#1 Less\" id=\"confirm"));
    ada.submit(&page, delete, &[]).expect(303);
    actor.get("/databases/ada/rivers/pulls/1/diff").expect(422);

    // All pages show what the pull request showed before.
    let page = ada.get(&pull).expect(200).shows("The source branch <code>work</code> was deleted").shows(&head[..8]);
    assert!(!page.text.contains("id=\"merge-form\"") && page.text.contains("id=\"close\""));
    ada.get(&format!("{pull}/diff")).expect(200).shows("rivers").shows("Rows removed");
    ada.get(&format!("{pull}/commits")).expect(200).shows(&head[..8]);
    ada.get(&format!("{pull}/conflicts")).expect(200);
    let ben = signed_in(&server, "ben");
    let seen = ben.get(&pull).expect(200).shows("id=\"source-gone\"");
    assert!(!seen.text.contains("id=\"restore-branch\""), "ben cannot write here");
    let token = seen.hidden_fields("/settings/theme").into_iter().find(|(name, _)| name == "csrf").unwrap();
    ben.forge(&format!("{pull}/restore-branch"), &[token], &[]).expect(403).shows("You don&#39;t have permission");

    // The branch is restored at the head that it shows.
    let page = ada.get(&pull).expect(200);
    ada.submit(&page, &format!("{pull}/restore-branch"), &[]).expect(303);
    assert_eq!(actor.get("/databases/ada/rivers/branches/work").data()["head_commit_sha"], head);
    ada.submit(&page, &format!("{pull}/restore-branch"), &[]).expect(303);
    ada.get(&pull).expect(200).shows("Nothing was restored: branch &#39;work&#39; already exists");
    wait_for(&ada, &pull, "This branch has no conflicts with main");
}

#[test]
fn a_closed_pull_is_reopened_once_its_source_branch_is_restored() {
    let (server, actor, ada, pull) = with_pull();
    let head = actor.get("/databases/ada/rivers/branches/work").data()["head_commit_sha"].as_str().unwrap().to_owned();
    let page = ada.get(&pull).expect(200);
    ada.submit(&page, &format!("{pull}/state"), &[("state", "closed")]).expect(303);
    assert!(!ada.get(&pull).expect(200).shows("id=\"reopen\"").text.contains("id=\"source-gone\""));
    let delete = "/ada/rivers/branches/work/delete";
    let question = ada.get(delete).expect(200);
    ada.submit(&question, delete, &[]).expect(303);

    let page = ada.get(&pull).expect(200).shows("id=\"source-gone\"").shows("Restore it to reopen this pull request");
    assert!(!page.text.contains("id=\"reopen\""), "what must fail is not offered");
    let seen = signed_in(&server, "ben").get(&pull).expect(200).shows("id=\"source-gone\"");
    assert!(!seen.text.contains("id=\"restore-branch\""), "ben cannot write here");
    ada.submit(&page, &format!("{pull}/restore-branch"), &[]).expect(303);
    assert_eq!(actor.get("/databases/ada/rivers/branches/work").data()["head_commit_sha"], head);
    let page = ada.get(&pull).expect(200).shows("id=\"reopen\"");
    ada.submit(&page, &format!("{pull}/state"), &[("state", "open")]).expect(303);
    wait_for(&ada, &pull, "This branch has no conflicts with main");
}

#[test]
fn a_pull_from_a_fork_goes_on_without_its_source_branch() {
    let (server, _, ben) = rivers();
    ben.finish(&ben.post("/databases/ada/rivers/forks", &serde_json::json!({"owner": "ben"})));
    ben.post("/databases/ben/rivers/branches", &serde_json::json!({"name": "work", "from": {"branch": "main"}}))
        .expect(201);
    ben.write("ben/rivers", "work", "INSERT INTO rivers VALUES (9,'Spree',400)");
    let browser = signed_in(&server, "ben");
    let page = browser.get(&format!("{PULLS}/new?source=ben/rivers&from=work&to=main")).expect(200);
    let pull = browser.submit(&page, PULLS, &[("title", "Ours")]).expect(303).location.unwrap();
    wait_for(&browser, &format!("{pull}/diff"), "Spree");
    let delete = "/ben/rivers/branches/work/delete";
    let page = browser.get(delete).expect(200).shows("ada/rivers#1 Ours");
    browser.submit(&page, delete, &[]).expect(303);
    browser.get(&format!("{pull}/diff")).expect(200).shows("Spree");
    let owner = signed_in(&server, "ada").get(&pull).expect(200).shows("id=\"source-gone\"");
    assert!(!owner.text.contains("id=\"restore-branch\""), "the branch is not in a database of ada");
    let page = browser.get(&pull).expect(200);
    browser.submit(&page, &format!("{pull}/restore-branch"), &[]).expect(303);
    ben.get("/databases/ben/rivers/branches/work").expect(200);
    wait_for(&browser, &pull, "This branch has no conflicts with main");
}

#[test]
fn nothing_stored_is_taken_for_markup() {
    let (server, ada, browser, pull) = with_pull();
    let both = format!("CREATE TABLE \"t{HOSTILE}\" (id INTEGER PRIMARY KEY, \"c{HOSTILE}\" TEXT)");
    ada.write("ada/rivers", "main", &format!("{both}; INSERT INTO \"t{HOSTILE}\" VALUES (1, 'a')"));
    branch(&ada, "hostile");
    ada.write("ada/rivers", "hostile", &format!("UPDATE \"t{HOSTILE}\" SET \"c{HOSTILE}\" = '{HOSTILE}'"));
    ada.write("ada/rivers", "main", &format!("UPDATE \"t{HOSTILE}\" SET \"c{HOSTILE}\" = 'b'"));
    let page = browser.get(&format!("{PULLS}/new?from=hostile&to=main")).expect(200);
    assert!(!page.text.contains(HOSTILE) && page.text.contains(&escaped(HOSTILE)), "{}", page.text);
    let fields = [("title", HOSTILE), ("description", HOSTILE)];
    let hostile = browser.submit(&page, PULLS, &fields).expect(303).location.unwrap();
    let page = browser.get(&hostile).expect(200);
    browser.submit(&page, &format!("{hostile}/comments"), &[("body", HOSTILE)]).expect(303);
    for path in [
        PULLS.to_owned(),
        hostile.clone(),
        format!("{hostile}/diff"),
        format!("{hostile}/conflicts"),
        format!("{hostile}/edit"),
        format!("{hostile}/commits"),
    ] {
        let page = browser.get(&path).expect(200);
        assert!(!page.text.contains(HOSTILE), "{path}: {}", page.text);
        assert!(page.text.contains("marquee"), "{path}: {}", page.text);
    }
    browser.get(&format!("{PULLS}?q=%3Cmarquee%3E%26lt%3B")).expect(200).shows(&escaped(HOSTILE));
    drop((server, pull));
}

#[test]
fn hidden_databases_look_like_missing_ones() {
    let (server, ada, _) = rivers();
    let body = serde_json::json!({"owner": "ada", "name": "secret", "visibility": "private"});
    ada.post("/databases", &body).expect(201);
    let paths = [
        "/pulls",
        "/pulls/new",
        "/pulls/1",
        "/pulls/1/diff",
        "/pulls/1/conflicts",
        "/pulls/1/commits",
        "/pulls/1/edit",
    ];
    assert_hidden(&server, &paths);
}

#[test]
fn a_pull_with_a_trigger_or_a_view_says_so_on_each_of_its_pages() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    ada.write(
        "ada/rivers",
        "main",
        "CREATE TABLE pay(id INTEGER PRIMARY KEY, amount INTEGER); INSERT INTO pay VALUES (1, 10)",
    );
    branch(&ada, "evil");
    let sql = "INSERT INTO rivers VALUES (4,'Lech',256); \
               CREATE TRIGGER raise AFTER INSERT ON pay BEGIN UPDATE pay SET amount = 1000 WHERE id = 1; END; \
               CREATE INDEX by_amount ON pay(amount) WHERE amount > 5";
    ada.write("ada/rivers", "evil", sql);
    let form = browser.get(&format!("{PULLS}/new?from=evil&to=main")).expect(200);
    let form =
        form.shows("This pull request adds or changes a trigger").shows("amount = 1000").shows("WHERE amount &#62; 5");
    let pull = browser.submit(&form, PULLS, &[("title", "One row more")]).expect(303).location.unwrap();
    for tab in ["", "/commits", "/diff", "/conflicts"] {
        let page = browser.get(&format!("{pull}{tab}")).expect(200);
        page.shows("This pull request adds or changes a trigger.").shows("a trigger runs on every write to its table");
    }
    let diff = browser.get(&format!("{pull}/diff")).expect(200);
    let diff = diff.shows("Trigger added").shows("raise").shows("SET amount = 1000").shows("Index added").shows("Lech");
    assert!(diff.text.find("SET amount = 1000") < diff.text.find("Lech"), "code of its own comes first");
    browser.get("/ada/rivers/schema?ref=evil").expect(200).shows("Trigger raise").shows("SET amount = 1000");
    browser.get("/ada/rivers/compare/main...evil").expect(200).shows("Trigger added").shows("SET amount = 1000");

    ada.write("ada/rivers", "evil", "DROP TRIGGER raise; CREATE VIEW rich AS SELECT id FROM pay WHERE amount > 5");
    browser.get(&pull).expect(200).shows("This pull request adds or changes a view.");
    let diff = browser.get(&format!("{pull}/diff")).expect(200).shows("View added");
    assert!(!diff.text.contains("Table added"), "{}", diff.text);
    ada.write("ada/rivers", "evil", "DROP VIEW rich");
    let page = browser.get(&pull).expect(200);
    assert!(!page.text.contains("This pull request adds or changes"), "{}", page.text);
}

#[test]
fn conflicts_are_decided_row_by_row() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    branch(&ada, "work");
    ada.write("ada/rivers", "work", "UPDATE rivers SET km = 10 WHERE id = 1; UPDATE rivers SET km = 20, name = 'Labe' WHERE id = 2; UPDATE rivers SET km = 30 WHERE id = 3");
    ada.write("ada/rivers", "main", "UPDATE rivers SET km = 11 WHERE id = 1; UPDATE rivers SET km = 21, name = 'Albis' WHERE id = 2; UPDATE rivers SET km = 31 WHERE id = 3");
    let end = |name: &str| serde_json::json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = serde_json::json!({"title": "Rows", "from_branch": end("work"), "to_branch": end("main")});
    ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
    let conflicts = browser.get("/ada/rivers/pulls/1/conflicts").expect(200).shows("Row by row").shows("Other values");
    let some = [("row-side-0", "theirs"), ("row-side-1", "ours")];
    let refused = browser.submit(&conflicts, "/ada/rivers/pulls/1/merge", &some).expect(303);
    let conflicts = browser.get(refused.location.as_deref().unwrap()).expect(200).shows("for each of its rows");
    let fields = [
        ("row-side-0", "theirs"),
        ("row-side-1", "value"),
        ("row-1-value-0", "Elbe"),
        ("row-1-null-1", "yes"),
        ("row-side-2", "ours"),
    ];
    browser.submit(&conflicts, "/ada/rivers/pulls/1/merge", &fields).expect(303);
    wait_for(&browser, "/ada/rivers/pulls/1", "id=\"end\"");
    let rows = ada.read("ada/rivers", "main", "SELECT id, name, km FROM rivers ORDER BY id");
    assert_eq!(rows, serde_json::json!([["1", "Rhein", "10"], ["2", "Elbe", null], ["3", "Isar", "31"]]));
}

#[test]
fn views_have_sides_and_other_definitions_have_no_choice() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    ada.write("ada/rivers", "main", "CREATE VIEW v AS SELECT 1 AS x");
    branch(&ada, "work");
    let create = |x: u32| format!("DROP VIEW v; CREATE VIEW v AS SELECT {x} AS x");
    ada.write("ada/rivers", "work", &create(2));
    ada.write("ada/rivers", "main", &create(3));
    let end = |name: &str| serde_json::json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    let pull = |from: &str| serde_json::json!({"title": "Views", "from_branch": end(from), "to_branch": end("main")});
    ada.post("/databases/ada/rivers/pulls", &pull("work")).expect(201);
    let conflicts = browser.get("/ada/rivers/pulls/1/conflicts").expect(200).shows("changed on both sides");
    browser.submit(&conflicts, "/ada/rivers/pulls/1/merge", &[("side-0", "theirs")]).expect(303);
    wait_for(&browser, "/ada/rivers/pulls/1", "id=\"end\"");
    assert_eq!(ada.read("ada/rivers", "main", "SELECT x FROM v"), serde_json::json!([["2"]]));

    branch(&ada, "types");
    ada.write(
        "ada/rivers",
        "types",
        "ALTER TABLE rivers ADD COLUMN depth INTEGER; UPDATE rivers SET km = 1 WHERE id = 1",
    );
    ada.write("ada/rivers", "main", "ALTER TABLE rivers ADD COLUMN depth TEXT; UPDATE rivers SET km = 2 WHERE id = 1");
    ada.post("/databases/ada/rivers/pulls", &pull("types")).expect(201);
    let page = browser.get("/ada/rivers/pulls/2/conflicts").expect(200);
    assert!(!page.text.contains("type=\"radio\"") && !page.text.contains("id=\"merge\""), "{}", page.text);
}

#[test]
fn a_message_is_not_lost_to_a_fast_forward() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    let end = |name: &str| serde_json::json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": name});
    for (number, fields, expected) in [
        (1, &[][..], "Run SQL query"),
        (2, &[("message", "My own words")][..], "My own words"),
        (3, &[("merge_commit", "yes")][..], "Merge pull request #3"),
    ] {
        let name = format!("ahead-{number}");
        branch(&ada, &name);
        ada.write("ada/rivers", &name, &format!("UPDATE rivers SET km = {number} WHERE id = 1"));
        let pull = serde_json::json!({"title": "Ahead", "from_branch": end(&name), "to_branch": end("main")});
        ada.post("/databases/ada/rivers/pulls", &pull).expect(201);
        let path = format!("/ada/rivers/pulls/{number}");
        let page = browser.get(&path).expect(200).shows("id=\"fast-forward\"").shows("Create a merge commit");
        browser.submit(&page, &format!("{path}/merge"), fields).expect(303);
        wait_for(&browser, &path, "id=\"end\"");
        let commits = ada.get("/databases/ada/rivers/commits?page_size=1").expect(200).data();
        assert!(commits[0]["message"].as_str().unwrap().starts_with(expected), "{commits}");
    }
}
