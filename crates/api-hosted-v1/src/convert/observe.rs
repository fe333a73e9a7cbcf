use branchyard_deployments::MetricData;
use branchyard_deployments::ports::{Metric, OutputLine};
use branchyard_domain::values::Timestamp;
use branchyard_http_common::rfc3339;

use crate::wire;

pub(crate) fn log_line(line: &OutputLine) -> wire::LogLine {
    wire::LogLine { time: rfc3339(line.time), text: line.text.clone() }
}

pub(crate) fn metric(metric: Metric) -> wire::Metric {
    wire::Metric { id: metric.id(), display_name: metric.display_name() }
}

pub(crate) fn metric_data(
    data: MetricData,
    instance_id: Option<String>,
    from: Timestamp,
    to: Timestamp,
) -> wire::MetricData {
    let series = data.series.into_iter().map(|(series, values)| wire::MetricSeries {
        name: series.name(),
        unit: Some(series.unit()),
        values,
    });
    wire::MetricData {
        metric: data.metric.id(),
        instance_id,
        start_time: rfc3339(from),
        end_time: rfc3339(to),
        period_seconds: data.period_seconds,
        timestamps: data.times.into_iter().map(rfc3339).collect(),
        series: series.collect(),
    }
}
