//! Idempotency keys (v2 §1.8).

use std::collections::HashSet;
use std::sync::Arc;

use branchyard_domain::entities::User;
use branchyard_domain::usecases::IdempotencyRecord;
use branchyard_domain::values::AccountId;
use branchyard_problem_details::{ErrorCode, Problem};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::api_error::key_in_flight;
use crate::api_response::ApiResponse;
use crate::handler_error::HandlerError;
use crate::request_context::RequestContext;

const HEADER: &str = "idempotency-key";

type Claim = (AccountId, String, String);

/// The keys whose first request is still running in this process.
#[derive(Clone, Default)]
pub(crate) struct InFlight(Arc<Mutex<HashSet<Claim>>>);

impl InFlight {
    fn claim(&self, claim: Claim) -> Option<Claimed> {
        let mut running = self.0.lock();
        running.insert(claim.clone()).then(|| Claimed { running: self.clone(), claim })
    }
}

struct Claimed {
    running: InFlight,
    claim: Claim,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.running.0.lock().remove(&self.claim);
    }
}

/// An idempotency key claimed by a request, or none. Dropping the value releases the claim, so it moves into the call that has the
/// effect.
pub struct ClaimedKey(Option<(Claimed, [u8; 32])>);

impl ClaimedKey {
    /// Returns the value for a request without a key.
    pub fn none() -> Self {
        Self(None)
    }

    /// Calls `keep` with the record with which the domain saves the response, or with `None` without a key. `render` creates
    /// the response.
    pub fn with_record<T, R>(
        &self,
        render: impl Fn(&T) -> ApiResponse,
        keep: impl FnOnce(Option<&IdempotencyRecord<'_, T>>) -> R,
    ) -> R {
        let encode = |value: &T| render(value).encode();
        keep(self.once(&encode).as_ref())
    }

    /// Returns the record with which the domain saves the response, or `None` without a key.
    pub(crate) fn once<'a, T>(&self, render: &'a dyn Fn(&T) -> Vec<u8>) -> Option<IdempotencyRecord<'a, T>> {
        let (claimed, request_hash) = self.0.as_ref()?;
        let (caller, scope, key) = claimed.claim.clone();
        Some(IdempotencyRecord { caller, scope, key, request_hash: *request_hash, render })
    }
}

/// Claims the key of a request. If a response is saved under the key, returns it as [`HandlerError::Replay`].
pub(crate) async fn claim(call: &RequestContext, user: &User) -> Result<ClaimedKey, HandlerError> {
    let (request, body) = call.raw();
    let mut values = request.headers().get_all(HEADER);
    let Some(value) = values.next() else { return Ok(ClaimedKey::none()) };
    let key = match values.next() {
        None => parse(value.as_bytes()),
        Some(_) => None,
    };
    let Some(key) = key else {
        return Err(HandlerError::parameter(
            "Idempotency-Key",
            "must be one value of 1 to 255 printable ASCII characters",
        ));
    };
    let scope = format!("{} {}", request.method(), request.uri().path());
    let request_hash: [u8; 32] = Sha256::digest(body).into();
    let claimed = call.state.in_flight.claim((user.id, scope.clone(), key.clone())).ok_or_else(key_in_flight)?;
    let caller = user.id;
    let saved = call.read(move |hub| hub.databases().saved_answer(caller, &scope, &key)).await?;
    match saved {
        None => Ok(ClaimedKey(Some((claimed, request_hash)))),
        Some(saved) if saved.request_hash != request_hash => {
            let detail = "this idempotency key was used with another request body";
            Err(Problem::new(ErrorCode::IdempotencyKeyReused, detail).into())
        }
        Some(saved) => {
            let answer = ApiResponse::decode(&saved.answer).ok_or_else(Problem::internal)?;
            Err(HandlerError::Replay(Box::new(answer)))
        }
    }
}

/// Parses 1 to 255 printable ASCII characters, with or without one pair of quotes around them.
fn parse(value: &[u8]) -> Option<String> {
    let inner = value.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\"")).unwrap_or(value);
    let fit = (1..=255).contains(&inner.len()) && inner.iter().all(|b| matches!(b, b' '..=b'~'));
    fit.then(|| String::from_utf8_lossy(inner).into_owned())
}

#[cfg(test)]
mod tests {
    use super::{InFlight, parse};
    use branchyard_domain::values::AccountId;

    #[test]
    fn keys_are_printable_and_lose_one_pair_of_quotes() {
        assert_eq!(parse(b"a b").as_deref(), Some("a b"));
        assert_eq!(parse(b"\"a\"").as_deref(), Some("a"));
        assert_eq!(parse(b"\"\"a\"\"").as_deref(), Some("\"a\""));
        assert_eq!(parse(b"\"").as_deref(), Some("\""));
        assert_eq!(parse(&[b'x'; 255]).map(|key| key.len()), Some(255));
        for bad in [&b""[..], b"\"\"", "é".as_bytes(), b"a\tb", &[b'x'; 256]] {
            assert_eq!(parse(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_claim_ends_with_its_guard() {
        let running = InFlight::default();
        let claim = (AccountId::from_uuid(uuid::Uuid::nil()), "POST /x".to_owned(), "k".to_owned());
        let first = running.claim(claim.clone());
        assert!(first.is_some());
        assert!(running.claim(claim.clone()).is_none());
        drop(first);
        assert!(running.claim(claim).is_some());
    }
}
