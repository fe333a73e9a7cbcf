//! Deserialization of lists, which environment variables can only hold as text.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::{DeserializeOwned, Error};
use serde::{Deserialize, Deserializer};

/// Deserializes a sequence, a single item, or text that holds a JSON array or comma-separated items.
pub(super) fn list<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: DeserializeOwned + FromStr<Err: Display>,
{
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum WrittenList<T> {
        Items(Vec<T>),
        Text(String),
        One(T),
    }
    match WrittenList::deserialize(deserializer)? {
        WrittenList::Items(items) => Ok(items),
        WrittenList::One(item) => Ok(vec![item]),
        WrittenList::Text(text) if text.trim_start().starts_with('[') => {
            serde_json::from_str(&text).map_err(D::Error::custom)
        }
        WrittenList::Text(text) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            items.map(|item| item.parse().map_err(|error| D::Error::custom(format!("'{item}': {error}")))).collect()
        }
    }
}
