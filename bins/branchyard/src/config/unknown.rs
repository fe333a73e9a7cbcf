//! Rejection of unknown keys, with a suggestion for the intended key.

use std::collections::BTreeSet;

use anyhow::bail;
use figment::Figment;
use figment::value::{Dict, Value};
use strsim::levenshtein;

/// Keys without a default value. The serialized defaults do not contain them.
const WITHOUT_DEFAULT: &[&str] = &[
    "public_url",
    "errors_url",
    "metadata_url",
    "metadata_url_file",
    "store_url",
    "store.endpoint",
    "store.region",
    "store.access_key_id",
    "store.secret_access_key",
    "store.secret_access_key_file",
    "store.extra_ca_file",
    "store.encryption_key_file",
    "store.encryption_previous_key_file",
    "limits.keep_deleted",
    "server_key_file",
    "node_id",
    "cluster.advertise",
    "hooks.extra_ca_file",
    "remotes.extra_ca_file",
    "hosted_public_url",
    "hosted.advertise_host",
    "hosted.url_template",
    "metrics.listen",
    "otlp.endpoint",
    "tls.cert",
    "tls.key",
    "v1alpha1.sunset_at",
    "v1alpha1.deprecation_url",
];

/// Prefixes of sections whose keys are user-defined names.
const OF_NAMES: &[&str] = &["hosted.spending.owners."];

/// Keys whose values are not shown, even if the environment has one that reads as a table.
const SECRET: &[&str] = &["store.secret_access_key"];

/// Fails if a key is not known. The error names the key, its source, and the most similar known key.
pub(super) fn refuse(defaults: &Figment, settings: &Figment) -> anyhow::Result<()> {
    let known = known(defaults)?;
    let Some(key) = keys(settings)?
        .into_iter()
        .find(|key| !known.contains(key) && !OF_NAMES.iter().any(|section| key.starts_with(section)))
    else {
        return Ok(());
    };
    let place = settings.find_metadata(&key).map_or_else(String::new, |metadata| {
        let source = metadata.source.as_ref().map_or_else(|| metadata.name.to_string(), ToString::to_string);
        format!(" in {source}")
    });
    match nearest(&key, &known) {
        Some(meant) => bail!("configuration: unknown key {key}{place}; did you mean {meant}?"),
        None => bail!("configuration: unknown key {key}{place}; docs/configuration.md lists every key"),
    }
}

/// Returns all keys, apart from those of [`OF_NAMES`].
pub(super) fn known(defaults: &Figment) -> anyhow::Result<BTreeSet<String>> {
    let mut known = keys(defaults)?;
    known.extend(WITHOUT_DEFAULT.iter().map(|key| (*key).to_owned()));
    Ok(known)
}

fn keys(figment: &Figment) -> anyhow::Result<BTreeSet<String>> {
    fn collect(dict: &Dict, prefix: &str, found: &mut BTreeSet<String>) {
        for (name, value) in dict {
            let key = if prefix.is_empty() { name.clone() } else { format!("{prefix}.{name}") };
            match value {
                Value::Dict(_, inner) if !inner.is_empty() && !SECRET.contains(&key.as_str()) => {
                    collect(inner, &key, found)
                }
                Value::Empty(..) => {}
                _ => drop(found.insert(key)),
            }
        }
    }
    let mut found = BTreeSet::new();
    collect(&figment.extract::<Dict>()?, "", &mut found);
    Ok(found)
}

/// Maximum edit distance at which a key is suggested.
const EDITS: usize = 4;

/// Returns the known key with the smallest edit distance of at most [`EDITS`], or else a key with the same last segment.
fn nearest<'a>(key: &str, known: &'a BTreeSet<String>) -> Option<&'a str> {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let same_name = known.iter().find(|other| last(other) == last(key));
    // The edit distance is at least the difference in length. Skipping the other keys keeps very long keys from being expensive.
    let letters = key.chars().count();
    let near = known
        .iter()
        .filter(|other| other.chars().count().abs_diff(letters) <= EDITS)
        .map(|other| (levenshtein(key, other), other))
        .min()
        .filter(|(edits, _)| *edits <= EDITS);
    near.map(|(_, other)| other).or(same_name).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Instant;

    use super::nearest;

    #[test]
    fn the_nearest_key_within_a_few_edits_is_suggested() {
        let known = BTreeSet::from(["sql.row_cap".to_owned(), "sql.rows".to_owned(), "web.listen".to_owned()]);
        for (key, meant) in [("sql.row_kap", Some("sql.row_cap")), ("listen", Some("web.listen")), ("abc", None)] {
            assert_eq!(nearest(key, &known), meant, "{key}");
        }
    }

    #[test]
    fn a_very_long_key_is_refused_as_fast_as_others() {
        let known = BTreeSet::from(["public_url".to_owned(), "sql.row_cap".to_owned()]);
        assert_eq!(nearest("sql.row_kap", &known), Some("sql.row_cap"));
        let begun = Instant::now();
        assert_eq!(nearest(&"public_url".repeat(300_000), &known), None);
        assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
    }
}
