//! Runs blocking work for callers who share a server: bounded pools of threads with fair queues, a scheduler that keeps slow queries from holding
//! up fast ones, and limits by caller on concurrency and memory.
//!
//! There is no HTTP here, and no rule of the product.

mod body_budget;
mod caller_key;
mod lanes;
mod pool;
mod slots;
mod threads;

pub use body_budget::{BodyBudget, BodyRoom, NoRoom};
pub use caller_key::{CallerKey, address_group};
pub use lanes::{LaneCall, LongLane, LongLaneSizes, idle};
pub use pool::{Pool, PoolError, PoolLoad, PoolPlace, UnderWay};
pub use slots::{ReadSlot, Slots};
