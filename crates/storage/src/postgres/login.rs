//! What the server says until it accepts a login.

/// Maximum length of a message before the login. The longest are errors.
const LONGEST: usize = 64 * 1024;

/// Size of the head of a message: its type, and the length of the rest, which counts itself.
const HEAD: usize = 5;

const AUTHENTICATION: u8 = b'R';
const ACCEPTED: u32 = 0;
const SASL: u32 = 10;

/// A message that no Postgres server sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotPostgres;

/// Removes from the server's offers of SASL those that bind the login to the channel.
///
/// A server offers them over TLS only. libpq, which does not see TLS, takes them for the work of an attacker and hangs up. A login
/// without them is accepted as that of a client that cannot bind.
#[derive(Default)]
pub(super) struct LoginFilter {
    /// A message that has not come in whole.
    pending: Vec<u8>,
    is_over: bool,
}

impl LoginFilter {
    /// Passes bytes of the server on to `out`.
    pub(super) fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), NotPostgres> {
        if self.is_over {
            out.extend_from_slice(bytes);
            return Ok(());
        }
        self.pending.extend_from_slice(bytes);
        while !self.is_over {
            let Some(end) = whole(&self.pending)? else { return Ok(()) };
            let message: Vec<u8> = self.pending.drain(..end).collect();
            self.message(&message, out);
        }
        out.append(&mut self.pending);
        Ok(())
    }

    fn message(&mut self, message: &[u8], out: &mut Vec<u8>) {
        match (message.first(), number(message, HEAD)) {
            (Some(&AUTHENTICATION), Some(SASL)) => out.extend(without_binding(message)),
            (Some(&AUTHENTICATION), Some(ACCEPTED)) => {
                self.is_over = true;
                out.extend_from_slice(message);
            }
            _ => out.extend_from_slice(message),
        }
    }
}

fn number(message: &[u8], at: usize) -> Option<u32> {
    let bytes = message.get(at..at + 4)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// Returns the end of the first message, if it has come in whole.
fn whole(bytes: &[u8]) -> Result<Option<usize>, NotPostgres> {
    let Some(length) = number(bytes, 1) else { return Ok(None) };
    let end = length as usize + 1;
    if !(HEAD..=LONGEST).contains(&end) {
        return Err(NotPostgres);
    }
    Ok((bytes.len() >= end).then_some(end))
}

/// The body is the number 10 and names of mechanisms, each ended by a zero byte, and one more zero byte.
fn without_binding(message: &[u8]) -> Vec<u8> {
    let names = message.get(HEAD + 4..).unwrap_or_default();
    let mut body = SASL.to_be_bytes().to_vec();
    for name in names.split(|byte| *byte == 0).filter(|name| !name.is_empty() && !name.ends_with(b"-PLUS")) {
        body.extend_from_slice(name);
        body.push(0);
    }
    body.push(0);
    let length = u32::try_from(body.len() + 4).unwrap_or(u32::MAX);
    [&[AUTHENTICATION][..], &length.to_be_bytes(), &body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        [&[kind][..], &(body.len() as u32 + 4).to_be_bytes(), body].concat()
    }

    fn offer(names: &[&str]) -> Vec<u8> {
        let names: String = names.iter().map(|name| format!("{name}\0")).collect();
        message(b'R', &[&SASL.to_be_bytes()[..], names.as_bytes(), b"\0"].concat())
    }

    #[test]
    fn offers_of_binding_are_removed_however_the_bytes_come_in() {
        let after = message(b'S', b"x\0y\0");
        let later = offer(&["SCRAM-SHA-256-PLUS"]);
        let accepted = message(b'R', &ACCEPTED.to_be_bytes());
        let from = [offer(&["SCRAM-SHA-256-PLUS", "SCRAM-SHA-256"]), accepted.clone(), after.clone(), later.clone()];
        let wanted = [offer(&["SCRAM-SHA-256"]), accepted, after, later].concat();
        for piece in [1, 2, 7, 1000] {
            let (mut filter, mut out) = (LoginFilter::default(), Vec::new());
            for bytes in from.concat().chunks(piece) {
                filter.pass(bytes, &mut out).unwrap();
            }
            assert_eq!(out, wanted, "in pieces of {piece}");
        }
    }

    #[test]
    fn what_is_no_message_ends_the_connection() {
        for bytes in [&b"HTTP/1.1 400 Bad Request"[..], b"R\0\0\0\x03xx"] {
            assert_eq!(LoginFilter::default().pass(bytes, &mut Vec::new()), Err(NotPostgres));
        }
    }
}
