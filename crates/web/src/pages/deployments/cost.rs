//! `/deployments/{owner}/{deployment}/cost`

use askama::Template;
use branchyard_deployments::CostItem;
use branchyard_deployments::access::Observe;
use branchyard_deployments::entities::Metered;
use branchyard_deployments::errors::DeploymentError;

use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::layout::LayoutContext;
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::pages::settings::usage::Month;

struct CostRow {
    what: String,
    rate: String,
    hours: String,
    amount: String,
    is_open: bool,
}

/// Formats a duration in hours, minutes and seconds. Libraries sum up hours to days, but compute is paid by the hour.
fn duration(millis: i64) -> String {
    let seconds = millis.max(0) / 1_000;
    format!(
        "{} h {:02} min {:02} s",
        crate::format::count(seconds.unsigned_abs() / 3_600),
        seconds / 60 % 60,
        seconds % 60
    )
}

impl CostRow {
    fn of(item: &CostItem) -> Self {
        let kind = match item.kind {
            Metered::Compute => "Compute",
            Metered::Storage => "Storage",
        };
        Self {
            what: format!("{kind}, {}", item.type_id),
            rate: money::exact(item.rate),
            hours: duration(item.millis),
            amount: money::exact(item.amount),
            is_open: item.open,
        }
    }
}

#[derive(Template)]
#[template(path = "deployments/cost.html")]
struct CostPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    month: String,
    earlier: String,
    later: Option<String>,
    amount: String,
    total: String,
    hourly: String,
    monthly: String,
    rows: Vec<CostRow>,
}

/// `GET …/cost?month=2026-11`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, view, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Cost).await?;
    let now = visit.state.services.now();
    let month = Month::asked(&visit, now);
    let created_at = view.deployment.created_at;
    let read = visit.read(move |hub| -> Result<_, DeploymentError> {
        let total = hub.deployments().cost(&access, created_at, now)?;
        Ok((hub.deployments().cost(&access, month.begin(), month.end())?, total))
    });
    let (cost, total) = read.await?;
    let path = format!("{}/cost", frame.path);
    let rows = cost.items.iter().map(CostRow::of).collect();
    let (hourly, monthly) = (money::hourly(view.hourly_cost), money::dollars(view.hourly_cost.per_month()));
    visit.page(|shell| CostPage {
        shell,
        frame,
        month: month.words(),
        earlier: month.earlier().address(&path),
        later: month.later(now).map(|later| later.address(&path)),
        amount: money::exact(cost.amount),
        total: money::exact(total.amount),
        hourly,
        monthly,
        rows,
    })
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn use_is_told_to_the_second() {
        assert_eq!(duration(5_400_999), "1 h 30 min 00 s");
        assert_eq!(duration(61_000), "0 h 01 min 01 s");
    }
}
