//! The marks by which nodes notice that the metadata were restored to an earlier time than the store.
//!
//! Each node stores the highest number of a write that it saved as the object `marks/<node>`, every few seconds. If the metadata have a
//! lower number than one of the marks, they lost writes. Those that were saved after the last mark may be lost without notice.

use branchyard_domain::ports::{DatabaseStore, StoreError};
use branchyard_domain::values::ObjectKey;
use branchyard_segments::{Evidence, Mark, RecordsError};

use super::objects::SqlObjects;

/// The folder of marks in the store.
const MARKS: &str = "marks";

/// Most bytes of a mark: the digits of a number.
const MARK_MAX: usize = 20;

/// How many marks are listed at once.
const PAGE: usize = 1_000;

/// Why marks cannot be compared.
#[derive(Debug, thiserror::Error)]
pub enum MarkError {
    /// The object store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The metadata store failed.
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// Stores the mark of a node, in place of its earlier one. `counter` is the highest number of a write that it saved.
///
/// # Errors
/// [`StoreError`].
pub fn store_mark(store: &dyn DatabaseStore, node: &str, counter: u64) -> Result<(), StoreError> {
    let key = ObjectKey::parse(&format!("{MARKS}/{node}"));
    let key = key.map_err(|error| StoreError::rejected("give the node another id", error))?;
    store.replace(&key, counter.to_string().as_bytes())
}

/// Returns what the marks show, if the metadata are older than the store.
///
/// # Errors
/// [`MarkError`].
pub fn older_records(store: &dyn DatabaseStore, rows: &SqlObjects) -> Result<Option<Evidence>, MarkError> {
    let mut marks = Vec::new();
    for key in list(store)? {
        let Some((_, node)) = key.as_str().rsplit_once('/') else { continue };
        let bytes = match store.read_small(&key, MARK_MAX) {
            // It was removed since it was listed.
            Err(StoreError::NotFound(_)) => continue,
            read => read?,
        };
        let counter = std::str::from_utf8(&bytes).ok().and_then(|text| text.parse().ok());
        let counter = counter.ok_or_else(|| StoreError::damaged(&key, "it is not a number"))?;
        marks.push(Mark { node: node.to_owned(), counter });
    }
    // Read after the marks: what is saved in between would look like a loss.
    Ok(Evidence::in_marks(rows.write_counter()?, &marks))
}

/// Removes all marks, once an administrator has accepted what they show.
///
/// # Errors
/// [`StoreError`].
pub fn remove_marks(store: &dyn DatabaseStore) -> Result<(), StoreError> {
    store.remove(&list(store)?)
}

fn list(store: &dyn DatabaseStore) -> Result<Vec<ObjectKey>, StoreError> {
    let (folder, mut keys) = (ObjectKey::parse(MARKS).ok(), Vec::new());
    loop {
        let page = store.list(folder.as_ref(), keys.last(), PAGE)?;
        let is_last = page.len() < PAGE;
        keys.extend(page.into_iter().map(|info| info.key));
        if is_last {
            return Ok(keys);
        }
    }
}
