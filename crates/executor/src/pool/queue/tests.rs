use std::time::Duration;

use super::FairShares;
use crate::caller_key::CallerKey;
use crate::pool::{Pool, PoolError, PoolSlot, RunningCall};

const ONE: CallerKey = CallerKey::Address(1);
const TWO: CallerKey = CallerKey::Address(2);
const SHORT: Duration = Duration::from_millis(30);

fn shares(while_others_wait: usize, queued: usize) -> FairShares {
    FairShares { while_others_wait, queued }
}

async fn admit(pool: &Pool, caller: CallerKey, count: usize) -> Vec<(PoolSlot, RunningCall)> {
    let mut admitted = Vec::new();
    for _ in 0..count {
        admitted.push(pool.admit(caller).await.unwrap());
    }
    admitted
}

async fn refused(pool: &Pool, caller: CallerKey) -> PoolError {
    pool.admit(caller).await.err().expect("the call is refused")
}

#[tokio::test]
async fn a_caller_alone_has_all_slots_and_its_next_call_waits() {
    let pool = Pool::new(4, 8, SHORT).shared_fairly(shares(1, 8));
    let mut held = admit(&pool, ONE, 4).await;
    assert_eq!(refused(&pool, ONE).await, PoolError::ShareInUse);
    let (served, ()) = tokio::join!(pool.run(ONE, || 1), async { drop(held.pop()) });
    assert_eq!(served, Ok(1));
}

#[tokio::test]
async fn the_share_is_the_slots_divided_by_the_active_callers() {
    let pool = Pool::new(4, 8, SHORT).shared_fairly(shares(8, 8));
    let two = admit(&pool, TWO, 1).await;
    let held = admit(&pool, ONE, 2).await;
    assert_eq!(refused(&pool, ONE).await, PoolError::ShareInUse, "half of the slots are its share");
    assert_eq!(pool.load().busy, 3);
    let three: Vec<_> = (3..9).map(CallerKey::Address).collect();
    let mut others = admit(&pool, three[0], 1).await;
    assert_eq!(refused(&pool, three[1]).await, PoolError::TooLong, "it has none, and there is none");
    drop(two);
    others.extend(admit(&pool, three[1], 1).await);
    assert_eq!(refused(&pool, three[1]).await, PoolError::ShareInUse, "a share is at least one, and not more here");
    drop((held, others));
    assert!(pool.shared.state.lock().is_unused());
}

/// The share of each of two callers is 4. While the other one waits, a caller has at most 2.
#[tokio::test]
async fn the_limit_of_a_caller_holds_while_others_wait() {
    let pool = Pool::new(8, 8, Duration::from_secs(10)).shared_fairly(shares(2, 8));
    let mut one = admit(&pool, ONE, 4).await;
    let two = admit(&pool, TWO, 4).await;
    let again = pool.admit(ONE);
    let beside = async {
        // Both callers have a call that waits now.
        let waits = tokio::time::timeout(SHORT, pool.admit(TWO));
        drop(one.pop());
        assert_eq!(pool.load().queued, 0, "no other caller waits, and the share is 4");
        assert!(waits.await.is_err(), "its share is in use");
    };
    let (again, ()) = tokio::join!(again, beside);
    one.push(again.unwrap());
    let (waits, ()) = tokio::join!(tokio::time::timeout(Duration::from_secs(10), pool.admit(ONE)), async {
        let (other, ()) = tokio::join!(tokio::time::timeout(SHORT / 3, pool.admit(TWO)), async {
            assert_eq!(pool.load().queued, 2);
            drop(one.pop());
            assert_eq!(pool.load().queued, 2, "three in progress are more than two");
        });
        assert!(other.is_err());
    });
    assert!(waits.is_ok(), "no other caller waits any more");
    drop((waits, one, two));
    assert!(pool.shared.state.lock().is_unused());
}

/// The numbers of a server with default settings: 64 calls of a caller wait, and 256 in all.
#[tokio::test]
async fn a_full_queue_of_a_caller_refuses_its_next_call_and_a_full_queue_that_of_the_greediest() {
    let pool = Pool::new(1, 256, Duration::from_secs(60)).shared_fairly(shares(8, 64));
    let held = admit(&pool, ONE, 1).await;
    let wait = |caller, count: usize| {
        let calls: Vec<_> = (0..count)
            .map(|_| {
                let pool = pool.clone();
                tokio::spawn(async move { pool.run(CallerKey::Address(caller), || ()).await })
            })
            .collect();
        calls
    };
    let mut waiting = wait(1, 64);
    while pool.load().queued < 64 {
        tokio::task::yield_now().await;
    }
    assert_eq!(refused(&pool, ONE).await, PoolError::CallerQueueFull(64), "the 65th of a caller");
    (2..5).for_each(|caller| waiting.extend(wait(caller, 64)));
    while pool.load().queued < 256 {
        tokio::task::yield_now().await;
    }
    assert_eq!(refused(&pool, TWO).await, PoolError::CallerQueueFull(64), "its own queue is full as well");
    // The 257th makes room at the cost of a caller with 64.
    waiting.extend(wait(5, 1));
    while pool.load().refused < 3 {
        tokio::task::yield_now().await;
    }
    assert_eq!(pool.load().queued, 256);
    drop(held);
    let mut full = 0;
    for call in waiting {
        match call.await.unwrap() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, PoolError::Full);
                full += 1;
            }
        }
    }
    assert_eq!(full, 1);
    assert_eq!(pool.load().refused, 3);
}

#[tokio::test]
async fn callers_with_waiting_calls_are_served_in_turn() {
    let pool = Pool::new(1, 64, Duration::from_secs(60)).shared_fairly(shares(8, 64));
    let held = admit(&pool, ONE, 1).await;
    let order = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let mut calls = Vec::new();
    for (caller, count) in [(ONE, 6), (TWO, 2)] {
        for _ in 0..count {
            let (pool, order) = (pool.clone(), std::sync::Arc::clone(&order));
            calls.push(tokio::spawn(async move {
                let admitted = pool.admit(caller).await.unwrap();
                order.lock().push(caller);
                drop(admitted);
            }));
            tokio::task::yield_now().await;
        }
    }
    assert_eq!(pool.load().queued, 8);
    drop(held);
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(*order.lock(), [TWO, ONE, TWO, ONE, ONE, ONE, ONE, ONE], "two calls of two wait behind six");
}
