//! Rate limits (v2 §1.10): the quotas of users and addresses, and the headers that report them.

mod accepted;
mod address_limit;
mod failed_attempts;
mod guesses;
mod table;

use std::net::IpAddr;

use actix_web::http::header::{HeaderMap, HeaderName, HeaderValue};
use branchyard_domain::ports::RequestWindow;
use branchyard_domain::usecases::RequestCounts;
use branchyard_domain::values::{AccountId, Timestamp};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::config::RateLimits;
use accepted::Accepted;
use branchyard_executor::address_group;
use table::{QuotaState, WindowTable};

pub use address_limit::AddressLimit;
pub use failed_attempts::FailedAttempts;
pub use guesses::Guesses;

/// The quota that a request uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Policy {
    User,
    Anonymous,
}

/// The values of the rate limit headers of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaHeaders {
    policy: Policy,
    quota: u32,
    window: i64,
    standing: QuotaState,
}

/// How a request was charged before its response. Kept in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum QuotaCharge {
    /// Charged to this quota; `None` if the quota has no limit.
    As(Option<QuotaHeaders>),
    /// Exempt from quotas.
    Free,
}

/// The request counters of all callers.
pub(crate) struct Rates {
    users: Option<WindowTable>,
    addresses: Option<WindowTable>,
    accepted: Accepted,
}

impl Rates {
    pub(crate) fn new(limits: Option<&RateLimits>) -> Self {
        let table = |quota: u32, window: i64| (quota > 0).then(|| WindowTable::new(quota, window));
        let users = |limits: &RateLimits| {
            let table = table(limits.user_per_hour, RequestCounts::WINDOW_SECONDS)?;
            Some(if limits.is_shared { table.shared() } else { table })
        };
        Self {
            users: limits.and_then(users),
            addresses: limits.and_then(|limits| table(limits.anonymous_per_minute, 60)),
            accepted: Accepted::default(),
        }
    }

    /// Counts a request of a user. Returns `None` if there is no limit, and otherwise the number of requests that the caller has to
    /// report to other servers before the request goes on, if there are any.
    pub(crate) fn count_user(&self, user: AccountId, now: Timestamp) -> Option<(QuotaHeaders, Option<u32>)> {
        let (table, key) = (self.users.as_ref()?, user.as_uuid().as_u128());
        let counted = shown(Policy::User, table, table.count(key, now.as_seconds()));
        Some((counted, table.take_unreported(key)))
    }

    /// Takes over what all servers have counted of a user.
    pub(crate) fn learn_of_user(&self, user: AccountId, all: RequestWindow, now: Timestamp) -> Option<QuotaHeaders> {
        let (table, key) = (self.users.as_ref()?, user.as_uuid().as_u128());
        let standing = table.learn(key, all.began_at.as_seconds(), all.requests, now.as_seconds());
        Some(shown(Policy::User, table, standing))
    }

    /// Counts a request of an address. Returns `None` if there is no limit.
    pub(crate) fn count_address(&self, address: Option<IpAddr>, now: Timestamp) -> Option<QuotaHeaders> {
        let table = self.addresses.as_ref()?;
        Some(shown(Policy::Anonymous, table, table.count(key(address), now.as_seconds())))
    }

    /// Returns the quota of an address without counting a request.
    pub(crate) fn look_address(&self, address: Option<IpAddr>, now: Timestamp) -> Option<QuotaHeaders> {
        let table = self.addresses.as_ref()?;
        Some(shown(Policy::Anonymous, table, table.look(key(address), now.as_seconds())))
    }

    /// Remembers a valid token. Its requests are checked even when their address has used up its quota, so that other clients
    /// behind the same address cannot lock its user out.
    pub(crate) fn accept(&self, token: [u8; 32]) {
        if self.addresses.is_some() {
            self.accepted.remember(token);
        }
    }

    /// Returns `true` if the token was recently valid.
    pub(crate) fn accepted(&self, token: &[u8; 32]) -> bool {
        self.accepted.holds(token)
    }
}

/// Returns the counting key of an address (IPv6: of its /64). Connections without an address share one key; over TCP there are none.
pub(crate) fn key(address: Option<IpAddr>) -> u128 {
    address.map_or(0, address_group)
}

fn shown(policy: Policy, table: &WindowTable, standing: QuotaState) -> QuotaHeaders {
    QuotaHeaders { policy, quota: table.quota(), window: table.window(), standing }
}

impl QuotaHeaders {
    /// Returns a 429 if the request exceeded the quota.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        self.standing.over.then(|| {
            let Self { quota, window, standing: QuotaState { reset, .. }, .. } = self;
            let detail = format!("{quota} requests per {window} seconds are used up; try again in {reset} seconds");
            Problem::new(ErrorCode::RateLimited, detail).retry_after(u32::try_from(*reset).unwrap_or(1))
        })
    }

    /// Sets `RateLimit-Policy` and `RateLimit`.
    pub(crate) fn add_headers(&self, headers: &mut HeaderMap) {
        let name = match self.policy {
            Policy::User => "user",
            Policy::Anonymous => "anonymous",
        };
        let Self { quota, window, standing: QuotaState { left, reset, .. }, .. } = self;
        let values = [
            ("ratelimit-policy", format!("\"{name}\";q={quota};w={window}")),
            ("ratelimit", format!("\"{name}\";r={left};t={reset}")),
        ];
        for (name, value) in values {
            if let Ok(value) = HeaderValue::from_str(&value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}
