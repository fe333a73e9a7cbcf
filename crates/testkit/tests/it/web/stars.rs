//! Stars, and the order of lists by stars.

use super::browser::{Browser, Page};
use super::{database, open_server, sign_up};

/// Returns the CSRF token of a page, for forms that the page does not offer.
fn token(page: &Page) -> Vec<(String, String)> {
    page.hidden_fields("/settings/theme").into_iter().filter(|(name, _)| name == "csrf").collect()
}

#[test]
fn a_star_is_given_once_counted_listed_and_taken_away() {
    let server = open_server();
    let (ada, bob, nobody) = (sign_up(&server, "ada"), sign_up(&server, "bob"), Browser::at(&server));
    database(&server, &ada, "ada");
    let star = "/ada/rivers/star";
    let page = bob.get("/ada/rivers").expect(200).shows(">0 stars<").shows("id=\"star\"");
    let done = bob.submit(&page, star, &[("star", "1")]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/ada/rivers"), "back to where the button was");
    bob.follow(&done).expect(200).shows(">1 star<").shows("id=\"unstar\"");
    bob.submit(&page, star, &[("star", "1")]).expect(303);
    let page = bob.get("/ada/rivers/commits").expect(200).shows(">1 star<");
    ada.submit(&ada.get("/ada/rivers").expect(200), star, &[("star", "1")]).expect(303);
    let list = nobody.get("/ada/rivers/stargazers").expect(200).shows(">2 stars<");
    let (first, second) =
        (list.text.find("href=\"/ada\">ada<").unwrap(), list.text.find("href=\"/bob\">bob<").unwrap());
    assert!(first < second);
    assert!(!list.text.contains("id=\"star\""), "who has not signed in has no button");

    bob.get("/bob?tab=starred").expect(200).shows("href=\"/ada/rivers\"");
    nobody.get("/bob?tab=starred").expect(200).shows("href=\"/ada/rivers\"");
    let done = bob.submit(&page, star, &[("star", "0")]).expect(303);
    assert_eq!(done.location.as_deref(), Some("/ada/rivers/commits"));
    bob.get("/bob?tab=starred").expect(200).shows("You haven't starred any databases yet");
    bob.get("/ada/rivers").expect(200).shows(">1 star<");
}

#[test]
fn a_star_wants_a_form_of_ours_a_person_and_a_database_that_is_seen() {
    let server = open_server();
    let (ada, bob, nobody) = (sign_up(&server, "ada"), sign_up(&server, "bob"), Browser::at(&server));
    let actor = database(&server, &ada, "ada");
    let star = "/ada/rivers/star";
    bob.forge(star, &[("star".to_owned(), "1".to_owned())], &[]).expect(403);
    let sent = nobody.forge(star, &token(&nobody.get("/").expect(200)), &[]).expect(303);
    assert!(sent.location.unwrap().starts_with("/sign-in"));
    let page = bob.get("/ada/rivers").expect(200);
    bob.submit(&page, star, &[("star", "1"), ("next", "//evil.test")]).expect(303);
    actor.patch("/databases/ada/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    // The database is hidden now, even from a user with a star on it.
    bob.get("/ada/rivers/stargazers").expect(404);
    for wanted in ["0", "1"] {
        let mut fields = token(&page);
        fields.push(("star".to_owned(), wanted.to_owned()));
        bob.forge(star, &fields, &[]).expect(404);
    }
    bob.get("/bob?tab=starred").expect(200).shows("You haven't starred any databases yet");
    assert!(!bob.get("/explore").expect(200).text.contains("ada/rivers"));
    ada.get("/ada/rivers").expect(200).shows(">1 star<");
}

#[test]
fn explore_sorts_and_pages_in_each_order() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let actor = server.actor_of("ada");
    for number in 0..32 {
        actor.database(&format!("d{number:02}"));
    }
    for (browser, name) in [(&ada, "d07"), (&bob, "d07"), (&bob, "d03")] {
        let page = browser.get(&format!("/ada/{name}")).expect(200);
        browser.submit(&page, &format!("/ada/{name}/star"), &[("star", "1")]).expect(303);
    }
    actor.write("ada/d05", "main", "create table t (id integer primary key)");
    let names = |page: &Page| -> Vec<String> {
        let main = page.text.split_once("<main").unwrap().1.to_owned();
        main.split("href=\"/ada/").skip(1).map(|rest| rest.split('"').next().unwrap().to_owned()).collect()
    };
    let first = |sort: &str| names(&bob.get(&format!("/explore?sort={sort}")).expect(200));
    assert_eq!(names(&bob.get("/explore").expect(200))[..2], ["d07", "d03"]);
    assert_eq!(first("updated")[0], "d05");
    assert_eq!(first("newest")[..2], ["d31", "d30"]);
    assert_eq!(first("name")[..2], ["d00", "d01"]);
    for sort in ["", "updated", "newest", "name", "nonsense"] {
        let page = bob.get(&format!("/explore?sort={sort}")).expect(200);
        let href = page.text.split("class=\"button\" href=\"").last().unwrap().split('"').next().unwrap();
        let rest = names(&bob.get(&href.replace("&#38;", "&")).expect(200));
        let mut all = names(&page);
        assert_eq!((all.len(), rest.len()), (30, 2), "{sort}");
        all.extend(rest);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 32, "{sort}: each is there once");
    }
    bob.get("/explore?q=d07&sort=newest&after=%00nonsense").expect(200).shows("d07").shows("2 stars");
}
