//! Bodies of the clients of the engine: hashes, chunks, and changes of refs.

use branchyard_remote_protocol::{
    BranchEntry, NO_HASH, RefUpdate, Refs, Scope, TagEntry, encode_hashes, encode_record, hash_of,
};
use reqwest::Method;

use super::targets::HostileHarness;

/// What the endpoints answer to a body that they do not take.
const REFUSED: &[(u16, &str)] = &[
    (400, "bad_request"),
    (400, "rejected"),
    (400, "non_ff"),
    (409, "missing_chunks"),
    (409, "refs_changed"),
    (409, "working_set"),
    (413, "toobig"),
    (503, "busy"),
];

fn send(harness: &HostileHarness, method: Method, endpoint: &str, bytes: &[u8]) -> Result<(u16, Vec<u8>), String> {
    let request = harness.ada.plain(method, &format!("/ada/rivers/{endpoint}")).body(bytes.to_vec());
    let request = request.header("content-type", "application/octet-stream");
    let answer = request.bearer_auth(harness.secret()).send().map_err(|error| error.to_string())?;
    let (status, has_length) = (answer.status().as_u16(), answer.content_length().is_some());
    let body = answer.bytes().map_err(|error| error.to_string())?.to_vec();
    if status != 204 && !has_length {
        return Err(format!("{endpoint}: the answer has no length"));
    }
    if status < 300 {
        return Ok((status, body));
    }
    let problem: serde_json::Value = serde_json::from_slice(&body).map_err(|error| error.to_string())?;
    let (code, message) =
        (problem["code"].as_str().unwrap_or_default(), problem["message"].as_str().unwrap_or_default());
    let is_plain = !message.is_empty() && !message.contains(|c: char| c == '"' || c == '\\' || c.is_control());
    if REFUSED.contains(&(status, code)) && is_plain {
        Ok((status, body))
    } else {
        Err(format!("{endpoint}: {problem}"))
    }
}

pub(super) fn lists() -> Vec<Vec<u8>> {
    let hashes = [NO_HASH, hash_of(b"a"), hash_of(b"")];
    vec![encode_hashes(&hashes), vec![7; 20 * 4_096], vec![7; 20 * 4_097], vec![7; 19], Vec::new()]
}

/// Asks for chunks, and for what need not be uploaded.
pub(super) fn hashes(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let (status, found) = send(harness, Method::POST, "get-chunks", bytes)?;
    if status == 200 && found.len() < bytes.len() / 20 * 4 {
        return Err("an answer is missing".into());
    }
    let (also, has) = send(harness, Method::POST, "has-chunks", bytes)?;
    let is_complete = also != 200 || (has.len() == bytes.len() / 20 && has.iter().all(|has| *has < 2));
    if status == also && is_complete { Ok(status.to_string()) } else { Err(format!("{status}, then {also}: {has:?}")) }
}

pub(super) fn records() -> Vec<Vec<u8>> {
    let (mut good, mut wrong) = (Vec::new(), Vec::new());
    [&b"a"[..], b"", &[2; 300]].iter().for_each(|content| encode_record(&mut good, content));
    encode_record(&mut wrong, b"abc");
    wrong[0] ^= 1;
    let announced = [&hash_of(b"x")[..], &u32::MAX.to_le_bytes(), b"x"].concat();
    vec![good, wrong, announced, vec![0; 24], Vec::new()]
}

/// Uploads chunks.
pub(super) fn chunks(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    send(harness, Method::POST, "chunks", bytes).map(|(status, _)| status.to_string())
}

pub(super) fn updates() -> Vec<Vec<u8>> {
    let branch = |name: &str| BranchEntry { name: name.to_owned(), head: hash_of(name.as_bytes()) };
    let tag = TagEntry {
        name: "v1".into(),
        commit: hash_of(b"v"),
        tagger: "Ana".into(),
        email: "ana@x.org".into(),
        seconds: 1_767_323_045,
        message: "first".into(),
    };
    let refs = Refs { default_branch: "main".into(), branches: vec![branch("main"), branch("side")], tags: vec![tag] };
    [Scope::Branch("side"), Scope::DeletedBranch("side"), Scope::Tag("v1"), Scope::DeletedTag("v1")]
        .into_iter()
        .map(|scope| RefUpdate { scope, is_forced: true, expected: NO_HASH, refs: refs.clone() }.encode())
        .collect()
}

/// Changes a ref. The caller has not seen the present refs, so none may change.
pub(super) fn update(harness: &HostileHarness, bytes: &[u8]) -> Result<String, String> {
    let before = send(harness, Method::GET, "refs", b"")?;
    let (status, _) = send(harness, Method::PUT, "refs-if", bytes)?;
    if status < 300 || send(harness, Method::GET, "refs", b"")? != before {
        return Err(format!("{status}: the refs may have changed"));
    }
    Ok(status.to_string())
}
