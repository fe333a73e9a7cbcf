//! The activity feed on the home page.

use serde_json::json;

use super::{database, open_server, sign_up};

#[test]
fn the_home_page_tells_what_happened_where_one_works() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    ada.get("/").expect(200).shows("Recent activity").shows("appear here");
    let actor = database(&server, &ada, "ada");
    let branch = json!({"name": "<i>", "from": {"branch": "main"}});
    actor.post("/databases/ada/rivers/branches", &branch).expect(201);
    actor.write("ada/rivers", "<i>", "insert into r values (1, 'Rhine')");
    let form = ada.get("/ada/rivers/pulls/new?to=main&from=%3Ci%3E").expect(200);
    let fields = [("from", "<i>"), ("title", "<b>More</b>"), ("description", "")];
    ada.submit(&form, "/ada/rivers/pulls", &fields).expect(303);
    let page = ada.get("/ada/rivers/releases/new").expect(200);
    let fields = [("tag", "v1"), ("from", "main"), ("title", "One"), ("description", "")];
    ada.submit(&page, "/ada/rivers/releases/new", &fields).expect(303);

    let home = ada.get("/").expect(200);
    let home = home.shows("created branch <a href=\"/ada/rivers?ref=%3Ci%3E\">&#60;i&#62;</a>");
    let home =
        home.shows("opened <a href=\"/ada/rivers/pulls/1\">pull request #1</a>").shows("&#60;b&#62;More&#60;/b&#62;");
    let home = home.shows("published release <a href=\"/ada/rivers/releases/tag/v1\">v1</a>").shows("committed to");
    assert!(!home.text.contains("<i>") && !home.text.contains("<b>More"), "{}", home.text);
    let place = |text: &str| home.text.find(text).unwrap();
    assert!(
        place("published release") < place("pull request #1") && place("pull request #1") < place("created branch"),
        "newest first"
    );

    // It is a public database, but no work of bob's; then it is; then no longer.
    let silent = |page: super::browser::Page| assert!(!page.text.contains("pull request #1"), "{}", page.text);
    silent(bob.get("/").expect(200));
    let page = ada.get("/ada/rivers/settings/collaborators").expect(200);
    ada.submit(&page, "/ada/rivers/settings/collaborators", &[("username", "bob"), ("role", "read")]).expect(303);
    bob.get("/").expect(200).shows("pull request #1");
    let page = ada.get("/ada/rivers/settings/collaborators").expect(200);
    ada.submit(&page, "/ada/rivers/settings/collaborators/remove", &[("username", "bob")]).expect(303);
    silent(bob.get("/").expect(200));
}
