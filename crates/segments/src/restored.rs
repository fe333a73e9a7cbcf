//! Finding out that the metadata were restored to an earlier time than the store.

use crate::key::{ObjectKey, Purpose};
use crate::record::Record;

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
}

/// Returns what shows that the metadata are older than the store, if anything does. Until an administrator decides, nothing may be
/// written to the databases and no object may be deleted.
///
/// `counter` is the number of write units in the metadata, and `marks` was listed before it was read. `record` is the row of a
/// database, and `objects` are names in the store, of which those that belong to the row's generation are considered; they too were
/// listed before the row was read. Otherwise a unit that is saved in between would look like evidence.
pub fn records_are_older<'a>(
    counter: u64,
    marks: impl IntoIterator<Item = &'a Mark>,
    record: &Record,
    objects: impl IntoIterator<Item = &'a str>,
) -> Option<Evidence> {
    let is_ahead = |mark: &&Mark| mark.counter > counter;
    if let Some(mark) = marks.into_iter().find(is_ahead) {
        return Some(Evidence::Mark { mark: mark.clone(), counter });
    }
    let durable_length = record.durable_length;
    // An attempt to add bytes begins at the durable length, so it shows that this length was reached.
    let is_above = |name: &&str| {
        name.parse().is_ok_and(|key: ObjectKey| {
            key.generation == record.generation && key.purpose == Purpose::Tail && key.start > durable_length
        })
    };
    let object = objects.into_iter().find(is_above)?;
    Some(Evidence::Object { object: object.to_owned(), durable_length })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Generation;

    #[test]
    fn a_mark_or_an_object_beyond_the_row_is_evidence() {
        let record = Record { generation: Generation(2), durable_length: 50, ..Record::default() };
        let nonce = "-000000000000000000000000000000ff";
        let names = |parts: &[&str]| parts.iter().map(|part| format!("d/{part}{nonce}")).collect::<Vec<_>>();
        let usual = names(&["2/0-50.1", "2/50-60.1", "1/70-80.1", "2/part/60-70.1"]);
        let usual: Vec<&str> = usual.iter().map(String::as_str).chain(["marks/a"]).collect();
        let mark = Mark { node: "a".to_owned(), counter: 7 };
        assert_eq!(records_are_older(7, [&mark], &record, usual.iter().copied()), None);
        assert_eq!(
            records_are_older(6, [&mark], &record, usual.iter().copied()),
            Some(Evidence::Mark { mark: mark.clone(), counter: 6 })
        );
        let later = names(&["2/60-70.1"]);
        assert_eq!(
            records_are_older(7, [&mark], &record, [later[0].as_str()]),
            Some(Evidence::Object { object: later[0].clone(), durable_length: 50 })
        );
    }
}
