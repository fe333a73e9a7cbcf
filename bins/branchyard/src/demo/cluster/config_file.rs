//! Writes a configuration as a file, so that a person can start a node of the demo by hand.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::Context as _;
use serde_json::{Map, Value};

use crate::config::Config;

/// Writes the settings of a configuration that differ from the defaults.
///
/// # Errors
/// Fails if the file cannot be written.
pub(super) fn write(config: &Config, path: &Path) -> anyhow::Result<()> {
    let text = to_toml(config)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}

fn to_toml(config: &Config) -> anyhow::Result<String> {
    let (Value::Object(set), Value::Object(defaults)) =
        (serde_json::to_value(config)?, serde_json::to_value(Config::default())?)
    else {
        anyhow::bail!("a configuration is no table");
    };
    let mut text = String::new();
    write_table(&changed(set, &defaults), &mut Vec::new(), &mut text)?;
    Ok(text)
}

/// Returns what differs from the defaults. A setting without a value is left out.
fn changed(set: Map<String, Value>, defaults: &Map<String, Value>) -> Map<String, Value> {
    let is_changed = |(key, value): (String, Value)| match (value, defaults.get(&key)) {
        (Value::Null, _) => None,
        (Value::Object(table), Some(Value::Object(defaults))) => {
            let table = changed(table, defaults);
            (!table.is_empty()).then_some((key, Value::Object(table)))
        }
        (value, default) => (Some(&value) != default).then_some((key, value)),
    };
    set.into_iter().filter_map(is_changed).collect()
}

/// Writes a table as TOML: its values, and then the tables in it. Strings and arrays of JSON are TOML too.
fn write_table<'a>(table: &'a Map<String, Value>, path: &mut Vec<&'a str>, text: &mut String) -> std::fmt::Result {
    let is_table = |value: &Value| value.is_object();
    for (key, value) in table.iter().filter(|(_, value)| !is_table(value)) {
        writeln!(text, "{key} = {value}")?;
    }
    for (key, value) in table {
        let Value::Object(inner) = value else { continue };
        path.push(key);
        writeln!(text, "\n[{}]", path.join("."))?;
        write_table(inner, path, text)?;
        path.pop();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::ServerLocation;

    #[test]
    fn a_written_configuration_is_read_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let mut config = Config {
            data_dir: dir.path().join("a \"quoted\" folder"),
            node_id: Some("node-1".to_owned()),
            listen: "127.0.0.1:8081".to_owned(),
            ..Config::default()
        };
        config.log.access = 0.0;
        config.hooks.allowed_cidrs = vec!["127.0.0.0/8".to_owned(), "::1/128".to_owned()];
        let path = dir.path().join("node.toml");
        write(&config, &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.lines().count() < 12, "only what differs: {text}");
        let place = ServerLocation { config: Some(path), ..ServerLocation::default() };
        assert_eq!(Config::load(&place).unwrap(), config);
    }
}
