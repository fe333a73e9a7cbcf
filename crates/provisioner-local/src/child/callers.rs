//! Authentication of callers. The server is asked on every request; the cache serves only while the server is away.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use branchyard_auth::{BearerHash, HashedToken, bearer_token};
use branchyard_deployments::ports::{Authorized, SqlCaller};
use branchyard_domain::values::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::control::CallerOutcome;
use crate::hrana::errors::HttpError;

/// Lifetime of a cache entry.
const REMEMBERED: Duration = Duration::from_secs(60);
const MOST_REMEMBERED: usize = 10_000;
/// Time limit for an answer of the server, generous for a busy machine. A server that hangs is detected by its pings.
const PATIENCE: Duration = Duration::from_secs(30);
/// Maximum number of rejected credentials per address and second.
const MOST_REJECTED: u32 = 10;

/// A caller check to be sent to the server.
pub(crate) struct CallerQuestion {
    pub(crate) token: [u8; 32],
    pub(crate) address: Option<IpAddr>,
    pub(crate) answer: oneshot::Sender<CallerOutcome>,
}

#[derive(Default)]
struct CallersState {
    /// The channel to the server. `None` while the server is away.
    server: Option<mpsc::Sender<CallerQuestion>>,
    remembered: HashMap<[u8; 32], (SqlCaller, Instant)>,
    rejected: HashMap<IpAddr, (Instant, u32)>,
}

/// The cache of callers, and the channel over which the server is asked.
#[derive(Default)]
pub(crate) struct CallerCache {
    state: Mutex<CallersState>,
}

impl CallerCache {
    /// Sets the channel to a connected server and clears the cache.
    pub(crate) fn connect(&self, server: mpsc::Sender<CallerQuestion>) {
        let mut state = self.state.lock();
        state.server = Some(server);
        state.remembered.clear();
    }

    /// Marks the server as away.
    pub(crate) fn disconnect(&self) {
        self.state.lock().server = None;
    }

    pub(crate) fn forget(&self) {
        self.state.lock().remembered.clear();
    }

    /// Returns the channel to the server, unless it is closed.
    fn server(&self) -> Option<mpsc::Sender<CallerQuestion>> {
        self.state.lock().server.clone().filter(|server| !server.is_closed())
    }

    /// Returns `true` if the server is connected.
    pub(crate) fn is_connected(&self) -> bool {
        self.state.lock().server.is_some()
    }

    /// Authenticates the caller by the value of the `Authorization` header.
    pub(crate) async fn check(
        &self,
        header: Option<&str>,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<SqlCaller, HttpError> {
        let token = header.map(token_of);
        // A token that was verified recently bypasses the rate limit, so that other clients behind the same address,
        // such as a proxy, cannot lock its user out.
        let is_known = matches!(&token, Some(Some(hash)) if self.recall(*hash, Instant::now()).is_some());
        if !is_known && address.is_some_and(|address| self.is_limited(address, Instant::now())) {
            return Err(HttpError::RateLimited);
        }
        let checked = self.look_up(token, address, now).await;
        if let (Err(HttpError::Unauthenticated { sent: true }), Some(address)) = (&checked, address) {
            self.note_rejected(address, Instant::now());
        }
        checked
    }

    async fn look_up(
        &self,
        token: Option<Option<[u8; 32]>>,
        address: Option<IpAddr>,
        now: Timestamp,
    ) -> Result<SqlCaller, HttpError> {
        let rejected = HttpError::Unauthenticated { sent: true };
        let hash = token.ok_or(HttpError::Unauthenticated { sent: false })?.ok_or(rejected.clone())?;
        let authorized = loop {
            let Some(server) = self.server() else {
                break self.recall(hash, Instant::now()).map(Authorized::Caller);
            };
            match ask(&server, hash, address).await {
                CallerReply::Said(outcome) => break outcome.authorized(),
                CallerReply::Late => break None,
                // The server disconnected during the check: it is away, or a new connection has replaced it.
                CallerReply::Gone => server.closed().await,
            }
        };
        match authorized {
            Some(Authorized::Caller(caller)) if caller.expires_at.is_none_or(|at| at > now) => {
                self.remember(hash, &caller, Instant::now());
                Ok(caller)
            }
            Some(Authorized::Caller(_) | Authorized::BadToken) => Err(rejected),
            Some(Authorized::NoRole) => Err(HttpError::NotFound("there is nothing here".into())),
            Some(Authorized::Withheld) => {
                Err(HttpError::Unavailable("an administrator has paused this deployment; try again later"))
            }
            None => Err(HttpError::Unavailable("who calls cannot be checked at the moment; try again")),
        }
    }

    fn remember(&self, hash: [u8; 32], caller: &SqlCaller, now: Instant) {
        let mut state = self.state.lock();
        // While the server is away, no caller is verified, so no cache entry may be renewed.
        if state.server.is_none() {
            return;
        }
        if state.remembered.len() >= MOST_REMEMBERED {
            state.remembered.retain(|_, (_, at)| now.saturating_duration_since(*at) < REMEMBERED);
        }
        if state.remembered.len() < MOST_REMEMBERED {
            state.remembered.insert(hash, (caller.clone(), now));
        }
    }

    fn recall(&self, hash: [u8; 32], now: Instant) -> Option<SqlCaller> {
        let state = self.state.lock();
        // Hashes are compared in constant time.
        let asked = HashedToken::from_bytes(hash);
        let (stored, (caller, at)) = state.remembered.get_key_value(&hash)?;
        let fresh = now.saturating_duration_since(*at) < REMEMBERED;
        (fresh && HashedToken::from_bytes(*stored) == asked).then(|| caller.clone())
    }

    fn is_limited(&self, address: IpAddr, now: Instant) -> bool {
        let state = self.state.lock();
        let rejected = state.rejected.get(&address);
        rejected.is_some_and(|(since, n)| now.saturating_duration_since(*since) < SECOND && *n >= MOST_REJECTED)
    }

    fn note_rejected(&self, address: IpAddr, now: Instant) {
        let mut state = self.state.lock();
        if state.rejected.len() >= MOST_REMEMBERED {
            state.rejected.retain(|_, (since, _)| now.saturating_duration_since(*since) < SECOND);
        }
        if state.rejected.len() >= MOST_REMEMBERED {
            // All entries are younger than a second. Dropping the counts bounds the memory; some addresses may then
            // guess again.
            state.rejected.clear();
        }
        let entry = state.rejected.entry(address).or_insert((now, 0));
        if now.saturating_duration_since(entry.0) >= SECOND {
            *entry = (now, 0);
        }
        entry.1 += 1;
    }
}

/// Returns the hash of the bearer token in a header. Returns `None` if the header has no well-formed token.
fn token_of(header: &str) -> Option<[u8; 32]> {
    BearerHash::parse(bearer_token(header)?).ok().map(|token| *token.hash().as_bytes())
}

const SECOND: Duration = Duration::from_secs(1);

/// The outcome of a question to the server.
enum CallerReply {
    Said(CallerOutcome),
    /// The server did not answer in time.
    Late,
    /// The channel to the server closed.
    Gone,
}

async fn ask(server: &mpsc::Sender<CallerQuestion>, token: [u8; 32], address: Option<IpAddr>) -> CallerReply {
    let (answer, answered) = oneshot::channel();
    let asked = async {
        server.send(CallerQuestion { token, address, answer }).await.ok()?;
        answered.await.ok()
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Some(outcome)) => CallerReply::Said(outcome),
        Ok(None) => CallerReply::Gone,
        Err(_) => CallerReply::Late,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Power;

    fn header() -> String {
        format!("Bearer hsat.v1.{}3mhf8X", "A".repeat(43))
    }

    fn ada(expires_at: Option<i64>) -> CallerOutcome {
        CallerOutcome::Caller {
            user: "0199c3a7-1111-7222-8333-444455556666".into(),
            name: "ada".into(),
            email: "ada@example.test".into(),
            power: Power::Write,
            expires_at,
        }
    }

    /// Connects a server that answers every question with `outcome`.
    fn serve(callers: &CallerCache, outcome: CallerOutcome) {
        let (sender, mut questions) = mpsc::channel::<CallerQuestion>(8);
        callers.connect(sender);
        tokio::spawn(async move {
            while let Some(question) = questions.recv().await {
                let _ = question.answer.send(outcome.clone());
            }
        });
    }

    async fn check(callers: &CallerCache) -> Result<String, HttpError> {
        let now = Timestamp::from_seconds(100);
        callers.check(Some(&header()), None, now).await.map(|caller| caller.name)
    }

    #[tokio::test]
    async fn each_answer_of_the_server_has_its_outcome() {
        let callers = CallerCache::default();
        let rejected = Err(HttpError::Unauthenticated { sent: true });
        serve(&callers, ada(None));
        assert_eq!(check(&callers).await, Ok("ada".into()));
        serve(&callers, ada(Some(100_000_000)));
        assert_eq!(check(&callers).await, rejected);
        serve(&callers, CallerOutcome::BadToken);
        assert_eq!(check(&callers).await, rejected);
        serve(&callers, CallerOutcome::NoRole);
        assert!(matches!(check(&callers).await, Err(HttpError::NotFound(_))));
        serve(&callers, CallerOutcome::Withheld);
        let paused = check(&callers).await;
        assert!(matches!(paused, Err(HttpError::Unavailable(text)) if text.contains("paused")));
        serve(&callers, CallerOutcome::Unknown);
        assert!(matches!(check(&callers).await, Err(HttpError::Unavailable(_))));
        let now = Timestamp::from_seconds(100);
        assert_eq!(callers.check(None, None, now).await, Err(HttpError::Unauthenticated { sent: false }));
        for bad in ["token x", "Bearer", "Bearer hsat.v1.x", "Basic abc"] {
            assert_eq!(
                callers.check(Some(bad), None, now).await,
                Err(HttpError::Unauthenticated { sent: true }),
                "{bad}"
            );
        }
    }

    #[tokio::test]
    async fn the_server_away_only_recent_callers_are_served() {
        let callers = CallerCache::default();
        assert!(matches!(check(&callers).await, Err(HttpError::Unavailable(_))));
        serve(&callers, ada(None));
        check(&callers).await.unwrap();
        callers.disconnect();
        assert_eq!(check(&callers).await, Ok("ada".into()));
        let PlainTokenHash(hash) = hash();
        assert!(callers.recall(hash, Instant::now() + REMEMBERED).is_none());
        // A new connection clears the cache.
        serve(&callers, CallerOutcome::BadToken);
        callers.disconnect();
        assert!(matches!(check(&callers).await, Err(HttpError::Unavailable(_))));
    }

    /// On a busy machine, a request can reach the channel just before the channel closes.
    #[tokio::test]
    async fn a_server_that_goes_while_it_is_asked_is_away() {
        let callers = CallerCache::default();
        serve(&callers, ada(None));
        check(&callers).await.unwrap();
        let (sender, mut questions) = mpsc::channel::<CallerQuestion>(8);
        callers.state.lock().server = Some(sender);
        let breaks = async {
            let question = questions.recv().await;
            // A channel closes in this order: first the questions are dropped, then the channel.
            drop(question);
            callers.disconnect();
            drop(questions);
        };
        let (checked, ()) = tokio::join!(check(&callers), breaks);
        assert_eq!(checked, Ok("ada".into()), "verified a moment ago");
    }

    #[tokio::test]
    async fn a_server_that_takes_the_place_of_another_is_asked() {
        let callers = CallerCache::default();
        let (sender, mut questions) = mpsc::channel::<CallerQuestion>(8);
        callers.connect(sender);
        let replaced = async {
            drop(questions.recv().await);
            serve(&callers, ada(None));
            drop(questions);
        };
        let (checked, ()) = tokio::join!(check(&callers), replaced);
        assert_eq!(checked, Ok("ada".into()));
    }

    struct PlainTokenHash([u8; 32]);

    fn hash() -> PlainTokenHash {
        let header = header();
        PlainTokenHash(*BearerHash::parse(&header["Bearer ".len()..]).unwrap().hash().as_bytes())
    }

    #[tokio::test]
    async fn guessing_is_limited_by_address() {
        let callers = CallerCache::default();
        serve(&callers, CallerOutcome::BadToken);
        let (one, other) = (Some(IpAddr::from([127, 0, 0, 1])), Some(IpAddr::from([127, 0, 0, 2])));
        let now = Timestamp::from_seconds(100);
        for _ in 0..MOST_REJECTED {
            assert_eq!(callers.check(Some("x"), one, now).await, Err(HttpError::Unauthenticated { sent: true }));
        }
        assert_eq!(callers.check(Some(&header()), one, now).await, Err(HttpError::RateLimited));
        assert_eq!(callers.check(Some("x"), other, now).await, Err(HttpError::Unauthenticated { sent: true }));
        assert!(!callers.is_limited(IpAddr::from([127, 0, 0, 1]), Instant::now() + SECOND));
        // A recently verified caller is not locked out by others.
        serve(&callers, ada(None));
        callers.check(Some(&header()), other, now).await.unwrap();
        for _ in 1..MOST_REJECTED {
            assert_eq!(callers.check(Some("x"), other, now).await, Err(HttpError::Unauthenticated { sent: true }));
        }
        assert_eq!(callers.check(Some("x"), other, now).await, Err(HttpError::RateLimited));
        callers.check(Some(&header()), other, now).await.unwrap();
    }

    #[test]
    fn addresses_that_guess_are_remembered_within_bounds() {
        let (callers, now) = (CallerCache::default(), Instant::now());
        for number in 0..u32::try_from(MOST_REMEMBERED).unwrap() + 5 {
            callers.note_rejected(IpAddr::from(number.to_be_bytes()), now);
        }
        assert!(callers.state.lock().rejected.len() <= MOST_REMEMBERED);
    }
}
