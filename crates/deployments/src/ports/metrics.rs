//! What is measured of an instance.

macro_rules! metrics {
    ($($metric:ident: $id:literal, $shown:literal, [$($series:ident: $name:literal, $unit:literal, $sum:ident;)+];)+) => {
        /// A metric: series that are shown together.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Metric {$(
            #[doc = $shown]
            $metric,
        )+}

        impl Metric {
            /// All of them, in order.
            pub const ALL: &'static [Self] = &[$(Self::$metric),+];

            /// Its name in addresses.
            pub const fn id(self) -> &'static str {
                match self { $(Self::$metric => $id),+ }
            }

            /// Its name for people.
            pub const fn display_name(self) -> &'static str {
                match self { $(Self::$metric => $shown),+ }
            }

            /// Its series.
            pub const fn series(self) -> &'static [Series] {
                match self { $(Self::$metric => &[$(Series::$series),+]),+ }
            }
        }

        /// One number over time.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Series {$($(
            #[doc = concat!($name, " of ", $shown, ", in ", $unit)]
            $series,
        )+)+}

        impl Series {
            /// All of them, in the order of their metrics. Stores keep samples in this order: append only.
            pub const ALL: &'static [Self] = &[$($(Self::$series),+),+];

            /// Its name within its metric.
            pub const fn name(self) -> &'static str {
                match self { $($(Self::$series => $name),+),+ }
            }

            /// Its unit.
            pub const fn unit(self) -> &'static str {
                match self { $($(Self::$series => $unit),+),+ }
            }

            /// How several samples become one.
            pub const fn summary(self) -> Summary {
                match self { $($(Self::$series => Summary::$sum),+),+ }
            }
        }
    };
}

/// How several samples become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Summary {
    /// Counts are added.
    Sum,
    /// Levels are averaged.
    Mean,
    /// Of latencies the worst counts.
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
    /// The metric of this name.
    pub fn by_id(id: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|metric| metric.id() == id)
    }
}

/// What was measured at one time. A series without a value was not measured.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Sample(Vec<(Series, f64)>);

impl Sample {
    /// Sets the value of a series; one that is no finite number was not measured.
    pub fn set(&mut self, series: Series, value: f64) {
        self.0.retain(|(other, _)| *other != series);
        if value.is_finite() {
            self.0.push((series, value));
        }
    }

    /// The value of a series.
    pub fn get(&self, series: Series) -> Option<f64> {
        self.0.iter().find(|(other, _)| *other == series).map(|(_, value)| *value)
    }

    /// Several samples as one; `None` of none.
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
