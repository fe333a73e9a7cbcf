//! URLs of stores.

use std::fmt;
use std::path::{Path, PathBuf};

use branchyard_domain::values::ObjectKey;
use url::Url;

/// Longest prefix of keys, in bytes. It leaves most of the 1,024 bytes that stores accept to the keys.
const PREFIX_MAX: usize = 256;

/// The text is not the URL of a store.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not the URL of an object store: {reason}")]
pub struct StoreUrlError {
    text: String,
    reason: String,
}

/// The services whose object stores are supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    S3,
    Google,
    Azure,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Place {
    Folder(PathBuf),
    Bucket { service: Service, bucket: String, prefix: Option<ObjectKey> },
}

/// Where a store is: `file:///path`, `s3://bucket/prefix`, `gs://bucket/prefix` or `az://container/prefix`. The prefix may be
/// missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    place: Place,
    text: String,
}

impl StoreUrl {
    /// Parses a URL.
    ///
    /// # Errors
    /// [`StoreUrlError`].
    pub fn parse(text: &str) -> Result<Self, StoreUrlError> {
        let place = parse(text).map_err(|reason| {
            // A password must not get into a log.
            let shown = if text.contains('@') { "…" } else { text };
            StoreUrlError { text: shown.to_owned(), reason }
        })?;
        Ok(Self { place, text: text.to_owned() })
    }

    /// Returns the folder of a `file` URL. The nodes of a cluster can share it on one machine only.
    #[must_use]
    pub fn folder(&self) -> Option<&Path> {
        match &self.place {
            Place::Folder(path) => Some(path),
            Place::Bucket { .. } => None,
        }
    }

    pub(crate) fn bucket(&self) -> Option<(Service, &str, Option<&ObjectKey>)> {
        match &self.place {
            Place::Folder(_) => None,
            Place::Bucket { service, bucket, prefix } => Some((*service, bucket, prefix.as_ref())),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn parse(text: &str) -> Result<Place, String> {
    let url = Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() || url.port().is_some() {
        return Err("it has no user, password or port; set them as options of the store".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("it has no query and no fragment".to_owned());
    }
    let service = match url.scheme() {
        "file" => return folder(&url),
        "s3" => Service::S3,
        "gs" => Service::Google,
        "az" => Service::Azure,
        _ => return Err("it begins with file://, s3://, gs:// or az://".to_owned()),
    };
    let bucket = url.host_str().unwrap_or_default();
    let is_name = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    if bucket.is_empty() || !bucket.bytes().all(is_name) {
        return Err("the name of a bucket or container follows the scheme".to_owned());
    }
    let prefix = match url.path().trim_matches('/') {
        "" => None,
        path if path.len() > PREFIX_MAX => return Err(format!("the prefix has at most {PREFIX_MAX} bytes")),
        path => Some(ObjectKey::parse(path).map_err(|error| error.to_string())?),
    };
    Ok(Place::Bucket { service, bucket: bucket.to_owned(), prefix })
}

fn folder(url: &Url) -> Result<Place, String> {
    let path = url.to_file_path().map_err(|()| "it has three slashes and an absolute path: file:///path".to_owned())?;
    match path.parent() {
        Some(_) => Ok(Place::Folder(path)),
        None => Err("the root of the file system is no folder for a store".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::{Service, StoreUrl};

    #[test]
    fn the_scheme_decides_what_follows() {
        let folder = StoreUrl::parse("file:///srv/yard%20store/").unwrap();
        assert_eq!(folder.folder().unwrap().to_str().unwrap().trim_end_matches('/'), "/srv/yard store");
        for (text, service, bucket, prefix) in [
            ("s3://yard", Service::S3, "yard", None),
            ("s3://yard/", Service::S3, "yard", None),
            ("gs://yard.example/a/b/", Service::Google, "yard.example", Some("a/b")),
            ("az://container/a", Service::Azure, "container", Some("a")),
        ] {
            let url = StoreUrl::parse(text).unwrap();
            let (found_service, found_bucket, found_prefix) = url.bucket().unwrap();
            assert_eq!((found_service, found_bucket), (service, bucket));
            assert_eq!(found_prefix.map(|prefix| prefix.as_str()), prefix);
            assert!(url.folder().is_none() && url.to_string() == text);
        }
    }

    #[test]
    fn other_urls_are_refused_without_their_password() {
        let long = format!("s3://yard/{}", "a/".repeat(200));
        for text in [
            "",
            "/srv",
            "srv",
            "file://",
            "file:///",
            "file://host/path",
            "s3://",
            "s3:///a",
            "s3:yard",
            "http://yard/a",
            "s3://yard:9000/a",
            "s3://yard/a?b=c",
            "s3://yard/a#b",
            "s3://yard/a%20b",
            "s3://yard/.a",
            &long,
        ] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(error.starts_with(&format!("`{text}` is not the URL of an object store: ")), "{error}");
        }
        let error = StoreUrl::parse("s3://key:hush@yard/a").unwrap_err().to_string();
        assert!(!error.contains("hush"), "{error}");
    }
}
