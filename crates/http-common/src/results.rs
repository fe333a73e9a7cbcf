//! A cache for results of SQL reads. A result never changes: its key covers the statement, the commit and the limits.
//!
//! The key is the entity tag, which only this server can create. Access to the database is checked before each lookup, not here.

use quick_cache::Weighter;
use quick_cache::sync::Cache;

use crate::api_response::ApiResponse;

/// Maximum bytes of a cached result.
const LARGEST: usize = 256 << 10;

/// Approximate overhead of an entry in bytes.
const ENTRY_BYTES: u64 = 256;

/// A cache of results, bounded by their total size.
pub struct Results(Option<Cache<String, ApiResponse, ResultWeight>>);

#[derive(Clone)]
struct ResultWeight;

impl Weighter<String, ApiResponse> for ResultWeight {
    fn weight(&self, etag: &String, answer: &ApiResponse) -> u64 {
        (etag.len() + answer.weight()) as u64 + ENTRY_BYTES
    }
}

impl Results {
    /// Creates a cache of at most `bytes` bytes; 0 disables it.
    pub fn new(bytes: u64) -> Self {
        let about = usize::try_from(bytes / 1_024).unwrap_or(usize::MAX);
        Self((bytes > 0).then(|| Cache::with_weighter(about, bytes, ResultWeight)))
    }

    /// Returns the result with this entity tag.
    pub fn get(&self, etag: &str) -> Option<ApiResponse> {
        self.0.as_ref()?.get(etag)
    }

    /// Caches a result under its entity tag, unless the result is too large.
    pub fn keep(&self, etag: &str, answer: &ApiResponse) {
        if let Some(cache) = &self.0
            && answer.weight() <= LARGEST
        {
            cache.insert(etag.to_owned(), answer.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LARGEST, Results};
    use crate::api_response::ApiResponse;

    fn answer(bytes: usize) -> ApiResponse {
        ApiResponse::with_body(200, "x".repeat(bytes))
    }

    #[test]
    fn a_result_is_found_by_its_tag_alone() {
        let results = Results::new(1 << 20);
        results.keep("a", &answer(3));
        assert_eq!(results.get("a"), Some(answer(3)));
        assert_eq!(results.get("b"), None);
    }

    #[test]
    fn what_is_too_large_is_not_kept_and_nothing_is_where_there_is_no_room() {
        let results = Results::new(64 << 20);
        results.keep("at", &answer(LARGEST));
        results.keep("past", &answer(LARGEST + 1));
        assert!(results.get("at").is_some() && results.get("past").is_none());
        let none = Results::new(0);
        none.keep("a", &answer(3));
        assert_eq!(none.get("a"), None);
    }

    #[test]
    fn all_together_take_no_more_than_was_said() {
        let results = Results::new(4 << 20);
        for number in 0..1_000 {
            results.keep(&number.to_string(), &answer(16 << 10));
        }
        let kept = (0..1_000).filter(|number| results.get(&number.to_string()).is_some()).count();
        assert!((1..=256).contains(&kept), "{kept} are kept");
    }
}
