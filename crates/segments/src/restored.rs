//! Finding out that the metadata were restored to an earlier time than the store.

use crate::key::{ObjectKey, Purpose};
use crate::record::{Epoch, Record};

/// The highest number of a write unit that a node saved, as it noted it in the store (`marks/<node>`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The node's id.
    pub node: String,
    /// The counter in the metadata after the unit.
    pub counter: u64,
}

/// What shows that the metadata are older than the store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Evidence {
    /// A node saved a unit that the metadata do not have.
    #[error("node `{}` saved write unit {}, and the metadata have {counter} only", mark.node, mark.counter)]
    Mark {
        /// The node's mark.
        mark: Mark,
        /// The counter in the metadata.
        counter: u64,
    },
    /// Bytes were added where the row's durable bytes end earlier.
    #[error("the store has `{object}`, and the durable length of the database is {durable_length} only")]
    Object {
        /// The object's name.
        object: String,
        /// The durable length in the row.
        durable_length: u64,
    },
    /// An object was written in an epoch that the row does not have yet. An acquisition is saved before anything is written in its epoch.
    #[error("the store has `{object}`, and the database is in epoch {} only", epoch.0)]
    Epoch {
        /// The object's name.
        object: String,
        /// The epoch in the row.
        epoch: Epoch,
    },
}

impl Evidence {
    /// Returns what the marks of nodes show. Until an administrator decides, nothing may be written to the databases and no object may
    /// be deleted.
    ///
    /// `counter` is the number of write units in the metadata, and `marks` were listed before it was read. Otherwise a unit that is saved
    /// in between would look like evidence.
    pub fn in_marks<'a>(counter: u64, marks: impl IntoIterator<Item = &'a Mark>) -> Option<Self> {
        let mark = marks.into_iter().find(|mark| mark.counter > counter)?;
        Some(Self::Mark { mark: mark.clone(), counter })
    }

    /// Returns what an object in the store shows. `record` is the row of its database, without segments, and was read after the object
    /// was listed. A database without a row has [`Record::default`].
    #[must_use]
    pub fn in_object(object: &ObjectKey, record: &Record) -> Option<Self> {
        if object.epoch > record.epoch {
            return Some(Self::Epoch { object: object.to_string(), epoch: record.epoch });
        }
        // An attempt to add bytes begins at the durable length, so it shows that this length was reached. What was written in an earlier
        // epoch shows nothing new: the row's epoch is above it because an administrator accepted the loss of those bytes, or because
        // the row's own bytes came later.
        let is_above = object.epoch == record.epoch
            && object.generation == record.generation
            && object.purpose == Purpose::Tail
            && object.start > record.durable_length;
        is_above.then(|| Self::Object { object: object.to_string(), durable_length: record.durable_length })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generation;

    const RECORD: Record =
        Record { generation: Generation(2), durable_length: 50, epoch: Epoch(3), owner: None, segments: Vec::new() };

    fn evidence(name: &str) -> Option<Evidence> {
        let object = format!("d/{name}-000000000000000000000000000000ff").parse().unwrap();
        Evidence::in_object(&object, &RECORD)
    }

    #[test]
    fn a_mark_beyond_the_counter_is_evidence() {
        let mark = Mark { node: "a".to_owned(), counter: 7 };
        assert_eq!(Evidence::in_marks(7, [&mark]), None);
        assert_eq!(Evidence::in_marks(6, [&mark]), Some(Evidence::Mark { mark: mark.clone(), counter: 6 }));
    }

    #[test]
    fn an_object_beyond_the_row_is_evidence() {
        // Named; garbage of an attempt; of another generation; more of one attempt; accepted as lost.
        for usual in ["2/0-50.3", "2/50-60.3", "1/70-80.3", "3/70-80.3", "2/part/60-70.3", "2/60-70.2"] {
            assert_eq!(evidence(usual), None, "{usual}");
        }
        assert!(matches!(evidence("2/60-70.3"), Some(Evidence::Object { durable_length: 50, .. })));
        for later in ["2/50-60.4", "1/0-10.4", "3/part/0-10.4"] {
            assert!(matches!(evidence(later), Some(Evidence::Epoch { epoch: Epoch(3), .. })), "{later}");
        }
    }
}
