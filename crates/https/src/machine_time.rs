//! The clock of the machine, for what other machines compare with theirs.

use std::time::SystemTime;

/// Returns the time of the machine: that of certificates (RFC 5280, section 4.1.2.5) and of the `date` header (RFC 9110, section
/// 6.6.1). Nothing is stored with it.
#[expect(clippy::disallowed_methods, reason = "certificates and `date` are compared with the clocks of clients")]
pub(crate) fn machine_time() -> SystemTime {
    SystemTime::now()
}
