//! What keeps secrets from other users of the machine: file modes, and command lines.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

/// The flag whose value may hold a password.
const FLAG: &str = "--metadata-url";
/// The variable that has the same meaning.
pub(crate) const VARIABLE: &str = "BRANCHYARD_METADATA_URL";
/// How many files [`readable_by_others`] names.
const NAMED: usize = 20;

/// Makes all files and folders that this process creates from now on private to its user.
pub fn create_private_files() {
    #[cfg(unix)]
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
}

/// Starts this program anew with the metadata URL in its environment if its command line holds one with a password: every
/// user of the machine can read command lines, but only the same user and root can read an environment.
///
/// # Errors
/// Fails if the program cannot be started anew. Otherwise it returns only if there is no password.
pub fn hide_password() -> anyhow::Result<()> {
    let Some((arguments, url)) = without_password(std::env::args_os().skip(1)) else { return Ok(()) };
    restart(&arguments, &url).context("cannot hide the password of --metadata-url: use metadata_url_file instead")
}

#[cfg(unix)]
fn restart(arguments: &[OsString], url: &OsStr) -> io::Result<()> {
    use std::os::unix::process::CommandExt as _;
    let mut command = std::process::Command::new(std::env::current_exe()?);
    if let Some(name) = std::env::args_os().next() {
        command.arg0(name);
    }
    Err(command.args(arguments).env(VARIABLE, url).exec())
}

#[cfg(not(unix))]
fn restart(_: &[OsString], _: &OsStr) -> io::Result<()> {
    // The program goes on: elsewhere, command lines are not readable by other users.
    Ok(())
}

/// Removes the last metadata URL from `arguments` if one has a password. Returns `None` otherwise.
fn without_password(arguments: impl Iterator<Item = OsString>) -> Option<(Vec<OsString>, OsString)> {
    let (mut kept, mut url) = (Vec::new(), None);
    let mut arguments = arguments;
    while let Some(argument) = arguments.next() {
        if argument == FLAG {
            url = Some(arguments.next()?);
        } else if let Some(value) = argument.to_str().and_then(|text| text.strip_prefix(FLAG)?.strip_prefix('=')) {
            url = Some(value.into());
        } else {
            kept.push(argument);
        }
    }
    url.filter(|url| has_password(&url.to_string_lossy())).map(|url| (kept, url))
}

/// Returns `true` if the URL has a password, in its authority or its query.
fn has_password(url: &str) -> bool {
    let Some((_, rest)) = url.split_once("://") else { return false };
    let (authority, query) = rest.split_once('?').unwrap_or((rest, ""));
    let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
    user.contains(':') || query.split('&').any(|pair| pair.starts_with("password="))
}

/// Returns the files and folders at and below `folder` that other users of the machine can read or change, by their path
/// below it, at most 20, and the number of all. What lies in a folder that others cannot enter is not theirs to read.
///
/// # Errors
/// Fails if a folder cannot be read.
pub fn readable_by_others(folder: &Path) -> io::Result<(Vec<PathBuf>, usize)> {
    let (mut found, mut count) = (Vec::new(), 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(at) = folders.pop() {
        let Some(metadata) = unless_gone(fs::symlink_metadata(&at))? else { continue };
        if !is_open_to_others(&metadata) {
            continue;
        }
        if metadata.is_dir() {
            for entry in unless_gone(fs::read_dir(&at))?.into_iter().flatten() {
                folders.push(entry?.path());
            }
        }
        count += 1;
        if found.len() < NAMED {
            found.push(at);
        }
    }
    Ok((found, count))
}

/// Returns `None` if the file is not there: files come and go while a server runs.
fn unless_gone<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        outcome => outcome.map(Some),
    }
}

#[cfg(unix)]
fn is_open_to_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    // The mode of a symbolic link means nothing.
    !metadata.is_symlink() && metadata.permissions().mode() & 0o077 != 0
}

#[cfg(not(unix))]
fn is_open_to_others(_: &fs::Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn a_url_with_a_password_leaves_the_command_line() {
        for url in ["postgres://ada:secret@db/yard", "postgresql://db/yard?user=ada&password=secret"] {
            let expected = Some((words("serve --no-migrate --listen 127.0.0.1:0"), OsString::from(url)));
            for given in [
                format!("serve --no-migrate --metadata-url {url} --listen 127.0.0.1:0"),
                format!("serve --metadata-url={url} --no-migrate --listen 127.0.0.1:0"),
                format!("serve --metadata-url=first --no-migrate --listen 127.0.0.1:0 --metadata-url {url}"),
            ] {
                assert_eq!(without_password(words(&given).into_iter()), expected, "{given}");
            }
        }
    }

    #[test]
    fn a_command_line_without_a_password_stays() {
        for given in [
            "serve",
            "serve --metadata-url",
            "serve --metadata-url /data/ada:1@x.sqlite",
            "serve --metadata-url=postgres://ada@db:5432/yard?sslmode=require",
            "serve --metadata-url postgres://db:5432/yard",
        ] {
            assert_eq!(without_password(words(given).into_iter()), None, "{given}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_others_can_read_is_found_unless_a_folder_hides_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let root = tempfile::tempdir().unwrap();
        let set = |path: &str, mode: u32| {
            fs::set_permissions(root.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        };
        fs::create_dir(root.path().join("open")).unwrap();
        fs::create_dir(root.path().join("closed")).unwrap();
        for (file, mode) in [("key", 0o644), ("own", 0o600), ("open/file", 0o660), ("closed/file", 0o644)] {
            fs::write(root.path().join(file), "x").unwrap();
            set(file, mode);
        }
        set("open", 0o755);
        set("closed", 0o700);
        set("", 0o700);
        assert_eq!(readable_by_others(root.path()).unwrap(), (Vec::new(), 0));
        set("", 0o750);
        let (mut found, count) = readable_by_others(root.path()).unwrap();
        found.sort();
        let expected = ["", "key", "open", "open/file"].map(|path| root.path().join(path));
        assert_eq!((found, count), (expected.to_vec(), 4));
    }
}
