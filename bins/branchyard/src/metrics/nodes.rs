//! Metrics of a node whose databases are in a store of objects.

use std::sync::atomic::Ordering;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::{Registry, Unit};

use super::sampled::{SampledGauge, float, whole};
use crate::durable_home::DurableHome;

/// The metrics. Without a store, the gauges are NaN and the counters 0.
#[derive(Default)]
pub(super) struct NodeMetrics {
    lease: SampledGauge,
    read_only: SampledGauge,
    drained: SampledGauge,
    led: SampledGauge,
    copies: SampledGauge,
    copy_bytes: SampledGauge,
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
        ours.register("store_puts", "Segments of databases stored", made.puts.clone());
        ours.register_with_unit("store_put", "Those segments", Unit::Bytes, made.put_bytes.clone());
        ours.register("store_gets", "Ranges of objects read for copies of databases", made.gets.clone());
        ours.register_with_unit("store_get", "Those ranges", Unit::Bytes, made.get_bytes.clone());
        made
    }

    pub(super) fn take(&self, home: Option<&DurableHome>) {
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
