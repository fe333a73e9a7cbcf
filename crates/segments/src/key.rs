//! Names of objects in the store.

use crate::record::{Epoch, Generation};
use std::fmt;
use std::str::FromStr;

/// The folder in the store below which the names of objects begin.
pub const SEGMENTS: &str = "segments";

/// The name of an object: `<database>/<generation>/<start>-<end>.<epoch>-<nonce>`, or with `part/` before the range for
/// [`Purpose::Part`]. Numbers are decimal, the nonce has 32 hexadecimal digits. A sealed object has `.sealed-<length>-<data key>` at the
/// end, with the number of its bytes and the id of its data key, in 32 hexadecimal digits.
///
/// No two attempts to write have the same name, so a request that the store carries out late overwrites nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectKey {
    /// The database, as a name without `/`.
    pub database: String,
    /// The generation of the file whose bytes these are.
    pub generation: Generation,
    /// Why the object was written.
    pub purpose: Purpose,
    /// The offset in the file of the object's first byte.
    pub start: u64,
    /// The offset in the file behind the object's last byte.
    pub end: u64,
    /// The epoch of the lease holder that wrote the object.
    pub epoch: Epoch,
    /// Random bits.
    pub nonce: u128,
    /// The id of the data key under which the object is sealed. `None` if it is stored as it is.
    pub data_key: Option<u128>,
}

/// What precedes the length and the data key in the name of a sealed object.
const SEALED: &str = ".sealed-";

/// Why an object was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It begins where the durable bytes of its generation ended. Such an object that starts above the durable length shows that the
    /// records are older than the store ([`Evidence`](crate::Evidence)).
    Tail,
    /// It holds the next bytes behind another object of the same attempt, durable bytes once more, or bytes of a generation that is
    /// not in force yet. Where it starts shows nothing.
    Part,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { database, generation, purpose, start, end, epoch, nonce, data_key } = self;
        let folder = match purpose {
            Purpose::Tail => "",
            Purpose::Part => "part/",
        };
        write!(f, "{database}/{}/{folder}{start}-{end}.{}-{nonce:032x}", generation.0, epoch.0)?;
        match data_key {
            Some(data_key) => write!(f, "{SEALED}{}-{data_key:032x}", end.saturating_sub(*start)),
            None => Ok(()),
        }
    }
}

/// A name that no object of a database has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name is not that of an object of a database")]
pub struct ForeignKey;

impl FromStr for ObjectKey {
    type Err = ForeignKey;

    fn from_str(name: &str) -> Result<Self, ForeignKey> {
        let parse = || {
            let (database, rest) = name.split_once('/')?;
            let (generation, rest) = rest.split_once('/')?;
            let (purpose, rest) = match rest.strip_prefix("part/") {
                Some(rest) => (Purpose::Part, rest),
                None => (Purpose::Tail, rest),
            };
            let (start, rest) = rest.split_once('-')?;
            let (end, rest) = rest.split_once('.')?;
            let (epoch, rest) = rest.split_once('-')?;
            let (nonce, seal) = match rest.split_once(SEALED) {
                Some((nonce, seal)) => (nonce, Some(seal)),
                None => (rest, None),
            };
            let data_key = match seal {
                Some(seal) => Some(u128::from_str_radix(seal.split_once('-')?.1, 16).ok()?),
                None => None,
            };
            Some(Self {
                database: database.to_owned(),
                generation: Generation(generation.parse().ok()?),
                purpose,
                start: start.parse().ok()?,
                end: end.parse().ok()?,
                epoch: Epoch(epoch.parse().ok()?),
                nonce: u128::from_str_radix(nonce, 16).ok()?,
                data_key,
            })
        };
        // A name that is written in another way, for example with a sign, is not one of ours.
        parse().filter(|key| !key.database.is_empty() && key.to_string() == name).ok_or(ForeignKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(purpose: Purpose) -> ObjectKey {
        ObjectKey {
            database: "d1".to_owned(),
            generation: Generation(3),
            purpose,
            start: 5,
            end: 90,
            epoch: Epoch(7),
            nonce: 255,
            data_key: None,
        }
    }

    #[test]
    fn names_are_parsed_as_they_are_written() {
        let tail = "d1/3/5-90.7-000000000000000000000000000000ff";
        assert_eq!(key(Purpose::Tail).to_string(), tail);
        assert_eq!(tail.parse(), Ok(key(Purpose::Tail)));
        let part = "d1/3/part/5-90.7-000000000000000000000000000000ff";
        assert_eq!(key(Purpose::Part).to_string(), part);
        assert_eq!(part.parse(), Ok(key(Purpose::Part)));
        let sealed = ObjectKey { data_key: Some(0xabc), ..key(Purpose::Tail) };
        assert_eq!(sealed.to_string(), format!("{tail}.sealed-85-00000000000000000000000000000abc"));
        assert_eq!(sealed.to_string().parse(), Ok(sealed));
    }

    #[test]
    fn other_names_are_foreign() {
        for name in [
            "",
            "d1",
            "d1/3/5-90",
            "d1/3/5-90.7",
            "d1/3/5-90.7-ff",
            "d1/3/+5-90.7-000000000000000000000000000000ff",
            "/3/5-90.7-000000000000000000000000000000ff",
            "d1/3/part/part/5-90.7-000000000000000000000000000000ff",
            "marks/a",
            "d1/3/5-90.7-000000000000000000000000000000ff.sealed-84-00000000000000000000000000000abc",
            "d1/3/5-90.7-000000000000000000000000000000ff.sealed-85-abc",
            "d1/3/5-90.7-000000000000000000000000000000ff.sealed-",
        ] {
            assert_eq!(name.parse::<ObjectKey>(), Err(ForeignKey), "{name}");
        }
    }
}
