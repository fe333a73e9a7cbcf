use branchyard_deployments::access::Observe;
use branchyard_deployments::ports::Metric;
use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, section};

use super::deployments::check_range;
use super::{HandlerResult, time, whole};
use crate::convert;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "Observation",
        "/deployments/{owner}/{deployment}/metrics",
        vec![
            get("", "listMetrics", "Available metrics", list_metrics).responds(200, Success::List("Metric"), &[404]),
            get("/{metric}", "getMetric", "Values of a metric over time", get_metric)
                .query(&["of_instance", "start_time", "end_time"])
                .responds(200, Success::One("MetricData"), &[400, 404]),
        ],
    )
}

/// The longest time range of a metric, in days.
const DAYS: i64 = 30;

/// Handles `GET …/metrics`.
pub(crate) async fn list_metrics(call: RequestContext) -> HandlerResult {
    call.deployment::<Observe>().await?;
    Ok(whole(&Metric::ALL.iter().copied().map(convert::metric).collect::<Vec<_>>()))
}

/// Handles `GET …/metrics/{metric}`.
pub(crate) async fn get_metric(call: RequestContext) -> HandlerResult {
    let access = call.deployment::<Observe>().await?;
    let metric = call.segment("metric");
    let now = call.state.services.now();
    let (instance, from, to) = call.query(|query| {
        let instance = query.optional("instance_id").map(str::to_owned);
        let to = time(query, "end_time").unwrap_or(now);
        let from = time(query, "start_time").unwrap_or_else(|| to.plus_seconds(-3_600));
        check_range(query, from, to, DAYS);
        Some((instance, from, to))
    })?;
    let echo = instance.clone();
    let data = call.read(move |hub| hub.deployments().metric(&access, &metric, instance.as_deref(), from, to)).await?;
    Ok(ApiResponse::resource(200, &convert::metric_data(data, echo, from, to)))
}
