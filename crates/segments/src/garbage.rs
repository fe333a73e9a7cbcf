//! Which objects of the store nothing can refer to any more.

use crate::key::ObjectKey;
use crate::record::Record;

/// What the metadata say about an object in the store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    /// The row of the object's database, without segments; [`Record::default`] if there is none.
    pub record: Record,
    /// Whether a segment names the object, of whatever database.
    pub is_named: bool,
    /// Whether the object is doomed already.
    pub is_doomed: bool,
}

impl Examined {
    /// Returns `true` if nothing names the object, and no request under way can. Both stay so.
    ///
    /// `was_named` says that a segment named the object before: each object is named by one request only, which then has been.
    /// Otherwise the request that stored the object may still be under way, until its epoch has ended.
    #[must_use]
    pub fn is_garbage(&self, object: &ObjectKey, was_named: bool) -> bool {
        !self.is_named && (was_named || !self.record.may_be_named(object.epoch))
    }
}

/// An object that is deleted after a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoomedObject {
    /// The object's name.
    pub object: String,
    /// Whether a segment named the object before.
    pub was_named: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Epoch;

    #[test]
    fn an_object_is_garbage_once_no_request_can_name_it() {
        let object: ObjectKey = "d/0/5-9.2-000000000000000000000000000000ff".parse().unwrap();
        let examined = |epoch, is_named| Examined {
            record: Record { epoch: Epoch(epoch), ..Record::default() },
            is_named,
            is_doomed: false,
        };
        assert!(!examined(2, false).is_garbage(&object, false), "its writer may name it");
        assert!(examined(3, false).is_garbage(&object, false));
        assert!(examined(2, false).is_garbage(&object, true), "its writer has named it");
        assert!(!examined(3, true).is_garbage(&object, true));
        assert!(!examined(0, false).is_garbage(&object, false), "the database has no row");
    }
}
