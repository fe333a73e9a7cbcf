//! Keys of objects in the store of databases.

use std::fmt;

use super::{DataKeyId, Invalid};

/// Longest key, in bytes. Object stores accept no longer ones.
const KEY_MAX: usize = 1_024;

/// Longest segment of a key, in bytes. File systems accept no longer names.
const SEGMENT_MAX: usize = 255;

/// Key of an object: segments of `[A-Za-z0-9._-]`, separated by `/`, with at most 1,024 bytes. A segment has 1–255 bytes and
/// does not begin with a dot. Keys are ordered by their bytes.
///
/// A key must not be the beginning of another one up to a `/`: where objects are files, `a` and `a/b` cannot both exist.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey(String);

impl ObjectKey {
    /// Parses a key.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        if text.len() > KEY_MAX {
            return Err(Invalid::new(format!("a key of an object has at most {KEY_MAX} bytes")));
        }
        match text.split('/').all(is_segment) {
            true => Ok(Self(text.to_owned())),
            false => Err(Invalid::new(
                "a key of an object consists of segments of letters, digits, `.`, `_` and `-`, separated by `/`; a segment does \
                 not begin with a dot",
            )),
        }
    }

    /// Returns the key of an object below this key.
    ///
    /// # Errors
    /// [`Invalid`] if `rest` is no key, or if the result is too long.
    pub fn join(&self, rest: &str) -> Result<Self, Invalid> {
        Self::parse(&format!("{self}/{rest}"))
    }

    /// Returns the key with which the object is stored if it is sealed: with the length of its bytes and the id of its data key at the
    /// end, as `<key>.sealed-<length>-<id>`. Whatever reads the object knows from its key alone how to open it.
    ///
    /// # Errors
    /// [`Invalid`] if the result is too long.
    pub fn sealed(&self, seal: ObjectSeal) -> Result<Self, Invalid> {
        Self::parse(&format!("{self}{SEALED}{}-{}", seal.length, seal.key))
    }

    /// Returns how the object is sealed, or `None` if it is stored as it is.
    pub fn seal(&self) -> Option<ObjectSeal> {
        let (_, last) = self.0.rsplit_once(SEALED)?;
        let (length, key) = last.split_once('-')?;
        let seal = ObjectSeal { length: length.parse().ok()?, key: DataKeyId::parse(key).ok()? };
        // A number that is written in another way is none of ours.
        (seal.length.to_string() == length).then_some(seal)
    }

    /// Returns the key as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns `true` if the key is that of an object below `folder`.
    pub fn is_below(&self, folder: &Self) -> bool {
        self.0.strip_prefix(folder.as_str()).is_some_and(|rest| rest.starts_with('/'))
    }
}

/// What the key of a sealed object has before its length and its data key.
const SEALED: &str = ".sealed-";

/// How an object is sealed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ObjectSeal {
    /// Length of what is sealed, in bytes. The object itself is longer.
    pub length: u64,
    /// The data key under which it is sealed.
    pub key: DataKeyId,
}

fn is_segment(text: &str) -> bool {
    let is_allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    (1..=SEGMENT_MAX).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_allowed)
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{DataKeyId, ObjectKey, ObjectSeal};

    #[test]
    fn the_key_of_a_sealed_object_says_how_it_is_opened() {
        let seal = ObjectSeal { length: 70_000, key: DataKeyId::from_bytes([0xcd; 16]) };
        let clear = ObjectKey::parse("uploads/u/0000000001.0000000002.v").unwrap();
        let sealed = clear.sealed(seal).unwrap();
        assert_eq!(sealed.as_str(), format!("{clear}.sealed-70000-{}", "cd".repeat(16)));
        assert_eq!((sealed.seal(), clear.seal()), (Some(seal), None));
        let id = "cd".repeat(16);
        for end in ["07-", "-", "_7-", "18446744073709551616-", "7"] {
            let key = ObjectKey::parse(&format!("{clear}.sealed-{end}{id}")).unwrap();
            assert_eq!(key.seal(), None, "{key}");
        }
        assert_eq!(clear.join("a.sealed-7-ab").unwrap().seal(), None);
    }

    #[test]
    fn keys_are_relative_paths_of_plain_segments() {
        let longest = format!("{}/{}", vec!["a".repeat(255); 4].join("/"), "");
        let longest = longest.trim_end_matches('/').to_owned();
        for text in ["a", "cluster/id", "0190-ab/3/000-999.7-x_y.seg", &longest] {
            assert_eq!(ObjectKey::parse(text).unwrap().as_str(), text);
        }
        let (wide, long) = ("a".repeat(256), vec!["a".repeat(204); 6].join("/"));
        for text in [
            "", "/", "/a", "a/", "a//b", ".", "..", "a/../b", ".hidden", "a b", "a\\b", "a:b", "é", "a\0", &wide, &long,
        ] {
            assert!(ObjectKey::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_key_is_below_its_folders_only() {
        let folder = ObjectKey::parse("a/b").unwrap();
        let key = folder.join("c/d").unwrap();
        assert_eq!(key.to_string(), "a/b/c/d");
        assert!(key.is_below(&folder) && !folder.is_below(&folder) && !folder.is_below(&key));
        assert!(!ObjectKey::parse("a/bc").unwrap().is_below(&folder));
        assert!(folder.join("").is_err() && folder.join("../c").is_err());
        let ordered = ["a-b", "a/b", "a0"].map(|text| ObjectKey::parse(text).unwrap());
        assert!(ordered.is_sorted());
    }
}
