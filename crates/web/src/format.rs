//! Formats times, sizes and counts, and marks HTML as safe.

use std::fmt;

use askama::filters::{Escaper, Html};
use branchyard_domain::values::{CommitHash, Timestamp};
use chrono::{DateTime, NaiveDateTime, Utc};

/// HTML that needs no escaping.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markup(String);

impl Markup {
    /// Wraps HTML that was built from escaped parts.
    pub(crate) fn trusted(html: String) -> Self {
        Self(html)
    }
}

impl fmt::Display for Markup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl askama::filters::HtmlSafe for Markup {}

/// Escapes text for HTML that is not rendered by a template.
pub(crate) fn escaped(text: &str) -> String {
    let mut html = String::with_capacity(text.len());
    // Writing to a string cannot fail.
    let _ = Html.write_escaped_str(&mut html, text);
    html
}

/// Formats a time as a `<time>` element: relative to `now`, with the exact time as tooltip.
pub(crate) fn when(at: Timestamp, now: Timestamp) -> Markup {
    let exact = exact(at);
    Markup(format!("<time datetime=\"{}\" title=\"{}\">{}</time>", exact.0, exact.1, distance(at, now)))
}

/// Formats a time as a `<time>` element, to the second.
pub(crate) fn to_the_second(at: Timestamp) -> Markup {
    Markup(format!("<time datetime=\"{}\">{}</time>", exact(at).0, utc(at).format("%-d %B %Y, %H:%M:%S UTC")))
}

/// Parses a time in the formats that browsers send, as UTC.
pub(crate) fn sent_time(text: &str) -> Option<Timestamp> {
    let parsed = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d %H:%M"]
        .iter()
        .find_map(|shape| NaiveDateTime::parse_from_str(text, shape).ok())?;
    Some(Timestamp::from_micros(parsed.and_utc().timestamp_micros()))
}

/// Formats a time as a form sends it, in UTC.
pub(crate) fn to_send(at: Timestamp) -> String {
    utc(at).format("%Y-%m-%dT%H:%M:%S").to_string()
}

/// Returns a time in UTC. A time outside of the years of chrono, about ±262,000, becomes the last of them.
pub(crate) fn utc(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(at.as_micros()).unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// Returns the time in RFC 3339 and in words, both in UTC.
fn exact(at: Timestamp) -> (String, String) {
    let time = utc(at);
    (time.format("%Y-%m-%dT%H:%M:%SZ").to_string(), time.format("%-d %B %Y, %H:%M UTC").to_string())
}

/// Formats the distance of a time from `now` in its largest unit. The words and the rounding are those of our pages, as no library
/// has them.
pub(crate) fn distance(at: Timestamp, now: Timestamp) -> String {
    let seconds = (now.as_micros() - at.as_micros()) / 1_000_000;
    let (past, seconds) = (seconds >= 0, seconds.unsigned_abs());
    let (count, unit) = match seconds {
        0..45 => return if past { "just now" } else { "in a moment" }.to_owned(),
        45..5_400 => ((seconds + 30) / 60, "minute"),
        5_400..129_600 => ((seconds + 1_800) / 3_600, "hour"),
        129_600..8_640_000 => ((seconds + 43_200) / 86_400, "day"),
        8_640_000..47_304_000 => ((seconds + 1_314_900) / 2_629_800, "month"),
        _ => ((seconds + 15_778_800) / 31_557_600, "year"),
    };
    let count = count.max(1);
    let plural = if count == 1 { "" } else { "s" };
    if past { format!("{count} {unit}{plural} ago") } else { format!("in {count} {unit}{plural}") }
}

/// Formats a number of bytes in binary units.
pub(crate) fn size(bytes: impl TryInto<i64>) -> String {
    let bytes = bytes.try_into().unwrap_or(i64::MAX).max(0);
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    for (shift, unit) in units {
        if bytes >= 1 << shift {
            let tenths = (i128::from(bytes) * 10) >> shift;
            return if tenths < 100 {
                format!("{}.{} {unit}", tenths / 10, tenths % 10)
            } else {
                format!("{} {unit}", tenths / 10)
            };
        }
    }
    if bytes == 1 { "1 byte".to_owned() } else { format!("{bytes} bytes") }
}

/// Formats a number with thousands separators.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with its noun: `1 row`, `2 rows`.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

/// Returns the first eight digits of a hash.
pub(crate) fn short(hash: &CommitHash) -> String {
    hash.as_str().chars().take(8).collect()
}

/// Returns the first line of a message, truncated to 100 characters.
pub(crate) fn first_line(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    match line.char_indices().nth(100) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, counted, distance, size, when};
    use branchyard_domain::values::Timestamp;

    #[test]
    fn times_are_told_by_their_largest_unit() {
        let now = Timestamp::from_seconds(1_800_000_000);
        let ago = |seconds: i64| distance(now.plus_seconds(-seconds), now);
        let cases = [
            (0, "just now"),
            (44, "just now"),
            (45, "1 minute ago"),
            (150, "3 minutes ago"),
            (7_200, "2 hours ago"),
            (86_400 * 2, "2 days ago"),
            (86_400 * 90, "90 days ago"),
            (86_400 * 120, "4 months ago"),
            (86_400 * 800, "2 years ago"),
            (-30, "in a moment"),
            (-86_400 * 29, "in 29 days"),
        ];
        for (seconds, words) in cases {
            assert_eq!(ago(seconds), words, "{seconds}");
        }
        let shown = when(now, now).to_string();
        assert_eq!(
            shown,
            "<time datetime=\"2027-01-15T08:00:00Z\" title=\"15 January 2027, 08:00 UTC\">just now</time>"
        );
    }

    #[test]
    fn sizes_and_counts() {
        let sizes = [(0, "0 bytes"), (1, "1 byte"), (1_023, "1023 bytes"), (1_536, "1.5 KiB"), (20 << 20, "20 MiB")];
        for (bytes, words) in sizes {
            assert_eq!(size(bytes), words);
        }
        assert_eq!((count(0), count(999), count(1_234_567)), ("0".into(), "999".into(), "1,234,567".into()));
        assert_eq!((counted(1, "row", "rows"), counted(2, "row", "rows")), ("1 row".into(), "2 rows".into()));
    }
}
