use branchyard_domain::values::Timestamp;
use branchyard_http_common::{ApiResponse, Endpoint, RequestContext, section};
use branchyard_problem_details::Problem;
use chrono::{DateTime, Datelike as _, Months, NaiveDate, Utc};

use super::HandlerResult;
use crate::convert;
use branchyard_http_common::methods::get;
use branchyard_openapi::Success;

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section(
        "User",
        "/user",
        vec![
            get("", "getUser", "The user that the token belongs to", get_user).responds(200, Success::One("User"), &[]),
            get("/usage", "getUsage", "Cost of all owners the caller administers, by month", get_usage)
                .query(&["month"])
                .responds(200, Success::One("Usage"), &[400]),
        ],
    )
}

/// Handles `GET /user`.
pub(crate) async fn get_user(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    Ok(ApiResponse::resource(200, &convert::user(&user)))
}

/// Returns the first day of the month of a time, in UTC; `None` if the time is out of range.
pub(super) fn month_of(now: Timestamp) -> Option<NaiveDate> {
    let now: DateTime<Utc> = DateTime::from_timestamp_micros(now.as_micros())?;
    now.date_naive().with_day(1)
}

pub(super) fn start_of(day: NaiveDate) -> Timestamp {
    Timestamp::from_seconds(day.and_time(chrono::NaiveTime::MIN).and_utc().timestamp())
}

/// Handles `GET /user/usage`.
pub(crate) async fn get_usage(call: RequestContext) -> HandlerResult {
    let user = call.signed_in()?;
    let asked = call.query(|query| {
        let month = query.parsed("month", |text| {
            let shaped = text.len() == 7;
            let day = NaiveDate::parse_from_str(&format!("{text}-01"), "%Y-%m-%d").ok().filter(|_| shaped);
            day.ok_or("must be a month such as 2026-11")
        });
        Some(month)
    })?;
    let now = call.state.services.now();
    let first = asked.or_else(|| month_of(now)).ok_or_else(Problem::internal)?;
    let next = first.checked_add_months(Months::new(1)).unwrap_or(first);
    let (from, to) = (start_of(first), start_of(next));
    let usage = call.read(move |hub| hub.deployments().usage(&user, from, to)).await?;
    Ok(ApiResponse::resource(200, &convert::usage(first.format("%Y-%m").to_string(), &usage)))
}
