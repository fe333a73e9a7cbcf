//! The metrics of an instance.

macro_rules! metrics {
    ($($metric:ident: $id:literal, $shown:literal, [$($series:ident: $name:literal, $unit:literal, $sum:ident;)+];)+) => {
        /// A metric: series that are shown together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {$(
            #[doc = $shown]
            $metric,
        )+}

        impl Metric {
            /// All metrics, in display order.
            pub const ALL: &'static [Self] = &[$(Self::$metric),+];

            /// Returns the name of the metric in URLs.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$metric => $id),+ }
            }

            /// Returns the display name of the metric.
            pub const fn display_name(self) -> &'static str {
                match self { $(Self::$metric => $shown),+ }
            }

            /// Returns the series of the metric.
            pub const fn series(self) -> &'static [Series] {
                match self { $(Self::$metric => &[$(Series::$series),+]),+ }
            }
        }

        /// A series: one number over time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Series {$($(
            #[doc = concat!($name, " of ", $shown, ", in ", $unit)]
            $series,
        )+)+}

        impl Series {
            /// All series, in the order of their metrics. Stores keep the values of a sample in this order, so new
            /// series are only appended.
            pub const ALL: &'static [Self] = &[$($(Self::$series),+),+];

            /// Returns the name of the series within its metric.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$series => $name),+),+ }
            }

            /// Returns the unit of the series.
            pub const fn unit(self) -> &'static str {
                match self { $($(Self::$series => $unit),+),+ }
            }

            /// Returns how several samples are combined.
            pub const fn summary(self) -> Summary {
                match self { $($(Self::$series => Summary::$sum),+),+ }
            }
        }
    };
}

/// The way in which several samples are combined into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// The sum, for counts.
    Sum,
    /// The mean, for levels.
    Mean,
    /// The maximum, for latencies.
    Max,
}

metrics! {
    Connections: "connections", "Connections", [
        Streams: "Streams", "Count", Mean;
        Sockets: "Connections", "Count", Mean;
    ];
    Queries: "queries", "Queries", [
        Reads: "Reads", "Count", Sum;
        Writes: "Writes", "Count", Sum;
        Errors: "Errors", "Count", Sum;
    ];
    QueryLatency: "query_latency", "Query Latency", [
        P50: "p50", "Milliseconds", Max;
        P95: "p95", "Milliseconds", Max;
        P99: "p99", "Milliseconds", Max;
    ];
    Cpu: "cpu", "CPU Utilization", [
        CpuUsed: "CPU", "Percent", Mean;
    ];
    Mem: "mem", "Memory Usage", [
        Resident: "Resident", "Bytes", Mean;
        MemoryLimit: "Limit", "Bytes", Mean;
    ];
    Disk: "disk", "Disk Usage", [
        DiskUsed: "Used", "Bytes", Mean;
        DiskLimit: "Limit", "Bytes", Mean;
    ];
    DiskIo: "diskio", "Disk IO", [
        DiskRead: "Read", "Bytes", Sum;
        DiskWritten: "Written", "Bytes", Sum;
    ];
    Network: "network", "Network", [
        Received: "Received", "Bytes", Sum;
        Sent: "Sent", "Bytes", Sum;
    ];
}

impl Metric {
    /// Returns the metric with this id.
    pub fn by_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.id() == id)
    }
}

/// The measurements of an instance at one time. A series without a value was not measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample(Vec<(Series, f64)>);

impl Sample {
    /// Sets the value of a series. A value that is not finite leaves the series without a value.
    pub fn set(&mut self, series: Series, value: f64) {
        self.0.retain(|(other, _)| *other != series);
        if value.is_finite() {
            self.0.push((series, value));
        }
    }

    /// Returns the value of a series.
    pub fn get(&self, series: Series) -> Option<f64> {
        self.0.iter().find(|(other, _)| *other == series).map(|(_, value)| *value)
    }

    /// Combines several samples into one. Returns `None` if `samples` is empty.
    pub fn merge(samples: &[&Self]) -> Option<Self> {
        if samples.is_empty() {
            return None;
        }
        let mut merged = Self::default();
        for series in Series::ALL {
            let values: Vec<f64> = samples.iter().filter_map(|sample| sample.get(*series)).collect();
            if values.is_empty() {
                continue;
            }
            let sum: f64 = values.iter().sum();
            let count = values.iter().fold(0.0, |count, _| count + 1.0);
            merged.set(
                *series,
                match series.summary() {
                    Summary::Sum => sum,
                    Summary::Mean => sum / count,
                    Summary::Max => values.iter().copied().fold(f64::MIN, f64::max),
                },
            );
        }
        Some(merged)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_levels_average_latencies_take_the_worst() {
        let sample = |reads, cpu, p50| {
            let mut sample = Sample::default();
            sample.set(Series::Reads, reads);
            sample.set(Series::CpuUsed, cpu);
            sample.set(Series::P50, p50);
            sample
        };
        let (a, b) = (sample(2.0, 10.0, 1.0), sample(3.0, 20.0, f64::NAN));
        let merged = Sample::merge(&[&a, &b]).expect("two samples");
        assert_eq!(merged.get(Series::Reads), Some(5.0));
        assert_eq!(merged.get(Series::CpuUsed), Some(15.0));
        assert_eq!(merged.get(Series::P50), Some(1.0));
        assert_eq!(merged.get(Series::Sent), None);
        assert_eq!(Sample::merge(&[]), None);
    }
}
