//! Records the last uses of tokens, at intervals and off the request path.

use std::collections::HashMap;

use branchyard_domain::entities::{LastUse, Token};
use branchyard_domain::values::{Timestamp, TokenId};
use parking_lot::Mutex;

use crate::state::AppState;
use branchyard_executor::CallerKey;

/// Maximum number of tokens remembered. When it is exceeded, entries older than the interval are dropped, and all entries if
/// that frees no space. At worst, a use is recorded again too early.
const REMEMBERED: usize = 10_000;

/// The time of each token's latest recording.
pub(crate) struct LastUses {
    noted: Mutex<HashMap<TokenId, Timestamp>>,
    every_seconds: i64,
}

impl LastUses {
    pub(crate) fn new(every_seconds: i64) -> Self {
        Self { noted: Mutex::default(), every_seconds }
    }

    /// Returns `true` if this use has to be recorded, and then counts it as recorded.
    fn due(&self, token: &Token, now: Timestamp) -> bool {
        let fresh = |at: &Timestamp| at.plus_seconds(self.every_seconds) > now;
        if token.last_use.as_ref().is_some_and(|last| fresh(&last.at)) {
            return false;
        }
        let mut noted = self.noted.lock();
        if noted.get(&token.id).is_some_and(fresh) {
            return false;
        }
        if noted.len() >= REMEMBERED {
            noted.retain(|_, at| fresh(at));
            if noted.len() >= REMEMBERED {
                noted.clear();
            }
        }
        noted.insert(token.id, now);
        true
    }
}

/// Records a use if one is due, without delaying the request.
pub(crate) fn note(state: &AppState, token: &Token, address: String, user_agent: String) {
    let now = state.services.now();
    if !state.last_uses.due(token, now) {
        return;
    }
    let (state, id, user) = (state.clone(), token.id, CallerKey::User(token.user_id));
    let last_use = LastUse { at: now, address, user_agent };
    actix_web::rt::spawn(async move {
        let services = state.services.clone();
        match state.writes.run(user, move || services.tokens().touch(id, &last_use)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot record the last use of a token")
            }
            Err(error) => tracing::debug!(%error, "cannot record the last use of a token"),
        }
    });
}
