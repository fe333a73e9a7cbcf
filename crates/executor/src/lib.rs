//! Runs blocking work for callers that share a server: bounded thread pools with fair queues, a scheduler that keeps slow queries
//! from delaying fast ones, and limits per caller on concurrency and memory.
//!
//! The crate contains no HTTP and no rules of the product.

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
pub use pool::{Pool, PoolError, PoolLoad};
pub use slow_queries::{ScheduledCall, SlowQueryLimits, SlowQueryScheduler, idle};
