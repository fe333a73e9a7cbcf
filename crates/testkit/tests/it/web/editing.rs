//! Editing rows with forms, without JavaScript.

use super::rivers::{branch, rivers, signed_in};

const TABLE: &str = "/ada/rivers/tables/rivers";

#[test]
fn a_row_is_changed_added_and_deleted_by_forms() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    let row = browser.get(&format!("{TABLE}/row?column=id&test=eq&value=1")).expect(200).shows("id=\"edit-row\"");
    assert!(row.text.contains(&format!("{TABLE}/edit?column=id&#38;test=eq&#38;value=1")));
    let edit = format!("{TABLE}/edit?column=id&test=eq&value=1");
    let form = browser.get(&edit).expect(200).shows("Commit changes").shows("Delete row");
    let name = ada.read("ada/rivers", "main", "select name from rivers where id = 1")[0][0].clone();
    assert_eq!(form.value_of("value-1"), name.as_str().unwrap());

    // Nothing changed, nothing committed.
    browser.submit(&form, &edit, &[("action", "save")]).expect(422).shows("Nothing was changed");
    let sent = browser.submit(&form, &edit, &[("action", "save"), ("value-1", "Rhine\r\n& <b>")]).expect(303);
    assert!(sent.location.as_deref().unwrap().starts_with(TABLE), "{:?}", sent.location);
    browser.follow(&sent).expect(200).shows("Committed to main as");
    assert_eq!(ada.read("ada/rivers", "main", "select name from rivers where id = 1")[0][0], "Rhine\n& <b>");

    // A new row gets the defaults of what is left empty.
    let add = format!("{TABLE}/edit");
    browser.get(TABLE).expect(200).shows("id=\"add-row\"");
    let form = browser.get(&add).expect(200).shows("Add row");
    let values = [("action", "save"), ("value-0", "77"), ("value-1", "Spree"), ("message", "A river of ours")];
    browser.submit(&form, &add, &values).expect(303);
    assert_eq!(ada.read("ada/rivers", "main", "select name from rivers where id = 77")[0][0], "Spree");
    browser.get("/ada/rivers/commits").expect(200).shows("A river of ours");
    browser.submit(&form, &add, &values).expect(422).shows("UNIQUE constraint failed");

    // To a new branch, which leads to the form of a pull request.
    let edit = format!("{TABLE}/edit?column=id&test=eq&value=77");
    let form = browser.get(&edit).expect(200);
    let values = [("action", "delete"), ("target", "pull"), ("new_branch", "less")];
    let sent = browser.submit(&form, &edit, &values).expect(303);
    assert_eq!(sent.location.as_deref(), Some("/ada/rivers/pulls/new?from=less&to=main"));
    assert_eq!(ada.read("ada/rivers", "main", "select count(*) from rivers where id = 77")[0][0], "1");
    assert_eq!(ada.read("ada/rivers", "less", "select count(*) from rivers where id = 77")[0][0], "0");
    // A branch that is there already may be that of another pull request.
    browser.submit(&form, &edit, &values).expect(422).shows("Branch &#39;less&#39; already exists.");
}

#[test]
fn what_another_person_changed_meanwhile_is_shown_before_it_is_replaced() {
    let (server, ada, _) = rivers();
    let browser = signed_in(&server, "ada");
    let edit = format!("{TABLE}/edit?column=id&test=eq&value=1");
    let form = browser.get(&edit).expect(200);
    ada.write("ada/rivers", "main", "update rivers set name = 'Theirs' where id = 1");
    let mine = [("action", "save"), ("value-1", "Mine")];
    // A fault of the form does not make the page forget which version was edited.
    let faulty = browser
        .submit(&form, &edit, &[mine[0], mine[1], ("target", "pull"), ("new_branch", "no such..name")])
        .expect(422);
    let conflict = browser.submit(&faulty, &edit, &[mine[0], mine[1], ("target", "branch")]).expect(422);
    let conflict = conflict
        .shows("Someone else changed this row")
        .shows("is &#39;Theirs&#39; now, and would become &#39;Mine&#39;");
    assert_eq!(ada.read("ada/rivers", "main", "select name from rivers where id = 1")[0][0], "Theirs");
    assert_eq!(conflict.value_of("value-1"), "Mine");
    browser.submit(&conflict, &edit, &mine).expect(303);
    assert_eq!(ada.read("ada/rivers", "main", "select name from rivers where id = 1")[0][0], "Mine");
}

#[test]
fn only_writers_edit_and_only_at_a_branch() {
    let (server, ada, _) = rivers();
    branch(&ada, "work");
    ada.post("/databases/ada/rivers/tags", &serde_json::json!({"name": "v1", "from": {"branch": "main"}})).expect(201);
    let (owner, ben) = (signed_in(&server, "ada"), signed_in(&server, "ben"));
    let edit = |at: &str| format!("{TABLE}/edit?ref={at}&column=id&test=eq&value=1");
    owner.get(&edit("work")).expect(200).shows("branch work");
    owner.get(&edit("v1")).expect(404);
    owner.get(&format!("{TABLE}/edit?column=id&test=eq&value=999")).expect(404);
    owner.get("/ada/rivers/tables/nowhere/edit").expect(404);
    ben.get(&edit("main")).expect(403);
    for page in [format!("{TABLE}/row?ref=v1&column=id&test=eq&value=1"), TABLE.to_owned() + "?ref=v1"] {
        let page = owner.get(&page).expect(200);
        assert!(!page.text.contains("id=\"edit-row\"") && !page.text.contains("id=\"add-row\""));
    }
    assert!(!ben.get(TABLE).expect(200).text.contains("id=\"add-row\""));
    let form = owner.get(&edit("work")).expect(200);
    ben.submit(&form, &edit("work"), &[("action", "delete")]).expect(403);
}
