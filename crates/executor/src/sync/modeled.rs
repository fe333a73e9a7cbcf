//! Synchronization in the tests of this crate. Created inside a model ([`crate::model::check`]), a lock belongs to the model checker;
//! created elsewhere, it is a lock of the operating system.

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::Duration;

use super::system;
use crate::model;

pub(crate) enum Mutex<T> {
    System(parking_lot::Mutex<T>),
    Modeled(shuttle::sync::Mutex<T>),
}

pub(crate) enum MutexGuard<'a, T> {
    System(parking_lot::MutexGuard<'a, T>),
    Modeled(ModeledGuard<'a, T>),
}

pub(crate) struct ModeledGuard<'a, T> {
    mutex: &'a shuttle::sync::Mutex<T>,
    /// Absent only while its thread waits for a [`Condvar`].
    held: Option<shuttle::sync::MutexGuard<'a, T>>,
}

impl<T> ModeledGuard<'_, T> {
    fn lock(&mut self) {
        self.held = Some(self.mutex.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        if model::is_running() {
            Self::Modeled(shuttle::sync::Mutex::new(value))
        } else {
            Self::System(parking_lot::Mutex::new(value))
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        match self {
            Self::System(mutex) => MutexGuard::System(mutex.lock()),
            Self::Modeled(mutex) => {
                let mut guard = ModeledGuard { mutex, held: None };
                guard.lock();
                MutexGuard::Modeled(guard)
            }
        }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self {
            Self::System(mutex) => mutex.try_lock().map(MutexGuard::System),
            Self::Modeled(mutex) => {
                let held = Some(mutex.try_lock().ok()?);
                Some(MutexGuard::Modeled(ModeledGuard { mutex, held }))
            }
        }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::System(guard) => guard,
            Self::Modeled(guard) => guard.held.as_ref().unwrap(),
        }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::System(guard) => guard,
            Self::Modeled(guard) => guard.held.as_mut().unwrap(),
        }
    }
}

pub(crate) enum Condvar {
    System(parking_lot::Condvar),
    Modeled(shuttle::sync::Condvar),
}

pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub(crate) fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub(crate) fn new() -> Self {
        if model::is_running() {
            Self::Modeled(shuttle::sync::Condvar::new())
        } else {
            Self::System(parking_lot::Condvar::new())
        }
    }

    pub(crate) fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        match (self, guard) {
            (Self::System(condvar), MutexGuard::System(guard)) => condvar.wait(guard),
            (Self::Modeled(condvar), MutexGuard::Modeled(guard)) => {
                let waited = condvar.wait(guard.held.take().unwrap());
                guard.held = Some(waited.unwrap_or_else(PoisonError::into_inner));
            }
            _ => unreachable!("a model uses no lock from outside"),
        }
    }

    /// In a model whose timers fire ([`model::Timers`]), the wait ends at any time. Otherwise only a notification ends it.
    pub(crate) fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, wait: Duration) -> WaitTimeoutResult {
        match (self, &mut *guard) {
            (Self::System(condvar), MutexGuard::System(guard)) => {
                WaitTimeoutResult(condvar.wait_for(guard, wait).timed_out())
            }
            (Self::Modeled(_), MutexGuard::Modeled(guard)) if model::timers_fire() => {
                guard.held = None;
                shuttle::thread::yield_now();
                guard.lock();
                WaitTimeoutResult(model::either())
            }
            _ => {
                self.wait(guard);
                WaitTimeoutResult(false)
            }
        }
    }

    pub(crate) fn notify_one(&self) {
        match self {
            Self::System(condvar) => drop(condvar.notify_one()),
            Self::Modeled(condvar) => condvar.notify_one(),
        }
    }

    pub(crate) fn notify_all(&self) {
        match self {
            Self::System(condvar) => drop(condvar.notify_all()),
            Self::Modeled(condvar) => condvar.notify_all(),
        }
    }
}

impl Default for Condvar {
    fn default() -> Self {
        Self::new()
    }
}

/// A thread-local, of the thread of a model or of the operating system.
pub(crate) struct LocalKey<T: 'static> {
    pub(crate) system: &'static std::thread::LocalKey<T>,
    pub(crate) modeled: &'static shuttle::thread::LocalKey<T>,
}

macro_rules! modeled_thread_local {
    ($(#[$meta:meta])* static $name:ident: $type:ty = const { $init:expr };) => {
        $(#[$meta])*
        static $name: $crate::sync::LocalKey<$type> = {
            std::thread_local! { static SYSTEM: $type = const { $init }; }
            shuttle::thread_local! { static MODELED: $type = const { $init }; }
            $crate::sync::LocalKey { system: &SYSTEM, modeled: &MODELED }
        };
    };
}
pub(crate) use modeled_thread_local as thread_local;

impl<T> LocalKey<T> {
    fn with<R>(&'static self, work: impl FnOnce(&T) -> R) -> R {
        if model::is_running() { self.modeled.with(work) } else { self.system.with(work) }
    }
}

impl<T: Copy> LocalKey<Cell<T>> {
    pub(crate) fn get(&'static self) -> T {
        self.with(Cell::get)
    }

    pub(crate) fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }

    pub(crate) fn replace(&'static self, value: T) -> T {
        self.with(|cell| cell.replace(value))
    }
}

impl<T> LocalKey<RefCell<Option<T>>> {
    pub(crate) fn take(&'static self) -> Option<T> {
        self.with(RefCell::take)
    }

    pub(crate) fn set(&'static self, value: Option<T>) {
        drop(self.with(|cell| cell.replace(value)));
    }

    pub(crate) fn with_borrow<R>(&'static self, work: impl FnOnce(&Option<T>) -> R) -> R {
        self.with(|cell| work(&cell.borrow()))
    }
}

#[derive(Debug)]
pub(crate) struct Elapsed;

/// In a model whose timers fire, the timeout expires at any time. Otherwise it never does.
pub(crate) async fn timeout<F: Future>(wait: Duration, future: F) -> Result<F::Output, Elapsed> {
    if !model::is_running() {
        return tokio::time::timeout(wait, future).await.map_err(|_| Elapsed);
    }
    if !model::timers_fire() {
        return Ok(future.await);
    }
    model::until_any_time(future).await.ok_or(Elapsed)
}

/// Starts a thread. In a model in which threads may fail to start, some do.
pub(crate) fn spawn(work: impl FnOnce() + Send + 'static) -> bool {
    if !model::is_running() {
        return system::spawn(work);
    }
    let starts = !model::spawns_fail() || model::either();
    if starts {
        // A model may end while such a thread waits for its next job, so it is a task that nothing joins.
        drop(shuttle::future::spawn(async move { work() }));
    }
    starts
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum OsThread {
    System(system::OsThread),
    Modeled(shuttle::current::TaskId),
}

impl OsThread {
    pub(crate) fn current() -> Self {
        model::task().map_or_else(|| Self::System(system::OsThread::current()), Self::Modeled)
    }

    pub(crate) fn lower_current() {
        match Self::current() {
            Self::System(_) => system::OsThread::lower_current(),
            Self::Modeled(task) => model::record_lowered(task),
        }
    }

    pub(crate) fn lower(self) {
        match self {
            Self::System(thread) => thread.lower(),
            Self::Modeled(task) => model::record_lowered(task),
        }
    }
}

#[derive(Debug)]
pub(crate) enum OsProcess {
    System(system::OsProcess),
    Modeled(u32),
}

impl OsProcess {
    pub(crate) fn new(id: u32) -> Self {
        if model::is_running() { Self::Modeled(id) } else { Self::System(system::OsProcess::new(id)) }
    }

    /// A process in a model computes for no time.
    pub(crate) fn computed(&self) -> Option<Duration> {
        match self {
            Self::System(process) => process.computed(),
            Self::Modeled(_) => Some(Duration::ZERO),
        }
    }

    pub(crate) fn lower(&self) -> bool {
        match self {
            Self::System(process) => process.lower(),
            Self::Modeled(id) => {
                model::record_lowered_process(*id);
                true
            }
        }
    }
}
