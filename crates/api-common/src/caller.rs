//! Who asks: the `Authorization` header, checked.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::http::header;
use branchyard_auth::{PlainToken, TokenFormatError};
use branchyard_domain::access::Caller;
use branchyard_problem_details::Problem;

use crate::call::explain;
use crate::failure::Failure;
use crate::last_use;
use crate::request_id::RequestId;
use crate::state::AppState;

/// The token of a request; `None` when it sends no credential.
fn token_of(request: &HttpRequest) -> Result<Option<PlainToken>, Problem> {
    let mut values = request.headers().get_all(header::AUTHORIZATION);
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(Problem::invalid_token("several credentials were sent"));
    }
    let malformed = || Problem::invalid_token("the Authorization header is not of the form 'Bearer <token>'");
    let text = value.to_str().map_err(|_| malformed())?;
    let (scheme, token) = text.split_once(' ').ok_or_else(malformed)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(malformed());
    }
    let token = PlainToken::parse(token.trim_matches(' ')).map_err(|error| {
        Problem::invalid_token(match error {
            TokenFormatError::Prefix => "the token does not begin with hsat.v1.",
            TokenFormatError::Length => "the token is not 57 characters long",
            TokenFormatError::Alphabet => "the token holds a character other than 0-9, A-Z and a-z",
            TokenFormatError::Checksum => "the check characters of the token do not match",
        })
    })?;
    Ok(Some(token))
}

/// The caller of a request. A bad credential is refused also where none is needed.
pub(crate) async fn caller_of(state: &AppState, request: &HttpRequest, id: &RequestId) -> Result<Caller, Failure> {
    let Some(token) = token_of(request)? else { return Ok(Caller::Anonymous) };
    let (hub, hash) = (state.hub.clone(), token.hash());
    let found = state.reads.run(move || hub.tokens().check(&hash)).await?;
    let found = found.map_err(|fault| explain(fault.into(), id))?;
    let (token, user) = found.ok_or_else(|| Problem::invalid_token("the token is unknown, expired or revoked"))?;
    last_use::note(state, &token, address_of(request), user_agent_of(request));
    Ok(Caller::User(Arc::new(user)))
}

/// The network address of the client.
pub(crate) fn address_of(request: &HttpRequest) -> String {
    request.peer_addr().map(|address| address.ip().to_string()).unwrap_or_default()
}

fn user_agent_of(request: &HttpRequest) -> String {
    let agent = request.headers().get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    agent.chars().take(256).collect()
}

#[cfg(test)]
mod tests {
    use super::token_of;
    use actix_web::test::TestRequest;

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
}
