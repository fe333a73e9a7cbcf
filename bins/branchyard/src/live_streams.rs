//! The thread that looks for all open pages together whether what they show has changed.

use std::time::Duration;

use branchyard_http_common::AppState;

use crate::repeating_thread::RepeatingThread;

/// Interval of the looks. A stream ends within a second of a sign-out, so that there is time for the look itself.
const INTERVAL: Duration = Duration::from_millis(400);

/// Starts the thread. Once the server stops or its node is drained, it ends all streams.
pub(crate) fn follow(state: AppState) -> std::io::Result<RepeatingThread> {
    RepeatingThread::start("live-streams", INTERVAL, move |_| {
        state.live.check(&state.services, state.is_stopping());
    })
}
