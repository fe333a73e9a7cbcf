//! The manifest of a backup. It is written last: a backup without a manifest is incomplete.

use std::fs::File;
use std::io;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::data_dir::write_durably;

/// File name of the manifest in the backup folder.
const NAME: &str = "manifest.json";
/// File name of the metadata dump.
pub(crate) const METADATA: &str = "metadata.ndjson";
/// File name of the server's secret.
pub(crate) const SECRET: &str = "server.key";
/// File name of the node id, which identifies a data folder among those that share a metadata store.
pub(crate) const NODE: &str = "node";
/// Folder of the deployment backups, with the same layout as in the data folder.
pub(crate) const BACKUPS: &str = "backups";
/// Folder of the database files, named `<id>.db`.
pub(crate) const DATABASES: &str = "databases";
const FORMAT: u32 = 1;

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
    pub(crate) fn new() -> Self {
        Self { branchyard_backup: FORMAT, program: env!("CARGO_PKG_VERSION").to_owned(), files: Vec::new() }
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

    /// Reads the manifest and verifies the size and digest of every file.
    pub(crate) fn verified(folder: &Path) -> anyhow::Result<Self> {
        let path = folder.join(NAME);
        let text =
            std::fs::read(&path).with_context(|| format!("{} is not a complete backup: {NAME}", folder.display()))?;
        let manifest: Self =
            serde_json::from_slice(&text).with_context(|| format!("cannot read {}", path.display()))?;
        if manifest.branchyard_backup != FORMAT {
            bail!(
                "the backup has format {}; restore it with the program that created it ({})",
                manifest.branchyard_backup,
                manifest.program
            );
        }
        for file in &manifest.files {
            let (size, sha256) =
                digest(&folder.join(&file.path)).with_context(|| format!("cannot read {} of the backup", file.path))?;
            if (size, &sha256) != (file.size, &file.sha256) {
                bail!("{} of the backup is damaged: its checksum is not the one in {NAME}", file.path);
            }
        }
        Ok(manifest)
    }

    /// Returns the paths of the files of deployment backups.
    pub(crate) fn deployment_backups(&self) -> impl Iterator<Item = &str> {
        let inside = |file: &&ManifestEntry| file.path.strip_prefix(BACKUPS).is_some_and(|rest| rest.starts_with('/'));
        self.files.iter().filter(inside).map(|file| file.path.as_str())
    }

    /// Returns the names of the database files, without the extension.
    pub(crate) fn databases(&self) -> impl Iterator<Item = &str> {
        self.files.iter().filter_map(|file| file.path.strip_prefix(DATABASES)?.strip_prefix('/')?.strip_suffix(".db"))
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
