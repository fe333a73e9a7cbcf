//! Applications: the clients of OAuth (RFC 6749 §2).

use crate::values::{AccountId, ApplicationId, RedirectUri, Timestamp};

/// A program that users let act for them. All are public clients (RFC 6749 §2.1): they run on the machines of their users, where they
/// cannot keep a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Application {
    /// The client identifier.
    pub id: ApplicationId,
    /// The user who registered the application. `None` for the built-in one.
    pub owner: Option<AccountId>,
    /// Name of the application, 1–100 characters.
    pub name: String,
    /// Where the application receives answers. Not empty.
    pub redirect_uris: Vec<RedirectUri>,
    /// When the application was registered.
    pub created_at: Timestamp,
}

impl Application {
    /// The client identifier of `dh`, DoltHub's command-line client, which every server knows.
    pub const DH: &str = "dh";

    /// Name of this application.
    pub const DH_NAME: &str = "dh, the DoltHub command line";

    /// Returns the built-in application with this identifier.
    pub fn built_in(id: &ApplicationId) -> Option<Self> {
        if id.as_str() != Self::DH {
            return None;
        }
        let loopback = ["http://localhost/callback", "http://127.0.0.1/callback", "http://[::1]/callback"];
        Some(Self {
            id: id.clone(),
            owner: None,
            name: Self::DH_NAME.to_owned(),
            redirect_uris: loopback.iter().filter_map(|uri| RedirectUri::parse(uri).ok()).collect(),
            created_at: Timestamp::from_micros(0),
        })
    }

    /// Returns `true` if the application may receive answers at this URI.
    pub fn admits(&self, asked: &RedirectUri) -> bool {
        self.redirect_uris.iter().any(|registered| registered.admits(asked))
    }
}

/// An application with the standing of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredApplication {
    /// The application.
    pub application: Application,
    /// Name of the owner. `None` for the built-in application.
    pub owner_name: Option<String>,
    /// Whether the owner is suspended. Nothing is granted to such an application, and what was granted to it does not work.
    pub is_suspended: bool,
}

#[cfg(test)]
mod tests {
    use super::Application;
    use crate::values::{ApplicationId, RedirectUri};

    #[test]
    fn the_command_line_client_listens_on_any_loopback_port() {
        let dh = Application::built_in(&ApplicationId::parse("dh").unwrap()).unwrap();
        assert_eq!(dh.redirect_uris.len(), 3);
        for good in ["http://localhost:53682/callback", "http://127.0.0.1:1/callback", "http://[::1]:2/callback"] {
            assert!(dh.admits(&RedirectUri::parse(good).unwrap()), "{good}");
        }
        for bad in ["http://localhost:53682/", "https://localhost/callback", "https://evil.test/callback"] {
            assert!(!dh.admits(&RedirectUri::parse(bad).unwrap()), "{bad}");
        }
        assert!(Application::built_in(&ApplicationId::parse("DH").unwrap()).is_none());
    }
}
