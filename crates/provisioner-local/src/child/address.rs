//! Paths of the data endpoint.

use percent_encoding::percent_decode_str;

/// An endpoint of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChildEndpoint {
    Health,
    Version,
    Pipeline,
    Cursor,
    Metrics,
}

/// The database and the branch that a path names.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SqlTarget {
    pub(crate) database: Option<String>,
    pub(crate) branch: Option<String>,
}

const ENDPOINTS: &[(&str, ChildEndpoint)] = &[
    ("v2/pipeline", ChildEndpoint::Pipeline),
    ("v3/pipeline", ChildEndpoint::Pipeline),
    ("v3/cursor", ChildEndpoint::Cursor),
    ("v2", ChildEndpoint::Version),
    ("v3", ChildEndpoint::Version),
    ("health", ChildEndpoint::Health),
    ("metrics", ChildEndpoint::Metrics),
];

impl ChildEndpoint {
    /// Returns the only HTTP method of the endpoint.
    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Pipeline | Self::Cursor => "POST",
            Self::Health | Self::Version | Self::Metrics => "GET",
        }
    }
}

/// Parses a path in its encoded form: `[db/{database}/][branch/{branch}/]{endpoint}`. Repeated slashes are accepted,
/// because some clients append a path to a base URL that ends in a slash.
pub(crate) fn parse(path: &str) -> Option<(SqlTarget, ChildEndpoint)> {
    let mut rest = path.trim_start_matches('/');
    let mut target = SqlTarget::default();
    if let Some(after) = rest.strip_prefix("db/") {
        let (name, after) = after.split_once('/')?;
        target.database = Some(decoded(name)?);
        rest = after.trim_start_matches('/');
    }
    if let Some(after) = rest.strip_prefix("branch/") {
        // A branch name may contain slashes, so the endpoint is found at the end.
        return ENDPOINTS.iter().find_map(|(name, endpoint)| {
            let branch = after.strip_suffix(name)?.strip_suffix('/')?.trim_end_matches('/');
            let branch = decoded(branch).filter(|branch| !branch.is_empty())?;
            Some((SqlTarget { branch: Some(branch), ..target.clone() }, *endpoint))
        });
    }
    ENDPOINTS.iter().find(|(name, _)| *name == rest).map(|(_, endpoint)| (target, *endpoint))
}

fn decoded(text: &str) -> Option<String> {
    percent_decode_str(text).decode_utf8().ok().map(|text| text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_database_branch_and_endpoint() {
        let named = |database: Option<&str>, branch: Option<&str>| SqlTarget {
            database: database.map(str::to_owned),
            branch: branch.map(str::to_owned),
        };
        for (path, expected) in [
            ("/v2/pipeline", Some((named(None, None), ChildEndpoint::Pipeline))),
            ("//v3/pipeline", Some((named(None, None), ChildEndpoint::Pipeline))),
            ("/health", Some((named(None, None), ChildEndpoint::Health))),
            ("/db/rivers/v3/cursor", Some((named(Some("rivers"), None), ChildEndpoint::Cursor))),
            ("/db/rivers//v3", Some((named(Some("rivers"), None), ChildEndpoint::Version))),
            ("/branch/work/v2/pipeline", Some((named(None, Some("work")), ChildEndpoint::Pipeline))),
            (
                "/db/a/branch/feature/x/v2/pipeline",
                Some((named(Some("a"), Some("feature/x")), ChildEndpoint::Pipeline)),
            ),
            ("/branch/feature%2Fx/v2/pipeline", Some((named(None, Some("feature/x")), ChildEndpoint::Pipeline))),
            ("/branch/v2/v2/pipeline", Some((named(None, Some("v2")), ChildEndpoint::Pipeline))),
            ("/branch/v2/pipeline", None),
            ("/branch//v2/pipeline", None),
            ("/v3-protobuf", None),
            ("/v2/cursor", None),
            ("/", None),
            ("/db/rivers", None),
            ("/branch/%ff/v2", None),
        ] {
            assert_eq!(parse(path), expected, "{path}");
        }
    }
}
