//! The key ring: rotated beside a running server, interrupted at any point, left out of backups.

use std::fs;
use std::path::Path;
use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, Receiver, ServerProcess, wait_until};
use serde_json::{Value, json};

use crate::process::program;

const HOOKS: usize = 120;

fn start(dir: &Path) -> ServerProcess {
    ServerProcess::start(
        program()
            .serve(dir)
            .env("BRANCHYARD_HOOKS__ALLOWED_CIDRS", "127.0.0.0/8,::1/128")
            .env("BRANCHYARD_HOOKS__MAX_PER_DATABASE", "200"),
    )
}

fn actor(server: &ServerProcess, token: &str) -> Actor {
    Actor::new(server.origin.clone(), Some(token.to_owned()), "ada")
}

fn listed(dir: &Path) -> Value {
    serde_json::from_str(&program().succeed(dir, &["keys", "list", "--json"])).unwrap()
}

fn newest(dir: &Path) -> String {
    listed(dir)["keys"][0]["id"].as_str().unwrap().to_owned()
}

fn refused(dir: &Path, args: &[&str]) -> String {
    let output = program().run(dir, args);
    assert!(!output.status.success(), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

/// Registers a webhook for branches, and returns its id.
fn hook(ada: &Actor, receiver: &Receiver) -> String {
    let body = json!({"url": receiver.url(), "events": ["on_branch"]});
    let hook = ada.post("/databases/ada/rivers/hooks", &body);
    hook.expect(201).data()["id"].as_str().unwrap().to_owned()
}

fn branch(ada: &Actor, name: &str) {
    ada.post("/databases/ada/rivers/branches", &json!({"name": name, "from": {"branch": "main"}})).expect(201);
}

#[test]
fn a_key_is_rotated_beside_a_running_server_and_the_old_one_removed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let token = program().user(dir, "ada");
    let server = start(dir);
    let ada = actor(&server, &token);
    ada.database("rivers");
    branch(&ada, "a");
    let receiver = Receiver::start();
    hook(&ada, &receiver);
    let page =
        ada.get("/databases/ada/rivers/branches?page_size=1").expect(200).json()["meta"]["next_page_token"].clone();
    let next = format!("/databases/ada/rivers/branches?page_size=1&page_token={}", page.as_str().unwrap());
    let old = newest(dir);
    assert_eq!(listed(dir), json!({"keys": [{"id": old, "newest": true, "hooks": 1}], "absent": []}));
    assert!(refused(dir, &["keys", "remove", &old]).contains("is the newest key"));
    assert!(refused(dir, &["keys", "remove", "none"]).contains("no key \"none\""));

    let said = program().succeed(dir, &["keys", "rotate"]);
    let new = newest(dir);
    assert!(said.contains(&new) && new != old, "{said}");
    wait_until("the new key", AMPLE, || listed(dir)["keys"][0]["hooks"] == 1);
    assert_eq!(listed(dir)["keys"][1], json!({"id": old, "newest": false, "hooks": 0}));
    let text = program().succeed(dir, &["keys", "list"]);
    assert_eq!(text, format!("{new}: 1 webhooks and mirrors, newest\n{old}: 0 webhooks and mirrors"));
    ada.get(&next).expect(200);
    branch(&ada, "b");
    assert_eq!(receiver.wait_for(1).len(), 1);

    program().succeed(dir, &["keys", "remove", &old]);
    wait_until("the end of the old page token", AMPLE, || ada.get(&next).status == 400);
    branch(&ada, "c");
    assert_eq!(receiver.wait_for(2).len(), 2);
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}

#[test]
fn a_key_that_seals_secrets_is_not_removed_and_a_file_of_raw_bytes_is_a_ring_of_one() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("server.key"), [7; 32]).unwrap();
    let token = program().user(&dir, "ada");
    let server = start(&dir);
    let ada = actor(&server, &token);
    ada.database("rivers");
    let receiver = Receiver::start();
    hook(&ada, &receiver);
    server.terminate();
    assert_eq!(fs::read(dir.join("server.key")).unwrap(), [7; 32], "it stays as it is");
    let old = newest(&dir);
    program().succeed(&dir, &["keys", "rotate"]);
    assert!(fs::read_to_string(dir.join("server.key")).unwrap().contains(&format!("\n{old} BwcH")));
    // No server runs, so the secrets are sealed under the old key.
    assert!(
        refused(&dir, &["keys", "remove", &old]).contains("the secrets of 1 webhooks and mirrors are sealed under")
    );
    let server = start(&dir);
    wait_until("the new key", AMPLE, || listed(&dir)["keys"][0]["hooks"] == 1);
    program().succeed(&dir, &["keys", "remove", &old]);
    branch(&actor(&server, &token), "a");
    receiver.wait_for(1);
    server.terminate();

    for _ in 0..15 {
        program().succeed(&dir, &["keys", "rotate"]);
    }
    assert_eq!(listed(&dir)["keys"].as_array().unwrap().len(), 16);
    assert!(refused(&dir, &["keys", "rotate"]).contains("16 keys"));
    fs::write(dir.join("server.key"), "a SECRET\n").unwrap();
    let error = refused(&dir, &["serve"]);
    assert!(error.contains("line 1: the key must be 32 bytes") && !error.contains("SECRET"), "{error}");
}

#[test]
fn every_secret_opens_whenever_the_server_is_killed_while_it_seals_anew() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let token = program().user(dir, "ada");
    let server = start(dir);
    let ada = actor(&server, &token);
    ada.database("rivers");
    let receiver = Receiver::start();
    (0..HOOKS).for_each(|_| drop(hook(&ada, &receiver)));
    server.terminate();
    for round in 0..8_u64 {
        // Every second time the key is added beside the running server.
        if round % 2 == 0 {
            program().succeed(dir, &["keys", "rotate"]);
        }
        let server = start(dir);
        if round % 2 == 1 {
            program().succeed(dir, &["keys", "rotate"]);
        }
        std::thread::sleep(Duration::from_millis(round * 7));
        server.kill();
        assert_eq!(listed(dir)["absent"], json!([]), "round {round}");
    }
    let server = start(dir);
    wait_until("the newest key", AMPLE, || listed(dir)["keys"][0]["hooks"] == HOOKS);
    branch(&actor(&server, &token), "a");
    receiver.wait_for(HOOKS);
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}

#[test]
fn a_backup_leaves_the_keys_out_and_says_which_secrets_have_to_be_renewed() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("data");
    let token = program().user(&dir, "ada");
    let server = start(&dir);
    let ada = actor(&server, &token);
    ada.database("rivers");
    let receiver = Receiver::start();
    let hook = hook(&ada, &receiver);
    let back_up = |name: &str, flags: &[&str]| {
        let to = home.path().join(name);
        let output = program().run(&dir, &[&["backup", "--to", to.to_str().unwrap()], flags].concat());
        assert!(output.status.success(), "{output:?}");
        (to, String::from_utf8(output.stderr).unwrap())
    };
    let (plain, note) = back_up("plain", &[]);
    assert!(!plain.join("server.key").exists() && note.contains("leaves out the key ring"), "{note}");
    let (keyed, note) = back_up("keyed", &["--with-keys"]);
    assert!(note.contains("warning") && note.contains("can open the secrets"), "{note}");
    let ring = fs::read(dir.join("server.key")).unwrap();
    assert_eq!(fs::read(keyed.join("server.key")).unwrap(), ring);
    server.terminate();

    let restore = |name: &str, from: &Path, with: Option<&[u8]>| {
        let back = home.path().join(name);
        if let Some(ring) = with {
            fs::create_dir(&back).unwrap();
            fs::write(back.join("server.key"), ring).unwrap();
        }
        let said = program().succeed(&back, &["restore", "--from", from.to_str().unwrap()]);
        (back, said)
    };
    for (name, from, with) in [("back-keyed", &keyed, None), ("back-beside", &plain, Some(&ring[..]))] {
        let (back, said) = restore(name, from, with);
        assert!(!said.contains(&hook) && said.ends_with("everything is in order"), "{said}");
        assert_eq!(fs::read(back.join("server.key")).unwrap(), ring);
        assert_eq!(program().succeed(&back, &["doctor"]), "everything is in order");
    }
    let (back, said) = restore("back-plain", &plain, None);
    let expected =
        format!("webhook {hook} of ada/rivers: the key of its secret is not in the key ring; rotate its secret");
    assert!(said.contains(&expected) && said.contains("API tokens and sessions stay valid"), "{said}");
    assert!(said.ends_with("restored 1 databases; everything is in order"), "{said}");
    assert_ne!(fs::read(back.join("server.key")).unwrap(), ring);
    assert_eq!(listed(&back)["absent"][0]["hooks"], 1);
    let doctor = program().run(&back, &["doctor"]);
    assert!(!doctor.status.success() && String::from_utf8_lossy(&doctor.stdout).contains(&expected), "{doctor:?}");

    // The secret is renewed as the message says.
    let server = start(&back);
    let ada = actor(&server, &token);
    branch(&ada, "a");
    ada.post(&format!("/databases/ada/rivers/hooks/{hook}/rotate-secret"), &json!({})).expect(200);
    receiver.wait_for(1);
    server.terminate();
    assert_eq!(program().succeed(&back, &["doctor"]), "everything is in order");
}
