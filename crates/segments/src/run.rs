//! Driving the protocol without a runtime.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

/// Runs a future on the calling thread to its end.
///
/// If the implementations of the traits block, the future is ready when it is polled for the first time. Otherwise the thread
/// sleeps until it is woken.
pub fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::run;
    use std::future::poll_fn;
    use std::task::Poll;
    use std::thread;

    #[test]
    fn a_future_that_is_ready_returns_its_value() {
        assert_eq!(run(async { 7 }), 7);
    }

    #[test]
    fn a_future_is_polled_again_when_it_is_woken() {
        let mut polls = 0;
        let value = run(poll_fn(|context| {
            polls += 1;
            let waker = context.waker().clone();
            thread::spawn(move || waker.wake());
            if polls == 3 { Poll::Ready(polls) } else { Poll::Pending }
        }));
        assert_eq!(value, 3);
    }
}
