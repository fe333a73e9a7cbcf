//! Names of the keys under which objects of the store are sealed.

use std::fmt;

use data_encoding::HEXLOWER;

use super::{DatabaseId, Invalid};

/// Id of a data key: 16 random bytes, written as 32 lower-case hexadecimal digits. It reveals nothing of the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataKeyId([u8; 16]);

impl DataKeyId {
    /// Returns the id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes.
    pub fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Parses an id.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let bytes = HEXLOWER.decode(text.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map(Self).ok_or_else(|| Invalid::new("the id of a data key has 32 lower-case hexadecimal digits"))
    }
}

impl fmt::Display for DataKeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&HEXLOWER.encode(&self.0))
    }
}

/// What a data key is for. Each database has a key of its own, so that its objects cannot be opened once the key is gone. Its text is
/// the id of the database, `uploads` or `backups`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DataKeyScope {
    /// The segments of a database.
    Database(DatabaseId),
    /// Parts of uploads.
    Uploads,
    /// Files of backups of deployments.
    Backups,
}

impl DataKeyScope {
    /// Parses the text of a scope.
    ///
    /// # Errors
    /// [`Invalid`].
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        match text {
            "uploads" => Ok(Self::Uploads),
            "backups" => Ok(Self::Backups),
            id => DatabaseId::parse(id).map(Self::Database),
        }
    }
}

impl fmt::Display for DataKeyScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(id) => id.fmt(f),
            Self::Uploads => f.write_str("uploads"),
            Self::Backups => f.write_str("backups"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_parsed_as_they_are_written() {
        let id = DataKeyId::from_bytes([0xab; 16]);
        assert_eq!(id.to_string(), "ab".repeat(16));
        assert_eq!(DataKeyId::parse(&id.to_string()), Ok(id));
        for other in ["", "ab", &"AB".repeat(16), &"ab".repeat(17), &"xy".repeat(16)] {
            assert!(DataKeyId::parse(other).is_err(), "{other}");
        }
        let database = DatabaseId::parse("00000000-0000-7000-8000-000000000001").unwrap();
        for scope in [DataKeyScope::Database(database), DataKeyScope::Uploads, DataKeyScope::Backups] {
            assert_eq!(DataKeyScope::parse(&scope.to_string()), Ok(scope));
        }
        assert!(DataKeyScope::parse("losses").is_err());
    }
}
