//! Fills the disk at different moments of a purge.

use std::time::Duration;

use branchyard_testkit::{AMPLE, Actor, ServerProcess, wait_until};
use serde_json::json;

use super::{files_with, heads, tokens};
use crate::faults::disk::{Disk, small_disks};
use crate::process::program;

/// Moments after the acceptance of the purge, in milliseconds.
const MOMENTS: [u64; 10] = [0, 5, 10, 20, 30, 45, 60, 90, 140, 300];

#[test]
fn a_disk_that_fills_up_in_a_purge_costs_nothing_but_the_purge() {
    if !small_disks() {
        println!("not tested: this machine does not allow mounting a small disk");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let disk = Disk::mount(dir).unwrap();
    let token = tokens(dir, &["ada"]).remove(0);
    // The disk is smaller than what the server keeps free by default.
    let start = || ServerProcess::start(program().serve(dir).env("BRANCHYARD_LIMITS__MIN_FREE_BYTES", "0"));
    let server = start();
    let ada = Actor::new(server.origin.clone(), Some(token.clone()), "ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table t (id integer primary key, v text)");
    for number in 0..16 {
        ada.write("ada/d", "main", &format!("insert into t values ({number}, hex(randomblob(1000000)))"));
    }
    let mut met = 0;
    for (number, after) in MOMENTS.into_iter().enumerate() {
        let body = json!({"from_branch": "main", "to_branch": "gone", "q":
            format!("insert into t values (100, 'PLANTED' || hex(randomblob(500000))); insert into t values (200, '{number}')")});
        assert_eq!(ada.finish(&ada.post("/databases/ada/d/sql-writes", &body))["status"], "succeeded");
        ada.delete("/databases/ada/d/branches/gone").expect(200);
        let accepted = ada.post("/databases/ada/d/purge", &json!({})).expect(202);
        std::thread::sleep(Duration::from_millis(after));
        disk.fill(0);
        std::thread::sleep(Duration::from_millis(300));
        for head in heads(&ada, "ada/d") {
            assert_eq!(ada.read("ada/d", &head, "select count(*), min(length(v)) from t"), json!([["16", "2000000"]]));
        }
        let href = accepted.data()["href"].as_str().unwrap().to_owned();
        // One that met a full disk has not ended, because its end cannot be recorded either, or has failed.
        met += usize::from(ada.get(&href).expect(200).data()["status"] != "succeeded");
        disk.free();
        ada.finish(&accepted);
        let left = || std::fs::read_dir(dir.join("databases/tmp")).unwrap().count();
        wait_until("the temporary files to go", AMPLE, || left() == 0);
    }
    assert!(met > 1, "{met} purges met a full disk");
    let operation = ada.finish(&ada.post("/databases/ada/d/purge", &json!({})).expect(202));
    assert_eq!(operation["status"], "succeeded", "{operation}");
    assert!(files_with(&dir.join("databases"), "PLANTED").is_empty());
    ada.write("ada/d", "main", "insert into t values (300, 'after')");
    server.terminate();
    assert_eq!(program().succeed(dir, &["doctor"]), "everything is in order");
}
