//! The caller of a request, authenticated by the `Authorization` header.

use std::net::IpAddr;
use std::sync::Arc;

use actix_web::http::{Method, header};
use actix_web::{HttpMessage as _, HttpRequest};
use branchyard_auth::{BearerHash, TokenFormatError, bearer_token, credential_token};
use branchyard_domain::access::Caller;
use branchyard_domain::ports::RequestTarget;
use branchyard_domain::values::{AccountId, Scope, Timestamp};
use branchyard_problem_details::Problem;
use branchyard_remote_protocol::{Credential, CredentialError};

use crate::address::client_address;
use crate::handler_error::HandlerError;
use crate::last_use;
use crate::rate::{QuotaCharge, QuotaHeaders};
use crate::request_context::{explain, path_segment, sent_parameter};
use crate::request_id::RequestId;
use crate::request_log::in_context;
use crate::request_policy::{Credentials, RequestPolicy};
use crate::state::AppState;
use branchyard_executor::CallerKey;

/// Returns the hash of the token of a request, or `None` if the request has no credential.
fn token_of(request: &HttpRequest, forms: &Credentials) -> Result<Option<BearerHash>, Problem> {
    let refused = |reason| Problem::invalid_token(forms.malformed.unwrap_or(reason));
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(refused("several credentials were sent"));
    }
    let malformed = || refused("the Authorization header is not of the form 'Bearer <token>'");
    let text = value.to_str().map_err(|_| malformed())?;
    let bare = || (forms.bare && !text.contains(' ')).then_some(text);
    let token = credential_token(text, forms.schemes).or_else(bare).ok_or_else(malformed)?;
    let token = BearerHash::parse(token).map_err(|error| {
        refused(match error {
            TokenFormatError::Prefix => "the token does not begin with hsat.v1.",
            TokenFormatError::Length => "the token is not 57 characters long",
            TokenFormatError::Alphabet => "the token holds a character other than 0-9, A-Z and a-z",
            TokenFormatError::Checksum => "the check characters of the token do not match",
        })
    })?;
    Ok(Some(token))
}

/// Returns the credential that a client of the engine signed, if the request has one and the policy accepts it.
fn signed_credential(request: &HttpRequest, policy: &RequestPolicy) -> Option<String> {
    if !policy.accepts_keys {
        return None;
    }
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let text = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    let token = credential_token(text, policy.credentials.schemes)?;
    Credential::looks_like(token).then(|| token.to_owned())
}

/// Authenticates a caller who signed a credential with a key, and counts the request as [`caller_of`] does.
async fn signer_of(
    state: &AppState,
    request: &HttpRequest,
    id: &RequestId,
    policy: &RequestPolicy,
    sent: &str,
) -> Result<Caller, HandlerError> {
    let (address, now) = (address_of(state, request), state.services.now());
    let reject = |problem: Problem| {
        let shown = state.rates.count_address(address, now);
        settle(request, shown).err().unwrap_or_else(|| problem.into())
    };
    // Before any look-up, as for tokens.
    settle(request, state.rates.look_address(address, now))?;
    let invalid = |error: CredentialError| reject(Problem::invalid_token(error.reason()));
    let credential = Credential::parse(sent).map_err(invalid)?;
    request.extensions_mut().insert(QuotaCharge::Free);
    let (services, kid) = (state.services.clone(), credential.key().clone());
    let found = state.reads.run(CallerKey::of_address(address), move || services.keys().find(&kid)).await?;
    let found = found.map_err(|fault| explain(fault.into(), id))?;
    let Some((key, user)) = found else {
        let detail = "the key of the credential is not registered here; add it in your settings (/settings/keys)";
        return Err(reject(Problem::invalid_token(detail)));
    };
    let config = &state.config;
    let own = host_of(&config.public_url);
    let hosts = own.into_iter().chain(config.remotes.extra_audiences.iter().map(String::as_str));
    credential.verify(&key.public_key, hosts, now.as_seconds()).map_err(invalid)?;
    if policy.is_counted {
        let shown = count_user(state, user.id, now).await?;
        settle(request, shown)?;
    }
    last_use::note_key(state, &key);
    Ok(Caller::User(user))
}

/// Returns the host of an address, without the port.
fn host_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(host),
        _ => Some(authority),
    }
}

/// Authenticates the caller and counts the request against the caller's quota, unless the policy exempts it. An invalid credential is refused even where none is
/// required, and counts against the client's address (v2 §1.10, §2.5).
pub(crate) async fn caller_of(
    state: &AppState,
    request: &HttpRequest,
    id: &RequestId,
    policy: &RequestPolicy,
) -> Result<Caller, HandlerError> {
    if let Some(sent) = signed_credential(request, policy) {
        return signer_of(state, request, id, policy, &sent).await;
    }
    let (address, now) = (address_of(state, request), state.services.now());
    let sent = token_of(request, &policy.credentials);
    let token = match sent {
        Ok(None) if !policy.is_counted => {
            request.extensions_mut().insert(QuotaCharge::Free);
            return Ok(Caller::Anonymous);
        }
        Ok(None) => {
            let shown = state.rates.count_address(address, now);
            return settle(request, shown).map(|()| Caller::Anonymous);
        }
        Ok(Some(token)) => Ok(token),
        Err(problem) => Err(problem),
    };
    let is_accepted = token.as_ref().is_ok_and(|token| state.rates.accepted(token.hash().as_bytes()));
    if !is_accepted {
        // This check precedes any lookup, so that guessing tokens costs the server nothing once the address has used up its quota.
        let shown = state.rates.look_address(address, now);
        settle(request, shown)?;
    }
    let reject = |problem: Problem| {
        let shown = state.rates.count_address(address, now);
        settle(request, shown).err().unwrap_or_else(|| problem.into())
    };
    let token = token.map_err(reject)?;
    // A fault of the server counts against no quota.
    request.extensions_mut().insert(QuotaCharge::Free);
    let found = match state.services.known_token(&token) {
        Some(known) => Some(known),
        None => {
            let services = state.services.clone();
            let target = target_of(request);
            let look = in_context(move || services.check_token(&token, target.as_ref()));
            let looked_up = state.reads.run(CallerKey::of_address(address), look).await?;
            looked_up.map_err(|fault| explain(fault.into(), id))?
        }
    };
    let Some(found) = found else {
        return Err(reject(Problem::invalid_token(policy.credentials.unknown)));
    };
    state.rates.accept(*token.hash().as_bytes());
    let user = Arc::clone(found.user());
    if policy.is_counted {
        let shown = count_user(state, user.id, now).await?;
        settle(request, shown)?;
    }
    last_use::note(state, &found, address_text(address), user_agent_of(request));
    if found.scope() < Scope::ReadWrite && !is_safe(request) {
        return Err(Problem::insufficient_scope(Scope::ReadWrite.as_str()).into());
    }
    Ok(Caller::User(user))
}

/// Returns `true` if a request carries a valid access token whose scope is to read. For pages, which take no tokens, to say why they refuse
/// the request.
///
/// # Errors
/// 503 if the server is busy or the store fails.
pub async fn has_read_scope(state: &AppState, request: &HttpRequest) -> Result<bool, HandlerError> {
    let sent = request.headers().get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = sent.and_then(bearer_token).and_then(|token| BearerHash::parse(token).ok());
    let Some(token @ BearerHash::Access(_)) = token else { return Ok(false) };
    let services = state.services.clone();
    let look = move || services.check_token(&token, None);
    let found = state.reads.run(state.address_key(request), look).await?;
    let found = found.map_err(|fault| HandlerError::of(fault.into(), request))?;
    Ok(found.is_some_and(|found| found.scope() == Scope::Read))
}

/// Returns `true` if a request changes nothing, so that an access token may send it whose scope is to read.
fn is_safe(request: &HttpRequest) -> bool {
    request.method().is_safe() || request.app_data::<ReadsByPost>().is_some() && *request.method() == Method::POST
}

/// Marks a path whose method `POST` changes nothing: it takes in its body what does not fit into a query. Set in the app data of the
/// resource.
#[derive(Debug, Clone, Copy)]
pub struct ReadsByPost;

/// Returns what the request concerns, if it concerns a database.
fn target_of(request: &HttpRequest) -> Option<RequestTarget> {
    let (owner, name) = (path_segment(request, "owner"), path_segment(request, "database"));
    let reference = Some(path_segment(request, "ref")).filter(|text| !text.is_empty());
    let reference = reference.or_else(|| sent_parameter(request, "ref"));
    RequestTarget::parse(&owner, &name, reference.as_deref())
}

/// Counts a request of a user. Where several servers count together, this one first reports what it has counted, and learns of the
/// others, as often as is needed to keep the quota.
async fn count_user(state: &AppState, user: AccountId, now: Timestamp) -> Result<Option<QuotaHeaders>, HandlerError> {
    let Some((shown, unreported)) = state.rates.count_user(user, now) else { return Ok(None) };
    let Some(requests) = unreported else { return Ok(Some(shown)) };
    let services = state.services.clone();
    let report = in_context(move || services.request_counts().add(user, requests));
    match state.reads.run(CallerKey::User(user), report).await? {
        Ok(all) => Ok(state.rates.learn_of_user(user, all, now)),
        Err(error) => {
            let error = &error as &dyn std::error::Error;
            tracing::debug!(error, "requests are not counted together with other servers now");
            Ok(Some(shown))
        }
    }
}

/// Counts a request whose caller was authenticated by other means, for example by a session.
pub(crate) async fn count(state: &AppState, request: &HttpRequest, caller: &Caller) -> Result<(), HandlerError> {
    let now = state.services.now();
    let shown = match caller {
        Caller::User(user) => count_user(state, user.id, now).await?,
        Caller::Anonymous => state.rates.count_address(address_of(state, request), now),
    };
    settle(request, shown)
}

/// Records the quota for the headers of the response, and refuses the request with 429 if it exceeds the quota.
fn settle(request: &HttpRequest, shown: Option<QuotaHeaders>) -> Result<(), HandlerError> {
    request.extensions_mut().insert(QuotaCharge::As(shown));
    match shown.and_then(|shown| shown.refusal()) {
        Some(problem) => Err(problem.into()),
        None => Ok(()),
    }
}

/// The address of the client of a request that another node has passed on, which said so in a way that can be trusted. Kept in the
/// request's extensions.
#[derive(Debug, Clone, Copy)]
pub struct CallerAddress(pub Option<IpAddr>);

/// Returns the network address of the client.
pub(crate) fn address_of(state: &AppState, request: &HttpRequest) -> Option<IpAddr> {
    if let Some(CallerAddress(address)) = request.extensions().get().copied() {
        return address;
    }
    client_address(request.peer_addr(), request.headers(), &state.config.proxies)
}

/// Returns the display form of an address; empty if there is none.
pub(crate) fn address_text(address: Option<IpAddr>) -> String {
    address.map(|address| address.to_string()).unwrap_or_default()
}

pub(crate) fn user_agent_of(request: &HttpRequest) -> String {
    let agent = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    agent.chars().take(256).collect()
}

#[cfg(test)]
mod tests {
    use actix_web::HttpRequest;
    use actix_web::test::TestRequest;
    use branchyard_auth::BearerHash;
    use branchyard_problem_details::Problem;

    use crate::request_policy::{Credentials, RequestPolicy};

    fn token_of(request: &HttpRequest) -> Result<Option<BearerHash>, Problem> {
        super::token_of(request, &RequestPolicy::default().credentials)
    }

    fn token() -> String {
        format!("hsat.v1.{}3mhf8X", "A".repeat(43))
    }

    #[test]
    fn no_header_is_no_credential() {
        assert!(token_of(&TestRequest::default().to_http_request()).unwrap().is_none());
    }

    #[test]
    fn the_scheme_is_read_in_any_case() {
        for scheme in ["Bearer", "bearer", "BEARER"] {
            let request = TestRequest::default().insert_header(("Authorization", format!("{scheme} {}", token())));
            assert!(token_of(&request.to_http_request()).unwrap().is_some(), "{scheme}");
        }
    }

    #[test]
    fn everything_else_is_refused_with_a_reason() {
        let good = token();
        let bad = [
            "",
            "Bearer",
            "Bearer ",
            &good,
            "token x",
            "Basic YTpi",
            "Bearer x",
            &format!("Bearer {good}, Bearer {good}"),
            &format!("Bearer {good}x"),
        ];
        for text in bad {
            let request = TestRequest::default().insert_header(("Authorization", text)).to_http_request();
            let problem = token_of(&request).unwrap_err();
            let challenge = problem.headers().find(|(name, _)| *name == "www-authenticate").unwrap().1;
            assert!(challenge.contains(r#"error="invalid_token""#), "{text}");
        }
        let twice = TestRequest::default()
            .append_header(("Authorization", format!("Bearer {good}")))
            .append_header(("Authorization", format!("Bearer {good}")))
            .to_http_request();
        assert!(token_of(&twice).is_err());
    }

    #[test]
    fn the_host_of_an_address_has_no_port() {
        for (url, host) in [
            ("https://yard.example", "yard.example"),
            ("https://yard.example:8443", "yard.example"),
            ("http://127.0.0.1:80/", "127.0.0.1"),
            ("https://[::1]:443", "[::1]"),
        ] {
            assert_eq!(super::host_of(url), Some(host), "{url}");
        }
    }

    #[test]
    fn older_forms_are_read_where_they_are_allowed() {
        const OLDER: Credentials =
            Credentials { schemes: &["token", "bearer"], bare: true, malformed: Some("no"), unknown: "who?" };
        let read = |text: &str| {
            let request = TestRequest::default().insert_header(("Authorization", text)).to_http_request();
            super::token_of(&request, &OLDER)
        };
        let good = token();
        for text in [&good, &format!("Token {good}"), &format!("token   {good}"), &format!("BEARER {good}")] {
            assert!(read(text).unwrap().is_some(), "{text}");
        }
        for text in ["", "token", "token undefined", "undefined", "Basic YTpi", &format!("{good}x"), &good[..50]] {
            assert_eq!(read(text).unwrap_err().detail(), "no", "{text}");
        }
    }
}
