//! An in-memory store of databases, with planned faults.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::ops::{Bound, Range};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;

use branchyard_domain::ports::{DatabaseStore, ObjectDigest, ObjectInfo, StoreError};
use branchyard_domain::values::{ObjectKey, Timestamp};

use super::FakeFault;

/// How many bytes of an object are passed on at a time.
const PIECE: usize = 64 * 1_024;

/// The kinds of calls of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCall {
    /// Stores an immutable object, or one that was absent.
    Put,
    /// Stores a mutable object.
    Replace,
    /// Reads an object, or asks for its length.
    Read,
    /// Lists objects.
    List,
    /// Removes objects.
    Remove,
}

/// What goes wrong in a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreFault {
    /// The call changes nothing and returns [`StoreError::Unavailable`].
    Unavailable,
    /// The call changes nothing and returns [`StoreError::Rejected`].
    Rejected,
    /// The call takes effect and returns [`StoreError::Unavailable`].
    LostAnswer,
    /// A read passes on half of the bytes and returns [`StoreError::Unavailable`]. Other calls are not affected.
    Truncated,
    /// A read returns a wrong byte in the middle, and no error. Other calls are not affected.
    WrongBytes,
    /// The call takes this much longer.
    Delay(Duration),
}

#[derive(Debug)]
struct Planned {
    call: Option<StoreCall>,
    fault: StoreFault,
    times: u32,
}

#[derive(Debug)]
struct State {
    objects: BTreeMap<ObjectKey, (Vec<u8>, Timestamp)>,
    now: Timestamp,
    planned: VecDeque<Planned>,
    made: Vec<StoreCall>,
}

impl Default for State {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), now: Timestamp::from_seconds(0), planned: VecDeque::new(), made: Vec::new() }
    }
}

impl State {
    fn found(&self, key: &ObjectKey) -> Result<&(Vec<u8>, Timestamp), StoreError> {
        self.objects.get(key).ok_or_else(|| StoreError::NotFound(key.clone()))
    }
}

/// An in-memory store. It is shared by the tests of several nodes.
#[derive(Debug, Default)]
pub struct MemoryDatabaseStore {
    state: Mutex<State>,
}

impl MemoryDatabaseStore {
    /// Plans a fault of the next `times` calls of this kind, or of any kind if `call` is `None`. Of several plans, the earliest
    /// that fits a call affects it.
    pub fn plan(&self, call: impl Into<Option<StoreCall>>, fault: StoreFault, times: u32) {
        self.state.lock().planned.push_back(Planned { call: call.into(), fault, times });
    }

    /// Forgets all planned faults.
    pub fn heal(&self) {
        self.state.lock().planned.clear();
    }

    /// Returns how many calls of this kind were made, including those that failed.
    pub fn calls(&self, call: StoreCall) -> usize {
        self.state.lock().made.iter().filter(|made| **made == call).count()
    }

    /// Sets the time at which objects are stored from now on.
    pub fn set_time(&self, now: Timestamp) {
        self.state.lock().now = now;
    }

    /// Returns the keys of all objects.
    pub fn keys(&self) -> Vec<ObjectKey> {
        self.state.lock().objects.keys().cloned().collect()
    }

    /// Changes the bytes of an object where they are stored. Returns `false` if there is no such object.
    pub fn damage(&self, key: &ObjectKey, change: impl FnOnce(&mut Vec<u8>)) -> bool {
        self.state.lock().objects.get_mut(key).map(|(bytes, _)| change(bytes)).is_some()
    }

    /// Records a call and returns its fault, unless that is a delay, which has passed when this returns.
    fn begin(&self, call: StoreCall) -> Result<Option<StoreFault>, StoreError> {
        let mut state = self.state.lock();
        state.made.push(call);
        let fits = |planned: &Planned| planned.call.is_none_or(|planned| planned == call);
        let Some(at) = state.planned.iter().position(fits) else { return Ok(None) };
        let fault = state.planned.get_mut(at).map(|planned| {
            planned.times = planned.times.saturating_sub(1);
            planned.fault
        });
        state.planned.retain(|planned| planned.times > 0);
        drop(state);
        match fault {
            Some(StoreFault::Unavailable) => Err(unavailable()),
            Some(StoreFault::Rejected) => {
                Err(StoreError::rejected("change the plan of the test", FakeFault("planned by a test")))
            }
            Some(StoreFault::Delay(time)) => {
                thread::sleep(time);
                Ok(None)
            }
            other => Ok(other),
        }
    }

    fn insert(&self, call: StoreCall, key: &ObjectKey, bytes: Vec<u8>) -> Result<(), StoreError> {
        let fault = self.begin(call)?;
        let mut state = self.state.lock();
        if call == StoreCall::Put && state.objects.contains_key(key) {
            return Err(StoreError::Exists(key.clone()));
        }
        let now = state.now;
        state.objects.insert(key.clone(), (bytes, now));
        answer(fault)
    }
}

fn unavailable() -> StoreError {
    StoreError::unavailable("a planned fault", FakeFault("planned by a test"))
}

/// Ends a call that took effect.
fn answer(fault: Option<StoreFault>) -> Result<(), StoreError> {
    if fault == Some(StoreFault::LostAnswer) { Err(unavailable()) } else { Ok(()) }
}

fn length(bytes: &[u8]) -> u64 {
    u64::try_from(bytes.len()).unwrap_or(u64::MAX)
}

fn info(key: &ObjectKey, (bytes, modified): &(Vec<u8>, Timestamp)) -> ObjectInfo {
    ObjectInfo { key: key.clone(), length: length(bytes), modified: *modified }
}

/// Applies the fault of a read to the bytes that it returns.
fn spoil(bytes: &mut Vec<u8>, fault: Option<StoreFault>) {
    let middle = bytes.len() / 2;
    match fault {
        Some(StoreFault::Truncated) => bytes.truncate(middle),
        Some(StoreFault::WrongBytes) => {
            if let Some(byte) = bytes.get_mut(middle) {
                *byte = !*byte;
            }
        }
        _ => {}
    }
}

impl DatabaseStore for MemoryDatabaseStore {
    fn put(&self, key: &ObjectKey, bytes: &[u8]) -> Result<ObjectDigest, StoreError> {
        self.insert(StoreCall::Put, key, bytes.to_vec())?;
        Ok(ObjectDigest::of(bytes))
    }

    fn put_from(&self, key: &ObjectKey, length: u64, from: &mut dyn Read) -> Result<ObjectDigest, StoreError> {
        let mut bytes = Vec::new();
        if io::copy(&mut from.take(length), &mut bytes)? < length {
            return Err(StoreError::Io(io::ErrorKind::UnexpectedEof.into()));
        }
        self.put(key, &bytes)
    }

    fn replace(&self, key: &ObjectKey, bytes: &[u8]) -> Result<(), StoreError> {
        self.insert(StoreCall::Replace, key, bytes.to_vec())
    }

    fn info(&self, key: &ObjectKey) -> Result<ObjectInfo, StoreError> {
        let fault = self.begin(StoreCall::Read)?;
        let found = self.state.lock().found(key).map(|object| info(key, object))?;
        answer(fault)?;
        Ok(found)
    }

    fn read(&self, key: &ObjectKey, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let fault = self.begin(StoreCall::Read)?;
        let state = self.state.lock();
        let (bytes, _) = state.found(key)?;
        let wanted = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let wanted = wanted.and_then(|(start, end)| bytes.get(start..end));
        let ends = || StoreError::damaged(key, format!("it has {} bytes, and {range:?} were wanted", bytes.len()));
        let mut bytes = wanted.ok_or_else(ends)?.to_vec();
        drop(state);
        spoil(&mut bytes, fault);
        if fault == Some(StoreFault::Truncated) { Err(unavailable()) } else { answer(fault).map(|()| bytes) }
    }

    fn read_into(&self, key: &ObjectKey, to: &mut dyn Write) -> Result<ObjectDigest, StoreError> {
        let fault = self.begin(StoreCall::Read)?;
        let mut bytes = self.state.lock().found(key)?.0.clone();
        spoil(&mut bytes, fault);
        for piece in bytes.chunks(PIECE) {
            to.write_all(piece)?;
        }
        if fault == Some(StoreFault::Truncated) {
            return Err(unavailable());
        }
        answer(fault)?;
        Ok(ObjectDigest::of(&bytes))
    }

    fn list(
        &self,
        below: Option<&ObjectKey>,
        after: Option<&ObjectKey>,
        limit: usize,
    ) -> Result<Vec<ObjectInfo>, StoreError> {
        let fault = self.begin(StoreCall::List)?;
        let start = after.map_or(Bound::Unbounded, Bound::Excluded);
        let state = self.state.lock();
        let from_start = state.objects.range::<ObjectKey, _>((start, Bound::Unbounded));
        let wanted = from_start.filter(|(key, _)| below.is_none_or(|folder| key.is_below(folder)));
        let page = wanted.take(limit).map(|(key, object)| info(key, object)).collect();
        answer(fault)?;
        Ok(page)
    }

    fn remove(&self, keys: &[ObjectKey]) -> Result<(), StoreError> {
        let fault = self.begin(StoreCall::Remove)?;
        let mut state = self.state.lock();
        for key in keys {
            state.objects.remove(key);
        }
        answer(fault)
    }
}
