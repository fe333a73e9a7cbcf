//! Paths of pages.

use branchyard_domain::entities::DatabaseLocator;
use branchyard_http_common::segment;

/// Returns the path of a database's page.
pub(crate) fn database(locator: &DatabaseLocator) -> String {
    format!("/{}/{}", locator.owner, locator.name)
}

/// Returns the path of a database's page, or of one below it, at another address of the database. `None` unless the path begins with
/// an owner and a name.
pub(crate) fn moved(path: &str, to: &DatabaseLocator) -> Option<String> {
    let mut segments = path.strip_prefix('/')?.splitn(3, '/');
    let (Some(_), Some(_), below) = (segments.next(), segments.next(), segments.next()) else { return None };
    let below = below.map(|below| format!("/{below}")).unwrap_or_default();
    Some(format!("{}{below}", database(to)))
}

/// Returns a parameter of a query.
pub(crate) fn parameter(name: &str, value: &str) -> String {
    format!("{name}={}", segment(value))
}

/// Appends a query to a path. Parameters with an empty value are left out.
pub(crate) fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let mut sign = '?';
    for (name, value) in parameters.iter().filter(|(_, value)| !value.is_empty()) {
        address.push(sign);
        address.push_str(&parameter(name, value));
        sign = '&';
    }
    address
}

/// Truncates a list that was read with one item more than fits on a page. Returns the path of the next page, which starts after
/// `key` of the last remaining item, if there is one.
pub(crate) fn next_page<T>(
    found: &mut Vec<T>,
    page: usize,
    path: &str,
    key: impl FnOnce(&T) -> String,
) -> Option<String> {
    let more = found.len() > page;
    found.truncate(page);
    found.last().filter(|_| more).map(|last| with_query(path, &[("after", &key(last))]))
}

/// Returns `text` if it is a path on this server, and `/` otherwise. Rejects everything a browser could read as another origin.
pub(crate) fn local(text: Option<&str>) -> &str {
    let plain = |text: &&str| {
        text.starts_with('/')
            && !text.starts_with("//")
            && !text.contains('\\')
            && text.bytes().all(|byte| matches!(byte, b'!'..=b'~'))
    };
    text.filter(plain).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::DatabaseLocator;
    use branchyard_domain::values::{DatabaseName, OwnerName};

    use super::{local, moved, with_query};

    #[test]
    fn a_page_at_a_former_address_moves_with_all_below_it() {
        let to =
            DatabaseLocator { owner: OwnerName::parse("bob").unwrap(), name: DatabaseName::parse("lakes").unwrap() };
        for (path, expected) in [
            ("/ada/rivers", Some("/bob/lakes")),
            ("/ada/rivers/", Some("/bob/lakes/")),
            ("/ada/rivers/tables/a%2Fb/history", Some("/bob/lakes/tables/a%2Fb/history")),
            ("/ada", None),
            ("", None),
        ] {
            assert_eq!(moved(path, &to).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn queries_are_encoded() {
        assert_eq!(with_query("/a", &[("ref", "x/y&z"), ("q", ""), ("n", "1")]), "/a?ref=x%2Fy%26z&n=1");
    }

    #[test]
    fn a_sign_in_leads_nowhere_else() {
        for good in ["/", "/ada/rivers?ref=main"] {
            assert_eq!(local(Some(good)), good);
        }
        for bad in
            ["", "https://evil.test", "//evil.test", "/\\evil.test", "/a\\b", "/a b", "/\nb", "javascript:alert(1)"]
        {
            assert_eq!(local(Some(bad)), "/", "{bad}");
        }
        assert_eq!(local(None), "/");
    }
}
