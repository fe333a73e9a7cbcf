//! Organizations and their members.

use super::browser::Browser;
use super::{open_server, sign_up};

#[test]
fn an_organization_is_made_and_its_members_change() {
    let server = open_server();
    let (ada, bob) = (sign_up(&server, "ada"), sign_up(&server, "bob"));
    let new = "/organizations/new";
    let page = ada.get(new).expect(200);
    let fields = |name| [("name", name), ("display_name", "<b>ACME</b>"), ("base_role", "read")];
    ada.submit(&page, new, &fields("bob")).expect(422).shows("is taken");
    ada.submit(&page, new, &fields("settings")).expect(422).shows("is reserved");
    ada.submit(&page, new, &fields("x")).expect(422).shows("3 to 32");
    let done = ada.submit(&page, new, &fields("acme")).expect(303);
    let members = "/organizations/acme/members";
    let page = ada.follow(&done).expect(200).shows("Organization acme created").shows(">You<");
    ada.get("/acme").expect(200).shows("&#60;b&#62;ACME&#60;/b&#62;");

    bob.get(members).expect(403);
    assert_eq!(
        Browser::at(&server).get(members).expect(303).location.as_deref(),
        Some("/sign-in?next=%2Forganizations%2Facme%2Fmembers")
    );
    ada.submit(&page, members, &[("username", "nobody"), ("role", "member")]).expect(422).shows("No user");
    ada.submit(&page, members, &[("username", "bob"), ("role", "member")]).expect(303);
    let seen = bob.get(members).expect(200).shows("Leave");
    assert!(!seen.text.contains("Add a member") && !seen.text.contains("/settings\""), "{}", seen.text);
    bob.get("/organizations/acme/settings").expect(403);
    let remove = format!("{members}/remove");
    let page = ada.get(members).expect(200);
    ada.submit(&page, &remove, &[("username", "ada")]).expect(422).shows("would have no owner");
    ada.submit(&page, members, &[("username", "bob"), ("role", "owner")]).expect(303);
    bob.get("/organizations/acme/settings").expect(200);
    let page = bob.get(members).expect(200);
    bob.submit(&page, &remove, &[("username", "ada")]).expect(303);
    ada.get(members).expect(403);
    bob.submit(&page, &remove, &[("username", "bob")]).expect(422).shows("would have no owner");
}

#[test]
fn settings_are_changed_and_an_empty_organization_is_deleted() {
    let server = open_server();
    let ada = sign_up(&server, "ada");
    let page = ada.get("/organizations/new").expect(200);
    ada.submit(&page, "/organizations/new", &[("name", "acme"), ("base_role", "write")]).expect(303);
    let settings = "/organizations/acme/settings";
    let page = ada.get(settings).expect(200).shows("<option value=\"write\" selected>");
    let fields = [("display_name", "Acme"), ("description", "Rivers"), ("base_role", "admin")];
    let done = ada.submit(&page, settings, &fields).expect(303);
    ada.follow(&done).expect(200).shows("<option value=\"admin\" selected>").shows("Rivers");
    ada.submit(&page, settings, &[("base_role", "king")]).expect(422).shows("Choose read, write or admin");

    let new = ada.get("/new").expect(200);
    ada.submit(&new, "/new", &[("owner", "acme"), ("name", "rivers"), ("visibility", "public")]).expect(303);
    let delete = "/organizations/acme/settings/delete";
    ada.submit(&page, delete, &[("name", "acm")]).expect(422).shows("Nothing was deleted");
    ada.submit(&page, delete, &[("name", "acme")]).expect(422).shows("owns 1 databases");
    let question = ada.get("/acme/rivers/settings/delete").expect(200);
    ada.submit(&question, "/acme/rivers/settings/delete", &[("name", "acme/rivers")]).expect(303);
    ada.submit(&page, delete, &[("name", "acme")]).expect(303);
    ada.get("/acme").expect(404);
    ada.get("/organizations/nothing/settings").expect(404);
}
