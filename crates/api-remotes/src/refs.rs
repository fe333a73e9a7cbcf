//! The branches and tags of a database in the terms of the protocol.

use branchyard_domain::usecases::RemoteRefs;
use branchyard_domain::values::ChunkHash;
use branchyard_remote_protocol::{BranchEntry, Refs, TagEntry};

/// Returns refs as clients see them.
pub(crate) fn shown(refs: &RemoteRefs) -> Refs {
    let branches = refs
        .branches
        .iter()
        .map(|branch| BranchEntry { name: branch.name.to_string(), head: *ChunkHash::from(&branch.head).as_bytes() });
    let tags = refs.tags.iter().map(|tag| {
        let (tagger, email) =
            tag.tagger.as_ref().map(|tagger| (tagger.name.clone(), tagger.email.clone())).unwrap_or_default();
        TagEntry {
            name: tag.name.to_string(),
            commit: *ChunkHash::from(&tag.commit).as_bytes(),
            tagger,
            email,
            seconds: tag.tagged_at.as_seconds(),
            message: tag.message.clone().unwrap_or_default(),
        }
    });
    Refs { default_branch: refs.default_branch.to_string(), branches: branches.collect(), tags: tags.collect() }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::{Branch, Tag, Tagger};
    use branchyard_domain::values::{CommitHash, RefName, Timestamp};

    use super::*;

    #[test]
    fn refs_are_shown_with_their_properties() {
        let (name, head) = (|name: &str| RefName::parse(name).unwrap(), CommitHash::parse(&"3f".repeat(20)).unwrap());
        let tag = |label: &str, tagger| Tag {
            name: name(label),
            commit: head.clone(),
            message: tagger_message(&tagger),
            tagger,
            tagged_at: Timestamp::from_seconds(5),
        };
        let ana = Tagger { name: "Ana".to_owned(), email: "ana@x.org".to_owned() };
        let refs = RemoteRefs {
            default_branch: name("main"),
            branches: vec![Branch { name: name("main"), head: head.clone(), updated_at: Timestamp::from_seconds(0) }],
            tags: vec![tag("v1", Some(ana)), tag("v2", None)],
        };
        let shown = shown(&refs);
        assert_eq!((shown.default_branch.as_str(), shown.branches[0].head), ("main", [0x3f; 20]));
        let texts = |at: usize| {
            let TagEntry { tagger, email, message, seconds, .. } = &shown.tags[at];
            (tagger.as_str(), email.as_str(), message.as_str(), *seconds)
        };
        assert_eq!(texts(0), ("Ana", "ana@x.org", "first", 5));
        assert_eq!(texts(1), ("", "", "", 5));
    }

    fn tagger_message(tagger: &Option<Tagger>) -> Option<String> {
        tagger.as_ref().map(|_| "first".to_owned())
    }
}
