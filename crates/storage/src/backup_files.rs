//! The files of backups, stored as `<dir>/<deployment>/<backup>/<database name in hexadecimal>`.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use branchyard_deployments::ports::BackupFile;
use branchyard_deployments::values::{BackupId, DeploymentId, ServedName};
use branchyard_domain::ports::{BlobsError, ReadSeek};
use data_encoding::HEXLOWER;

use crate::blobs::{failed, sync_folder};

/// Stores the files of backups below one folder.
#[derive(Debug)]
pub(crate) struct BackupFolder {
    dir: PathBuf,
}

impl BackupFolder {
    pub(crate) fn open(dir: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&dir)?;
        Ok(Self { dir })
    }

    fn folder(&self, deployment: DeploymentId, backup: BackupId) -> PathBuf {
        self.dir.join(deployment.to_string()).join(backup.to_string())
    }

    /// Returns the path of a file.
    fn path(&self, file: &BackupFile) -> PathBuf {
        self.folder(file.deployment, file.backup).join(stored_name(&file.database))
    }

    pub(crate) fn put(&self, file: &BackupFile, bytes: &mut dyn Read) -> Result<u64, BlobsError> {
        let folder = self.folder(file.deployment, file.backup);
        fs::create_dir_all(&folder).map_err(failed("make the folder of a backup"))?;
        let mut temporary = tempfile::NamedTempFile::new_in(&folder).map_err(failed("begin a file of a backup"))?;
        let size = io::copy(bytes, temporary.as_file_mut()).map_err(failed("write a file of a backup"))?;
        temporary.as_file().sync_all().map_err(failed("sync a file of a backup"))?;
        temporary.persist(self.path(file)).map_err(|error| failed("name a file of a backup")(error.error))?;
        for folder in folder.ancestors().take(3) {
            sync_folder(folder).map_err(failed("sync the folder of a backup"))?;
        }
        Ok(size)
    }

    pub(crate) fn open_file(&self, file: &BackupFile) -> Result<Box<dyn ReadSeek>, BlobsError> {
        let file = File::open(self.path(file)).map_err(failed("open a file of a backup"))?;
        Ok(Box::new(file))
    }

    pub(crate) fn list(&self) -> Result<Vec<BackupFile>, BlobsError> {
        let listed = |folder: &Path| names(folder).map_err(failed("list the files of backups"));
        let mut found = Vec::new();
        for deployment in listed(&self.dir)? {
            let Ok(id) = DeploymentId::parse(&deployment) else { continue };
            let folder = self.dir.join(&deployment);
            for backup in listed(&folder)? {
                let Ok(backup_id) = BackupId::parse(&backup) else { continue };
                let files = listed(&folder.join(&backup))?;
                found.extend(files.iter().filter_map(|file| backup_file(id, backup_id, file)));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    pub(crate) fn remove(&self, deployment: DeploymentId, backup: BackupId) -> Result<(), BlobsError> {
        let folder = self.folder(deployment, backup);
        gone(fs::remove_dir_all(&folder)).map_err(failed("remove a backup"))?;
        // Removing the last backup of a deployment removes the deployment's folder too.
        let parent = folder.parent().unwrap_or(Path::new(""));
        let empty = fs::read_dir(parent).is_ok_and(|mut entries| entries.next().is_none());
        if empty { gone(fs::remove_dir(parent)).map_err(failed("remove a folder of backups")) } else { Ok(()) }
    }
}

/// Returns the name of the file of a database: hexadecimal, because a name that a user chose must not become part of a path.
pub(crate) fn stored_name(database: &ServedName) -> String {
    HEXLOWER.encode(database.key().as_bytes())
}

/// Returns the file of a backup that [`stored_name`] named.
pub(crate) fn backup_file(deployment: DeploymentId, backup: BackupId, name: &str) -> Option<BackupFile> {
    let database = String::from_utf8(HEXLOWER.decode(name.as_bytes()).ok()?).ok()?;
    Some(BackupFile { deployment, backup, database: ServedName::parse(&database).ok()? })
}

/// Returns the UTF-8 names in a folder. There are none if the folder does not exist.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.file_name().into_string().ok());
    }
    Ok(names)
}

fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::values::Timestamp;
    use uuid::Uuid;

    use super::*;

    #[test]
    fn files_of_a_backup_come_and_go_together() {
        let dir = tempfile::tempdir().unwrap();
        let files = BackupFolder::open(dir.path().join("backups")).unwrap();
        let file = |name: &str, at| BackupFile {
            deployment: DeploymentId::from_uuid(Uuid::from_u128(1)),
            backup: BackupId::at(Timestamp::from_seconds(at)),
            database: ServedName::parse(name).unwrap(),
        };
        let (one, other) = (file("Rivers", 1), file("rivers", 2));
        assert_eq!(files.put(&one, &mut "first".as_bytes()).unwrap(), 5);
        assert_eq!(files.put(&one, &mut "second".as_bytes()).unwrap(), 6);
        files.put(&other, &mut "other".as_bytes()).unwrap();
        let mut text = String::new();
        files.open_file(&file("RIVERS", 1)).unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "second");
        for file in [&one, &one, &other] {
            files.remove(file.deployment, file.backup).unwrap();
            assert!(files.open_file(file).is_err());
        }
        assert_eq!(fs::read_dir(&files.dir).unwrap().count(), 0, "nothing is left");
    }
}
