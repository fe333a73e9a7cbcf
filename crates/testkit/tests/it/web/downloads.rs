//! Tables as files.

use super::browser::Browser;
use super::{database, open_server, sign_up};

/// Returns the names in the central directory at the end of an archive.
fn names(bytes: &[u8]) -> Vec<String> {
    let entries: Vec<usize> =
        (0..bytes.len().saturating_sub(46)).filter(|at| bytes[*at..].starts_with(b"PK\x01\x02")).collect();
    let name = |at: usize| {
        let length = usize::from(u16::from_le_bytes([bytes[at + 28], bytes[at + 29]]));
        String::from_utf8(bytes[at + 46..at + 46 + length].to_vec()).unwrap()
    };
    entries.into_iter().map(name).collect()
}

#[test]
fn all_tables_come_as_one_archive_at_the_ref_that_is_shown() {
    let server = open_server();
    let (ada, nobody) = (sign_up(&server, "ada"), Browser::at(&server));
    let actor = database(&server, &ada, "ada");
    actor
        .post("/databases/ada/rivers/branches", &serde_json::json!({"name": "old", "from": {"branch": "main"}}))
        .expect(201);
    actor.write("ada/rivers", "main", "create table \"../x\" (id integer primary key, t text)");
    let page = nobody.get("/ada/rivers?ref=old").expect(200);
    let page = page.shows("id=\"download-zip\"").shows("href=\"/ada/rivers/zip?ref=old\"");
    drop(page);
    let (headers, bytes) = nobody.bytes("/ada/rivers/zip");
    assert_eq!(headers["content-type"], "application/zip");
    assert_eq!(headers["content-disposition"], "attachment; filename*=UTF-8''rivers-main.zip");
    assert_eq!(names(&bytes), ["%2E.%2Fx.csv", "r.csv"]);
    assert_eq!(names(&nobody.bytes("/ada/rivers/zip?ref=old").1), ["r.csv"]);
    nobody.get("/ada/rivers/zip?ref=nothing").expect(404);
    actor.patch("/databases/ada/rivers", &serde_json::json!({"visibility": "private"})).expect(200);
    nobody.get("/ada/rivers/zip").expect(404);
}
