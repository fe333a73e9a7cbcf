//! The key ring: the keys that seal secrets and sign tokens, as the file `server.key` of the data folder holds them.
//!
//! The file is a text with one key on a line, `id base64`, newest first. A file of 32 raw bytes, which earlier versions wrote, is
//! a ring of one key.

use anyhow::{Context as _, bail, ensure};
use branchyard_hooks::ServerVault;
use data_encoding::BASE64;

/// Maximum number of keys. Each one costs time wherever a token is checked.
pub const KEYS_MAX: usize = 16;
/// Maximum bytes of an id.
const ID_MAX: usize = 32;

/// A key with the name that the operator knows it by.
#[derive(Clone, PartialEq, Eq)]
pub struct RingKey {
    id: String,
    secret: [u8; 32],
}

impl std::fmt::Debug for RingKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RingKey({})", self.id)
    }
}

impl RingKey {
    /// Names a new key by the UTC day on which it was made and a part of what sealed secrets name it by.
    pub fn made_on(day: chrono::NaiveDate, secret: [u8; 32]) -> Self {
        let sealed_as = ServerVault::id_of(&secret);
        Self { id: format!("{}-{}", day.format("%Y%m%d"), &sealed_as[..6]), secret }
    }

    /// Returns the name of the key.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the id by which sealed secrets name the key.
    pub fn sealed_as(&self) -> String {
        ServerVault::id_of(&self.secret)
    }
}

/// One to 16 keys, newest first. The newest key seals and signs; each key opens what was sealed or signed under it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRing(Vec<RingKey>);

impl KeyRing {
    /// Creates a ring of one key.
    pub fn of(key: RingKey) -> Self {
        Self(vec![key])
    }

    /// Parses the contents of the file.
    ///
    /// # Errors
    /// Returns an error that names the line and never shows what is on it, because that may be a key.
    pub fn parse(bytes: &[u8]) -> anyhow::Result<Self> {
        if let Ok(secret) = <[u8; 32]>::try_from(bytes) {
            return Ok(Self(vec![RingKey { id: ServerVault::id_of(&secret), secret }]));
        }
        let Ok(text) = std::str::from_utf8(bytes) else { bail!("it is neither 32 bytes nor a text") };
        let mut keys: Vec<RingKey> = Vec::new();
        for (line, number) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
            let key = parse_line(line).with_context(|| format!("line {number}"))?;
            if let Some(twin) = keys.iter().find(|other| other.id == key.id || other.secret == key.secret) {
                let what = if twin.id == key.id { "id" } else { "key" };
                bail!("line {number}: its {what} is on an earlier line too");
            }
            keys.push(key);
        }
        ensure!(!keys.is_empty(), "it holds no key");
        ensure!(keys.len() <= KEYS_MAX, "it holds more than {KEYS_MAX} keys");
        Ok(Self(keys))
    }

    /// Returns the contents of the file.
    pub fn to_text(&self) -> String {
        self.0.iter().map(|key| format!("{} {}\n", key.id, BASE64.encode(&key.secret))).collect()
    }

    /// Returns the keys, newest first.
    pub fn keys(&self) -> &[RingKey] {
        &self.0
    }

    /// Returns the newest key and the older ones, newest first.
    pub fn secrets(&self) -> ([u8; 32], Vec<[u8; 32]>) {
        // The constructors leave at least one key.
        (self.0[0].secret, self.0[1..].iter().map(|key| key.secret).collect())
    }

    /// Adds the newest key.
    ///
    /// # Errors
    /// Fails if the ring is full, or has a key of that name.
    pub fn add(&mut self, key: RingKey) -> anyhow::Result<()> {
        ensure!(
            self.0.len() < KEYS_MAX,
            "the ring holds {KEYS_MAX} keys, which is the maximum; remove one first (`branchyard keys remove`)"
        );
        ensure!(self.0.iter().all(|other| other.id != key.id), "the ring has a key {} already; try again", key.id);
        self.0.insert(0, key);
        Ok(())
    }

    /// Removes an older key and returns it.
    ///
    /// # Errors
    /// Fails if there is no such key, or if it is the newest one.
    pub fn remove(&mut self, id: &str) -> anyhow::Result<RingKey> {
        match self.0.iter().position(|key| key.id == id) {
            None => bail!("the ring has no key {id:?}; `branchyard keys list` shows the keys"),
            Some(0) => bail!("{id} is the newest key, which seals; add another first (`branchyard keys rotate`)"),
            Some(at) => Ok(self.0.remove(at)),
        }
    }
}

fn parse_line(line: &str) -> anyhow::Result<RingKey> {
    let mut words = line.split_whitespace();
    let (Some(id), Some(key), None) = (words.next(), words.next(), words.next()) else {
        bail!("must be an id, a space and a key in base64");
    };
    let is_valid = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    ensure!(
        id.len() <= ID_MAX && id.bytes().all(is_valid),
        "the id must be 1 to {ID_MAX} characters of a-z, 0-9 and -"
    );
    let secret = BASE64.decode(key.as_bytes()).ok().and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    let secret = secret.context("the key must be 32 bytes in base64, which are 44 characters")?;
    Ok(RingKey { id: id.to_owned(), secret })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(id: &str, byte: u8) -> String {
        format!("{id} {}\n", BASE64.encode(&[byte; 32]))
    }

    fn refused(bytes: &[u8]) -> String {
        format!("{:#}", KeyRing::parse(bytes).unwrap_err())
    }

    #[test]
    fn a_text_and_raw_bytes_are_read() {
        let text = line("new-2", 2) + &line("old", 1);
        let ring = KeyRing::parse(text.as_bytes()).unwrap();
        assert_eq!(ring.to_text(), text);
        assert_eq!(ring.secrets(), ([2; 32], vec![[1; 32]]));
        assert_eq!(ring.keys().iter().map(RingKey::id).collect::<Vec<_>>(), ["new-2", "old"]);
        assert_eq!(KeyRing::parse(text.replace('\n', "\r\n\r\n").as_bytes()).unwrap(), ring);

        let raw = KeyRing::parse(&[7; 32]).unwrap();
        assert_eq!(raw.secrets(), ([7; 32], Vec::new()));
        assert_eq!(raw.keys()[0].id(), raw.keys()[0].sealed_as());
        assert_eq!(KeyRing::parse(raw.to_text().as_bytes()).unwrap(), raw, "as it becomes when a key is added");
        // 32 bytes of text are a raw key too; no line of a ring is that short.
        assert!(line("a", 1).len() > 32);
        assert!(KeyRing::parse(&[b'a'; 32]).is_ok());
    }

    #[test]
    fn what_is_no_ring_is_refused_by_its_line_and_never_shown() {
        let long = "a".repeat(32);
        assert!(KeyRing::parse(line(&long, 1).as_bytes()).is_ok());
        for (text, expected) in [
            (String::new(), "it holds no key"),
            ("\n \n".to_owned(), "it holds no key"),
            (line(&(long + "a"), 1), "line 1: the id must be 1 to 32 characters"),
            (line("a", 1) + "\n" + &line("B", 2), "line 3: the id must be"),
            (line("a", 1) + &line("a", 2), "line 2: its id is on an earlier line too"),
            (line("a", 1) + &line("b", 1), "line 2: its key is on an earlier line too"),
            (line("a", 1) + "b", "line 2: must be an id, a space and a key"),
            (line("a", 1).trim_end().to_owned() + " c", "line 1: must be"),
            (format!("a {}", BASE64.encode(&[1; 31])), "line 1: the key must be 32 bytes"),
            (format!("a {}", BASE64.encode(&[1; 33])), "line 1: the key must be 32 bytes"),
            ("a SECRET!SECRET".to_owned(), "line 1: the key must be 32 bytes"),
        ] {
            let message = refused(text.as_bytes());
            assert!(message.contains(expected), "{message}");
            assert!(!message.contains("SECRET") && !message.contains("AQEB"), "{message}");
        }
        assert!(refused(&[0xff; 31]).contains("neither 32 bytes nor a text"));
        let ring = KeyRing::parse(line("a", 1).as_bytes()).unwrap();
        assert!(!format!("{ring:?}").contains("AQEB") && !format!("{ring:?}").contains("[1,"), "{ring:?}");
    }

    #[test]
    fn a_ring_holds_sixteen_keys() {
        let lines = |count: u8| (0..count).map(|n| line(&format!("k{n}"), n)).collect::<String>();
        let mut ring = KeyRing::parse(lines(15).as_bytes()).unwrap();
        let day = chrono::NaiveDate::from_ymd_opt(2026, 11, 24).unwrap();
        ring.add(RingKey::made_on(day, [99; 32])).unwrap();
        assert!(ring.keys()[0].id().starts_with("20261124-") && ring.keys()[0].id().len() == 15, "{ring:?}");
        assert!(ring.add(RingKey::made_on(day, [98; 32])).unwrap_err().to_string().contains("16 keys"));
        assert!(KeyRing::parse(lines(16).as_bytes()).is_ok());
        assert!(refused(lines(17).as_bytes()).contains("more than 16"));

        assert!(ring.remove("none").unwrap_err().to_string().contains("no key \"none\""));
        let newest = ring.keys()[0].id().to_owned();
        assert!(ring.remove(&newest).unwrap_err().to_string().contains("is the newest key"));
        assert_eq!(ring.remove("k3").unwrap().secret, [3; 32]);
        assert_eq!(ring.keys().len(), 15);
    }
}
