//! A histogram of durations that can be sent as text. Its buckets are about 4 % wide.

use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug, Default, Clone)]
pub(crate) struct Histogram(BTreeMap<u64, u64>);

/// Number of buckets between a power of two and the next.
const STEPS: u64 = 16;

impl Histogram {
    pub(crate) fn add(&mut self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(STEPS);
        let octave = u64::from(nanos.ilog2());
        let step = (nanos >> (octave - STEPS.ilog2() as u64)) - STEPS;
        *self.0.entry(octave * STEPS + step).or_default() += 1;
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in &other.0 {
            *self.0.entry(*bucket).or_default() += count;
        }
    }

    pub(crate) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Returns the smallest duration that at least `share` of all do not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let wanted = (self.count() as f64 * share).ceil() as u64;
        let mut seen = 0;
        let bucket = self.0.iter().find(|(_, count)| {
            seen += *count;
            seen >= wanted
        });
        let bucket = *bucket.or_else(|| self.0.last_key_value()).map_or(&0, |(bucket, _)| bucket);
        let (octave, step) = (bucket / STEPS, bucket % STEPS);
        Duration::from_nanos((STEPS + step + 1) << octave.saturating_sub(u64::from(STEPS.ilog2())))
    }

    /// Returns the text that [`Histogram::parse`] reads.
    pub(crate) fn to_text(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|(bucket, count)| format!("{bucket}:{count}")).collect();
        pairs.join(",")
    }

    pub(crate) fn parse(text: &str) -> Self {
        let pair = |pair: &str| {
            let (bucket, count) = pair.split_once(':').unwrap();
            (bucket.parse().unwrap(), count.parse().unwrap())
        };
        Self(text.split(',').filter(|text| !text.is_empty()).map(pair).collect())
    }

    /// Returns the median, the 99th percentile and the maximum in milliseconds.
    pub(crate) fn summary(&self) -> String {
        let ms = |share| self.quantile(share).as_secs_f64() * 1e3;
        format!("p50 {:.3} ms, p99 {:.3} ms, max {:.1} ms", ms(0.5), ms(0.99), ms(1.0))
    }
}
