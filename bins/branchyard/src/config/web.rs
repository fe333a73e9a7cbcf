//! Configuration of the web pages, sign-up, and sign-in.

use anyhow::bail;
use branchyard_domain::usecases::{SignInLimits, SignUp};
use serde::{Deserialize, Serialize};

use super::Span;

/// Web pages, sign-up, and sign-in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Sign-up policy: `open`, `invitation`, or `closed`.
    pub sign_up: String,
    /// Idle lifetime of a session. Each use extends the session.
    pub session_ttl: Span,
    /// Lifetime of a session from the sign-in, however often it is used.
    pub session_max_age: Span,
    /// How long after the password was entered a session may do what is hard to undo.
    pub confirm_after: Span,
    /// Validity of an invitation.
    pub invitation_ttl: Span,
    /// Maximum number of sign-in attempts for one account per window; 0 means no limit.
    pub sign_ins_per_account: u32,
    /// Maximum number of sign-in attempts from one address per window; 0 means no limit.
    pub sign_ins_per_address: u32,
    /// Length of the window in which sign-in attempts are counted.
    pub sign_in_window: Span,
    /// Maximum number of connections on which open pages wait for changes; 0 means that pages poll.
    pub live_connections: usize,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            sign_up: "invitation".to_owned(),
            session_ttl: Span::seconds(30 * 86_400),
            session_max_age: Span::seconds(90 * 86_400),
            confirm_after: Span::seconds(900),
            invitation_ttl: Span::seconds(7 * 86_400),
            sign_ins_per_account: 20,
            sign_ins_per_address: 60,
            sign_in_window: Span::seconds(900),
            live_connections: 1_000,
        }
    }
}

impl Web {
    /// Parses the sign-up policy.
    ///
    /// # Errors
    /// Returns an error that names the key if the value is unknown.
    pub(super) fn sign_up(&self) -> anyhow::Result<SignUp> {
        match self.sign_up.as_str() {
            "open" => Ok(SignUp::Open),
            "invitation" => Ok(SignUp::Invitation),
            "closed" => Ok(SignUp::Closed),
            other => {
                bail!("configuration: web.sign_up is '{other}'; it must be \"open\", \"invitation\" or \"closed\"")
            }
        }
    }

    /// Returns the limits on sign-in attempts.
    pub(super) fn sign_ins(&self) -> SignInLimits {
        SignInLimits {
            per_account: self.sign_ins_per_account,
            per_address: self.sign_ins_per_address,
            window_seconds: self.sign_in_window.as_seconds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Web;
    use branchyard_domain::usecases::{Limits, SignUp};
    use branchyard_http_common::HttpConfig;

    #[test]
    fn the_defaults_are_those_of_the_layers_below() {
        let web = Web::default();
        assert_eq!(web.sign_ins(), Limits::default().sign_ins);
        assert_eq!(web.sign_up().unwrap(), SignUp::default());
        assert_eq!(web.session_ttl.as_seconds(), Limits::default().session_seconds);
        assert_eq!(web.session_max_age.as_seconds(), Limits::default().session_max_seconds);
        assert_eq!(web.confirm_after.as_seconds(), Limits::default().confirm_seconds);
        assert_eq!(web.invitation_ttl.as_seconds(), Limits::default().invitation_seconds);
        assert_eq!(web.live_connections, HttpConfig::new(String::new()).live_connections);
    }
}
