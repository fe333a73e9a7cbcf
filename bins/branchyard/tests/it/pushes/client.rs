//! A client of the protocol that sends what a test wants. It authenticates with the token of its user.

use branchyard_remote_protocol::{
    BranchEntry, Hash, MOST_HASHES, NO_HASH, RefUpdate, Refs, Scope, TagEntry, encode_hashes, encode_record,
    found_chunks, hash_of, layout,
};
use branchyard_testkit::Actor;
use reqwest::Method;
use reqwest::blocking::Response;
use serde_json::Value;

use super::mutations::Chunks;

/// What is uploaded at once, in bytes.
const UPLOAD: usize = 16 << 20;

/// A refusal: status, code, the number for the user of a client, and the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) status: u16,
    pub(crate) code: String,
    pub(crate) sqlite: i64,
    pub(crate) message: String,
}

impl Refused {
    pub(crate) fn is(&self, status: u16, code: &str, sqlite: i64) -> bool {
        (self.status, self.code.as_str(), self.sqlite) == (status, code, sqlite)
    }
}

/// A database as a remote.
#[derive(Clone, Copy)]
pub(crate) struct Remote<'a> {
    pub(crate) actor: &'a Actor,
    pub(crate) database: &'a str,
}

impl<'a> Remote<'a> {
    pub(crate) fn new(actor: &'a Actor, database: &'a str) -> Self {
        Self { actor, database }
    }

    pub(crate) fn send(&self, method: Method, endpoint: &str, body: Vec<u8>) -> Result<Vec<u8>, Refused> {
        let path = format!("/{}/{endpoint}", self.database);
        let request = self.actor.plain(method, &path).header("content-type", "application/octet-stream").body(body);
        let request = match self.actor.token() {
            Some(token) => request.bearer_auth(token),
            None => request,
        };
        answer(request.send().unwrap())
    }

    pub(crate) fn refs(&self) -> Refs {
        Refs::parse(&self.send(Method::GET, "refs", Vec::new()).unwrap()).unwrap()
    }

    pub(crate) fn head(&self, branch: &str) -> Hash {
        self.refs().branch(branch).unwrap().head
    }

    pub(crate) fn get(&self, hashes: &[Hash]) -> Vec<Option<Vec<u8>>> {
        let body = self.send(Method::POST, "get-chunks", encode_hashes(hashes)).unwrap();
        found_chunks(&body, hashes.len()).unwrap().into_iter().map(|chunk| chunk.map(<[u8]>::to_vec)).collect()
    }

    pub(crate) fn has(&self, hashes: &[Hash]) -> Result<Vec<bool>, Refused> {
        let has = self.send(Method::POST, "has-chunks", encode_hashes(hashes))?;
        assert_eq!(has.len(), hashes.len());
        Ok(has.into_iter().map(|has| has == 1).collect())
    }

    pub(crate) fn upload<'c>(&self, chunks: impl IntoIterator<Item = &'c Vec<u8>>) -> Result<(), Refused> {
        let mut body = Vec::new();
        chunks.into_iter().for_each(|chunk| encode_record(&mut body, chunk));
        self.send(Method::POST, "chunks", body).map(drop)
    }

    /// Changes a ref, having seen what is there.
    pub(crate) fn change(&self, scope: Scope<'_>, is_forced: bool, refs: Refs) -> Result<(), Refused> {
        let seen = match self.send(Method::GET, "refs", Vec::new()) {
            Ok(seen) => hash_of(&seen),
            Err(refused) => {
                assert_eq!(refused.status, 404, "{refused:?}");
                NO_HASH
            }
        };
        self.change_seen(seen, scope, is_forced, refs)
    }

    pub(crate) fn change_seen(
        &self,
        expected: Hash,
        scope: Scope<'_>,
        is_forced: bool,
        refs: Refs,
    ) -> Result<(), Refused> {
        let update = RefUpdate { scope, is_forced, expected, refs };
        self.send(Method::PUT, "refs-if", update.encode()).map(drop)
    }

    /// Moves a branch.
    pub(crate) fn set(&self, branch: &str, head: Hash, is_forced: bool) -> Result<(), Refused> {
        self.change(Scope::Branch(branch), is_forced, with_branch(branch, head))
    }

    pub(crate) fn tag(&self, name: &str, commit: Hash, message: &str) -> Result<(), Refused> {
        let tag = TagEntry {
            name: name.to_owned(),
            commit,
            tagger: "Ana".to_owned(),
            email: "ana@x.org".to_owned(),
            seconds: 1_767_323_045,
            message: message.to_owned(),
        };
        self.change(Scope::Tag(name), true, Refs { tags: vec![tag], ..Refs::default() })
    }

    pub(crate) fn delete(&self, scope: Scope<'_>) -> Result<(), Refused> {
        self.change(scope, false, Refs::default())
    }

    /// Uploads those of the chunks that are not there, and moves a branch.
    pub(crate) fn push(&self, branch: &str, head: Hash, chunks: &Chunks, is_forced: bool) -> Result<(), Refused> {
        self.bring(chunks)?;
        self.set(branch, head, is_forced)
    }

    pub(crate) fn bring(&self, chunks: &Chunks) -> Result<(), Refused> {
        let hashes: Vec<Hash> = chunks.keys().copied().collect();
        for hashes in hashes.chunks(MOST_HASHES) {
            let has = self.has(hashes)?;
            let wanted: Vec<_> =
                hashes.iter().zip(has).filter(|(_, has)| !has).map(|(hash, _)| &chunks[hash]).collect();
            for wanted in wanted.chunk_by(pieces(UPLOAD)) {
                self.upload(wanted.iter().copied())?;
            }
        }
        Ok(())
    }

    /// Returns all chunks below a commit.
    pub(crate) fn history(&self, tip: Hash) -> Chunks {
        let (mut found, mut next) = (Chunks::new(), vec![tip]);
        while !next.is_empty() {
            let hashes: Vec<Hash> = next.drain(next.len().saturating_sub(1_000)..).collect();
            for (hash, chunk) in hashes.iter().zip(self.get(&hashes)) {
                let chunk = chunk.unwrap_or_else(|| panic!("{hash:x?} is absent"));
                if let Some(named) = children(&chunk) {
                    next.extend(named.into_iter().filter(|named| *named != NO_HASH && !found.contains_key(named)));
                }
                found.insert(*hash, chunk);
            }
        }
        found
    }
}

/// Returns what divides chunks into pieces of about this many bytes.
fn pieces(bytes: usize) -> impl FnMut(&&Vec<u8>, &&Vec<u8>) -> bool {
    let mut sum = 0;
    move |chunk, _| {
        sum += chunk.len();
        let fits = sum < bytes;
        sum = if fits { sum } else { 0 };
        fits
    }
}

/// Returns the chunks that a chunk names.
pub(crate) fn children(chunk: &[u8]) -> Option<Vec<Hash>> {
    if let Ok(commit) = layout::commit(chunk) {
        return Some([commit.parents, vec![commit.catalog]].concat());
    }
    layout::catalog(chunk).or_else(|_| layout::node(chunk).map(|node| node.children)).ok()
}

pub(crate) fn with_branch(name: &str, head: Hash) -> Refs {
    let branches = vec![BranchEntry { name: name.to_owned(), head }];
    Refs { default_branch: name.to_owned(), branches, tags: Vec::new() }
}

fn answer(response: Response) -> Result<Vec<u8>, Refused> {
    let status = response.status().as_u16();
    assert!(response.headers().contains_key("content-length") || status == 204, "{response:?}");
    let bytes = response.bytes().unwrap().to_vec();
    if status == 200 || status == 204 {
        return Ok(bytes);
    }
    let body: Value = serde_json::from_slice(&bytes).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&bytes)));
    let text = |key: &str| body[key].as_str().unwrap().to_owned();
    Err(Refused { status, code: text("code"), sqlite: body["sqlite"].as_i64().unwrap(), message: text("message") })
}

/// Returns a commit with a message.
pub(crate) fn commit(parents: &[Hash], catalog: Hash, message: &str) -> Vec<u8> {
    let mut bytes = vec![2, u8::try_from(parents.len()).unwrap()];
    parents.iter().for_each(|parent| bytes.extend(parent));
    bytes.extend(catalog);
    bytes.extend(1_767_323_045_i64.to_le_bytes());
    for text in ["Ana", "ana@x.org", message] {
        bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
        bytes.extend(text.as_bytes());
    }
    bytes
}
