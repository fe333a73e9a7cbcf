//! `/deployments/{owner}/{deployment}/metrics`: metrics as charts and as tables.

use askama::Template;
use branchyard_deployments::MetricData;
use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::RunState;
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::ports::Metric;
use branchyard_domain::values::Timestamp;

use crate::chart::{Plot, amount};
use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::error_page::PageError;
use crate::format::utc;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Maximum number of rows in the table of a metric, latest first.
const ROWS: usize = 500;

/// The periods: values of `window`, labels, and hours.
const WINDOWS: &[(&str, &str, i64)] =
    &[("", "Hour", 1), ("day", "Day", 24), ("week", "Week", 24 * 7), ("month", "30 days", 24 * 30)];

/// A metric with its chart.
struct DrawnMetric {
    id: &'static str,
    title: &'static str,
    href: String,
    plot: Option<Plot>,
}

/// The selected period.
struct MetricWindow {
    word: &'static str,
    from: Timestamp,
    to: Timestamp,
}

impl MetricWindow {
    fn asked(visit: &PageContext) -> Self {
        let sent = visit.parameter("window").unwrap_or_default();
        let (word, _, hours) = WINDOWS.iter().find(|(word, ..)| *word == sent).copied().unwrap_or(("", "", 1));
        let to = visit.state.services.now();
        Self { word, from: to.plus_seconds(-hours * 3_600), to }
    }

    fn links(&self, path: &str) -> Vec<(&'static str, String, bool)> {
        let link = |(word, label, _): &(&'static str, &'static str, i64)| {
            (*label, paths::with_query(path, &[("window", word)]), *word == self.word)
        };
        WINDOWS.iter().map(link).collect()
    }
}

#[derive(Template)]
#[template(path = "deployments/metrics.html")]
struct MetricsPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    windows: Vec<(&'static str, String, bool)>,
    metrics: Vec<DrawnMetric>,
    is_stopped: bool,
}

/// `GET …/metrics?window=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, view, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Metrics).await?;
    let window = MetricWindow::asked(&visit);
    let is_stopped = view.primary.state == RunState::Stopped;
    let (from, to) = (window.from, window.to);
    let read = visit.read(move |hub| -> Result<_, DeploymentError> {
        if is_stopped {
            return Ok(Vec::new());
        }
        let one = |metric: &Metric| hub.deployments().metric(&access, metric.id(), None, from, to);
        Metric::ALL.iter().map(one).collect()
    });
    let found = read.await?;
    let path = format!("{}/metrics", frame.path);
    let shown = |data: MetricData| DrawnMetric {
        id: data.metric.id(),
        title: data.metric.display_name(),
        href: paths::with_query(&format!("{path}/{}", data.metric.id()), &[("window", window.word)]),
        plot: Plot::of(&data, from, to),
    };
    let metrics = found.into_iter().map(shown).collect();
    let windows = window.links(&path);
    visit.page(|shell| MetricsPage { shell, frame, windows, metrics, is_stopped })
}

#[derive(Template)]
#[template(path = "deployments/metric.html")]
struct MetricPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    windows: Vec<(&'static str, String, bool)>,
    title: &'static str,
    back: String,
    plot: Option<Plot>,
    columns: Vec<&'static str>,
    /// Latest first: the time, and one value per series.
    rows: Vec<(String, Vec<Option<String>>)>,
    is_cut: bool,
    period: String,
}

/// `GET …/metrics/{metric}?window=…`
pub(crate) async fn show_one(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Metrics).await?;
    let window = MetricWindow::asked(&visit);
    let id = visit.segment("metric");
    let metric = Metric::by_id(&id).ok_or_else(PageError::nothing_here)?;
    let (from, to) = (window.from, window.to);
    let data = visit.read(move |hub| hub.deployments().metric(&access, &id, None, from, to)).await?;
    let rows: Vec<(String, Vec<Option<String>>)> = data
        .times
        .iter()
        .enumerate()
        .rev()
        .take(ROWS)
        .map(|(place, at)| {
            let value = |(series, values): &(branchyard_deployments::ports::Series, Vec<Option<f64>>)| {
                values.get(place).copied().flatten().map(|value| amount(value, series.unit()))
            };
            (exact(*at), data.series.iter().map(value).collect())
        })
        .collect();
    let is_cut = data.times.len() > ROWS;
    let columns = data.series.iter().map(|(series, _)| series.name()).collect();
    let period = match data.period_seconds {
        seconds if seconds < 60 => format!("{seconds} s"),
        seconds => format!("{} min", seconds / 60),
    };
    let plot = Plot::of(&data, from, to);
    let path = format!("{}/metrics/{}", frame.path, metric.id());
    let back = paths::with_query(&format!("{}/metrics", frame.path), &[("window", window.word)]);
    let windows = window.links(&path);
    let title = metric.display_name();
    visit.page(|shell| MetricPage { shell, frame, windows, title, back, plot, columns, rows, is_cut, period })
}

fn exact(at: Timestamp) -> String {
    utc(at).format("%Y-%m-%d %H:%M:%S").to_string()
}
