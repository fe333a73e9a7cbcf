//! `/settings/usage`: the costs of deployments of all owners that the viewer administers, and their spending limits.

use askama::Template;
use branchyard_deployments::OwnerUsage;
use branchyard_deployments::entities::RunState;
use branchyard_domain::values::Timestamp;
use chrono::{Datelike as _, Months, NaiveDate};

use super::{SettingsNav, sections};
use crate::deployment;
use crate::format::utc;
use crate::layout::LayoutContext;
use crate::money;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

const HERE: &str = "/settings/usage";

/// A calendar month in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Month(NaiveDate);

fn moment(day: NaiveDate) -> Timestamp {
    Timestamp::from_seconds(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp())
}

impl Month {
    /// Returns the month that contains a time.
    #[expect(clippy::expect_used, reason = "every month has a first day")]
    pub(crate) fn at(time: Timestamp) -> Self {
        Self(utc(time).date_naive().with_day(1).expect("a first day"))
    }

    fn parse(text: &str) -> Option<Self> {
        let shaped = text.len() == 7;
        NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok().filter(|_| shaped).map(Self)
    }

    /// Returns the month of the query (`?month=`). Invalid and future months mean the current month.
    pub(crate) fn asked(visit: &PageContext, now: Timestamp) -> Self {
        let asked = visit.parameter("month").and_then(|text| Self::parse(&text));
        asked.filter(|month| *month <= Self::at(now)).unwrap_or_else(|| Self::at(now))
    }

    pub(crate) fn begin(self) -> Timestamp {
        moment(self.0)
    }

    pub(crate) fn end(self) -> Timestamp {
        moment(self.0.checked_add_months(Months::new(1)).unwrap_or(self.0))
    }

    pub(crate) fn earlier(self) -> Self {
        Self(self.0.checked_sub_months(Months::new(1)).unwrap_or(self.0))
    }

    /// Returns the next month, unless it is in the future.
    pub(crate) fn later(self, now: Timestamp) -> Option<Self> {
        let next = Self(self.0.checked_add_months(Months::new(1)).unwrap_or(self.0));
        (next <= Self::at(now)).then_some(next)
    }

    pub(crate) fn words(self) -> String {
        self.0.format("%B %Y").to_string()
    }

    /// Returns the path of a page for this month.
    pub(crate) fn address(self, path: &str) -> String {
        paths::with_query(path, &[("month", &self.0.format("%Y-%m").to_string())])
    }
}

struct UsageRow {
    name: String,
    href: Option<String>,
    state: &'static str,
    amount: String,
}

struct OwnerUsageView {
    name: String,
    href: String,
    amount: String,
    committed: String,
    limit: Option<String>,
    /// The committed share of the limit in percent, for the meter.
    percent: Option<i64>,
    rows: Vec<UsageRow>,
}

impl OwnerUsageView {
    fn of(usage: OwnerUsage) -> Self {
        let name = usage.owner.to_string();
        let row = |(deployment, state, amount): (String, RunState, branchyard_deployments::values::Usd)| UsageRow {
            state: match state {
                RunState::Starting => "Starting",
                RunState::Started => "Started",
                RunState::Stopping => "Stopping",
                RunState::Stopped => "Stopped",
            },
            // A stopped deployment may have been deleted, and its name reused.
            href: (state != RunState::Stopped).then(|| format!("{}/{deployment}", deployment::path_of_owner(&name))),
            name: deployment,
            amount: money::exact(amount),
        };
        let percent = usage.limit.map(|limit| {
            let part = usage.committed_monthly.as_nanos() / (limit.as_nanos() / 100).max(1);
            part.clamp(0, 100)
        });
        Self {
            href: deployment::path_of_owner(&name),
            amount: money::exact(usage.amount),
            committed: money::dollars(usage.committed_monthly),
            limit: usage.limit.map(money::dollars),
            percent,
            rows: usage.deployments.into_iter().map(row).collect(),
            name,
        }
    }
}

#[derive(Template)]
#[template(path = "settings/usage.html")]
struct UsagePage {
    shell: LayoutContext,
    sections: SettingsNav,
    here: &'static str,
    month: String,
    earlier: String,
    later: Option<String>,
    owners: Vec<OwnerUsageView>,
}

/// `GET /settings/usage?month=2026-11`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let user = visit.user()?;
    let now = visit.state.services.now();
    let month = Month::asked(&visit, now);
    let usage = visit.read(move |hub| hub.deployments().usage(&user, month.begin(), month.end())).await?;
    let owners = usage.owners.into_iter().map(OwnerUsageView::of).collect();
    let sections = sections(&visit);
    visit.page(|shell| UsagePage {
        shell,
        sections,
        here: HERE,
        month: month.words(),
        earlier: month.earlier().address(HERE),
        later: month.later(now).map(|later| later.address(HERE)),
        owners,
    })
}

#[cfg(test)]
mod tests {
    use super::Month;
    use branchyard_domain::values::Timestamp;

    #[test]
    fn months_begin_at_their_first_moment_and_end_at_that_of_the_next() {
        let month = Month::parse("2026-12").expect("a month");
        assert_eq!(
            (month.begin(), month.end()),
            (Timestamp::from_seconds(1_796_083_200), Timestamp::from_seconds(1_798_761_600))
        );
        assert_eq!(month.words(), "December 2026");
        assert_eq!(month.earlier().address("/x"), "/x?month=2026-11");
        assert_eq!(month.later(month.begin()), None);
        assert_eq!(month.later(month.end()).map(Month::words).as_deref(), Some("January 2027"));
        for text in ["", "2026", "2026-13", "2026-1", "2026-12-01"] {
            assert!(Month::parse(text).is_none(), "{text}");
        }
    }
}
