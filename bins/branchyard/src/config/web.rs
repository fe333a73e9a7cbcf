//! Pages, and the people who sign in there.

use anyhow::bail;
use branchyard_domain::usecases::SignUp;
use branchyard_http_common::SignInLimits;
use serde::{Deserialize, Serialize};

use super::Span;

/// Pages, and the people who sign in there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Web {
    /// Who may sign up: `open`, `invitation` or `closed`.
    pub sign_up: String,
    /// How long a session lives after its last use.
    pub session_ttl: Span,
    /// How long an invitation is open.
    pub invitation_ttl: Span,
    /// Attempts to sign in to one account in a window; 0 = no limit.
    pub sign_ins_per_account: u32,
    /// Attempts to sign in from one address in a window; 0 = no limit.
    pub sign_ins_per_address: u32,
    /// How long attempts to sign in are counted.
    pub sign_in_window: Span,
}

impl Default for Web {
    fn default() -> Self {
        Self {
            sign_up: "invitation".to_owned(),
            session_ttl: Span::seconds(30 * 86_400),
            invitation_ttl: Span::seconds(7 * 86_400),
            sign_ins_per_account: 20,
            sign_ins_per_address: 60,
            sign_in_window: Span::seconds(900),
        }
    }
}

impl Web {
    /// Who may sign up.
    ///
    /// # Errors
    /// Names the key.
    pub(super) fn sign_up(&self) -> anyhow::Result<SignUp> {
        match self.sign_up.as_str() {
            "open" => Ok(SignUp::Open),
            "invitation" => Ok(SignUp::Invitation),
            "closed" => Ok(SignUp::Closed),
            other => {
                bail!("configuration: web.sign_up is '{other}'; it is \"open\", \"invitation\" or \"closed\"")
            }
        }
    }

    /// How often somebody may try to sign in.
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
    use branchyard_http_common::SignInLimits;

    #[test]
    fn the_defaults_are_those_of_the_layers_below() {
        let web = Web::default();
        assert_eq!(web.sign_ins(), SignInLimits::default());
        assert_eq!(web.sign_up().unwrap(), SignUp::default());
        assert_eq!(web.session_ttl.as_seconds(), Limits::default().session_seconds);
        assert_eq!(web.invitation_ttl.as_seconds(), Limits::default().invitation_seconds);
    }
}
