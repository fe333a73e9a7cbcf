//! From a write over a pull request with a conflict to the merge.

use branchyard_testkit::Server;
use serde_json::json;

use super::chromium::{Chromium, JavaScript};
use super::flows::{at_work, start};

const TAB: &str = "\u{e004}";

/// Waits until an element contains a text. Without scripts, the page is reloaded until it does.
#[track_caller]
fn comes_to_show(chromium: &Chromium, javascript: JavaScript, css: &str, text: &str) {
    let page = chromium.path();
    chromium.wait(&format!("'{text}' in {css}"), |this| {
        if this.text(css).contains(text) {
            return true;
        }
        if javascript == JavaScript::Off {
            this.go(&page);
        }
        false
    });
}

fn rivers(server: &Server, javascript: JavaScript) -> Option<(Chromium, branchyard_testkit::Actor)> {
    let (chromium, actor) = at_work(server, javascript)?;
    actor.write(
        "ada/rivers",
        "main",
        "create table rivers (id integer primary key, name text, km integer); \
         insert into rivers values (1, 'Rhein', 1233), (2, 'Elbe', 1094)",
    );
    Some((chromium, actor))
}

fn from_a_write_to_the_merge(javascript: JavaScript) {
    let server = start();
    let Some((chromium, actor)) = rivers(&server, javascript) else { return };
    chromium.go("/ada/rivers/sql/write");
    chromium.fill(
        "#q",
        "update rivers set km = 1000, name = 'Rhine' where id = 1; insert into rivers values (3, 'Lech', 256)",
    );
    chromium.send("#preview-write");
    chromium.shows("#write-preview", "1 table would change; the statements affect 2 rows.");
    chromium.fill("#message", "Measure again");
    chromium.fill("#new_branch", "measure");
    chromium.send("#commit-pull");
    comes_to_show(&chromium, javascript, "#live", "2 rows changed");
    chromium.send("#open-pull");
    chromium.shows("#merges", "No conflicts with main");
    assert_eq!(chromium.property("#title", "value"), "Measure again");

    // Meanwhile the target changes the same row.
    actor.write("ada/rivers", "main", "update rivers set km = 1111 where id = 1");
    chromium.send("#open");
    let pull = chromium.path();
    chromium.shows("#state", "open");
    chromium.shows("#live", "This branch has conflicts with main");
    chromium.send("#see-conflicts");
    chromium.shows(".side-base", "1233");
    chromium.shows(".side-ours", "1111");
    chromium.shows(".side-theirs", "1000");
    chromium.shows(".side-theirs", "Rhine");
    chromium.click("#resolve-form input[value=theirs]");
    chromium.fill("#message", "Trust the new gauge");
    chromium.send("#merge");
    assert_eq!(chromium.path(), pull);
    comes_to_show(&chromium, javascript, "#end", "merged this");
    comes_to_show(&chromium, javascript, "#state", "merged");
    let rows = actor.read("ada/rivers", "main", "select id, name, km from rivers order by id");
    assert_eq!(rows, json!([["1", "Rhine", "1000"], ["2", "Elbe", "1094"], ["3", "Lech", "256"]]));
    chromium.go("/ada/rivers/commits");
    chromium.shows("#commits", "Trust the new gauge");
}

#[test]
fn a_conflict_is_settled_and_merged() {
    from_a_write_to_the_merge(JavaScript::On);
}

#[test]
fn a_conflict_is_settled_and_merged_without_javascript() {
    from_a_write_to_the_merge(JavaScript::Off);
}

#[test]
fn a_pull_is_previewed_as_soon_as_its_branch_is_chosen() {
    let server = start();
    let Some((chromium, actor)) = rivers(&server, JavaScript::On) else { return };
    let branch = json!({"name": "names", "from": {"branch": "main"}});
    actor.post("/databases/ada/rivers/branches", &branch).expect(201);
    actor.write("ada/rivers", "names", "update rivers set name = 'Rhine' where id = 1");
    chromium.go("/ada/rivers/pulls/new");
    chromium.shows("main", "Choose a branch");
    chromium.fill("#from", &format!("names{TAB}"));
    chromium.shows("#merges", "No conflicts with main");
    chromium.shows("main", "Rhine");
    assert!(chromium.path().contains("from=names"), "what is previewed can be shared: {}", chromium.path());
}

#[test]
fn a_merge_is_followed_without_reloading_the_page() {
    let server = start();
    let Some((chromium, actor)) = rivers(&server, JavaScript::On) else { return };
    let branch = json!({"name": "names", "from": {"branch": "main"}});
    actor.post("/databases/ada/rivers/branches", &branch).expect(201);
    actor.write("ada/rivers", "names", "update rivers set name = 'Rhine' where id = 1");
    chromium.go("/ada/rivers/pulls/new?from=names&to=main");
    chromium.send("#open");
    let pull = chromium.path();
    // Long writes are queued before the merge. There are far more than can finish before the page asks for the merge.
    let q = "create table t (id integer primary key, v text); insert into t with recursive n(i) as \
             (select 1 union all select i + 1 from n where i < 1500000) select i, 'row ' || i from n";
    let mut writes = Vec::new();
    for later in 0..12 {
        let write = json!({"from_branch": "main", "to_branch": format!("later-{later}"), "q": q});
        let accepted = actor.post("/databases/ada/rivers/sql-writes", &write).expect(202);
        writes.push(accepted.data()["href"].as_str().unwrap().to_owned());
    }
    chromium.send("#merge");
    assert_eq!(chromium.path(), pull);
    // The next responses are those of a busy server. The page has to keep polling.
    let busy = "window.busy = [503, 429, 503, 429]; const ask = window.fetch; \
                window.fetch = (...asked) => { const status = window.busy.pop(); \
                return status ? Promise.resolve(new Response('', { status })) : ask(...asked); }";
    chromium.run(busy);
    for write in writes {
        // Cancellation removes queued writes from the queue. It is refused for all others.
        actor.post(&format!("{write}/cancel"), &json!({}));
    }
    chromium.shows("#end", "merged this");
    chromium.shows("#state", "merged");
    assert_eq!(chromium.run("return window.busy.length"), 0, "the page was not loaded again, and was refused");
}
