//! Access to folders that the process of an instance can write to, for the server and the process.
//!
//! Such a process runs the SQL of its clients and is not trusted: if it is compromised, it can put a link, a pipe or an
//! endless file where the server looks. Everything below the folder of an instance is therefore opened through this
//! module: one path component at a time on open descriptors, never through a link, never waiting for a pipe, and only
//! as a regular file. An open file stays the same file, even if its name is changed afterwards.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd as _;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Component, Path};

use rand::RngCore as _;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

const FOLDER: OFlags = OFlags::DIRECTORY.union(OFlags::CLOEXEC);
const OWNER_ONLY: Mode = Mode::from_raw_mode(0o600);

/// An open folder.
#[derive(Debug)]
pub(crate) struct ConfinedDir(OwnedFd);

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file, or a link to one")
}

/// Returns the name if it names a direct entry of a folder.
fn entry(name: &OsStr) -> io::Result<&OsStr> {
    let is_one = !matches!(name.as_bytes(), b"" | b"." | b"..") && !name.as_bytes().contains(&b'/');
    if is_one { Ok(name) } else { Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of an entry")) }
}

impl ConfinedDir {
    /// Opens a folder by a path that no instance can change.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, FOLDER | OFlags::NOFOLLOW, Mode::empty())?))
    }

    /// Opens a subfolder.
    pub(crate) fn sub(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        match openat(&self.0, entry(name.as_ref())?, FOLDER | OFlags::NOFOLLOW, Mode::empty()) {
            Ok(folder) => Ok(Self(folder)),
            Err(Errno::LOOP | Errno::NOTDIR) => {
                Err(io::Error::new(io::ErrorKind::NotADirectory, "not a folder, or a link to one"))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a subfolder, and creates it with access for the owner only if it does not exist.
    pub(crate) fn make(&self, name: impl AsRef<OsStr>) -> io::Result<Self> {
        match mkdirat(&self.0, entry(name.as_ref())?, Mode::from_raw_mode(0o700)) {
            Ok(()) | Err(Errno::EXIST) => self.sub(name),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns `true` if there is an entry of this name, of any kind.
    pub(crate) fn has(&self, name: &str) -> io::Result<bool> {
        match statat(&self.0, entry(name.as_ref())?, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn file(&self, name: impl AsRef<OsStr>) -> io::Result<File> {
        // Without `NONBLOCK`, opening a pipe waits for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let opened = match openat(&self.0, entry(name.as_ref())?, flags, Mode::empty()) {
            Err(Errno::LOOP | Errno::NXIO) => return Err(not_regular()),
            opened => opened?,
        };
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::RegularFile => Ok(opened.into()),
            _ => Err(not_regular()),
        }
    }

    /// Opens a regular file by a path within this folder.
    pub(crate) fn file_at(&self, path: &Path) -> io::Result<File> {
        let mut names = path.components().map(|component| match component {
            Component::Normal(name) => Ok(name),
            _ => Err(io::Error::new(io::ErrorKind::InvalidInput, "a path that leads out of the folder")),
        });
        let last = names.next_back().ok_or_else(not_regular)??;
        let mut folder: Option<Self> = None;
        for name in names {
            folder = Some(folder.as_ref().unwrap_or(self).sub(name?)?);
        }
        folder.as_ref().unwrap_or(self).file(last)
    }

    /// Reads a file of at most `most` bytes.
    pub(crate) fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        match u64::try_from(bytes.len()) {
            Ok(length) if length <= most => Ok(bytes),
            _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("more than {most} bytes"))),
        }
    }

    /// Reads the first `most` bytes of a file.
    pub(crate) fn read_first(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(name)?.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads the last `most` bytes of a file.
    pub(crate) fn read_last(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let mut file = self.file(name)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Creates a file with access for the owner only. Fails if an entry of this name exists.
    pub(crate) fn create(&self, name: &str) -> io::Result<File> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(openat(&self.0, entry(name.as_ref())?, flags, OWNER_ONLY)?.into())
    }

    /// Opens a regular file for appending, and creates it with access for the owner only if it does not exist.
    pub(crate) fn append(&self, name: &str) -> io::Result<File> {
        // Without `NONBLOCK`, opening a pipe waits for a reader.
        let flags = OFlags::WRONLY
            | OFlags::APPEND
            | OFlags::CREATE
            | OFlags::NOFOLLOW
            | OFlags::NONBLOCK
            | OFlags::NOCTTY
            | OFlags::CLOEXEC;
        let opened = match openat(&self.0, entry(name.as_ref())?, flags, OWNER_ONLY) {
            Err(Errno::LOOP | Errno::NXIO) => return Err(not_regular()),
            opened => opened?,
        };
        match FileType::from_raw_mode(fstat(&opened)?.st_mode) {
            FileType::RegularFile => Ok(opened.into()),
            _ => Err(not_regular()),
        }
    }

    /// Creates a file, and removes any existing entry of this name.
    pub(crate) fn replace(&self, name: &str) -> io::Result<File> {
        self.remove(name)?;
        self.create(name)
    }

    /// Writes a file atomically, with access for the owner only.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // The name is unpredictable, so the process cannot put a link there first.
        let temporary = format!("{name}.{:016x}.new", rand::rng().next_u64());
        let mut file = self.create(&temporary)?;
        let written = file.write_all(bytes).and_then(|()| file.sync_all()).and_then(|()| self.put(&temporary, name));
        if written.is_err() {
            self.remove(&temporary)?;
        }
        written.and_then(|()| self.sync())
    }

    fn put(&self, temporary: &str, name: &str) -> io::Result<()> {
        match renameat(&self.0, temporary, &self.0, entry(name.as_ref())?) {
            Err(Errno::ISDIR) => {
                self.remove(name)?;
                Ok(renameat(&self.0, temporary, &self.0, name)?)
            }
            other => Ok(other?),
        }
    }

    /// Moves an entry to another folder under the name `as_name`.
    pub(crate) fn give(&self, name: &str, to: &Self, as_name: &str) -> io::Result<()> {
        Ok(renameat(&self.0, entry(name.as_ref())?, &to.0, entry(as_name.as_ref())?)?)
    }

    /// Returns the names of the first `most` entries, in no particular order.
    pub(crate) fn names(&self, most: usize) -> io::Result<Vec<OsString>> {
        self.entries()?.take(most).collect()
    }

    fn entries(&self) -> io::Result<impl Iterator<Item = io::Result<OsString>> + use<>> {
        let names =
            Dir::read_from(&self.0)?.map(|entry| Ok(OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned()));
        Ok(names.filter(|name: &io::Result<OsString>| {
            name.as_ref().map_or(true, |name| !matches!(name.as_bytes(), b"." | b".."))
        }))
    }

    /// Makes changes of names durable.
    pub(crate) fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }

    /// Removes an entry, including the content of a folder. Succeeds if the entry does not exist. A link is removed,
    /// not followed.
    pub(crate) fn remove(&self, name: impl AsRef<OsStr>) -> io::Result<()> {
        let name = entry(name.as_ref())?;
        while !self.unlink(name)? {
            self.sub(name)?.clear()?;
        }
        Ok(())
    }

    /// Removes a file, a link or an empty folder. Returns `false` if the entry is a folder that is not empty.
    fn unlink(&self, name: &OsStr) -> io::Result<bool> {
        // Depending on the system, unlinking a folder fails with the first or the second error. The second also occurs
        // for a file that may not be removed.
        let refused = match unlinkat(&self.0, name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => return Ok(true),
            Err(error @ (Errno::ISDIR | Errno::PERM)) => error,
            Err(error) => return Err(error.into()),
        };
        match unlinkat(&self.0, name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(true),
            Err(Errno::NOTEMPTY | Errno::EXIST) => Ok(false),
            Err(Errno::NOTDIR) => Err(refused.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes all content of this folder. Nested folders are moved up to this folder first, so that the depth of the
    /// tree costs neither descriptors nor stack.
    fn clear(&self) -> io::Result<()> {
        let mut moved = 0_u64;
        loop {
            let mut was_empty = true;
            for name in self.entries()? {
                let name = name?;
                was_empty = false;
                if !self.unlink(&name)? {
                    self.sub(&name)?.lift(self, &mut moved)?;
                }
            }
            if was_empty {
                return Ok(());
            }
        }
    }

    /// Removes the files in this folder, and moves its subfolders to `to` under numbered names.
    fn lift(&self, to: &Self, moved: &mut u64) -> io::Result<()> {
        for name in self.entries()? {
            let name = name?;
            while !self.unlink(&name)? {
                *moved += 1;
                match renameat(&self.0, &name, &to.0, format!("moved-{moved}")) {
                    Err(Errno::NOTDIR | Errno::EXIST | Errno::NOTEMPTY) => {}
                    other => {
                        other?;
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Connects to a socket in this folder. The length of the folder's path is not limited.
    pub(crate) fn connect(&self, name: &str) -> io::Result<UnixStream> {
        let name = entry(name.as_ref())?;
        #[cfg(target_os = "linux")]
        {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let socket = openat(&self.0, name, flags, Mode::empty())?;
            if FileType::from_raw_mode(fstat(&socket)?.st_mode) != FileType::Socket {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a socket, or a link to one"));
            }
            UnixStream::connect(format!("/proc/self/fd/{}", socket.as_raw_fd()))
        }
        #[cfg(not(target_os = "linux"))]
        {
            let path = rustix::fs::getpath(&self.0)?;
            UnixStream::connect(Path::new(OsStr::from_bytes(path.to_bytes())).join(name))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    fn folder() -> (tempfile::TempDir, ConfinedDir) {
        let outer = tempfile::tempdir().unwrap();
        fs::create_dir(outer.path().join("in")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        let opened = ConfinedDir::open(&outer.path().join("in")).unwrap();
        (outer, opened)
    }

    fn pipe(path: &Path) {
        assert!(std::process::Command::new("mkfifo").arg(path).status().unwrap().success());
    }

    #[test]
    fn links_are_never_followed() {
        let (outer, opened) = folder();
        let inside = outer.path().join("in");
        symlink(outer.path().join("secret"), inside.join("file")).unwrap();
        symlink(outer.path(), inside.join("folder")).unwrap();
        assert_eq!(opened.read("file", 100).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(opened.read_first("file", 100).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(opened.read_last("file", 100).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert_eq!(opened.sub("folder").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        assert_eq!(opened.make("folder").unwrap_err().kind(), io::ErrorKind::NotADirectory);
        for path in ["folder/secret", "../secret", "/etc/passwd", "", ".."] {
            assert!(opened.file_at(Path::new(path)).is_err(), "{path}");
            assert!(opened.file(path).is_err() && opened.sub(path).is_err(), "{path}");
        }
        assert!(ConfinedDir::open(&inside.join("folder")).is_err());
        assert!(opened.has("file").unwrap() && !opened.has("absent").unwrap());

        opened.write("file", b"mine").unwrap();
        drop(opened.replace("folder").unwrap());
        assert_eq!(opened.read("file", 100).unwrap(), b"mine");
        assert_eq!(fs::read_to_string(outer.path().join("secret")).unwrap(), "secret", "nothing went through a link");
        assert_eq!(fs::symlink_metadata(inside.join("file")).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(opened.names(10).unwrap().len(), 2, "no temporary file stays");
    }

    #[test]
    fn a_pipe_a_socket_and_a_folder_are_no_files_and_nothing_waits_for_them() {
        let (outer, opened) = folder();
        pipe(&outer.path().join("in/pipe"));
        let _listener = UnixListener::bind(outer.path().join("in/socket")).unwrap();
        opened.make("folder").unwrap();
        let (done, waiting) = mpsc::channel();
        std::thread::spawn(move || {
            let kinds = ["pipe", "socket", "folder"].map(|name| opened.read_first(name, 10).unwrap_err().kind());
            drop(opened.replace("pipe").unwrap());
            done.send((kinds, opened)).unwrap();
        });
        let (kinds, opened) = waiting.recv_timeout(Duration::from_secs(60)).expect("a pipe blocks");
        assert_eq!(kinds, [io::ErrorKind::InvalidInput; 3]);
        assert_eq!(opened.read("pipe", 10).unwrap(), b"");
        opened.connect("socket").unwrap();
        symlink(outer.path().join("in/socket"), outer.path().join("in/link")).unwrap();
        for name in ["link", "pipe", "folder", "absent"] {
            assert!(opened.connect(name).is_err(), "{name}");
        }
    }

    #[test]
    fn reads_are_bounded() {
        let (outer, opened) = folder();
        fs::write(outer.path().join("in/file"), "0123456789").unwrap();
        assert_eq!(opened.read("file", 10).unwrap(), b"0123456789");
        assert_eq!(opened.read("file", 9).unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(
            (opened.read_first("file", 3).unwrap(), opened.read_last("file", 3).unwrap()),
            (b"012".into(), b"789".into())
        );
        assert_eq!(opened.read_last("file", 99).unwrap(), b"0123456789");
        File::create(outer.path().join("in/sparse")).unwrap().set_len(1 << 40).unwrap();
        assert!(opened.read("sparse", 1000).is_err());
        assert_eq!(opened.read_first("sparse", 1000).unwrap().len(), 1000);
        assert_eq!(opened.read_last("sparse", 1000).unwrap().len(), 1000);
    }

    #[test]
    fn removing_takes_links_away_and_leaves_what_they_lead_to() {
        let (outer, opened) = folder();
        let inside = outer.path().join("in/tree");
        fs::create_dir_all(inside.join("a/b")).unwrap();
        fs::create_dir_all(inside.join("moved-1/x")).unwrap();
        fs::write(inside.join("moved-2"), "").unwrap();
        fs::create_dir(outer.path().join("kept")).unwrap();
        fs::write(outer.path().join("kept/file"), "").unwrap();
        for place in ["out", "a/out", "a/b/out", "moved-1/x/out"] {
            symlink(outer.path().join("kept"), inside.join(place)).unwrap();
        }
        pipe(&inside.join("a/b/pipe"));
        opened.remove("tree").unwrap();
        opened.remove("tree").unwrap();
        symlink(outer.path().join("kept"), outer.path().join("in/tree")).unwrap();
        opened.remove("tree").unwrap();
        assert!(outer.path().join("kept/file").exists());
        assert_eq!(opened.names(10).unwrap().len(), 0);
    }

    #[test]
    fn a_tree_deeper_than_descriptors_and_stack_go_is_removed() {
        let (outer, opened) = folder();
        let mut deepest = opened.make("tree").unwrap();
        // The tree is deeper than any path can be long.
        for _ in 0..20_000 {
            deepest = deepest.make("d").unwrap();
        }
        symlink(outer.path().join("secret"), outer.path().join("in/tree/link")).unwrap();
        deepest.write("file", b"x").unwrap();
        drop(deepest);
        opened.remove("tree").unwrap();
        assert_eq!(opened.names(10).unwrap().len(), 0);
        assert!(outer.path().join("secret").exists());
    }

    #[test]
    fn what_was_opened_stays_when_its_name_goes_elsewhere() {
        let (outer, opened) = folder();
        opened.write("file", b"mine").unwrap();
        let mut file = opened.file("file").unwrap();
        opened.remove("file").unwrap();
        symlink(outer.path().join("secret"), outer.path().join("in/file")).unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "mine");
    }
}
