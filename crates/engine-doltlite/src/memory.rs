//! Memory limits: one for everything in the process that uses SQLite, one for each user statement, and one for all
//! running user statements together.
//!
//! The engine allocates from the Rust allocator of the process, through functions that count. Every allocation counts
//! against the limit of the process. What a thread allocates while a user statement runs on it also counts against the
//! [`MemoryBudget`] of that statement, which takes what it needs from the [`MemoryPool`] of its engine. The metadata
//! store shares the allocator but not the pool, so statements cannot take its memory.
//!
//! The engine's own process limit is not used: it requires the engine's memory statistics, which take one lock for
//! every allocation of every thread. If many threads allocate at once, threads with a lowered priority hold up all
//! others, including the metadata store.
//!
//! The limits also end work that nothing else can end: once the time of a statement is over, its budget refuses every
//! allocation. The engine calls no progress handler within a call of a function or while it prepares a statement, but
//! almost nothing there runs for long without allocating.
#![expect(unsafe_code, reason = "neither the limit of the process nor the allocator has a safe wrapper")]

use std::alloc::Layout;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use branchyard_domain::ports::CancellationToken;
use parking_lot::{Condvar, Mutex};
use rusqlite::ffi;

use crate::watchdog::Deadline;

const UNLIMITED: i64 = i64::MAX;
/// Budgets take memory from the pool in pieces of this size, so that few allocations have to lock the pool.
const PIECE: i64 = 256 << 10;
/// A statement that holds no more than this may take from the reserve of the pool, so that a few large statements do
/// not keep small ones waiting.
const SMALL: i64 = 2 << 20;
/// The reserve of a pool: the pool's size divided by `RESERVED_PART`, and at most `RESERVE` bytes.
const RESERVED_PART: i64 = 8;
const RESERVE: i64 = 32 << 20;
/// How long a statement waits for memory that other statements hold.
pub(crate) const WAIT: Duration = Duration::from_secs(5);
/// How often a waiting statement checks whether it was canceled.
const LOOK: Duration = Duration::from_millis(100);

thread_local! {
    /// The budget of the statement that runs on this thread; null if none does.
    static CURRENT: Cell<*const MemoryBudget> = const { Cell::new(ptr::null()) };
    /// Bytes that the thread has allocated, less those it has freed.
    static NET: Cell<i64> = const { Cell::new(0) };
    /// Number of allocations that the thread was refused.
    static REFUSED: Cell<u64> = const { Cell::new(0) };
}

/// Bytes that everything in the process that uses SQLite holds, and the limit for them.
static HELD: AtomicI64 = AtomicI64::new(0);
static MOST_HELD: AtomicI64 = AtomicI64::new(UNLIMITED);

/// A source of memory for statements.
///
/// Sizes are in bytes. A statement takes memory piece by piece on its own thread, and returns all of it at its end.
pub trait MemoryLender: std::fmt::Debug + Send + Sync {
    /// Returns the most that a statement with a budget of `wanted` bytes can ever get.
    fn most_for(&self, wanted: i64) -> i64;

    /// Takes `bytes` for a statement that already holds `held` bytes. Returns `false` if too little is left. Called in
    /// the middle of an allocation: must not allocate from the engine.
    fn take(&self, bytes: i64, held: i64) -> bool;

    /// Takes `bytes` back.
    fn give_back(&self, bytes: i64);

    /// Waits until `bytes` are free. Returns `false` if they are not free within `wait`, or the call was canceled.
    fn wait_for(&self, bytes: i64, wait: Duration, canceled: &CancellationToken) -> bool;
}

/// Memory that all running statements of an engine share.
#[derive(Debug)]
pub struct MemoryPool {
    all: i64,
    /// The part of `all` that only small statements may take.
    reserve: i64,
    left: Mutex<i64>,
    given_back: Condvar,
}

impl MemoryPool {
    /// Creates a pool of `bytes`; `None` sets no limit.
    pub fn new(bytes: Option<usize>) -> Self {
        let all = bytes.map_or(UNLIMITED, whole);
        let reserve = bytes.map_or(0, |_| (all / RESERVED_PART).min(RESERVE));
        Self { all, reserve, left: Mutex::new(all), given_back: Condvar::new() }
    }

    /// Returns the number of bytes that have to stay in the pool if a statement is to hold `holds` bytes.
    fn kept_from(&self, holds: i64) -> i64 {
        if holds <= SMALL { 0 } else { self.reserve }
    }
}

impl MemoryLender for MemoryPool {
    fn most_for(&self, wanted: i64) -> i64 {
        wanted.min(self.all - self.kept_from(wanted))
    }

    fn take(&self, bytes: i64, held: i64) -> bool {
        let mut left = self.left.lock();
        let fits = *left - self.kept_from(held.saturating_add(bytes)) >= bytes;
        if fits {
            *left -= bytes;
        }
        fits
    }

    fn give_back(&self, bytes: i64) {
        if bytes > 0 {
            *self.left.lock() += bytes;
            self.given_back.notify_all();
        }
    }

    fn wait_for(&self, bytes: i64, wait: Duration, canceled: &CancellationToken) -> bool {
        let (kept, until) = (self.kept_from(bytes), Instant::now() + wait);
        let bytes = bytes.min(self.all - kept);
        let mut left = self.left.lock();
        while *left - kept < bytes {
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() || canceled.is_canceled() {
                return false;
            }
            self.given_back.wait_for(&mut left, rest.min(LOOK));
        }
        true
    }
}

fn whole(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(UNLIMITED - 1)
}

/// The memory that one statement may take, and the deadline after which it gets no more.
#[derive(Debug)]
pub(crate) struct MemoryBudget {
    all: AllocationCount,
    left: AllocationCount,
    pool: Arc<dyn MemoryLender>,
    /// Bytes taken from the pool.
    taken: AllocationCount,
    /// The part of `taken` that is unused.
    unused: AllocationCount,
    /// Bytes that the pool could not provide; 0 if it provided all.
    lacked: AllocationCount,
    /// 1 if the statement asked for more than the budget had left, otherwise 0.
    exceeded: AllocationCount,
    deadline: Arc<Deadline>,
}

/// A counter that only the thread of the statement changes, but that moves between threads with its connection.
#[derive(Debug, Default)]
struct AllocationCount(AtomicI64);

impl AllocationCount {
    fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

impl MemoryBudget {
    pub(crate) fn new(bytes: usize, pool: &Arc<dyn MemoryLender>, deadline: Arc<Deadline>) -> Self {
        let pool = Arc::clone(pool);
        let (all, left) = <(AllocationCount, AllocationCount)>::default();
        let (taken, unused, lacked, exceeded) =
            <(AllocationCount, AllocationCount, AllocationCount, AllocationCount)>::default();
        let budget = Self { all, left, pool, taken, unused, lacked, exceeded, deadline };
        budget.resize(bytes);
        budget
    }

    /// Sets the size of a budget of which nothing is spent.
    pub(crate) fn resize(&self, bytes: usize) {
        // A statement can never have more than the pool has.
        self.all.set(self.pool.most_for(whole(bytes)));
        self.left.set(self.all.get());
    }

    /// Returns `true` if more than a quarter of the budget is spent.
    pub(crate) fn is_getting_short(&self) -> bool {
        self.left.get() < self.all.get() / 4 * 3
    }

    /// Resets the budget, after the memory that was taken has been freed.
    pub(crate) fn renew(&self) {
        self.left.set(self.all.get());
        self.pool.give_back(self.taken.get());
        self.taken.set(0);
        self.unused.set(0);
        self.exceeded.set(0);
    }

    /// Returns `true` if the pool could not provide the memory that the statement needed.
    pub(crate) fn lacked(&self) -> bool {
        self.lacked.get() > 0
    }

    /// Returns the size of the budget in bytes if the statement needed more than that. Waiting would not have helped.
    pub(crate) fn exceeded(&self) -> Option<i64> {
        (self.exceeded.get() > 0).then(|| self.all.get())
    }

    /// Returns all memory to the pool, and waits until the pool has the memory that was lacking. Returns `false` if it
    /// does not within `wait`, or if the scheduler does not let the call wait.
    pub(crate) fn wait_for_room(&self, wait: Duration) -> bool {
        let needed = self.taken.get().saturating_add(self.lacked.get());
        self.renew();
        self.lacked.set(0);
        self.deadline.pause() && self.deadline.stopped(|| self.pool.wait_for(needed, wait, self.deadline.canceled()))
    }

    /// Marks the budget as lacking memory permanently.
    pub(crate) fn give_up(&self) {
        self.lacked.set(1);
    }

    /// Runs `work` and counts its allocations. `work` must not contain code that cannot handle a failed allocation.
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore(*const MemoryBudget);
        impl Drop for Restore {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _restore = Restore(CURRENT.replace(self));
        work()
    }

    /// Takes `bytes` from the budget; a negative number returns them. Returns `false` if too little is left, the pool
    /// has too little, or the deadline has passed.
    fn take(&self, bytes: i64) -> bool {
        let left = self.left.get();
        if bytes > 0 {
            if self.deadline.is_over() {
                return false;
            }
            if left < bytes {
                self.exceeded.set(1);
                return false;
            }
            let lacking = bytes - self.unused.get();
            if lacking > 0 {
                let whole = lacking.saturating_add(PIECE - 1) / PIECE * PIECE;
                let piece = [whole, lacking].into_iter().find(|piece| self.pool.take(*piece, self.taken.get()));
                let Some(piece) = piece else {
                    self.lacked.set(lacking);
                    return false;
                };
                self.taken.set(self.taken.get() + piece);
                self.unused.set(self.unused.get() + piece);
            }
        }
        // A statement may free memory that was allocated before it began. That must not raise its budget above the
        // initial size.
        self.left.set(left.saturating_sub(bytes).min(self.all.get()));
        self.unused.set(self.unused.get().saturating_sub(bytes).min(self.taken.get()));
        true
    }
}

impl Drop for MemoryBudget {
    fn drop(&mut self) {
        self.pool.give_back(self.taken.get());
    }
}

/// Runs `work`, internal work in the middle of a user statement, without counting its allocations.
pub(crate) fn unmetered<T>(work: impl FnOnce() -> T) -> T {
    struct Restore(*const MemoryBudget);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(ptr::null()));
    work()
}

/// Runs `look` on the budget of the statement that runs on this thread. Returns `None` if none does.
fn current<T>(look: impl FnOnce(&MemoryBudget) -> T) -> Option<T> {
    // Thread-locals may already be destroyed when an ending thread frees its connections.
    let current = CURRENT.try_with(Cell::get).unwrap_or(ptr::null());
    // SAFETY: `spend` sets the pointer on this thread for as long as it borrows the budget, and restores the previous
    // pointer before the borrow ends.
    unsafe { current.as_ref() }.map(look)
}

fn take(bytes: i64) -> bool {
    current(|allowance| allowance.take(bytes)).unwrap_or(true)
}

/// Takes memory from the limit of the process and from the budget of the statement on this thread; a negative number
/// returns it. Returns `false` if either has too little left.
fn take_held(bytes: i64) -> bool {
    let held = HELD.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
    let fits = bytes <= 0 || (held <= MOST_HELD.load(Ordering::Relaxed) && take(bytes));
    // `try_with`, because an ending thread may have lost its thread-locals.
    if !fits {
        HELD.fetch_sub(bytes, Ordering::Relaxed);
        let _ = REFUSED.try_with(|refused| refused.set(refused.get() + 1));
        return false;
    }
    if bytes <= 0 {
        take(bytes);
    }
    let _ = NET.try_with(|net| net.set(net.get() + bytes));
    true
}

/// A snapshot of what the engine has allocated on this thread. A later snapshot shows what a connection allocated in
/// between.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Allocated {
    net: i64,
    refused: u64,
}

impl Allocated {
    pub(crate) fn now() -> Self {
        Self { net: NET.get(), refused: REFUSED.get() }
    }

    /// Returns the bytes allocated since the snapshot, less those freed.
    pub(crate) fn grown(self) -> i64 {
        NET.get() - self.net
    }

    /// Returns `true` if memory was refused since the snapshot, for any reason.
    pub(crate) fn was_refused(self) -> bool {
        REFUSED.get() != self.refused
    }
}

/// Returns `true` if the time of the statement that runs on this thread is over. Replaced functions call this while
/// they compute.
pub(crate) fn is_overdue() -> bool {
    current(|allowance| allowance.deadline.is_over()).unwrap_or(false)
}

/// Memory of the Rust code that counts against the statement that runs on this thread until dropped.
pub(crate) struct Charge(i64);

impl Charge {
    /// Charges `bytes` to the statement. Returns `None` if the statement may not take that much.
    pub(crate) fn take(bytes: usize) -> Option<Self> {
        let bytes = whole(bytes);
        take(bytes).then_some(Self(bytes))
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        take(-self.0);
    }
}

/// Sets the limit of the process, and replaces the allocator on the first call. Both apply to all of SQLite in the
/// process.
///
/// The allocator can be replaced only before anything in the process has used SQLite. Otherwise the only limit is the
/// engine's own process limit.
pub fn set_up(process: Option<u64>) {
    static IS_REPLACED: OnceLock<bool> = OnceLock::new();
    let is_replaced = *IS_REPLACED.get_or_init(|| {
        return_freed_memory();
        let is_replaced = replace_allocator();
        if !is_replaced {
            tracing::warn!("SQLite was in use before the engine was opened: no memory limit for single statements");
        }
        is_replaced
    });
    let Some(bytes) = process.filter(|bytes| *bytes > 0).and_then(|bytes| i64::try_from(bytes).ok()) else { return };
    MOST_HELD.store(bytes, Ordering::Relaxed);
    if !is_replaced {
        // SAFETY: the function takes and returns plain numbers, and may be called at any time from any thread.
        unsafe {
            ffi::sqlite3_hard_heap_limit64(bytes);
        }
    }
}

/// Freed blocks of at least this many bytes go back to the system, and so does the same amount of free memory at the
/// end of a heap.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const RETURNED: c_int = 1 << 20;

/// Configures glibc to return the memory that statements free. By default glibc raises its thresholds to the largest
/// block that was ever freed, up to 32 MiB, and then keeps up to twice that in each of its heaps, of which there are
/// eight per core: far more than the statements may take together.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn return_freed_memory() {
    /// Option numbers from `malloc.h`.
    const M_TRIM_THRESHOLD: c_int = -1;
    const M_MMAP_THRESHOLD: c_int = -3;
    unsafe extern "C" {
        fn mallopt(option: c_int, value: c_int) -> c_int;
    }
    // SAFETY: the function takes and returns plain numbers, locks the allocator, and may be called at any time from any
    // thread.
    let done = unsafe { mallopt(M_MMAP_THRESHOLD, RETURNED) & mallopt(M_TRIM_THRESHOLD, RETURNED) };
    if done == 0 {
        tracing::warn!("the allocator does not return freed memory to the operating system");
    }
}

/// Does nothing: other allocators have thresholds of their own.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn return_freed_memory() {}

fn replace_allocator() -> bool {
    // SAFETY: the type is a struct of nullable function pointers and a pointer; all null is a valid value.
    let mut methods: ffi::sqlite3_mem_methods = unsafe { std::mem::zeroed() };
    // SAFETY: the option takes a pointer to such a struct and fills it.
    let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
    if got != ffi::SQLITE_OK {
        return false;
    }
    methods.xMalloc = Some(malloc);
    methods.xFree = Some(free);
    methods.xRealloc = Some(realloc);
    methods.xSize = Some(size);
    // SAFETY: the option copies the struct, and its functions live as long as the process. The engine refuses the
    // option (`SQLITE_MISUSE`) once SQLite is in use, so the new functions never see a block of the previous allocator.
    let is_replaced = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK };
    if is_replaced {
        // SAFETY: the option takes a number. The previous option was accepted, so the engine is still unused, and
        // accepts this option too.
        let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) };
        debug_assert_eq!(got, ffi::SQLITE_OK, "the engine counts memory under a lock");
    }
    is_replaced
}

/// Size in bytes of the header before each block. The header holds the size of the block.
const HEADER: usize = size_of::<usize>();

/// Returns the layout of a block with its header, and the size of the block. Returns `None` if no such block can exist.
fn layout(bytes: c_int) -> Option<(Layout, usize)> {
    let bytes = usize::try_from(bytes).ok()?;
    // The engine requires an alignment of 8 bytes.
    Some((Layout::from_size_align(bytes.checked_add(HEADER)?, 8).ok()?, bytes))
}

/// Returns the start of the header of a block, and the size stored in it.
///
/// # Safety
/// `memory` must come from [`malloc`] or [`realloc`], and must not have been freed.
unsafe fn header(memory: *mut c_void) -> (*mut u8, usize) {
    // SAFETY: the header lies directly before the block and has the same alignment.
    unsafe {
        let header = memory.cast::<u8>().sub(HEADER);
        (header, header.cast::<usize>().read())
    }
}

/// Writes the header of a block, and returns the address after it.
///
/// # Safety
/// `block` must be null, or long enough and aligned to 8 bytes.
unsafe fn with_header(block: *mut u8, bytes: usize) -> *mut c_void {
    if block.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: guaranteed by the caller.
    unsafe {
        block.cast::<usize>().write(bytes);
        block.add(HEADER).cast()
    }
}

unsafe extern "C" fn malloc(bytes: c_int) -> *mut c_void {
    let Some((layout, bytes)) = layout(bytes).filter(|(_, bytes)| take_held(whole(*bytes))) else {
        return ptr::null_mut();
    };
    // SAFETY: the layout is not empty, because it includes the header; it is the layout of such a block.
    let got = unsafe { with_header(std::alloc::alloc(layout), bytes) };
    if got.is_null() {
        take_held(-whole(bytes));
    }
    got
}

unsafe extern "C" fn free(memory: *mut c_void) {
    if memory.is_null() {
        return;
    }
    // SAFETY: the engine frees a block that it got from these functions, once.
    let (block, bytes) = unsafe { header(memory) };
    take_held(-whole(bytes));
    if let Ok(layout) = Layout::from_size_align(bytes + HEADER, 8) {
        // SAFETY: the block was allocated with this layout.
        unsafe { std::alloc::dealloc(block, layout) }
    }
}

/// Resizes a block. The engine never resizes null.
unsafe extern "C" fn realloc(memory: *mut c_void, bytes: c_int) -> *mut c_void {
    // SAFETY: the engine resizes a block that it got from these functions and did not free.
    let (block, before) = unsafe { header(memory) };
    let (Some((layout, bytes)), Ok(old)) = (layout(bytes), Layout::from_size_align(before + HEADER, 8)) else {
        return ptr::null_mut();
    };
    let more = whole(bytes) - whole(before);
    if !take_held(more) {
        return ptr::null_mut();
    }
    // SAFETY: the block was allocated with the old layout, and the new layout is not empty. The result is a block of
    // the new layout.
    let got = unsafe { with_header(std::alloc::realloc(block, old, layout.size()), bytes) };
    if got.is_null() {
        take_held(-more);
    }
    got
}

unsafe extern "C" fn size(memory: *mut c_void) -> c_int {
    if memory.is_null() {
        return 0;
    }
    // SAFETY: the engine asks for the size of a block that it got from these functions and did not free.
    let (_, bytes) = unsafe { header(memory) };
    c_int::try_from(bytes).unwrap_or(c_int::MAX)
}

#[cfg(test)]
mod tests {
    use super::{MemoryLender as _, MemoryPool};

    const MIB: i64 = 1 << 20;

    #[test]
    fn large_statements_leave_a_part_to_small_ones() {
        let pool = MemoryPool::new(Some(64 << 20));
        assert!(!pool.take(57 * MIB, 0), "an eighth is kept");
        assert!(pool.take(56 * MIB, 0));
        assert!(!pool.take(1, 2 * MIB), "one that holds more than 2 MiB is a large one");
        assert!(pool.take(1, 2 * MIB - 1) && (0..4).all(|_| pool.take(2 * MIB - 1, 0)));
        assert!((0..3).all(|_| pool.take(1, 0)) && !pool.take(1, 0), "nothing is left");
        pool.give_back(64 * MIB);
        assert!(pool.take(56 * MIB, 0));
    }
}
