//! The manifest of a backup. It is written last: a backup without a manifest is incomplete. It is plain also if the files are
//! encrypted, so that a person who keeps the backup can verify it without opening it.

use std::fs::File;
use std::io::{self, BufRead};
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::data_dir::write_durably;
use crate::sealed_files::{Identities, SUFFIX};

/// File name of the manifest in the backup folder.
const NAME: &str = "manifest.json";
/// File name of the metadata dump.
pub(crate) const METADATA: &str = "metadata.ndjson";
/// File name of the key ring, in backups made with `--with-keys` and by earlier versions.
pub(crate) const SECRET: &str = "server.key";
/// File name of the key ring as the metadata store has it, sealed under the master key of the cluster.
pub(crate) const SEALED_RING: &str = "server.key.sealed";
/// File name of the node id, which identifies a data folder among those that share a metadata store.
pub(crate) const NODE: &str = "node";
/// Folder of the deployment backups, with the same layout as in the data folder.
pub(crate) const BACKUPS: &str = "backups";
/// Folder of the database files, named `<id>.db`.
pub(crate) const DATABASES: &str = "databases";
/// Format of a backup whose files are plain.
const PLAIN: u32 = 1;
/// Format of a backup whose files are encrypted, each with a name that ends in `.age`. Sizes and digests are those of the encrypted
/// files.
const ENCRYPTED: u32 = 2;

/// Contents of a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Manifest {
    branchyard_backup: u32,
    /// Version of the program that made the backup.
    program: String,
    /// All files except the manifest itself.
    files: Vec<ManifestEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManifestEntry {
    /// Path relative to the backup folder, with `/` as separator.
    path: String,
    /// Size in bytes.
    size: u64,
    /// SHA-256 digest in lowercase hexadecimal.
    sha256: String,
}

impl Manifest {
    pub(crate) fn new(encrypted: bool) -> Self {
        let format = if encrypted { ENCRYPTED } else { PLAIN };
        Self { branchyard_backup: format, program: env!("CARGO_PKG_VERSION").to_owned(), files: Vec::new() }
    }

    /// Adds a completely written file, with its size and digest.
    pub(crate) fn add(&mut self, folder: &Path, path: &str) -> anyhow::Result<()> {
        let (size, sha256) = digest(&folder.join(path)).with_context(|| format!("cannot read {path} of the backup"))?;
        self.files.push(ManifestEntry { path: path.to_owned(), size, sha256 });
        Ok(())
    }

    /// Returns the total size of all files in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    /// Writes the manifest, which completes the backup.
    pub(crate) fn write(&self, folder: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        write_durably(&folder.join(NAME), &text).context("cannot write the manifest of the backup")
    }

    /// Reads the manifest and verifies the size and digest of every file. Encrypted files are also decrypted once.
    pub(crate) fn verified(folder: &Path, identities: Option<&Identities>) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let text =
            std::fs::read(&path).with_context(|| format!("{} is not a complete backup: {NAME}", folder.display()))?;
        let manifest: Self =
            serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))?;
        if ![PLAIN, ENCRYPTED].contains(&manifest.branchyard_backup) {
            bail!(
                "the backup has format {}; restore it with the program that created it ({})",
                manifest.branchyard_backup,
                manifest.program
            );
        }
        for file in &manifest.files {
            if file.path.ends_with(SUFFIX) != manifest.is_encrypted() {
                bail!("{NAME} is damaged: it says that some files are encrypted and others are not");
            }
        }
        for file in &manifest.files {
            let (size, sha256) =
                digest(&folder.join(&file.path)).with_context(|| format!("cannot read {} of the backup", file.path))?;
            if (size, &sha256) != (file.size, &file.sha256) {
                bail!("{} of the backup is damaged: its checksum is not the one in {NAME}", file.path);
            }
        }
        for file in manifest.files.iter().filter(|_| manifest.is_encrypted()) {
            let mut plain = Identities::open(identities, &folder.join(&file.path))?;
            io::copy(&mut plain, &mut io::sink())
                .with_context(|| format!("{} of the backup cannot be decrypted: it is damaged", file.path))?;
        }
        Ok(manifest)
    }

    /// Returns `true` if the files are encrypted.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.branchyard_backup == ENCRYPTED
    }

    /// Returns the plain paths of all files, which say what is in them.
    fn plain_paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(|file| file.path.strip_suffix(SUFFIX).unwrap_or(&file.path))
    }

    /// Opens the file with this plain path, if the backup has it.
    pub(crate) fn open(
        &self,
        folder: &Path,
        plain: &str,
        identities: Option<&Identities>,
    ) -> anyhow::Result<Option<Box<dyn BufRead>>> {
        if !self.plain_paths().any(|path| path == plain) {
            return Ok(None);
        }
        let suffix = if self.is_encrypted() { SUFFIX } else { "" };
        Identities::open(identities, &folder.join(format!("{plain}{suffix}"))).map(Some)
    }

    /// Returns the plain paths of the files of deployment backups.
    pub(crate) fn deployment_backups(&self) -> impl Iterator<Item = &str> {
        self.plain_paths().filter(|path| path.strip_prefix(BACKUPS).is_some_and(|rest| rest.starts_with('/')))
    }

    /// Returns the names of the database files, without the extension.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.plain_paths().filter_map(|path| path.strip_prefix(DATABASES)?.strip_prefix('/')?.strip_suffix(".db"))
    }
}

fn digest(path: &Path) -> io::Result<(u64, String)> {
    let mut hash = Sha256::new();
    let size = io::copy(&mut File::open(path)?, &mut hash)?;
    let hex = hash.finalize().iter().fold(String::with_capacity(64), |mut hex, byte| {
        for digit in [byte >> 4, byte & 15] {
            hex.push(char::from_digit(u32::from(digit), 16).unwrap_or('0'));
        }
        hex
    });
    Ok((size, hex))
}
