//! Runs blocking work for callers that share a server: bounded thread pools with fair queues, a scheduler that keeps slow queries
//! from delaying fast ones, and limits per caller on concurrency and memory.
//!
//! The crate contains no HTTP and no rules of the product. `docs/executor.md` is its design: the states of a call, invariants, fairness,
//! locks, and what is model-checked.
//!
//! A call runs on a thread of a [`Pool`], and asks a [`SlowQueryScheduler`] at intervals whether it may go on:
//!
//! ```
//! use std::time::Duration;
//!
//! use branchyard_domain::ports::CancellationToken;
//! use branchyard_executor::{CallerKey, Pool, SlowQueryLimits, SlowQueryScheduler};
//!
//! // 8 calls in progress, of which 2 compute, and 64 that wait for at most a second.
//! let pool = Pool::new(8, 64, Duration::from_secs(1)).computing(2);
//! let scheduler = SlowQueryScheduler::new(SlowQueryLimits::default());
//! let caller = CallerKey::of_address(Some([192, 0, 2, 1].into()));
//!
//! let call = pool.run(caller, move || {
//!     let canceled = CancellationToken::default();
//!     let mut sum = 0;
//!     for number in 1..=1_000 {
//!         // Waits for a turn once the call is slow.
//!         if scheduler.go_on(&canceled).is_break() {
//!             return None;
//!         }
//!         sum += number;
//!     }
//!     Some(sum)
//! });
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! assert_eq!(runtime.block_on(call), Ok(Some(500_500)));
//! # Ok::<(), std::io::Error>(())
//! ```

mod body_budget;
mod caller_key;
mod concurrency_limiter;
#[cfg(test)]
mod model;
mod pool;
mod priority;
mod slow_queries;
mod sync;
mod threads;

pub use body_budget::{BodyBudget, BodyRoom, NoRoom};
pub use caller_key::{CallerKey, address_group};
pub use concurrency_limiter::{ConcurrencyLimiter, ConcurrencyPermit};
pub use pool::{AdmittedCall, FairShares, Pool, PoolError, PoolLoad, RunningCall};
pub use slow_queries::{ScheduledCall, SlowPlaces, SlowQueryLimits, SlowQueryScheduler, idle};
