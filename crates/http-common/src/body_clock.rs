//! Deadlines and minimum transfer rates for request bodies.

use std::time::Duration;

use actix_web::web::Bytes;
use futures_util::{Stream, StreamExt as _};
use tokio::time::Instant;

use crate::config::BodyTimeouts;

/// The error for a body that fell below the minimum rate or missed its deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooSlow;

/// Measures the transfer of one body. Time during which the server does not read is excluded.
#[derive(Debug)]
pub struct BodyClock {
    patience: BodyTimeouts,
    /// Whether the whole body has a deadline.
    is_bounded: bool,
    began: Instant,
    server_time: Duration,
    received: u64,
}

impl BodyClock {
    /// Creates the clock of a body that is read into memory. The whole body has a deadline.
    pub fn bounded(patience: &BodyTimeouts) -> Self {
        Self::new(patience, true)
    }

    /// Creates the clock of a body that is passed on as it arrives. The body has no overall deadline, but no pause may exceed
    /// [`BodyTimeouts::stall`].
    pub fn streamed(patience: &BodyTimeouts) -> Self {
        Self::new(patience, false)
    }

    fn new(patience: &BodyTimeouts, is_bounded: bool) -> Self {
        let (began, server_time) = (Instant::now(), Duration::ZERO);
        Self { patience: patience.clone(), is_bounded, began, server_time, received: 0 }
    }

    /// Returns the next piece of the body, or `None` at its end.
    ///
    /// # Errors
    /// [`TooSlow`] if the client fell behind. The body must not be read further.
    pub async fn next<S, E>(&mut self, body: &mut S) -> Result<Option<Result<Bytes, E>>, TooSlow>
    where
        S: Stream<Item = Result<Bytes, E>> + Unpin,
    {
        let now = Instant::now();
        let behind = self.began + self.server_time + self.allowance();
        let until = if self.is_bounded { behind } else { behind.min(now + self.patience.stall) };
        let piece = tokio::time::timeout_at(until, body.next()).await.map_err(|_| TooSlow)?;
        if let Some(Ok(bytes)) = &piece {
            self.received = self.received.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        }
        Ok(piece)
    }

    /// Excludes time during which the server, not the client, delayed the body.
    pub fn exclude(&mut self, server_time: Duration) {
        self.server_time += server_time;
    }

    /// Returns the time that the bytes received so far have earned the client, counted from the start of the body.
    fn allowance(&self) -> Duration {
        let earned = Duration::from_secs(self.received / self.patience.bytes_per_second.max(1));
        let paced = self.patience.grace.saturating_add(earned);
        if self.is_bounded { paced.min(self.patience.body) } else { paced }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::web::Bytes;
    use futures_util::StreamExt as _;
    use futures_util::stream::{self, LocalBoxStream};

    use super::{BodyClock, TooSlow};
    use crate::config::BodyTimeouts;

    fn after(received: u64, is_bounded: bool) -> Duration {
        let mut pace = BodyClock::new(&BodyTimeouts::default(), is_bounded);
        pace.received = received;
        pace.allowance()
    }

    #[test]
    fn a_body_earns_a_second_with_each_kibibyte_after_the_first_five() {
        let seconds = Duration::from_secs;
        assert_eq!(after(0, true), seconds(5));
        assert_eq!(after(1_023, true), seconds(5));
        assert_eq!(after(1_024, true), seconds(6));
        assert_eq!(after(24 << 10, true), seconds(29));
        assert_eq!(after(2 << 20, true), seconds(30), "the deadline");
        assert_eq!(after(2 << 20, false), seconds(5 + 2_048), "no deadline");
    }

    fn dripping() -> LocalBoxStream<'static, Result<Bytes, ()>> {
        let drops = stream::repeat(()).then(|()| async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            Ok(Bytes::from_static(b"x"))
        });
        drops.boxed_local()
    }

    async fn ends(mut pace: BodyClock) -> TooSlow {
        let mut body = dripping();
        loop {
            if let Err(slow) = pace.next(&mut body).await {
                return slow;
            }
        }
    }

    #[actix_web::test]
    async fn a_body_that_drips_is_cut_and_so_is_one_that_pauses() {
        let impatient = BodyTimeouts { grace: Duration::from_millis(50), ..BodyTimeouts::default() };
        assert_eq!(ends(BodyClock::bounded(&impatient)).await, TooSlow);
        assert_eq!(ends(BodyClock::streamed(&impatient)).await, TooSlow);
        let deadline = BodyTimeouts { body: Duration::from_millis(50), bytes_per_second: 1, ..BodyTimeouts::default() };
        assert_eq!(ends(BodyClock::bounded(&deadline)).await, TooSlow);
        let restless = BodyTimeouts { stall: Duration::from_millis(50), ..BodyTimeouts::default() };
        let mut silent = stream::pending::<Result<Bytes, ()>>();
        assert_eq!(BodyClock::streamed(&restless).next(&mut silent).await, Err(TooSlow));
    }

    #[actix_web::test]
    async fn time_of_the_server_does_not_count() {
        let patience = BodyTimeouts { grace: Duration::from_millis(20), ..BodyTimeouts::default() };
        let mut pace = BodyClock::bounded(&patience);
        tokio::time::sleep(Duration::from_millis(30)).await;
        pace.exclude(Duration::from_secs(60));
        let mut body = dripping();
        assert!(pace.next(&mut body).await.is_ok());
    }
}
