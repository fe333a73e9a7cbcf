//! Draws time series as SVG: lines on a common axis, with gaps where no data was collected.

use std::fmt::Write as _;

use branchyard_deployments::MetricData;
use branchyard_deployments::ports::Series;
use branchyard_domain::values::Timestamp;

use crate::format::{self, Markup, utc};

/// The size of the drawing in its own units. The style sheet scales it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 200.0;
/// Margins: labels of values on the left, labels of times below.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 24.0;
/// Maximum number of points per line. Periods that share a point are represented by their highest value.
const POINTS: i64 = 240;
/// Grid lines above the base line.
const TICKS: u32 = 4;

/// The summary of a series.
pub(crate) struct SeriesSummary {
    pub(crate) name: &'static str,
    /// The class of its line in the style sheet.
    pub(crate) class: String,
    pub(crate) last: String,
    pub(crate) lowest: String,
    pub(crate) mean: String,
    pub(crate) highest: String,
}

/// The chart of a metric.
pub(crate) struct Plot {
    /// The drawing.
    pub(crate) svg: Markup,
    /// The summary of each series: a text alternative to the drawing.
    pub(crate) summaries: Vec<SeriesSummary>,
}

/// Formats a value with its unit.
pub(crate) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "Bytes" => format::size(whole(value)),
        "Percent" => format!("{}%", short(value)),
        "Milliseconds" => format!("{} ms", short(value)),
        _ => short(value),
    }
}

fn whole(value: f64) -> i64 {
    const MOST: f64 = 9.0e15;
    value.clamp(-MOST, MOST).round() as i64
}

/// Formats a number with at most two decimals and without trailing zeros.
fn short(value: f64) -> String {
    let hundredths = whole(value * 100.0);
    let (units, rest) = (hundredths / 100, (hundredths % 100).abs());
    let units = if units < 0 { units.to_string() } else { format::count(units.unsigned_abs()) };
    match rest {
        0 => units,
        rest if rest % 10 == 0 => format!("{units}.{}", rest / 10),
        rest => format!("{units}.{rest:02}"),
    }
}

/// Returns the upper end of the axis: a round number in the unit, not below `highest`.
fn ceiling(highest: f64, unit: &str) -> f64 {
    let highest = highest.max(if unit == "Bytes" { 1_024.0 } else { 1.0 });
    if unit == "Percent" && highest <= 100.0 {
        return 100.0;
    }
    let mut step = if unit == "Bytes" { 1_024.0 } else { 0.25 };
    let factors: &[f64] = if unit == "Bytes" { &[2.0] } else { &[2.0, 2.0, 2.5] };
    for factor in factors.iter().cycle() {
        if step * f64::from(TICKS) >= highest || step > 1.0e18 {
            break;
        }
        step *= factor;
    }
    step * f64::from(TICKS)
}

/// Maps times and values to coordinates.
struct Axes {
    from: i64,
    seconds: i64,
    top: f64,
}

impl Axes {
    fn x(&self, at: i64) -> f64 {
        let part = (at - self.from) as f64 / self.seconds as f64;
        LEFT + part.clamp(0.0, 1.0) * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - (value / self.top).clamp(0.0, 1.0) * (HEIGHT - TOP - BOTTOM)
    }
}

/// Reduces a series to at most `POINTS` points. Periods without data are left out.
fn thinned(times: &[Timestamp], values: &[Option<f64>], from: i64, seconds: i64) -> Vec<(i64, f64)> {
    let wide = (seconds / POINTS).max(1);
    let mut points: Vec<(i64, i64, f64)> = Vec::new();
    for (at, value) in times.iter().zip(values) {
        let Some(value) = value else { continue };
        let (at, place) = (at.as_seconds(), (at.as_seconds() - from).div_euclid(wide));
        match points.last_mut() {
            Some((last, _, highest)) if *last == place => *highest = highest.max(*value),
            _ => points.push((place, at, *value)),
        }
    }
    points.into_iter().map(|(_, at, value)| (at, value)).collect()
}

/// Returns the path of a line. The line is interrupted where the distance between two points exceeds `gap`.
fn path(points: &[(i64, f64)], axes: &Axes, gap: i64) -> String {
    let mut text = String::new();
    let mut last: Option<i64> = None;
    for (at, value) in points {
        let goes_on = last.is_some_and(|last| at - last <= gap);
        let _ = write!(text, "{}{:.0} {:.0}", if goes_on { 'L' } else { 'M' }, axes.x(*at), axes.y(*value));
        if !goes_on {
            // Draws a dot for a point without neighbors.
            text.push_str("h.1");
        }
        last = Some(*at);
    }
    text
}

fn clock(at: i64, seconds: i64) -> String {
    utc(Timestamp::from_seconds(at)).format(if seconds <= 2 * 86_400 { "%H:%M" } else { "%-d %b" }).to_string()
}

impl Plot {
    /// Draws the data from `from` to `to`. Returns `None` if there is no data.
    pub(crate) fn of(data: &MetricData, from: Timestamp, to: Timestamp) -> Option<Self> {
        let unit = data.series.first()?.0.unit();
        let measured = |values: &[Option<f64>]| values.iter().flatten().copied().collect::<Vec<f64>>();
        let highest = data.series.iter().flat_map(|(_, values)| measured(values)).reduce(f64::max)?;
        let seconds = (to.as_seconds() - from.as_seconds()).max(1);
        let axes = Axes { from: from.as_seconds(), seconds, top: ceiling(highest, unit) };
        let gap = 2 * data.period_seconds.max(seconds / POINTS) + data.period_seconds;
        let mut body = grid(&axes, unit);
        let mut summaries = Vec::new();
        for (place, (series, values)) in data.series.iter().enumerate() {
            let points = thinned(&data.times, values, axes.from, seconds);
            let _ = write!(body, "<path class=\"series-{place}\" d=\"{}\"/>", path(&points, &axes, gap));
            summaries.extend(summary(*series, place, &measured(values)));
        }
        let id = data.metric.id();
        let name = data.metric.display_name();
        let said: Vec<String> = summaries
            .iter()
            .map(|one| format!("{}: now {}, between {} and {}", one.name, one.last, one.lowest, one.highest))
            .collect();
        // All interpolated text is our own: names of metrics and series, and numbers.
        let svg = format!(
            "<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\
             <title id=\"{id}-title\">{name}</title><desc id=\"{id}-desc\">{}</desc>{body}</svg>",
            said.join(". ")
        );
        Some(Self { svg: Markup::trusted(svg), summaries })
    }
}

/// Draws the grid with labels of values and times.
fn grid(axes: &Axes, unit: &str) -> String {
    let mut text = String::new();
    for tick in 0..=TICKS {
        let value = axes.top * f64::from(tick) / f64::from(TICKS);
        let y = axes.y(value);
        let class = if tick == 0 { "base" } else { "rule" };
        let _ = write!(
            text,
            "<path class=\"{class}\" d=\"M{LEFT} {y:.0}H{}\"/><text class=\"value\" x=\"{}\" y=\"{:.0}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            amount(value, unit)
        );
    }
    for part in 0..=4 {
        let at = axes.from + axes.seconds * part / 4;
        let class = match part {
            0 => "first",
            4 => "last",
            _ => "middle",
        };
        let _ = write!(
            text,
            "<text class=\"{class}\" x=\"{:.0}\" y=\"{}\">{}</text>",
            axes.x(at),
            HEIGHT - 6.0,
            clock(at, axes.seconds)
        );
    }
    text
}

fn summary(series: Series, place: usize, values: &[f64]) -> Option<SeriesSummary> {
    let unit = series.unit();
    let (count, sum) = values.iter().fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    Some(SeriesSummary {
        name: series.name(),
        class: format!("series-{place}"),
        last: amount(*values.last()?, unit),
        lowest: amount(values.iter().copied().reduce(f64::min)?, unit),
        mean: amount(sum / count, unit),
        highest: amount(values.iter().copied().reduce(f64::max)?, unit),
    })
}

#[cfg(test)]
mod tests {
    use super::{Plot, amount, ceiling, path, short, thinned};
    use branchyard_deployments::MetricData;
    use branchyard_deployments::ports::{Metric, Series};
    use branchyard_domain::values::Timestamp;

    fn times(seconds: &[i64]) -> Vec<Timestamp> {
        seconds.iter().map(|at| Timestamp::from_seconds(*at)).collect()
    }

    #[test]
    fn values_are_short_and_have_their_unit() {
        for (value, text) in [(0.0, "0"), (0.5, "0.5"), (12.345, "12.35"), (1_234.0, "1,234"), (-1.5, "-1.5")] {
            assert_eq!(short(value), text, "{value}");
        }
        assert_eq!(amount(1_536.0, "Bytes"), "1.5 KiB");
        assert_eq!((amount(3.25, "Percent"), amount(7.0, "Milliseconds")), ("3.25%".into(), "7 ms".into()));
    }

    #[test]
    fn the_axis_ends_above_every_value() {
        for value in [0.0, 0.3, 1.0, 4.9, 99.0, 100.0, 12_345.0, 1.0e12] {
            for unit in ["Count", "Bytes", "Milliseconds", "Percent"] {
                assert!(ceiling(value, unit) >= value, "{value} {unit}");
            }
        }
        assert_eq!((ceiling(3.0, "Percent"), ceiling(0.0, "Count"), ceiling(7.0, "Count")), (100.0, 1.0, 10.0));
    }

    #[test]
    fn many_periods_share_a_point_which_is_the_highest() {
        let at = times(&[0, 1, 2, 3]);
        let points = thinned(&at, &[Some(1.0), Some(5.0), None, Some(2.0)], 0, 480);
        assert_eq!(points, [(0, 5.0), (3, 2.0)]);
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let axes = super::Axes { from: 0, seconds: 100, top: 10.0 };
        let line = path(&[(0, 0.0), (10, 5.0), (90, 5.0)], &axes, 30);
        assert_eq!(line.matches('M').count(), 2, "{line}");
        assert_eq!(line.matches('L').count(), 1, "{line}");
    }

    #[test]
    fn a_metric_without_a_value_is_not_drawn() {
        let metric = Metric::Cpu;
        let mut data =
            MetricData { metric, period_seconds: 15, times: times(&[15]), series: vec![(Series::CpuUsed, vec![None])] };
        let (from, to) = (Timestamp::from_seconds(0), Timestamp::from_seconds(3_600));
        assert!(Plot::of(&data, from, to).is_none());
        data.series = vec![(Series::CpuUsed, vec![Some(12.5)])];
        let plot = Plot::of(&data, from, to).expect("a plot");
        let svg = plot.svg.to_string();
        assert!(svg.contains("role=\"img\"") && svg.contains("CPU: now 12.5%"), "{svg}");
        assert_eq!(plot.summaries.len(), 1);
    }
}
