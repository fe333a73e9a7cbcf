//! Schema objects other than tables (indexes, triggers and views), and their differences between two commits.

use std::collections::BTreeMap;

use super::commit::Change;

/// The kind of a schema object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// An index created by `CREATE INDEX`.
    Index,
    /// A trigger, which runs statements when rows of its table are written.
    Trigger,
    /// A view, which is a stored query.
    View,
}

impl ObjectKind {
    /// Returns `true` if the object holds code that runs when other statements read or write.
    pub fn has_code(self) -> bool {
        matches!(self, Self::Trigger | Self::View)
    }
}

/// An index, trigger or view at a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaObject {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Name of the object.
    pub name: String,
    /// The table or view that the object belongs to, in the spelling of that table or view. A view belongs to itself.
    pub owner: String,
    /// The `CREATE` statement.
    pub create_statement: String,
}

/// A trigger of a table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trigger {
    /// Name.
    pub name: String,
    /// The `CREATE` statement.
    pub create_statement: String,
}

/// An index, trigger or view that differs between two commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectChange {
    /// Kind of the object.
    pub kind: ObjectKind,
    /// Name of the object. If the spelling differs, the later one.
    pub name: String,
    /// How the object differs.
    pub change: Change,
    /// The `CREATE` statement in the earlier commit.
    pub from: Option<String>,
    /// The `CREATE` statement in the later commit.
    pub to: Option<String>,
}

/// Returns the objects that differ, each with its owner, by owner, kind and name.
///
/// An object that moved to another owner, for example because its table was renamed, is removed from one owner and
/// added to the other.
pub fn object_changes(before: Vec<SchemaObject>, after: Vec<SchemaObject>) -> Vec<(String, ObjectChange)> {
    // Object names are compared case-insensitively, tables by their exact names.
    let key = |object: &SchemaObject| (object.owner.clone(), object.kind, object.name.to_ascii_lowercase());
    let mut sides: BTreeMap<_, (Option<SchemaObject>, Option<SchemaObject>)> = BTreeMap::new();
    for object in before {
        let key = key(&object);
        sides.entry(key).or_default().0 = Some(object);
    }
    for object in after {
        let key = key(&object);
        sides.entry(key).or_default().1 = Some(object);
    }
    let changed = sides.into_values().filter_map(|(before, after)| {
        let change = match (&before, &after) {
            (None, _) => Change::Added,
            (Some(_), None) => Change::Removed,
            (Some(before), Some(after)) if before.create_statement == after.create_statement => return None,
            (Some(_), Some(_)) => Change::Modified,
        };
        let (kind, name, owner) = {
            let shown = after.as_ref().or(before.as_ref())?;
            (shown.kind, shown.name.clone(), shown.owner.clone())
        };
        let statement = |object: Option<SchemaObject>| object.map(|object| object.create_statement);
        Some((owner, ObjectChange { kind, name, change, from: statement(before), to: statement(after) }))
    });
    changed.collect()
}

/// Returns the kinds of code-bearing objects that are added or modified, triggers first.
pub fn brought<'a>(changes: impl IntoIterator<Item = &'a ObjectChange>) -> Vec<ObjectKind> {
    let brings = |change: &&ObjectChange| change.kind.has_code() && change.change != Change::Removed;
    let mut kinds: Vec<ObjectKind> = changes.into_iter().filter(brings).map(|change| change.kind).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

#[cfg(test)]
mod tests {
    use super::{Change, ObjectKind, SchemaObject, brought, object_changes};

    fn object(kind: ObjectKind, owner: &str, name: &str, sql: &str) -> SchemaObject {
        SchemaObject { kind, name: name.to_owned(), owner: owner.to_owned(), create_statement: sql.to_owned() }
    }

    #[test]
    fn objects_are_matched_by_owner_kind_and_name_whatever_its_letter_case() {
        use ObjectKind::{Index, Trigger, View};
        let before = vec![
            object(Index, "pay", "i", "one"),
            object(Trigger, "pay", "same", "s"),
            object(Trigger, "pay", "Moved", "m"),
            object(View, "v", "v", "old"),
        ];
        let after = vec![
            object(Index, "pay", "I", "two"),
            object(Trigger, "pay", "same", "s"),
            object(Trigger, "wages", "Moved", "m"),
        ];
        let changes = object_changes(before, after);
        let told: Vec<_> = changes.iter().map(|(owner, c)| (owner.as_str(), c.name.as_str(), c.change)).collect();
        assert_eq!(
            told,
            [
                ("pay", "I", Change::Modified),
                ("pay", "Moved", Change::Removed),
                ("v", "v", Change::Removed),
                ("wages", "Moved", Change::Added)
            ]
        );
        assert_eq!((changes[0].1.from.as_deref(), changes[0].1.to.as_deref()), (Some("one"), Some("two")));
        assert_eq!((changes[3].1.from.as_deref(), changes[3].1.to.as_deref()), (None, Some("m")));
        let brought_of = |range: std::ops::Range<usize>| brought(changes[range].iter().map(|(_, change)| change));
        assert_eq!(brought_of(0..3), [], "indexes hold no code, and what is removed is not brought");
        assert_eq!(brought_of(0..4), [Trigger]);
    }
}
