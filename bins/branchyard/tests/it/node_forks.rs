//! Forks in a cluster: they refer to the objects of their source until a node uses them.

use std::time::Instant;

use branchyard_testkit::{Actor, ServerProcess, create_user, files_below};
use serde_json::json;

use crate::node_calls::Nodes;

fn at(actor: &Actor, server: &ServerProcess) -> Actor {
    Actor::new(server.origin.clone(), actor.token().map(str::to_owned), actor.name())
}

#[test]
fn a_fork_refers_to_the_objects_of_its_source_until_a_node_uses_it() {
    if let Some(nodes) = Nodes::new("forks") {
        fork_and_use(&nodes);
    }
}

#[test]
fn a_fork_opens_the_sealed_objects_of_its_source() {
    if let Some(nodes) = Nodes::new("sealed_forks") {
        fork_and_use(&nodes.encrypted());
    }
}

fn fork_and_use(nodes: &Nodes) {
    let (first, second) = (nodes.start("first"), nodes.start("second"));
    let [ada, bob, eve] = ["ada", "bob", "eve"].map(|name| {
        let token = create_user(|args: &[&str]| nodes.command("first", args), name);
        Actor::new(first.origin.clone(), Some(token), name)
    });
    let objects = || files_below(&nodes.dir.path().join("store/segments")).len();
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, v text); insert into t values (1, 'kept')");
    ada.post("/databases/ada/d/branches", &json!({"name": "side", "from": {"branch": "main"}})).expect(201);
    let gone = ada.write("ada/d", "side", "insert into t values (2, 'gone')");
    ada.delete("/databases/ada/d/branches/side").expect(200);

    let before = objects();
    for actor in [&bob, &eve] {
        let forked = actor.finish(&actor.post("/databases/ada/d/forks", &json!({"owner": actor.name()})));
        assert_eq!(forked["status"], "succeeded", "{forked}");
    }
    assert_eq!(objects(), before, "nothing is stored for a fork");
    let later = ada.write("ada/d", "main", "insert into t values (3, 'later')");
    // It is checked and backed up by a process that is no node, before a node has made it.
    let backup = nodes.dir.path().join("backup");
    branchyard_testkit::succeed(&mut nodes.command("aside", &["backup", "--to", &backup.display().to_string()]));
    let checked = branchyard_testkit::succeed(&mut nodes.command("aside", &["doctor"]));
    assert!(checked.contains("everything is in order"), "{checked}");
    // A purge makes the forks, and the source goes.
    let rows = |actor: &Actor| actor.read(&format!("{}/d", actor.name()), "main", "select v from t order by id");
    let on_second = at(&bob, &second);
    assert_eq!(rows(&on_second), json!([["kept"]]));
    assert!(objects() > before, "the file of the fork is stored");
    for hash in [&gone, &later] {
        on_second.get(&format!("/databases/bob/d/commits?ref={hash}")).expect(404);
        at(&bob, &first).get(&format!("/databases/bob/d/commits?ref={hash}")).expect(404);
    }
    assert_eq!(rows(&at(&bob, &first)), json!([["kept"]]));
    let purged = ada.finish(&ada.post("/databases/ada/d/purge", &json!({})));
    assert_eq!(purged["status"], "succeeded", "{purged}");
    ada.delete("/databases/ada/d").expect(200);
    let third = nodes.start("third");
    let began = Instant::now();
    for actor in [&bob, &eve] {
        let on_third = at(actor, &third);
        assert_eq!(rows(&on_third), json!([["kept"]]), "after {:?}", began.elapsed());
        on_third.write(&format!("{}/d", actor.name()), "main", "insert into t values (4, 'own')");
        assert_eq!(rows(&at(actor, &first)), json!([["kept"], ["own"]]));
    }
}
