//! Files of a backup, encrypted with age (<https://age-encryption.org/v1>) or plain.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::str::FromStr as _;

use age::x25519::{Identity, Recipient};
use age::{DecryptError, Decryptor, Encryptor};
use anyhow::{Context as _, anyhow, bail, ensure};

/// What the names of encrypted files end in.
pub(crate) const SUFFIX: &str = ".age";
/// Maximum bytes of an identity file.
const IDENTITY_BYTES_MAX: u64 = 1 << 20;

/// The recipients that a backup is encrypted to; plain without any.
pub(crate) struct Recipients(Vec<Recipient>);

impl Recipients {
    /// Parses recipients, `age1…` each.
    ///
    /// # Errors
    /// Fails if a text is not a recipient. A secret key, given by mistake, is not shown.
    pub(crate) fn parse(texts: &[String]) -> anyhow::Result<Self> {
        let parse = |(text, number): (&String, usize)| {
            Recipient::from_str(text).map_err(|_| {
                anyhow!(
                    "--encrypt-to number {number} is not an age recipient: it begins with age1, and `age-keygen -y FILE` prints it"
                )
            })
        };
        Ok(Self(texts.iter().zip(1..).map(parse).collect::<Result<_, _>>()?))
    }

    /// Returns `true` if the backup is encrypted.
    pub(crate) fn encrypt(&self) -> bool {
        !self.0.is_empty()
    }

    /// Returns the path that a file has in the backup.
    pub(crate) fn path(&self, plain: &str) -> String {
        if self.encrypt() { format!("{plain}{SUFFIX}") } else { plain.to_owned() }
    }

    /// Creates a file that `write` fills, encrypted on its way, and makes it durable. Its folder is created too.
    ///
    /// # Errors
    /// Fails if `write` does, or if the file exists or cannot be written.
    pub(crate) fn create<E: From<io::Error>>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<(), E> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = BufWriter::with_capacity(1 << 18, File::create_new(path)?);
        if self.encrypt() {
            let recipients = self.0.iter().map(|recipient| recipient as &dyn age::Recipient);
            let encryptor = Encryptor::with_recipients(recipients).map_err(io::Error::other)?;
            let mut encrypted = encryptor.wrap_output(&mut file)?;
            write(&mut encrypted)?;
            encrypted.finish()?;
        } else {
            write(&mut file)?;
        }
        let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
        Ok(file.sync_all()?)
    }
}

/// The identities that a backup is decrypted with.
pub(crate) struct Identities(Vec<Identity>);

impl Identities {
    /// Reads an identity file as `age-keygen` writes it: one `AGE-SECRET-KEY-1…` a line, and comments that begin with `#`.
    ///
    /// # Errors
    /// Fails if the file cannot be read or holds anything else. Its lines are not shown.
    pub(crate) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut text = String::new();
        let read = File::open(path).and_then(|file| file.take(IDENTITY_BYTES_MAX).read_to_string(&mut text));
        read.with_context(|| format!("cannot read the identity file {}", path.display()))?;
        let mut identities = Vec::new();
        for (line, number) in text.lines().map(str::trim).zip(1..) {
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            identities.push(Identity::from_str(line).map_err(|_| {
                anyhow!(
                    "{} line {number} is not an age identity: it begins with AGE-SECRET-KEY-1, and `age-keygen` writes one",
                    path.display()
                )
            })?);
        }
        ensure!(!identities.is_empty(), "{} holds no age identity", path.display());
        Ok(Self(identities))
    }

    /// Opens a file of a backup and decrypts it if its name says that it is encrypted.
    ///
    /// # Errors
    /// Fails if the file cannot be opened, or is encrypted and none of the identities opens it.
    pub(crate) fn open(identities: Option<&Self>, path: &Path) -> anyhow::Result<Box<dyn BufRead>> {
        let file = BufReader::with_capacity(1 << 18, File::open(path)?);
        if path.extension().is_none_or(|extension| extension != &SUFFIX[1..]) {
            return Ok(Box::new(file));
        }
        let Some(Self(identities)) = identities else {
            bail!(
                "the backup is encrypted; name the file with the secret key of one of its recipients with `--identity FILE`"
            );
        };
        let opened = Decryptor::new_buffered(file)
            .and_then(|decryptor| decryptor.decrypt(identities.iter().map(|identity| identity as &dyn age::Identity)));
        match opened {
            Ok(plain) => Ok(Box::new(BufReader::with_capacity(1 << 18, plain))),
            Err(DecryptError::NoMatchingKeys) => {
                bail!("the backup is encrypted to other recipients than the identities in the file of --identity")
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_recipient_or_identity_is_refused_and_not_shown() {
        let secret = age::secrecy::ExposeSecret::expose_secret(&Identity::generate().to_string()).to_owned();
        let public = Identity::generate().to_public().to_string();
        let error = Recipients::parse(&[public.clone(), secret.clone()]).err().unwrap().to_string();
        assert!(error.contains("number 2 is not an age recipient") && !error.contains(&secret), "{error}");

        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        let read = |text: &str| {
            fs::write(&path, text).unwrap();
            Identities::read(&path).map(|identities| identities.0.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!("# created\n\n{secret}\n")), Ok(1));
        assert!(read("# none\n").unwrap_err().contains("holds no age identity"));
        let wrong = read(&format!("{secret}\n{secret}x\n")).unwrap_err();
        assert!(wrong.contains("line 2 is not an age identity") && !wrong.contains(&secret), "{wrong}");
        assert!(read(&public).unwrap_err().contains("line 1"));
    }

    #[test]
    fn each_recipient_opens_a_file_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let keys = [Identity::generate(), Identity::generate(), Identity::generate()];
        let texts = [&keys[0], &keys[1]].map(|key| key.to_public().to_string());
        let to = Recipients::parse(&texts).unwrap();
        let path = dir.path().join("folder").join(to.path("a"));
        assert!(path.ends_with("folder/a.age"));
        let text = b"planted ".repeat(100_000);
        to.create(&path, |out| out.write_all(&text)).unwrap();
        assert!(!fs::read(&path).unwrap().windows(8).any(|window| window == b"planted "));
        let open = |key: &Identity| {
            let mut found = Vec::new();
            Identities::open(Some(&Identities(vec![key.clone()])), &path)?.read_to_end(&mut found)?;
            anyhow::Ok(found)
        };
        assert!(keys[..2].iter().all(|key| open(key).unwrap() == text));
        assert!(open(&keys[2]).unwrap_err().to_string().contains("encrypted to other recipients"));
        assert!(Identities::open(None, &path).err().unwrap().to_string().contains("--identity FILE"));

        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        assert!(open(&keys[0]).is_err(), "cut off");
    }
}
