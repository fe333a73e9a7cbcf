//! `limits.min_free_bytes` on a small disk: what needs storage is refused, what frees it or signs in works, and it ends by itself.

use branchyard_testkit::{AMPLE, Actor, ServerProcess, wait_until};
use serde_json::json;

use crate::faults::disk::{Disk, small_disks};
use crate::process::program;

const MIB: u64 = 1 << 20;

#[test]
fn a_server_with_little_storage_left_serves_what_needs_none() {
    if !small_disks() {
        println!("not tested: this machine does not allow mounting a small disk");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let dir = home.path();
    let disk = Disk::mount(dir).unwrap();
    let limit = (96 * MIB).to_string();
    let token = program().user(dir, "ada");
    let server = ServerProcess::start(program().serve(dir).env("BRANCHYARD_LIMITS__MIN_FREE_BYTES", &limit));
    let ada = Actor::new(server.origin.clone(), Some(token), "ada");
    ada.database("d");
    ada.write("ada/d", "main", "create table t (x); insert into t values ('kept')");
    let body = json!({"from_branch": "main", "to_branch": "gone", "q": "insert into t values ('gone')"});
    assert_eq!(ada.finish(&ada.post("/databases/ada/d/sql-writes", &body))["status"], "succeeded");
    let write = || ada.post("/databases/ada/d/sql-writes", &body);
    let branch = |name: &str| ada.post("/databases/ada/d/branches", &json!({"name": name, "from": {"branch": "main"}}));

    // The server itself writes meanwhile: its write-ahead log alone may grow by several MiB.
    disk.fill(110 * MIB);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    let above = branch("above");
    assert_eq!(above.status, 201, "just above the limit: {}", above.text);
    disk.fill(80 * MIB);
    // Not by a write: one that was queued just before would hold up the purge below.
    wait_until("changes to be refused", AMPLE, || branch("probe").status == 503);
    for refused in [
        write(),
        branch("below"),
        ada.post("/databases", &json!({"owner": "ada", "name": "e", "visibility": "public"})),
    ] {
        assert_eq!((refused.status, refused.code().as_str()), (503, "SERVICE_UNAVAILABLE"), "{}", refused.text);
        assert_eq!(refused.header("retry-after"), "60", "{}", refused.text);
        assert!(refused.text.contains("storage"), "{}", refused.text);
    }
    assert_eq!(ada.read("ada/d", "main", "select x from t"), json!([["kept"]]));
    ada.delete("/databases/ada/d/branches/gone").expect(200);
    let purge = || ada.finish(&ada.post("/databases/ada/d/purge", &json!({})));
    assert_eq!(purge()["status"], "succeeded");
    disk.fill(40 * MIB);
    let failed = purge();
    assert_eq!(
        (&failed["status"], &failed["error"]["status"]),
        (&json!("failed"), &json!(503)),
        "no room for the copy: {failed}"
    );

    disk.fill(112 * MIB);
    std::thread::sleep(std::time::Duration::from_millis(2_500));
    assert_eq!(write().status, 503, "still below five quarters of the limit");
    disk.free();
    wait_until("writes to be accepted", AMPLE, || branch("again").status == 201);
    server.terminate();
}
