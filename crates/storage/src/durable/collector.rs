//! Deleting the objects of the store that nothing refers to any more, in two steps: an object is *doomed* first, and deleted after
//! [`Collector::grace`], if nothing refers to it then either.
//!
//! Segments that are replaced or removed doom their objects in the transaction that does so. Objects that no segment ever named, such
//! as those of a write whose node was lost, are found by listing the store.
//!
//! The grace time is what keeps an object from being deleted while a node or a backup reads it: they look the row up, and then read the
//! objects that it names.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use branchyard_domain::ports::{DatabaseStore, ObjectInfo, StoreError};
use branchyard_domain::values::{DatabaseId, ObjectKey as StoreKey, Timestamp};
use branchyard_segments::{DoomedObject, Evidence, ObjectKey, RecordsError, SEGMENTS};

use super::marks::{MarkError, older_records};
use super::objects::SqlObjects;

/// How many objects are listed, examined or deleted at once.
const PAGE: usize = 1_000;

/// How many objects a collection deletes at most, unless [`Task::force`] is set, or one in [`SHARE`] of all that are in use if these
/// are more.
const DELETED_MAX: u64 = 1_000;
const SHARE: u64 = 20;

/// For how long no other node collects, after each page.
const TURN: Duration = Duration::from_secs(600);

/// When a collection is due, and what it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// The least time since the last collection of any node.
    pub every: Duration,
    /// The time after which all objects are listed again, which finds those that were never in use.
    pub list_every: Duration,
    /// Whether to change nothing, and only count.
    pub dry_run: bool,
    /// Whether to delete any number of objects.
    pub force: bool,
}

/// What a collection did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Collection {
    /// Objects listed; 0 if they were not listed.
    pub listed: u64,
    /// Objects that were found to be garbage. They are deleted after the grace time.
    pub doomed: u64,
    /// Objects below `segments/` whose names are not those of objects of a database. They stay.
    pub foreign: u64,
    /// Databases that were never added and whose bytes are garbage from now on.
    pub cleared: u64,
    /// Objects deleted.
    pub deleted: u64,
    /// Objects that are due, and stay until the next collection because a collection deletes only so many.
    pub left: u64,
}

/// Why a collection ended early.
#[derive(Debug, thiserror::Error)]
pub enum CollectError {
    /// The metadata were restored to an earlier time than the store.
    #[error("the metadata are older than the store of databases, so nothing is deleted from it: {0}")]
    Older(Evidence),
    /// The object store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The metadata store failed.
    #[error(transparent)]
    Records(#[from] RecordsError),
    /// [`Collector::goes_on`] returned `false`.
    #[error("the collection was ended early")]
    Ended,
}

impl From<MarkError> for CollectError {
    fn from(error: MarkError) -> Self {
        match error {
            MarkError::Store(error) => Self::Store(error),
            MarkError::Records(error) => Self::Records(error),
        }
    }
}

/// Deletes objects that nothing refers to.
pub struct Collector<'a> {
    /// The object store.
    pub store: &'a dyn DatabaseStore,
    /// What the metadata store knows about objects.
    pub rows: &'a SqlObjects,
    /// How long an object stays after nothing refers to it any more. It must be longer than bringing the largest database to a node
    /// takes.
    pub grace: Duration,
    /// The name of this collector. Others wait while it has its turn.
    pub name: &'a str,
    /// Returns `false` once the collection is to end early.
    pub goes_on: &'a dyn Fn() -> bool,
}

impl Collector<'_> {
    /// Collects, if that is due. Returns `None` if it is not, or if another collector is at work.
    ///
    /// # Errors
    /// [`CollectError`]. What was deleted before stays deleted.
    pub fn run(&self, task: Task, now: Timestamp) -> Result<Option<Collection>, CollectError> {
        let Some(since_listed) = self.rows.begin(self.name, TURN, task.every)? else { return Ok(None) };
        let is_listing = since_listed >= task.list_every;
        let collected = self.collect(task, is_listing, now);
        self.rows.end(self.name, is_listing && !task.dry_run && collected.is_ok())?;
        collected.map(Some)
    }

    fn collect(&self, task: Task, is_listing: bool, now: Timestamp) -> Result<Collection, CollectError> {
        self.require_newest_records()?;
        let mut done = Collection::default();
        if is_listing {
            self.list(task, now, &mut done)?;
            // That took a while.
            self.require_newest_records()?;
        }
        self.delete(task, &mut done)?;
        Ok(done)
    }

    fn require_newest_records(&self) -> Result<(), CollectError> {
        older_records(self.store, self.rows)?.map_or(Ok(()), |found| Err(CollectError::Older(found)))
    }

    /// Prolongs the turn after a page.
    fn go_on(&self, prolonged: &mut Instant) -> Result<(), CollectError> {
        if !(self.goes_on)() {
            return Err(CollectError::Ended);
        }
        if prolonged.elapsed() > TURN / 4 {
            self.rows.begin(self.name, TURN, Duration::ZERO)?;
            *prolonged = Instant::now();
        }
        Ok(())
    }

    /// Lists all objects, and dooms those that are garbage.
    fn list(&self, task: Task, now: Timestamp, done: &mut Collection) -> Result<(), CollectError> {
        let (mut newest, mut prolonged) = (NewestObjects::default(), Instant::now());
        for_each_page(self.store, |page| {
            self.doom(&page, task, done, &mut newest)?;
            self.go_on(&mut prolonged)
        })?;
        let oldest = now.plus_seconds(-i64::try_from(self.grace.as_secs()).unwrap_or(i64::MAX));
        for database in self.rows.unused()? {
            // A database that is being created has new objects.
            if newest.is_before(&database, oldest) && (task.dry_run || self.rows.clear_unused(&database)?) {
                done.cleared += 1;
            }
        }
        Ok(())
    }

    fn doom(
        &self,
        page: &[ObjectInfo],
        task: Task,
        done: &mut Collection,
        newest: &mut NewestObjects,
    ) -> Result<(), CollectError> {
        let (mut keys, mut names) = (Vec::new(), Vec::new());
        for info in page {
            done.listed += 1;
            match object_of(&info.key) {
                Some(key) => {
                    newest.note(&key, info.modified);
                    names.push(key.to_string());
                    keys.push(key);
                }
                None => done.foreign += 1,
            }
        }
        let mut garbage = Vec::new();
        for ((key, name), examined) in keys.iter().zip(names.iter()).zip(self.rows.examine(&names)?) {
            if let Some(evidence) = Evidence::in_object(key, &examined.record) {
                return Err(CollectError::Older(evidence));
            }
            if examined.is_garbage(key, false) && !examined.is_doomed {
                garbage.push(name.clone());
            }
        }
        done.doomed += count(garbage.len());
        if !garbage.is_empty() && !task.dry_run {
            self.rows.doom(&garbage, Duration::ZERO)?;
        }
        Ok(())
    }

    /// Deletes doomed objects whose time has come.
    fn delete(&self, task: Task, done: &mut Collection) -> Result<(), CollectError> {
        let most = if task.force { u64::MAX } else { DELETED_MAX.max(self.rows.named()? / SHARE) };
        let wanted = usize::try_from(most.saturating_add(1)).unwrap_or(usize::MAX);
        let mut due = self.rows.due(self.grace, wanted)?;
        if due.len() == wanted {
            due.pop();
            done.left = 1;
        }
        let mut prolonged = Instant::now();
        for chunk in due.chunks(PAGE) {
            self.delete_chunk(chunk, task, done)?;
            self.go_on(&mut prolonged)?;
        }
        Ok(())
    }

    fn delete_chunk(&self, chunk: &[DoomedObject], task: Task, done: &mut Collection) -> Result<(), CollectError> {
        let names: Vec<String> = chunk.iter().map(|doomed| doomed.object.clone()).collect();
        let (mut keys, mut gone, mut spared) = (Vec::new(), Vec::new(), Vec::new());
        for (doomed, examined) in chunk.iter().zip(self.rows.examine(&names)?) {
            let is_garbage =
                doomed.object.parse().is_ok_and(|key: ObjectKey| examined.is_garbage(&key, doomed.was_named));
            if is_garbage {
                keys.extend(StoreKey::parse(&format!("{SEGMENTS}/{}", doomed.object)));
                gone.push(doomed.object.clone());
            } else if examined.is_named {
                tracing::error!(object = doomed.object, "an object that is in use was about to be deleted, and stays");
                spared.push(doomed.object.clone());
            }
        }
        if task.dry_run {
            done.deleted += count(gone.len());
            return Ok(());
        }
        self.store.remove(&keys)?;
        done.deleted += count(gone.len());
        gone.append(&mut spared);
        Ok(self.rows.forget(&gone)?)
    }
}

/// Calls `each` with all objects of databases, in pages.
///
/// # Errors
/// Those of the store, and of `each`.
pub fn for_each_object<E: From<StoreError>>(
    store: &dyn DatabaseStore,
    mut each: impl FnMut(Vec<ObjectKey>) -> Result<(), E>,
) -> Result<(), E> {
    for_each_page(store, |page| each(page.iter().filter_map(|info| object_of(&info.key)).collect()))
}

/// Returns all objects of a database.
///
/// # Errors
/// [`StoreError`].
pub fn objects_of(store: &dyn DatabaseStore, database: DatabaseId) -> Result<Vec<ObjectKey>, StoreError> {
    let mut objects = Vec::new();
    for_each_page_below(store, StoreKey::parse(&format!("{SEGMENTS}/{database}")).ok(), |page| {
        objects.extend(page.iter().filter_map(|info| object_of(&info.key)));
        Ok::<_, StoreError>(())
    })?;
    Ok(objects)
}

fn for_each_page<E: From<StoreError>>(
    store: &dyn DatabaseStore,
    each: impl FnMut(Vec<ObjectInfo>) -> Result<(), E>,
) -> Result<(), E> {
    for_each_page_below(store, StoreKey::parse(SEGMENTS).ok(), each)
}

fn for_each_page_below<E: From<StoreError>>(
    store: &dyn DatabaseStore,
    folder: Option<StoreKey>,
    mut each: impl FnMut(Vec<ObjectInfo>) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = None;
    loop {
        let page = store.list(folder.as_ref(), after.as_ref(), PAGE)?;
        let is_last = page.len() < PAGE;
        after = page.last().map(|info| info.key.clone());
        each(page)?;
        if is_last {
            return Ok(());
        }
    }
}

/// Returns the name of an object of a database, without the folder of segments.
fn object_of(key: &StoreKey) -> Option<ObjectKey> {
    key.as_str().strip_prefix(SEGMENTS)?.strip_prefix('/')?.parse().ok()
}

/// When the newest object of each database was stored.
#[derive(Default)]
struct NewestObjects(HashMap<String, Timestamp>);

impl NewestObjects {
    fn note(&mut self, key: &ObjectKey, modified: Timestamp) {
        match self.0.get_mut(&key.database) {
            Some(newest) => *newest = (*newest).max(modified),
            None => drop(self.0.insert(key.database.clone(), modified)),
        }
    }

    fn is_before(&self, database: &str, time: Timestamp) -> bool {
        self.0.get(database).is_none_or(|newest| *newest < time)
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
