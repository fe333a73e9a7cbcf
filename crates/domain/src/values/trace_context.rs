//! The position of a call in a distributed trace.

use std::fmt;

use super::Invalid;

/// Length of a `traceparent` of version 00, in characters.
const LENGTH: usize = 55;
/// The one flag that version 00 defines: the caller may have recorded trace data.
const SAMPLED: u8 = 1;

/// The value of a `traceparent` header (W3C Trace Context, level 1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceContext {
    trace_id: [u8; 16],
    parent_id: [u8; 8],
    flags: u8,
}

impl TraceContext {
    /// Creates a context from its parts. Returns `None` if one of the ids is zero, which the standard does not allow.
    #[must_use]
    pub fn new(trace_id: [u8; 16], parent_id: [u8; 8], is_sampled: bool) -> Option<Self> {
        let is_valid = trace_id != [0; 16] && parent_id != [0; 8];
        is_valid.then_some(Self { trace_id, parent_id, flags: u8::from(is_sampled) })
    }

    /// Parses the value of a `traceparent` header. A value of a later version is read as far as version 00 goes, as the
    /// standard requires (section 4.3).
    ///
    /// # Errors
    /// An error for any other text, such as one with upper-case letters, with an id of zeros, or of version `ff`.
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        parse(text.as_bytes()).ok_or_else(|| Invalid::new("not the value of a traceparent header"))
    }

    /// Returns the context of a call that `parent_id` makes within the same trace.
    #[must_use]
    pub fn child(&self, parent_id: [u8; 8]) -> Self {
        Self { parent_id, ..*self }
    }

    /// Returns the id of the trace.
    pub const fn trace_id(&self) -> [u8; 16] {
        self.trace_id
    }

    /// Returns the id of the call's parent.
    pub const fn parent_id(&self) -> [u8; 8] {
        self.parent_id
    }

    /// Returns `true` if the caller may have recorded trace data.
    pub const fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }

    /// Returns the id of the trace as 32 hexadecimal digits.
    pub fn trace_id_text(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.trace_id))
    }
}

impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (trace, parent) = (u128::from_be_bytes(self.trace_id), u64::from_be_bytes(self.parent_id));
        write!(f, "00-{trace:032x}-{parent:016x}-{:02x}", self.flags)
    }
}

fn parse(text: &[u8]) -> Option<TraceContext> {
    let (known, rest) = text.split_at_checked(LENGTH)?;
    let [version] = hex(&known[..2])?;
    let is_long_enough = match version {
        0 => rest.is_empty(),
        0xff => false,
        _ => rest.is_empty() || rest[0] == b'-',
    };
    let has_dashes = [2, 35, 52].iter().all(|at| known[*at] == b'-');
    if !is_long_enough || !has_dashes {
        return None;
    }
    let [flags] = hex(&known[53..])?;
    // Other flags are reserved. They are not passed on.
    TraceContext::new(hex(&known[3..35])?, hex(&known[36..52])?, flags & SAMPLED != 0)
}

/// Reads lower-case hexadecimal digits, two for each byte.
fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::TraceContext;

    const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
    const PARENT: &str = "b7ad6b7169203331";

    #[test]
    fn a_valid_value_is_read_and_written_alike() {
        for flags in ["00", "01"] {
            let text = format!("00-{TRACE}-{PARENT}-{flags}");
            let context = TraceContext::parse(&text).unwrap();
            assert_eq!(context.to_string(), text);
            assert_eq!(context.trace_id_text(), TRACE);
            assert_eq!(context.is_sampled(), flags == "01");
        }
        let child = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-01")).unwrap().child([1; 8]);
        assert_eq!(child.to_string(), format!("00-{TRACE}-0101010101010101-01"));
    }

    #[test]
    fn later_versions_are_read_as_far_as_this_one_goes() {
        for text in [format!("cc-{TRACE}-{PARENT}-01"), format!("cc-{TRACE}-{PARENT}-ff-what-may-come")] {
            assert_eq!(TraceContext::parse(&text).unwrap().to_string(), format!("00-{TRACE}-{PARENT}-01"), "{text}");
        }
        let reserved = TraceContext::parse(&format!("00-{TRACE}-{PARENT}-fe")).unwrap();
        assert_eq!(reserved.to_string(), format!("00-{TRACE}-{PARENT}-00"), "reserved flags are not passed on");
    }

    #[test]
    fn other_values_are_refused() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            "00".to_owned(),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("0g-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{PARENT}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00-{TRACE}-{PARENT}-0"),
            format!("00-{TRACE}-{PARENT}-0x"),
            format!("00-{TRACE}-{PARENT}-01-"),
            format!("00-{TRACE}-{PARENT}-01 "),
            format!(" 00-{TRACE}-{PARENT}-01"),
            format!("00_{TRACE}-{PARENT}-01"),
            format!("00-{TRACE}x{PARENT}-01"),
            format!("cc-{TRACE}-{PARENT}-01x"),
            format!("00-{TRACE}-ü{}-01", &PARENT[2..]),
        ] {
            assert!(TraceContext::parse(&text).is_err(), "{text}");
        }
    }
}
