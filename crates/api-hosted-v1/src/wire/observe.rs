use serde::Serialize;
use utoipa::ToSchema;

/// A log line of an instance.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct LogLine {
    pub(crate) time: String,
    pub(crate) text: String,
}

/// An available metric.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Metric {
    pub(crate) id: &'static str,
    pub(crate) display_name: &'static str,
}

/// One series of values.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MetricSeries {
    pub(crate) name: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<&'static str>,
    /// One value per timestamp; null if not measured.
    pub(crate) values: Vec<Option<f64>>,
}

/// Values of a metric over time.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct MetricData {
    pub(crate) metric: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) instance_id: Option<String>,
    pub(crate) start_time: String,
    pub(crate) end_time: String,
    pub(crate) period_seconds: i64,
    /// Oldest first.
    pub(crate) timestamps: Vec<String>,
    pub(crate) series: Vec<MetricSeries>,
}
