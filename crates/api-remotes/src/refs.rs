//! The refs of a database as one blob, in the layout that clients expect. Integers are little-endian, and texts follow their
//! length.
//!
//! Two answers between which nothing changed are the same bytes: the client compares hashes of them.

use branchyard_domain::usecases::RemoteRefs;
use branchyard_domain::values::ChunkHash;

/// Version of the layout.
const VERSION: u8 = 7;

/// Encodes refs.
pub(crate) fn encode(refs: &RemoteRefs) -> Vec<u8> {
    let mut blob = Blob(vec![VERSION]);
    blob.text(refs.default_branch.as_str());
    blob.count(refs.branches.len());
    for branch in &refs.branches {
        blob.text(branch.name.as_str());
        blob.hash(ChunkHash::from(&branch.head));
        // The working set: a server has none.
        blob.hash(ChunkHash::NONE);
    }
    blob.count(refs.tags.len());
    for tag in &refs.tags {
        blob.text(tag.name.as_str());
        blob.hash(ChunkHash::from(&tag.commit));
        // The name and address of the tagger, which are not stored.
        blob.text("");
        blob.text("");
        blob.0.extend(tag.tagged_at.as_seconds().to_le_bytes());
        blob.text(tag.message.as_deref().unwrap_or_default());
    }
    // Remotes, tracking branches, and counters of AUTOINCREMENT, which are in the commits.
    for _ in 0..3 {
        blob.count(0);
    }
    blob.0
}

struct Blob(Vec<u8>);

impl Blob {
    fn count(&mut self, count: usize) {
        // The number of refs is limited, and so is the length of each of their texts.
        self.0.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }

    fn hash(&mut self, hash: ChunkHash) {
        self.0.extend(hash.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::{Branch, Tag};
    use branchyard_domain::values::{CommitHash, RefName, Timestamp};

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn refs_are_encoded_as_clients_read_them() {
        let branch = |name: &str, head: &str| Branch {
            name: RefName::parse(name).unwrap(),
            head: CommitHash::parse(head).unwrap(),
            updated_at: Timestamp::from_seconds(0),
        };
        let refs = RemoteRefs {
            default_branch: RefName::parse("main").unwrap(),
            branches: vec![
                branch("fix-7", "a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16"),
                branch("main", "3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1"),
            ],
            tags: vec![Tag {
                name: RefName::parse("v1").unwrap(),
                commit: CommitHash::parse("3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1").unwrap(),
                message: Some("first".to_owned()),
                tagged_at: Timestamp::from_seconds(1_767_323_045),
            }],
        };
        // The published example, whose tag has a tagger (`Ana`, `ana@x.org`) where this has none.
        let expected = "07040000006d61696e02000000050000006669782d37a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16\
             0000000000000000000000000000000000000000040000006d61696e3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1\
             0000000000000000000000000000000000000000010000000200000076313f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1\
             0000000000000000a535576900000000050000006669727374000000000000000000000000";
        assert_eq!(hex(&encode(&refs)), expected);
    }
}
