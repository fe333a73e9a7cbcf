//! `Prefer: wait=<seconds>` (RFC 7240 §4.3): how long a client is willing to wait for a response.

use std::time::Duration;

/// The longest wait. It is shorter than the timeouts of common proxies and than the drain time of a server that shuts down.
const LONGEST: Duration = Duration::from_secs(20);

/// Returns the wait that a `Prefer` header asks for, capped at [`LONGEST`]. Only the first `wait` preference counts. A value
/// that is not a number of seconds is ignored (RFC 7240 §2).
pub(crate) fn wait(header: Option<&str>) -> Option<Duration> {
    let preferences = header?.split(',').map(|preference| preference.split(';').next().unwrap_or_default());
    let mut waits = preferences.filter_map(|preference| {
        let (name, value) = preference.split_once('=')?;
        name.trim().eq_ignore_ascii_case("wait").then(|| value.trim())
    });
    let seconds = waits.next()?.trim_matches('"');
    let digits = !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit());
    // A number that overflows `u64` exceeds the cap, too.
    digits.then(|| seconds.parse().map_or(LONGEST, Duration::from_secs).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::wait;

    #[test]
    fn the_seconds_are_read_and_capped() {
        let cases = [
            ("wait=10", 10),
            ("respond-async, wait=10", 10),
            ("Wait = \"3\"; foo=1", 3),
            ("wait=1, wait=2", 1),
            ("wait=0", 0),
            ("wait=20", 20),
            ("wait=21", 20),
            ("wait=99999999999999999999999", 20),
        ];
        for (text, seconds) in cases {
            assert_eq!(wait(Some(text)), Some(Duration::from_secs(seconds)), "{text}");
        }
    }

    #[test]
    fn anything_else_is_ignored() {
        assert_eq!(wait(None), None);
        for text in [
            "",
            "wait",
            "wait=",
            "wait=-1",
            "wait=1.5",
            "wait=soon",
            "handling=lenient",
            "awaits=3",
            "wait=soon, wait=3",
        ] {
            assert_eq!(wait(Some(text)), None, "{text}");
        }
    }
}
