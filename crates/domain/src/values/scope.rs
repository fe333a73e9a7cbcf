//! Scopes of access tokens (RFC 6749 §3.3).

use super::Invalid;

/// What the holder of an access token may do. A token never allows more than its user may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Read all that the user may read, and change nothing.
    Read,
    /// All that the user may do with the APIs.
    ReadWrite,
}

impl Scope {
    /// All scopes, narrowest first.
    pub const ALL: [Self; 2] = [Self::Read, Self::ReadWrite];

    /// Returns the name of the scope.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Read => "api_read",
            Self::ReadWrite => "api_read_write",
        }
    }

    /// Parses the name of one scope.
    ///
    /// # Errors
    /// [`Invalid`] for any other text.
    pub fn parse(name: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|scope| scope.as_str() == name);
        found.ok_or_else(|| Invalid::new("the scopes are api_read and api_read_write"))
    }

    /// Parses a list of names, separated by single spaces, and returns the widest scope.
    ///
    /// # Errors
    /// [`Invalid`] if the list is empty or has another name.
    pub fn parse_list(names: &str) -> Result<Self, Invalid> {
        let parsed = names.split(' ').map(Self::parse).collect::<Result<Vec<_>, _>>()?;
        parsed.into_iter().max().ok_or_else(|| Invalid::new("the scopes are api_read and api_read_write"))
    }
}

#[cfg(test)]
mod tests {
    use super::Scope;

    #[test]
    fn the_widest_scope_of_a_list_counts() {
        assert_eq!(Scope::parse_list("api_read"), Ok(Scope::Read));
        assert_eq!(Scope::parse_list("api_read_write"), Ok(Scope::ReadWrite));
        assert_eq!(Scope::parse_list("api_read api_read_write"), Ok(Scope::ReadWrite));
        assert_eq!(Scope::parse_list("api_read_write api_read"), Ok(Scope::ReadWrite));
        for bad in
            ["", " ", "admin", "api_read admin", "api_read  api_read_write", "API_READ", "api_read,api_read_write"]
        {
            assert!(Scope::parse_list(bad).is_err(), "{bad}");
        }
    }
}
