//! Counters of a process, and the samples and Prometheus metrics made from them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode_registry;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::resource_usage::ResourceUsage;

/// Number of histogram buckets. The upper bounds grow by a quarter from 10 µs on, so a quantile is off by at most a
/// quarter.
const BUCKETS: usize = 80;
const FIRST_MICROS: f64 = 10.0;
const GROWTH: f64 = 1.25;

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) connections: AtomicI64,
    /// Bytes in use on the volume.
    pub(crate) disk_used: AtomicU64,
    last: Mutex<LastSample>,
    latency: Mutex<Histogram>,
}

/// Totals at the time of the last sample.
#[derive(Default)]
struct LastSample {
    at: Option<Instant>,
    totals: BTreeMap<&'static str, f64>,
}

struct Histogram {
    since_sample: [u64; BUCKETS],
    all: [u64; BUCKETS],
    seconds: f64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { since_sample: [0; BUCKETS], all: [0; BUCKETS], seconds: 0.0 }
    }
}

fn bucket_of(took: Duration) -> usize {
    let mut bound = FIRST_MICROS;
    let micros = took.as_secs_f64() * 1e6;
    let mut at = 0;
    while micros > bound && at + 1 < BUCKETS {
        bound *= GROWTH;
        at += 1;
    }
    at
}

/// Returns the upper bound of a bucket in milliseconds.
fn bound_millis(at: usize) -> f64 {
    (0..at).fold(FIRST_MICROS, |bound, _| bound * GROWTH) / 1000.0
}

/// Returns the upper bound of a bucket in seconds, in whole microseconds.
fn bound_seconds(at: usize) -> f64 {
    (bound_millis(at) * 1e3).round() / 1e6
}

fn count(n: u64) -> f64 {
    // Counts stay far below 2^53.
    n as f64
}

impl Histogram {
    fn quantile(&self, share: f64) -> Option<f64> {
        let all: u64 = self.since_sample.iter().sum();
        if all == 0 {
            return None;
        }
        let mut seen = 0;
        for (at, n) in self.since_sample.iter().enumerate() {
            seen += n;
            if count(seen) >= share * count(all) {
                return Some(bound_millis(at));
            }
        }
        None
    }
}

impl Counters {
    /// Records the duration of a statement.
    pub(crate) fn took(&self, took: Duration) {
        let mut latency = self.latency.lock();
        let at = bucket_of(took);
        latency.since_sample[at] += 1;
        latency.all[at] += 1;
        latency.seconds += took.as_secs_f64();
    }

    /// Returns a sample by the names of [`branchyard_deployments::ports::Series`]. Counts cover the time since the
    /// previous sample.
    pub(crate) fn sample(
        &self,
        process: &ResourceUsage,
        streams: usize,
        cpus: u32,
        memory: u64,
        volume: u64,
    ) -> BTreeMap<String, f64> {
        let mut sample = BTreeMap::new();
        let mut set = |name: &str, value: f64| {
            sample.insert(name.to_owned(), value);
        };
        set("Streams", count(u64::try_from(streams).unwrap_or(0)));
        set("Sockets", count(u64::try_from(self.connections.load(Ordering::Relaxed)).unwrap_or(0)));
        set("MemoryLimit", count(memory));
        set("DiskUsed", count(self.disk_used.load(Ordering::Relaxed)));
        set("DiskLimit", count(volume));
        {
            let mut latency = self.latency.lock();
            for (name, share) in [("P50", 0.5), ("P95", 0.95), ("P99", 0.99)] {
                if let Some(millis) = latency.quantile(share) {
                    set(name, millis);
                }
            }
            latency.since_sample = [0; BUCKETS];
        }
        if let Some(resident) = process.resident_bytes {
            set("Resident", count(resident));
        }
        let now = Instant::now();
        let mut last = self.last.lock();
        let elapsed = last.at.map(|at| now.saturating_duration_since(at).as_secs_f64());
        last.at = Some(now);
        let totals = [
            ("Reads", Some(count(self.reads.load(Ordering::Relaxed)))),
            ("Writes", Some(count(self.writes.load(Ordering::Relaxed)))),
            ("Errors", Some(count(self.errors.load(Ordering::Relaxed)))),
            ("Received", Some(count(self.received.load(Ordering::Relaxed)))),
            ("Sent", Some(count(self.sent.load(Ordering::Relaxed)))),
            ("DiskRead", process.read_bytes.map(count)),
            ("DiskWritten", process.written_bytes.map(count)),
        ];
        for (name, total) in totals {
            let Some(total) = total else { continue };
            let before = last.totals.insert(name, total).unwrap_or(0.0);
            set(name, total - before);
        }
        if let Some(seconds) = process.cpu_seconds {
            let before = last.totals.insert("CpuUsed", seconds);
            if let (Some(before), Some(elapsed)) = (before, elapsed.filter(|elapsed| *elapsed > 0.0)) {
                set("CpuUsed", (seconds - before) / elapsed / f64::from(cpus.max(1)) * 100.0);
            }
        }
        sample
    }

    /// Returns the metrics in the Prometheus text format, version 0.0.4.
    pub(crate) fn prometheus(&self, streams: usize) -> String {
        let mut registry = Registry::default();
        registry.register_collector(Box::new(self.exposed(streams)));
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = encode_registry(&mut text, &registry);
        text
    }

    fn exposed(&self, streams: usize) -> ExposedMetrics {
        let total = |counter: &AtomicU64| i64::try_from(counter.load(Ordering::Relaxed)).unwrap_or(i64::MAX);
        let (counter, gauge) = (MetricType::Counter, MetricType::Gauge);
        let streams = i64::try_from(streams).unwrap_or(i64::MAX);
        let connections = self.connections.load(Ordering::Relaxed).max(0);
        let values = vec![
            ("branchyard_reads_total", counter, "Statements that read.", total(&self.reads)),
            ("branchyard_writes_total", counter, "Statements that wrote.", total(&self.writes)),
            ("branchyard_errors_total", counter, "Statements that failed.", total(&self.errors)),
            ("branchyard_received_bytes_total", counter, "Bytes of requests.", total(&self.received)),
            ("branchyard_sent_bytes_total", counter, "Bytes of answers.", total(&self.sent)),
            ("branchyard_streams", gauge, "Open streams.", streams),
            ("branchyard_connections", gauge, "Open connections.", connections),
            ("branchyard_disk_used_bytes", gauge, "Bytes on the volume.", total(&self.disk_used)),
        ];
        let latency = self.latency.lock();
        let filled = latency.all.iter().enumerate().filter(|(_, n)| **n > 0);
        let buckets = filled.map(|(at, n)| (bound_seconds(at), *n)).chain([(f64::INFINITY, 0)]).collect();
        ExposedMetrics { values, buckets, seconds: latency.seconds }
    }
}

/// The values of one scrape.
#[derive(Debug)]
struct ExposedMetrics {
    /// Name, type, help and value.
    values: Vec<(&'static str, MetricType, &'static str, i64)>,
    /// Upper bounds in seconds and counts of the histogram of statements.
    buckets: Vec<(f64, u64)>,
    seconds: f64,
}

impl Collector for ExposedMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        for (name, kind, help, value) in &self.values {
            // In this version of the format a counter is declared by the name of its sample. `encode_counter` would append a suffix
            // to the declared name, as OpenMetrics does.
            encoder.encode_descriptor(name, help, None, *kind)?.encode_gauge(value)?;
        }
        let (name, help) = ("branchyard_statement_seconds", "Time of statements.");
        let count = self.buckets.iter().map(|(_, n)| n).sum();
        let mut histogram = encoder.encode_descriptor(name, help, None, MetricType::Histogram)?;
        histogram.encode_histogram::<NoLabelSet>(self.seconds, count, &self.buckets, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_near_and_counts_are_those_since_the_last_sample() {
        let counters = Counters::default();
        for millis in 1..=100 {
            counters.took(Duration::from_millis(millis));
        }
        counters.reads.fetch_add(7, Ordering::Relaxed);
        let sample = counters.sample(&ResourceUsage::default(), 3, 1, 10, 20);
        for (name, expected) in [("P50", 50.0), ("P95", 95.0), ("P99", 99.0)] {
            let got = sample[name];
            assert!(got >= expected && got <= expected * GROWTH * 1.01, "{name} {got}");
        }
        assert_eq!((sample["Reads"], sample["Streams"], sample["DiskLimit"]), (7.0, 3.0, 20.0));
        let again = counters.sample(&ResourceUsage::default(), 0, 1, 10, 20);
        assert_eq!(again["Reads"], 0.0);
        assert!(!again.contains_key("P50"));
    }

    #[test]
    fn metrics_are_exposed_in_the_text_format() {
        let counters = Counters::default();
        counters.reads.fetch_add(7, Ordering::Relaxed);
        for micros in [9, 10, 11, 500_000, u64::MAX] {
            counters.took(Duration::from_micros(micros));
        }
        let text = counters.prometheus(2);
        let about = |name: &str| text.lines().filter(|line| line.contains(name)).collect::<Vec<_>>();
        assert_eq!(
            about("branchyard_reads"),
            [
                "# HELP branchyard_reads_total Statements that read.",
                "# TYPE branchyard_reads_total counter",
                "branchyard_reads_total 7",
            ]
        );
        assert_eq!(about("branchyard_streams ").last(), Some(&"branchyard_streams 2"));
        assert_eq!(
            about("branchyard_statement_seconds_"),
            [
                "branchyard_statement_seconds_sum 18446744073710.05",
                "branchyard_statement_seconds_count 5",
                r#"branchyard_statement_seconds_bucket{le="0.00001"} 2"#,
                r#"branchyard_statement_seconds_bucket{le="0.000013"} 3"#,
                r#"branchyard_statement_seconds_bucket{le="0.560519"} 4"#,
                r#"branchyard_statement_seconds_bucket{le="452.783954"} 5"#,
                r#"branchyard_statement_seconds_bucket{le="+Inf"} 5"#,
            ]
        );
        assert!(text.lines().filter(|line| line.starts_with('#')).count() == 18 && text.ends_with('\n'), "{text}");
    }
}
