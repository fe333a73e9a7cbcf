//! The change of one ref.

use crate::input::{Input, Malformed};
use crate::{Hash, Refs};

/// The ref that changes, and whether it is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope<'a> {
    /// A branch is created or moved.
    Branch(&'a str),
    /// A branch is deleted.
    DeletedBranch(&'a str),
    /// A tag is created or replaced.
    Tag(&'a str),
    /// A tag is deleted.
    DeletedTag(&'a str),
}

impl<'a> Scope<'a> {
    fn parse(text: &'a str) -> Self {
        if let Some(name) = text.strip_prefix(":tag:") {
            Self::DeletedTag(name)
        } else if let Some(name) = text.strip_prefix("tag:") {
            Self::Tag(name)
        } else if let Some(name) = text.strip_prefix(':') {
            Self::DeletedBranch(name)
        } else {
            Self::Branch(text)
        }
    }
}

impl std::fmt::Display for Scope<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Branch(name) => write!(f, "{name}"),
            Self::DeletedBranch(name) => write!(f, ":{name}"),
            Self::Tag(name) => write!(f, "tag:{name}"),
            Self::DeletedTag(name) => write!(f, ":tag:{name}"),
        }
    }
}

/// A request for the change of one ref.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefUpdate<'a> {
    /// What changes.
    pub scope: Scope<'a>,
    /// Whether a branch may lose commits. Clients always set it for tags.
    pub is_forced: bool,
    /// The hash of the refs that the client has seen, or [`NO_HASH`](crate::NO_HASH) if there were none.
    pub expected: Hash,
    /// The refs as the client wants them. Only the entry that the scope names counts.
    pub refs: Refs,
}

impl<'a> RefUpdate<'a> {
    /// Encodes the request.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let scope = self.scope.to_string();
        // Names of refs are much shorter than the maximum.
        let length = u16::try_from(scope.len()).unwrap_or(u16::MAX);
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend(scope.as_bytes());
        bytes.push(self.is_forced.into());
        bytes.extend(self.expected);
        bytes.extend(self.refs.encode());
        bytes
    }

    /// Parses a request.
    ///
    /// # Errors
    /// [`Malformed`].
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut input = Input(bytes);
        let length = input.u16()?;
        let scope = Scope::parse(input.text_of(length.into())?);
        let is_forced = match input.array()? {
            [0] => false,
            [1] => true,
            _ => return Err(Malformed("the mark of a forced push is neither 0 nor 1")),
        };
        let expected = input.hash()?;
        Ok(Self { scope, is_forced, expected, refs: Refs::parse(input.0)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::refs::tests::{EXAMPLE, bytes, example};

    #[test]
    fn the_published_example_is_encoded_and_parsed() {
        let expected = example().hash();
        let update = RefUpdate { scope: Scope::Branch("fix-7"), is_forced: false, expected, refs: example() };
        let encoded = update.encode();
        assert_eq!(encoded[..8], bytes("05006669782d3700"));
        assert_eq!(encoded[8..28], expected);
        assert_eq!(encoded[28..], bytes(EXAMPLE));
        assert_eq!(RefUpdate::parse(&encoded).unwrap(), update);
    }

    #[test]
    fn scopes_are_branches_and_tags_to_set_and_to_delete() {
        for (text, scope) in [
            ("main", Scope::Branch("main")),
            (":old", Scope::DeletedBranch("old")),
            ("tag:v1", Scope::Tag("v1")),
            (":tag:v1", Scope::DeletedTag("v1")),
        ] {
            assert_eq!(Scope::parse(text), scope);
            assert_eq!(scope.to_string(), text);
        }
    }

    #[test]
    fn what_is_cut_off_goes_on_or_has_an_unknown_mark_is_malformed() {
        let update = RefUpdate { scope: Scope::Tag("v1"), is_forced: true, expected: [1; 20], refs: example() };
        let encoded = update.encode();
        for length in 0..encoded.len() {
            assert!(RefUpdate::parse(&encoded[..length]).is_err(), "{length}");
        }
        assert!(RefUpdate::parse(&[&encoded[..], &[0]].concat()).is_err());
        let mut marked = encoded;
        marked[8] = 2;
        assert!(RefUpdate::parse(&marked).is_err());
    }
}
