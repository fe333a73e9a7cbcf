//! Conversions from domain types to wire types.

mod costs;
mod deployments;
mod observe;
mod operations;
mod options;
mod words;

pub(crate) use costs::{cost, usage};
pub(crate) use deployments::{backup, collaborator, config, database, deployment, instance, state_of, summary};
pub(crate) use observe::{log_line, metric, metric_data};
pub(crate) use operations::{operation, operation_ref};
pub(crate) use options::{options, user};
pub(crate) use words::{ROLES, STATES, run_state};

use branchyard_deployments::values::Usd;

/// Converts an amount in US dollars to a JSON number with eight decimals.
#[expect(clippy::expect_used, reason = "digits, a point and digits are a number")]
fn number(amount: Usd) -> f64 {
    let (whole, decimals) = amount.rounded_to_8();
    format!("{whole}.{decimals:08}").parse().expect("a decimal number")
}
