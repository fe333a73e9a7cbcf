//! A database of rivers, and helpers that several tests share.

use branchyard_testkit::{Actor, Server};

use super::browser::Browser;

/// HTML that must never reach a page unescaped.
pub(super) const HOSTILE: &str = "<marquee>&lt;";

/// Starts a server with two actors: `ada`, who owns `ada/rivers`, and `ben`.
pub(super) fn rivers() -> (Server, Actor, Actor) {
    let server = Server::start();
    let (ada, ben) = (server.user("ada"), server.user("ben"));
    ada.database("rivers");
    ada.write(
        "ada/rivers",
        "main",
        "CREATE TABLE rivers (id INTEGER PRIMARY KEY, name TEXT, km INT); \
         INSERT INTO rivers VALUES (1,'Rhein',1233),(2,'Elbe',1094),(3,'Isar',292)",
    );
    (server, ada, ben)
}

/// Creates a branch of `ada/rivers` from `main`.
pub(super) fn branch(ada: &Actor, name: &str) {
    let from = serde_json::json!({"branch": "main"});
    ada.post("/databases/ada/rivers/branches", &serde_json::json!({"name": name, "from": from})).expect(201);
}

/// Signs in a user without a password, such as one that [`Server::user`] created.
pub(super) fn signed_in(server: &Server, name: &str) -> Browser {
    let browser = Browser::at(server);
    let user = server.hub().people().user_named(name).unwrap();
    let client = branchyard_domain::usecases::Client { address: String::new(), user_agent: String::new() };
    let opened = server.hub().sessions().open(user, client).unwrap();
    let secret = opened.secret.expose().to_owned();
    browser.cookies.borrow_mut().insert("branchyard_session".to_owned(), secret);
    browser
}

/// Escapes a text as the pages do.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&#38;").replace('<', "&#60;").replace('>', "&#62;").replace('"', "&#34;").replace('\'', "&#39;")
}

/// Checks that callers without a role get the same response for a private database as for one that does not exist.
pub(super) fn assert_hidden(server: &Server, paths: &[&str]) {
    for browser in [Browser::at(server), signed_in(server, "ben")] {
        for path in paths {
            let hidden = browser.get(&format!("/ada/secret{path}"));
            let missing = browser.get(&format!("/ada/nothere{path}"));
            assert_eq!(
                (hidden.status, hidden.location.is_some()),
                (missing.status, missing.location.is_some()),
                "{path}"
            );
            assert!(hidden.status == 404 || hidden.status == 303, "{path}: {}", hidden.status);
            let same = |text: &str| {
                let text = text.replace("nothere", "secret");
                // The CSRF token belongs to the browser and differs.
                text.lines().filter(|line| !line.contains("csrf")).collect::<Vec<_>>().join("\n")
            };
            assert_eq!(same(&hidden.text), same(&missing.text), "{path}");
        }
    }
}
