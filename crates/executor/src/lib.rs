//! Runs blocking work for callers who share a server: bounded pools of threads with fair queues, a scheduler that keeps slow queries from holding
//! up fast ones, and limits by caller on concurrency and memory.
//!
//! There is no HTTP here, and no rule of the product.

mod body_budget;
mod caller_key;
mod concurrency_limiter;
mod pool;
mod slow_queries;
mod threads;

pub use body_budget::{BodyBudget, BodyRoom, NoRoom};
pub use caller_key::{CallerKey, address_group};
pub use concurrency_limiter::{ConcurrencyLimiter, ConcurrencyPermit};
pub use pool::{Pool, PoolError, PoolLoad, PoolPermit, RunningCall};
pub use slow_queries::{ScheduledCall, SlowQueryLimits, SlowQueryScheduler, idle};
