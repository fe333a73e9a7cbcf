//! Versions by time: the commit that a branch had at a time, and the commits before and after the shown one.

use branchyard_domain::access::{DatabaseAccess, Level, Read};
use branchyard_domain::entities::Commit;
use branchyard_domain::errors::ReadError;
use branchyard_domain::values::{CommitHash, Timestamp};
use branchyard_http_common::HandlerError;

use crate::database::{DatabaseFrame, ShownVersion};
use crate::error_page::PageError;
use crate::format::{self, Markup};
use crate::page_context::PageContext;
use crate::paths;

/// Number of the newest commits of a branch among which the one after the shown commit is looked for.
const NEWER_AMONG: usize = 2_000;

/// A branch at a time.
#[derive(Debug)]
pub(crate) struct Moment {
    pub(crate) branch: String,
    /// The time, for display.
    pub(crate) at: Markup,
    /// The time as a form sends it.
    pub(crate) sent: String,
}

/// Finds the commit that the requested branch had at the time `text`.
pub(crate) async fn find<L: Level>(
    visit: &PageContext,
    access: &DatabaseAccess<L>,
    frame: &DatabaseFrame,
    text: String,
) -> Result<(Moment, CommitHash), PageError> {
    let Some(at) = parsed(&text) else {
        let advice = "must be a time such as 2026-09-04T12:00:00Z";
        return Err(HandlerError::parameter("at", advice).into());
    };
    let (access, name) = (access.clone(), visit.parameter("ref"));
    let commit = visit.read(move |hub| hub.history().at_time(&access, name.as_deref(), at)).await?;
    let branch = visit.parameter("ref").unwrap_or_else(|| frame.default_branch.clone());
    let branch = branch.strip_prefix("refs/heads/").map(str::to_owned).unwrap_or(branch);
    let now = visit.state.services.now();
    // Later than now, the branch is as it is now.
    let at = at.min(now);
    let moment = Moment { branch, at: format::to_the_second(at), sent: format::to_send(at) };
    Ok((moment, commit))
}

/// Parses a time as RFC 3339, or as a form sends it, which is UTC and stands for the whole second, so that a form that is sent as it was
/// shown finds the commit that it was shown with. The blank in `2026-09-04T12:00:00 02:00` is a plus sign that was not
/// encoded.
fn parsed(text: &str) -> Option<Timestamp> {
    let zoned = text.rsplit_once(' ').filter(|(_, zone)| zone.len() == 5 && text.contains('T'));
    let text = zoned.map_or_else(|| text.to_owned(), |(time, zone)| format!("{time}+{zone}"));
    let zoned = chrono::DateTime::parse_from_rfc3339(&text).ok();
    zoned.map(|time| Timestamp::from_micros(time.timestamp_micros())).or_else(|| {
        format::sent_time(&text).map(|begin| Timestamp::from_micros(begin.as_micros().saturating_add(999_999)))
    })
}

/// The steps through the commits of a branch, which a page shows for its content.
#[derive(Debug)]
pub(crate) struct TimeSteps {
    /// The branch, unless the page shows a tag or a commit without one.
    pub(crate) branch: Option<String>,
    /// The address of the branch's versions.
    pub(crate) versions: String,
    pub(crate) commit: CommitHash,
    /// The address of what the page shows, without its version.
    pub(crate) page: String,
    /// The address of what the page shows at the branch's head.
    pub(crate) head: String,
    pub(crate) moment: Option<Markup>,
    pub(crate) short: String,
    pub(crate) href: String,
    pub(crate) message: String,
    pub(crate) author: String,
    pub(crate) when: Markup,
    pub(crate) older: Option<String>,
    pub(crate) newer: Option<String>,
    pub(crate) latest: Option<String>,
    /// The path and the other parameters of the form that chooses a time.
    pub(crate) action: String,
    pub(crate) kept: Vec<(String, String)>,
    pub(crate) sent: String,
}

impl TimeSteps {
    /// Finds the steps. `kept` are the parameters that select what the page shows, without its version and its page.
    pub(crate) async fn find(
        visit: &PageContext,
        access: &DatabaseAccess<Read>,
        frame: &DatabaseFrame,
        at: &ShownVersion,
        action: &str,
        kept: Vec<(String, String)>,
    ) -> Result<Self, PageError> {
        // A step leads to a commit, and keeps the branch along which it goes in `branch`.
        let stepped = visit.parameter("branch").filter(|_| at.kind == "commit");
        let of_moment = frame.moment.as_ref().map(|moment| moment.branch.clone());
        let branch = of_moment.or(stepped).or_else(|| (at.kind == "branch").then(|| at.name.clone()));
        let (access, commit, of) = (access.clone(), at.commit.clone(), branch.clone());
        let is_head = at.kind == "branch";
        let (shown, newer) = visit
            .read(move |hub| -> Result<_, ReadError> {
                let shown = hub.history().commit(&access, &commit)?;
                let newer = match of.filter(|_| !is_head) {
                    Some(branch) => hub.history().commit_after(&access, &branch, &commit, NEWER_AMONG)?,
                    None => None,
                };
                Ok((shown, newer))
            })
            .await?;
        let shown = shown.ok_or_else(PageError::nothing_here)?;
        let to = |version: &[(&str, &str)]| {
            let kept = kept.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            let pairs: Vec<(&str, &str)> = version.iter().copied().chain(kept).collect();
            with_pairs(action, &pairs)
        };
        let of = branch.clone().unwrap_or_default();
        let step = |commit: &CommitHash| to(&[("ref", commit.as_str()), ("branch", &of)]);
        let Commit { hash, parents, message, author } = &shown;
        let default = if of == frame.default_branch { "" } else { &of };
        let head = to(&[("ref", default)]);
        Ok(Self {
            moment: frame.moment.as_ref().map(|moment| moment.at.clone()),
            short: format::short(hash),
            href: frame.commit(hash),
            message: format::first_line(message),
            author: author.name.clone(),
            when: format::when(author.at, visit.state.services.now()),
            older: parents.first().map(step),
            newer: newer.as_ref().map(step),
            latest: (branch.is_some() && !is_head).then(|| head.clone()),
            versions: with_pairs(&format!("{}/versions", frame.path), &[("branch", &of)]),
            page: to(&[]),
            head,
            commit: hash.clone(),
            action: action.to_owned(),
            sent: frame.moment.as_ref().map_or_else(|| format::to_send(author.at), |moment| moment.sent.clone()),
            kept,
            branch,
        })
    }
}

/// Appends parameters to a path. Only those of the version are left out if they are empty: an empty value of a filter counts.
fn with_pairs(path: &str, pairs: &[(&str, &str)]) -> String {
    let is_version = |name: &str| matches!(name, "ref" | "branch");
    let shown = pairs.iter().filter(|(name, value)| !value.is_empty() || !is_version(name));
    let mut address = path.to_owned();
    let mut sign = '?';
    for (name, value) in shown {
        address.push(sign);
        address.push_str(&paths::parameter(name, value));
        sign = '&';
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_rfc_3339_or_those_of_forms() {
        let at = |text: &str| parsed(text).map(Timestamp::as_seconds);
        assert_eq!(at("2026-09-04T12:00:00Z"), at("2026-09-04T14:00:00+02:00"));
        assert_eq!(at("2026-09-04T14:00:00 02:00"), at("2026-09-04T12:00:00.000Z"));
        assert_eq!(at("2026-09-04T12:00"), at("2026-09-04T12:00:00Z"));
        for bad in ["", "yesterday", "2026-09-04", "2026-13-04T12:00:00Z", "12:00", "T 12:00"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn steps_keep_what_the_page_shows() {
        let address = with_pairs("/t", &[("ref", ""), ("branch", "a b"), ("column", "x"), ("value", "")]);
        assert_eq!(address, "/t?branch=a%20b&column=x&value=");
    }
}
