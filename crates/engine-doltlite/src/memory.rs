//! Limits on memory: one for everything in the process that uses SQLite, one for each statement of a stranger.
//!
//! The engine knows only the first kind. For the second, its allocator is wrapped: what a thread allocates while a statement of a stranger runs
//! on it counts against the [`Allowance`] of that statement.
#![expect(unsafe_code, reason = "neither the limit of the process nor the allocator has a safe wrapper")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

const UNLIMITED: i64 = i64::MAX;

thread_local! {
    /// Bytes this thread may still allocate.
    static LEFT: Cell<i64> = const { Cell::new(UNLIMITED) };
}

/// What the wrapped allocator stands on.
struct Stock {
    malloc: unsafe extern "C" fn(c_int) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    realloc: unsafe extern "C" fn(*mut c_void, c_int) -> *mut c_void,
    size: unsafe extern "C" fn(*mut c_void) -> c_int,
}

static STOCK: OnceLock<Stock> = OnceLock::new();

/// Memory one statement may take.
#[derive(Debug)]
pub(crate) struct Allowance {
    all: i64,
    left: Cell<i64>,
}

impl Allowance {
    pub(crate) fn new(bytes: usize) -> Self {
        let all = i64::try_from(bytes).unwrap_or(UNLIMITED);
        Self { all, left: Cell::new(all) }
    }

    /// Whether more than a quarter is spent.
    pub(crate) fn is_getting_short(&self) -> bool {
        self.left.get() < self.all / 4 * 3
    }

    /// Starts anew.
    pub(crate) fn renew(&self) {
        self.left.set(self.all);
    }

    /// Runs `work`, whose allocations count. Never around code of ours that takes an allocation for granted.
    pub(crate) fn spend<T>(&self, work: impl FnOnce() -> T) -> T {
        struct Restore<'a>(&'a Allowance);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.left.set(LEFT.replace(UNLIMITED));
            }
        }
        LEFT.set(self.left.get());
        let _restore = Restore(self);
        work()
    }
}

/// Takes from what is left, unless that is too little; negative to give back.
fn take(bytes: i64) -> bool {
    // A thread that ends frees its connections when its locals are gone.
    LEFT.try_with(|left| match left.get() {
        UNLIMITED => true,
        have if bytes > 0 && have < bytes => false,
        have => {
            // Memory from before the statement may be given back too: it makes the allowance no wider than any other statement's.
            left.set(have.saturating_sub(bytes).min(UNLIMITED - 1));
            true
        }
    })
    .unwrap_or(true)
}

/// Sets the limit of the process and wraps the allocator, once. Both hold for all of SQLite in the process.
///
/// Wrapping works only before anything in the process has used SQLite; otherwise the limit of the process stands alone.
pub(crate) fn set_up(process: Option<u64>) {
    static DONE: OnceLock<()> = OnceLock::new();
    DONE.get_or_init(|| {
        if !wrap_allocator() {
            tracing::warn!("SQLite was in use before the engine was opened: no memory limit for single statements");
        }
    });
    if let Some(bytes) = process.and_then(|bytes| i64::try_from(bytes).ok()) {
        // SAFETY: takes and gives plain numbers, and may be called at any time from any thread.
        unsafe {
            ffi::sqlite3_hard_heap_limit64(bytes);
        }
    }
}

fn wrap_allocator() -> bool {
    // SAFETY: a struct of nullable function pointers and a pointer; all null is a valid value.
    let mut methods: ffi::sqlite3_mem_methods = unsafe { std::mem::zeroed() };
    // SAFETY: this option takes a pointer to such a struct and fills it.
    let got = unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_GETMALLOC, &raw mut methods) };
    let (Some(malloc), Some(free), Some(realloc), Some(size)) =
        (methods.xMalloc, methods.xFree, methods.xRealloc, methods.xSize)
    else {
        return false;
    };
    if got != ffi::SQLITE_OK || STOCK.set(Stock { malloc, free, realloc, size }).is_err() {
        return false;
    }
    methods.xMalloc = Some(counted_malloc);
    methods.xFree = Some(counted_free);
    methods.xRealloc = Some(counted_realloc);
    // SAFETY: this option copies the struct. The functions in it live as long as the process, stand on the ones they replace, and answer
    // null where those might; the engine refuses the option (MISUSE) when it was used already.
    unsafe { ffi::sqlite3_config(ffi::SQLITE_CONFIG_MALLOC, &raw const methods) == ffi::SQLITE_OK }
}

unsafe extern "C" fn counted_malloc(bytes: c_int) -> *mut c_void {
    let Some(stock) = STOCK.get() else { return std::ptr::null_mut() };
    if !take(i64::from(bytes)) {
        return std::ptr::null_mut();
    }
    // SAFETY: the engine's own arguments, passed on.
    let got = unsafe { (stock.malloc)(bytes) };
    if got.is_null() {
        take(-i64::from(bytes));
    }
    got
}

unsafe extern "C" fn counted_free(memory: *mut c_void) {
    let Some(stock) = STOCK.get() else { return };
    if !memory.is_null() {
        // SAFETY: memory of the stock allocator, as all memory the engine gets.
        take(-i64::from(unsafe { (stock.size)(memory) }));
    }
    // SAFETY: as above.
    unsafe { (stock.free)(memory) }
}

unsafe extern "C" fn counted_realloc(memory: *mut c_void, bytes: c_int) -> *mut c_void {
    let Some(stock) = STOCK.get() else { return std::ptr::null_mut() };
    // SAFETY: memory of the stock allocator; the engine never asks to resize null.
    let more = i64::from(bytes) - i64::from(unsafe { (stock.size)(memory) });
    if !take(more) {
        return std::ptr::null_mut();
    }
    // SAFETY: as above.
    let got = unsafe { (stock.realloc)(memory, bytes) };
    if got.is_null() {
        take(-more);
    }
    got
}
