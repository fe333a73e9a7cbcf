//! Branches and tags as one blob.
//!
//! Two blobs between which nothing changed are the same bytes: clients compare their hashes.

use crate::input::{Input, Malformed};
use crate::{Hash, NO_HASH, hash_of};

/// Version of the layout.
const VERSION: u8 = 7;
/// The name of an object's hash is followed by that of a working set, which servers do not have.
const LEAST_BRANCH: usize = 4 + 20 + 20;
const LEAST_TAG: usize = 4 + 20 + 4 + 4 + 8 + 4;

/// The branches and tags of a database.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Refs {
    /// Name of the default branch.
    pub default_branch: String,
    /// The branches. A server sends them in byte order of their names.
    pub branches: Vec<BranchEntry>,
    /// The tags. A server sends them in byte order of their names.
    pub tags: Vec<TagEntry>,
}

/// A branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchEntry {
    /// Name of the branch.
    pub name: String,
    /// Its newest commit.
    pub head: Hash,
}

/// A tag. Texts are empty if there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagEntry {
    /// Name of the tag.
    pub name: String,
    /// The tagged commit.
    pub commit: Hash,
    /// Name of the person who made the tag.
    pub tagger: String,
    /// Email address of that person.
    pub email: String,
    /// When the tag was made, in seconds since the start of 1970.
    pub seconds: i64,
    /// The message.
    pub message: String,
}

impl Refs {
    /// Encodes the refs.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Output(vec![VERSION]);
        out.text(&self.default_branch);
        out.count(self.branches.len());
        for branch in &self.branches {
            out.text(&branch.name);
            out.0.extend(branch.head);
            out.0.extend(NO_HASH);
        }
        out.count(self.tags.len());
        for tag in &self.tags {
            out.text(&tag.name);
            out.0.extend(tag.commit);
            out.text(&tag.tagger);
            out.text(&tag.email);
            out.0.extend(tag.seconds.to_le_bytes());
            out.text(&tag.message);
        }
        // Remotes, tracking branches, and counters of AUTOINCREMENT, which are in the commits.
        for _ in 0..3 {
            out.count(0);
        }
        out.0
    }

    /// Parses refs as clients and servers send them. What no server has is read and dropped: working sets, remotes, tracking
    /// branches, counters, and the marks of names that were chosen explicitly.
    ///
    /// # Errors
    /// [`Malformed`] for another version, and for what is cut off or goes on.
    pub fn parse(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut input = Input(bytes);
        if input.array()? != [VERSION] {
            return Err(Malformed("the refs have an unknown version"));
        }
        let default_branch = name(&mut input)?;
        let branches = input.list(LEAST_BRANCH, |input| {
            let branch = BranchEntry { name: name(input)?, head: input.hash()? };
            input.hash()?;
            Ok(branch)
        })?;
        let tags = input.list(LEAST_TAG, |input| {
            Ok(TagEntry {
                name: name(input)?,
                commit: input.hash()?,
                tagger: input.text()?.to_owned(),
                email: input.text()?.to_owned(),
                seconds: input.array().map(i64::from_le_bytes)?,
                message: input.text()?.to_owned(),
            })
        })?;
        input.list(8, |input| input.text().and_then(|_| input.text()))?;
        input.list(28, |input| input.text().and_then(|_| input.text()).and_then(|_| input.hash()))?;
        input.list(12, |input| input.text().and_then(|_| input.take(8)))?;
        input.end()?;
        Ok(Self { default_branch, branches, tags })
    }

    /// Returns the hash by which a client names the refs that it has seen.
    #[must_use]
    pub fn hash(&self) -> Hash {
        hash_of(&self.encode())
    }

    /// Returns a branch.
    #[must_use]
    pub fn branch(&self, name: &str) -> Option<&BranchEntry> {
        self.branches.iter().find(|branch| branch.name == name)
    }

    /// Returns a tag.
    #[must_use]
    pub fn tag(&self, name: &str) -> Option<&TagEntry> {
        self.tags.iter().find(|tag| tag.name == name)
    }
}

/// Takes a name. One zero byte at its end marks a name that was chosen explicitly.
fn name(input: &mut Input<'_>) -> Result<String, Malformed> {
    let name = input.text()?;
    Ok(name.strip_suffix('\0').unwrap_or(name).to_owned())
}

struct Output(Vec<u8>);

impl Output {
    fn count(&mut self, count: usize) {
        // Neither the number of refs nor the length of a text comes near the maximum.
        self.0.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.count(text.len());
        self.0.extend(text.as_bytes());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hex;

    pub(crate) fn bytes(hex: &str) -> Vec<u8> {
        let hex = hex.as_bytes();
        hex.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
    }

    fn hash(hex: &str) -> Hash {
        bytes(hex).try_into().unwrap()
    }

    /// The published example.
    pub(crate) fn example() -> Refs {
        let branch = |name: &str, head: &str| BranchEntry { name: name.to_owned(), head: hash(head) };
        Refs {
            default_branch: "main".to_owned(),
            branches: vec![
                branch("fix-7", "a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16"),
                branch("main", "3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1"),
            ],
            tags: vec![TagEntry {
                name: "v1".to_owned(),
                commit: hash("3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1"),
                tagger: "Ana".to_owned(),
                email: "ana@x.org".to_owned(),
                seconds: 1_767_323_045,
                message: "first".to_owned(),
            }],
        }
    }

    pub(crate) const EXAMPLE: &str = "07040000006d61696e02000000050000006669782d37a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16\
        0000000000000000000000000000000000000000040000006d61696e3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1\
        0000000000000000000000000000000000000000010000000200000076313f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1\
        03000000416e6109000000616e6140782e6f7267a535576900000000050000006669727374000000000000000000000000";

    #[test]
    fn the_published_example_is_encoded_parsed_and_hashed() {
        let encoded = example().encode();
        assert_eq!(encoded, bytes(EXAMPLE));
        assert_eq!(encoded.len(), 189);
        assert_eq!(Refs::parse(&encoded).unwrap(), example());
        assert_eq!(hex(&example().hash()), "1fae8cf65fcbe841dd9a50f12d8a79a29083d1da");
    }

    #[test]
    fn what_is_cut_off_goes_on_or_has_another_version_is_malformed() {
        let encoded = example().encode();
        for length in 0..encoded.len() {
            assert!(Refs::parse(&encoded[..length]).is_err(), "{length}");
        }
        assert!(Refs::parse(&[&encoded[..], &[0]].concat()).is_err());
        assert!(Refs::parse(&[&[6], &encoded[1..]].concat()).is_err());
        // A count beyond the message, before which nothing is allocated.
        let mut many = encoded.clone();
        many[9..13].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(Refs::parse(&many).is_err());
    }

    #[test]
    fn marks_of_chosen_names_and_the_state_of_a_client_are_dropped() {
        let text = |text: &str| [&u32::try_from(text.len()).unwrap().to_le_bytes(), text.as_bytes()].concat();
        let one = 1_u32.to_le_bytes().to_vec();
        let parts = [
            vec![7],
            text("main\0"),
            one.clone(),
            text("main\0"),
            vec![3; 20],
            vec![9; 20],
            vec![0; 4],
            one.clone(),
            [text("origin"), text("https://yard.example/ana/trees")].concat(),
            one.clone(),
            [text("origin"), text("main"), vec![4; 20]].concat(),
            one,
            [text("trees"), vec![5; 8]].concat(),
        ];
        let refs = Refs::parse(&parts.concat()).unwrap();
        let branches = vec![BranchEntry { name: "main".to_owned(), head: [3; 20] }];
        assert_eq!(refs, Refs { default_branch: "main".to_owned(), branches, tags: Vec::new() });
    }

    proptest! {
        /// No bytes make the parser panic, and what it accepts it encodes again.
        #[test]
        fn any_bytes_are_parsed(random: Vec<u8>, at: prop::sample::Index, byte: u8) {
            let mut mutated = example().encode();
            let at = at.index(mutated.len());
            mutated[at] = byte;
            for bytes in [random, mutated] {
                if let Ok(refs) = Refs::parse(&bytes) {
                    prop_assert_eq!(Refs::parse(&refs.encode()).unwrap(), refs);
                }
            }
        }
    }
}
