//! Logs and metrics.

use std::collections::BTreeMap;

use super::instances::of_deployment;
use super::{Deployments, here, live, primary};
use crate::access::{DeploymentAccess, DeploymentLevel};
use crate::entities::{Instance, RunState};
use crate::errors::DeploymentError;
use crate::ports::{Metric, OutputLine, OutputPosition, OutputQuery, Resolution, Sample, Series, Towards};
use crate::values::InstanceId;
use branchyard_domain::values::Timestamp;

/// A selection of log lines.
#[derive(Debug, Clone)]
pub struct LogWindow {
    /// Id of the instance, as written in the request. `None` is the primary.
    pub instance: Option<String>,
    /// Only lines at or after this time.
    pub since: Option<Timestamp>,
    /// Only lines at or before this time.
    pub until: Option<Timestamp>,
    /// Start position and direction. `None` selects the newest lines.
    pub from: Option<(OutputPosition, Towards)>,
    /// Maximum number of lines.
    pub limit: usize,
}

/// Log lines of an instance.
#[derive(Debug, Clone)]
pub struct InstanceLogs {
    /// The instance.
    pub instance: InstanceId,
    /// Lines, oldest first.
    pub lines: Vec<OutputLine>,
    /// Whether older lines exist.
    pub has_older: bool,
}

/// The values of a metric over time.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricData {
    /// The metric.
    pub metric: Metric,
    /// Length of a period in seconds.
    pub period_seconds: i64,
    /// Begin of each period that has a value, oldest first.
    pub times: Vec<Timestamp>,
    /// Values of each series, one per entry of `times`. `None` means not measured.
    pub series: Vec<(Series, Vec<Option<f64>>)>,
}

const HOUR: i64 = 3_600;

impl Deployments {
    /// Returns log lines of an instance.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if the deployment has no such instance.
    pub fn logs<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        window: &LogWindow,
    ) -> Result<InstanceLogs, DeploymentError> {
        here(&self.0, access.deployment())?;
        let instance = self.instance_named(access, window.instance.as_deref())?;
        let (from, towards) = match window.from {
            Some((position, towards)) => (Some(position), towards),
            None => (None, Towards::Older),
        };
        let mut query = OutputQuery { from, towards, limit: window.limit, since: window.since, until: window.until };
        let provisioner = &self.0.ports.provisioner;
        let lines = provisioner.logs(instance.id, &query)?;
        let has_older = match lines.first() {
            None => false,
            Some(first) => {
                query = OutputQuery { from: Some(first.begin), towards: Towards::Older, limit: 1, ..query };
                !provisioner.logs(instance.id, &query)?.is_empty()
            }
        };
        Ok(InstanceLogs { instance: instance.id, lines, has_older })
    }

    fn instance_named<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        id: Option<&str>,
    ) -> Result<Instance, DeploymentError> {
        let mut tx = self.0.ports.store.read_deployments()?;
        let deployment = live(tx.as_mut(), access)?;
        match id {
            Some(id) => of_deployment(tx.as_mut(), &deployment, id),
            None => Ok(primary(tx.as_mut(), deployment.id)?),
        }
    }

    /// Returns the values of a metric of an instance from `from` to `to`.
    ///
    /// # Errors
    /// [`DeploymentError::Absent`] if the metric does not exist, or if the deployment has no such instance that is not
    /// stopped.
    pub fn metric<L: DeploymentLevel>(
        &self,
        access: &DeploymentAccess<L>,
        metric: &str,
        instance: Option<&str>,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<MetricData, DeploymentError> {
        let absent = |what, name: &str| DeploymentError::Absent { what, name: name.to_owned() };
        let metric = Metric::by_id(metric).ok_or_else(|| absent("metric", metric))?;
        let found = self.instance_named(access, instance)?;
        if found.state == RunState::Stopped {
            return Err(absent("running instance", instance.unwrap_or("0")));
        }
        let now = self.0.now();
        let (period_seconds, resolution) = period(from, to, now);
        let samples = self.0.ports.store.read_deployments()?.samples().list(found.id, resolution, from, to)?;
        Ok(gather(metric, period_seconds, &samples))
    }
}

/// Returns the length of a period in seconds, and the resolution of the samples that it is computed from.
fn period(from: Timestamp, to: Timestamp, now: Timestamp) -> (i64, Resolution) {
    let seconds = match to.as_seconds() - from.as_seconds() {
        window if window <= 3 * HOUR => 15,
        window if window <= 24 * HOUR => 60,
        window if window <= 7 * 24 * HOUR => 300,
        _ => HOUR,
    };
    let kept_since = now.plus_seconds(-Resolution::Fine.kept_seconds());
    match from >= kept_since {
        true => (seconds, Resolution::Fine),
        false => (seconds.max(Resolution::Coarse.seconds()), Resolution::Coarse),
    }
}

fn gather(metric: Metric, period_seconds: i64, samples: &[(Timestamp, Sample)]) -> MetricData {
    let mut periods: BTreeMap<i64, Vec<&Sample>> = BTreeMap::new();
    for (at, sample) in samples {
        let begin = at.as_seconds().div_euclid(period_seconds) * period_seconds;
        periods.entry(begin).or_default().push(sample);
    }
    let series = metric.series();
    let mut data = MetricData {
        metric,
        period_seconds,
        times: Vec::new(),
        series: series.iter().map(|series| (*series, Vec::new())).collect(),
    };
    for (begin, samples) in periods {
        let Some(merged) = Sample::merge(&samples) else { continue };
        if series.iter().all(|series| merged.get(*series).is_none()) {
            continue;
        }
        data.times.push(Timestamp::from_seconds(begin));
        for (series, values) in &mut data.series {
            values.push(merged.get(*series));
        }
    }
    data
}
