//! Alternating slices of product and baseline, so that other load on the machine affects both.

use crate::report::{Aim, Row};

/// The results of both sides, one per slice: rates or times.
pub(crate) struct Slices {
    product: Vec<f64>,
    baseline: Vec<f64>,
}

/// Runs both sides alternately, after one warm-up slice each.
pub(crate) fn alternate(slices: u64, mut product: impl FnMut() -> f64, mut baseline: impl FnMut() -> f64) -> Slices {
    product();
    baseline();
    let mut done = Slices { product: Vec::new(), baseline: Vec::new() };
    for _ in 0..slices {
        done.product.push(product());
        done.baseline.push(baseline());
    }
    done
}

impl Slices {
    /// Returns the median ratio of product to baseline. Adjacent slices are compared, which cancels drift.
    pub(crate) fn ratio(&self) -> f64 {
        median(self.product.iter().zip(&self.baseline).map(|(product, baseline)| product / baseline).collect())
    }

    /// Creates a row whose target applies to the ratio of product to baseline.
    pub(crate) fn row(&self, name: &'static str, what: String, baseline: &str, unit: &str, aim: Aim) -> Row {
        Row {
            name,
            what,
            product: shown(median(self.product.clone()), unit),
            baseline: format!("{baseline}: {}", shown(median(self.baseline.clone()), unit)),
            value: Some(self.ratio()),
            unit: "",
            aim,
        }
    }

    /// Creates a row whose target applies to the difference of product and baseline.
    pub(crate) fn difference_row(
        &self,
        name: &'static str,
        what: String,
        baseline: &str,
        unit: &'static str,
        aim: Aim,
    ) -> Row {
        let differences = self.product.iter().zip(&self.baseline).map(|(product, baseline)| product - baseline);
        Row { value: Some(median(differences.collect())), unit, ..self.row(name, what, baseline, unit, aim) }
    }
}

fn shown(value: f64, unit: &str) -> String {
    let digits = if value >= 100.0 { 0 } else { 2 };
    format!("{value:.digits$} {unit}")
}

/// Returns the median, or NaN if there are no values.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Returns the run time of `work` in milliseconds.
pub(crate) fn millis(work: impl FnOnce()) -> f64 {
    let began = std::time::Instant::now();
    work();
    began.elapsed().as_secs_f64() * 1e3
}
