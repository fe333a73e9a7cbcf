//! Metrics of a node whose databases are in a store of objects.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::{Registry, Unit};

use super::Labels;
use super::sampled::{SampledGauge, float, whole};
use crate::durable_home::DurableHome;
use crate::node_figures::ClusterFigures;

/// The metrics. Without a store, the gauges are NaN and the counters 0.
#[derive(Default)]
pub(super) struct NodeMetrics {
    lease: SampledGauge,
    read_only: SampledGauge,
    drained: SampledGauge,
    led: SampledGauge,
    copies: SampledGauge,
    copy_bytes: SampledGauge,
    cache_limit_bytes: SampledGauge,
    copies_behind: SampledGauge,
    bytes_behind: SampledGauge,
    nodes: Family<Labels<1>, SampledGauge>,
    segments: SampledGauge,
    segment_bytes: SampledGauge,
    most_segments: SampledGauge,
    doomed: SampledGauge,
    doomed_due: SampledGauge,
    since_collection: SampledGauge,
    puts: Counter,
    put_bytes: Counter,
    gets: Counter,
    get_bytes: Counter,
}

impl NodeMetrics {
    pub(super) fn register(ours: &mut Registry) -> Self {
        let made = Self::default();
        ours.register("node_lease_held", "1 while the lease of this node holds, otherwise 0", made.lease.clone());
        let read_only = "1 once the metadata were found to be older than the store of databases, otherwise 0";
        ours.register("node_read_only", read_only, made.read_only.clone());
        ours.register("node_drained", "1 while this node is drained, otherwise 0", made.drained.clone());
        ours.register("node_databases_led", "Databases that this node writes", made.led.clone());
        ours.register("node_copies", "Databases of which this node has a copy", made.copies.clone());
        ours.register_with_unit("node_copies", "Those copies", Unit::Bytes, made.copy_bytes.clone());
        let (name, help) = ("node_cache_limit", "Most bytes of those copies; 0 means no limit");
        ours.register_with_unit(name, help, Unit::Bytes, made.cache_limit_bytes.clone());
        let (name, help) = ("node_copies_behind", "Copies that lack what other nodes have written");
        ours.register(name, help, made.copies_behind.clone());
        ours.register_with_unit(name, "What they lack", Unit::Bytes, made.bytes_behind.clone());
        ours.register("cluster_nodes", "Nodes of the cluster, by state", made.nodes.clone());
        ours.register("store_segments", "Segments of all databases", made.segments.clone());
        ours.register_with_unit("store_segments", "Those segments", Unit::Bytes, made.segment_bytes.clone());
        let (name, help) = ("store_segments_most", "Segments of the database that has most of them");
        ours.register(name, help, made.most_segments.clone());
        ours.register("store_doomed_objects", "Objects that wait to be deleted", made.doomed.clone());
        let (name, help) = ("store_doomed_due", "Those of them that the next collections delete");
        ours.register(name, help, made.doomed_due.clone());
        let (name, help) = ("store_since_collection", "Time since the last collection of objects");
        ours.register_with_unit(name, help, Unit::Seconds, made.since_collection.clone());
        ours.register("store_puts", "Segments of databases stored", made.puts.clone());
        ours.register_with_unit("store_put", "Those segments", Unit::Bytes, made.put_bytes.clone());
        ours.register("store_gets", "Ranges of objects read for copies of databases", made.gets.clone());
        ours.register_with_unit("store_get", "Those ranges", Unit::Bytes, made.get_bytes.clone());
        made
    }

    fn take_shared(&self, figures: Option<ClusterFigures>) {
        let gauge = |value: Option<f64>| value.unwrap_or(f64::NAN);
        let objects = figures.map(|figures| figures.objects);
        self.cache_limit_bytes.set(gauge(figures.map(|figures| whole(figures.limit_bytes))));
        self.copies_behind.set(gauge(figures.map(|figures| float(figures.lag.copies))));
        self.bytes_behind.set(gauge(figures.map(|figures| whole(figures.lag.bytes))));
        self.segments.set(gauge(objects.map(|objects| whole(objects.segments))));
        self.segment_bytes.set(gauge(objects.map(|objects| whole(objects.bytes))));
        self.most_segments.set(gauge(objects.map(|objects| whole(objects.most_segments))));
        self.doomed.set(gauge(objects.map(|objects| whole(objects.doomed))));
        self.doomed_due.set(gauge(objects.map(|objects| whole(objects.due))));
        let since = figures.and_then(|figures| figures.since_collection());
        self.since_collection.set(gauge(since.map(|since| since.as_secs_f64())));
        let states = [
            ("live", figures.map(|figures| figures.live)),
            ("drained", figures.map(|figures| figures.drained)),
            ("ended", figures.map(|figures| figures.ended)),
        ];
        for (word, count) in states {
            self.nodes.get_or_create(&[("state", word.to_owned())]).set(gauge(count.map(float)));
        }
    }

    pub(super) fn take(&self, home: Option<&DurableHome>) {
        self.take_shared(home.and_then(DurableHome::cluster_figures));
        let figures = home.map(DurableHome::figures);
        let gauge = |value: Option<f64>| value.unwrap_or(f64::NAN);
        self.lease.set(gauge(figures.map(|figures| f64::from(u8::from(figures.has_lease)))));
        self.read_only.set(gauge(home.map(|home| f64::from(u8::from(home.is_read_only())))));
        self.drained.set(gauge(figures.map(|figures| f64::from(u8::from(figures.is_drained)))));
        self.led.set(gauge(figures.map(|figures| float(figures.led))));
        self.copies.set(gauge(figures.map(|figures| float(figures.copies))));
        self.copy_bytes.set(gauge(figures.map(|figures| whole(figures.copy_bytes))));
        let Some(figures) = figures else { return };
        for (counter, value) in [
            (&self.puts, figures.puts),
            (&self.put_bytes, figures.put_bytes),
            (&self.gets, figures.gets),
            (&self.get_bytes, figures.get_bytes),
        ] {
            counter.inner().store(value, Ordering::Relaxed);
        }
    }
}
