//! Records the last uses of tokens, grants and keys, at intervals and off the request path.

use std::collections::HashMap;

use branchyard_domain::entities::{LastUse, UserKey};
use branchyard_domain::errors::PortError;
use branchyard_domain::usecases::ValidToken;
use branchyard_domain::values::{AccountId, Timestamp};
use parking_lot::Mutex;
use uuid::Uuid;

use crate::services::Services;
use crate::state::AppState;
use branchyard_executor::CallerKey;

/// Maximum number of credentials remembered. When it is exceeded, entries older than the interval are dropped, and all entries if
/// that frees no space. At worst, a use is recorded again too early.
const REMEMBERED: usize = 10_000;

/// The time of the latest recording of each credential.
pub(crate) struct LastUses {
    noted: Mutex<HashMap<Uuid, Timestamp>>,
    every_seconds: i64,
}

impl LastUses {
    pub(crate) fn new(every_seconds: i64) -> Self {
        Self { noted: Mutex::default(), every_seconds }
    }

    /// Returns `true` if this use has to be recorded, and then counts it as recorded. `last` is the recorded last use.
    fn due(&self, credential: Uuid, last: Option<Timestamp>, now: Timestamp) -> bool {
        let fresh = |at: &Timestamp| at.plus_seconds(self.every_seconds) > now;
        if last.as_ref().is_some_and(fresh) {
            return false;
        }
        let mut noted = self.noted.lock();
        if noted.get(&credential).is_some_and(fresh) {
            return false;
        }
        if noted.len() >= REMEMBERED {
            noted.retain(|_, at| fresh(at));
            if noted.len() >= REMEMBERED {
                noted.clear();
            }
        }
        noted.insert(credential, now);
        true
    }
}

/// Records a use of a token if one is due, without delaying the request.
pub(crate) fn note(state: &AppState, token: &ValidToken, address: String, user_agent: String) {
    let now = state.services.now();
    let id = match token {
        ValidToken::Api(token, _) => token.id.as_uuid(),
        ValidToken::Access(checked) => checked.grant.id.as_uuid(),
    };
    if state.last_uses.due(id, token.last_use().map(|last| last.at), now) {
        let last_use = LastUse { at: now, address, user_agent };
        let used = token.clone();
        record(state, token.user().id, move |services| services.touch_token(&used, &last_use));
    }
}

/// Records a use of a key if one is due, without delaying the request.
pub(crate) fn note_key(state: &AppState, key: &UserKey) {
    let (now, id) = (state.services.now(), key.id);
    if state.last_uses.due(id.as_uuid(), key.last_used_at, now) {
        record(state, key.user_id, move |services| services.keys().touch(id, now));
    }
}

fn record(state: &AppState, user: AccountId, touch: impl FnOnce(&Services) -> Result<(), PortError> + Send + 'static) {
    let state = state.clone();
    actix_web::rt::spawn(async move {
        let services = state.services.clone();
        match state.writes.run(CallerKey::User(user), move || touch(&services)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot record the last use of a credential")
            }
            Err(error) => tracing::debug!(%error, "cannot record the last use of a credential"),
        }
    });
}
