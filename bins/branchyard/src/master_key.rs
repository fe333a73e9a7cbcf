//! The master key of a cluster, which seals the key ring in the metadata store.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use branchyard_domain::entities::Sealed;
use branchyard_domain::ports::{Ids, Vault as _};
use branchyard_hooks::ServerVault;
use branchyard_node_calls::CallKey;
use branchyard_storage::SealedKeyRing;
use data_encoding::BASE64;
use secrecy::zeroize::Zeroizing;

use crate::key_ring::KeyRing;

/// Bytes of a master key.
const KEY_BYTES: usize = 32;

/// Reads a file that holds the 32 bytes of a key and nothing else.
///
/// # Errors
/// Returns an error that names the file.
pub(crate) fn read_secret(path: &Path) -> anyhow::Result<Zeroizing<[u8; KEY_BYTES]>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(KEY_BYTES + 1));
    // One byte more shows that a file is too long. A device may have no end.
    let read = File::open(path).and_then(|file| file.take(KEY_BYTES as u64 + 1).read_to_end(&mut bytes));
    read.with_context(|| format!("cannot read {}", path.display()))?;
    let Ok(secret) = <[u8; KEY_BYTES]>::try_from(bytes.as_slice()) else {
        let found = if bytes.len() > KEY_BYTES { "more".to_owned() } else { bytes.len().to_string() };
        bail!(
            "{path} must hold {KEY_BYTES} random bytes and nothing else, and it holds {found}; \
             `head -c {KEY_BYTES} /dev/urandom > {path}` makes such a file",
            path = path.display()
        )
    };
    Ok(Zeroizing::new(secret))
}

/// A master key, with the file that it was read from.
#[derive(Debug)]
pub struct MasterKey {
    vault: ServerVault,
    /// The key of calls between nodes.
    calls: CallKey,
    path: PathBuf,
}

impl MasterKey {
    /// Reads a file that holds the 32 bytes of a key and nothing else.
    ///
    /// # Errors
    /// Returns an error that names the file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let secret = read_secret(path)?;
        Ok(Self {
            vault: ServerVault::from_secrets(&secret, &[]),
            calls: CallKey::derive(&secret),
            path: path.to_owned(),
        })
    }

    /// Returns the id of the key, which reveals nothing of it.
    pub fn id(&self) -> String {
        self.vault.key_id()
    }

    /// Returns the key under which nodes sign their calls.
    pub fn calls(&self) -> &CallKey {
        &self.calls
    }

    /// Returns the file that the key was read from.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Seals a key ring.
    pub fn seal(&self, ring: &KeyRing, ids: &dyn Ids) -> SealedKeyRing {
        let mut nonce = [0; 24];
        ids.fill(&mut nonce);
        let Sealed { key_id, bytes } = self.vault.seal_key_ring(ring.to_text().as_bytes(), nonce);
        SealedKeyRing { master_id: key_id, bytes }
    }

    /// Opens a key ring of the metadata store.
    ///
    /// # Errors
    /// Fails if it is sealed under another key, or damaged.
    pub fn open(&self, ring: &SealedKeyRing) -> anyhow::Result<KeyRing> {
        ensure!(
            ring.master_id == self.id(),
            "the key ring in the metadata store is sealed under the master key {}, and server_key_file {} holds the master key {}; \
             all nodes of a cluster need the same server_key_file",
            ring.master_id,
            self.path.display(),
            self.id()
        );
        let sealed = Sealed { key_id: ring.master_id.clone(), bytes: ring.bytes.clone() };
        let opened = self.vault.open_key_ring(&sealed).and_then(|text| KeyRing::parse(&text).ok());
        opened.context("the key ring that is sealed under this master key is damaged; restore it from a backup")
    }
}

/// Returns the contents of the file of a backup that holds a sealed key ring: the id of the master key, a space, and base64.
pub(crate) fn to_text(ring: &SealedKeyRing) -> String {
    format!("{} {}\n", ring.master_id, BASE64.encode(&ring.bytes))
}

/// Parses the file of a backup that holds a sealed key ring.
///
/// # Errors
/// Fails if it is not what [`to_text`] returns.
pub(crate) fn parse(text: &[u8]) -> anyhow::Result<SealedKeyRing> {
    let words = std::str::from_utf8(text).ok().and_then(|text| text.trim().split_once(' '));
    let (id, bytes) = words.context("it must hold an id, a space and base64")?;
    let bytes = BASE64.decode(bytes.as_bytes()).ok().context("its second word is not base64")?;
    Ok(SealedKeyRing { master_id: id.to_owned(), bytes })
}

#[cfg(test)]
mod tests {
    use branchyard_domain_testing::fakes::SeededIds;

    use super::*;

    fn master(folder: &Path, byte: u8) -> MasterKey {
        let path = folder.join(format!("master-{byte}"));
        std::fs::write(&path, [byte; 32]).unwrap();
        MasterKey::read(&path).unwrap()
    }

    #[test]
    fn a_file_of_another_length_is_refused_with_what_makes_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master");
        for (bytes, found) in
            [(vec![7; 31], "it holds 31;"), (vec![7; 33], "it holds more;"), (Vec::new(), "it holds 0;")]
        {
            std::fs::write(&path, bytes).unwrap();
            let error = format!("{:#}", MasterKey::read(&path).unwrap_err());
            let remedy = format!("head -c 32 /dev/urandom > {}", path.display());
            assert!(error.contains(found) && error.contains(&remedy), "{error}");
        }
        let missing = format!("{:#}", MasterKey::read(&folder.path().join("none")).unwrap_err());
        assert!(missing.contains("/none: "), "{missing}");
    }

    #[test]
    fn a_ring_opens_under_the_key_that_sealed_it() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (master(folder.path(), 1), master(folder.path(), 2));
        let ring = KeyRing::parse(&[9; 32]).unwrap();
        let sealed = one.seal(&ring, &SeededIds::new(1));
        assert_eq!((&sealed.master_id, one.open(&sealed).unwrap()), (&one.id(), ring));
        let error = two.open(&sealed).unwrap_err().to_string();
        for named in [one.id(), two.id(), two.path().display().to_string(), "server_key_file".to_owned()] {
            assert!(error.contains(&named), "{error}");
        }
        assert_eq!(parse(to_text(&sealed).as_bytes()).unwrap(), sealed);
        assert!(parse(b"id").is_err() && parse(b"id !").is_err() && parse(b"\xff").is_err());
        let mut damaged = sealed;
        damaged.bytes[30] ^= 1;
        assert!(one.open(&damaged).unwrap_err().to_string().contains("is damaged"));
        assert!(!format!("{one:?}").contains("1, 1"), "{one:?}");
    }
}
