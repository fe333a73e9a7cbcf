//! `/deployments/{owner}/{deployment}/logs`

use askama::Template;
use branchyard_deployments::LogWindow;
use branchyard_deployments::access::Observe;
use branchyard_deployments::errors::DeploymentError;
use branchyard_deployments::ports::{OutputPosition, Towards};
use branchyard_domain::values::Timestamp;

use crate::deployment::{self, DeploymentFrame, DeploymentTab};
use crate::format::{sent_time, utc};
use crate::forms::Filled;
use crate::layout::LayoutContext;
use crate::page_context::{PageContext, PageResult};
use crate::paths;

/// Lines per page.
const PAGE: usize = 100;

struct LogLine {
    time: String,
    text: String,
    /// The severity, as a class in the style sheet.
    class: &'static str,
}

#[derive(Template)]
#[template(path = "deployments/logs.html")]
struct LogsPage {
    shell: LayoutContext,
    frame: DeploymentFrame,
    form: Filled,
    instances: Vec<(String, String)>,
    lines: Vec<LogLine>,
    is_filtered: bool,
    older: Option<String>,
    newer: Option<String>,
    newest: String,
}

fn position(text: &str) -> Option<OutputPosition> {
    let (segment, offset) = text.split_once('.')?;
    Some(OutputPosition { segment: segment.parse().ok()?, offset: offset.parse().ok()? })
}

fn shown(position: OutputPosition) -> String {
    format!("{}.{}", position.segment, position.offset)
}

fn class(text: &str) -> &'static str {
    match text.split_whitespace().next() {
        Some("ERROR") => "error",
        Some("WARN") => "warn",
        Some("DEBUG") => "debug",
        _ => "info",
    }
}

fn exact(at: Timestamp) -> String {
    utc(at).format("%Y-%m-%d %H:%M:%S%.3f").to_string()
}

/// `GET …/logs?instance=…&from=…&until=…&older=…&newer=…`
pub(crate) async fn show(visit: PageContext) -> PageResult {
    let (access, _, frame) = deployment::open::<Observe>(&visit, DeploymentTab::Logs).await?;
    let sent = |name: &str| visit.parameter(name).unwrap_or_default();
    let (instance, from, until) = (sent("instance"), sent("from"), sent("until"));
    let mut form =
        Filled::default().with("instance", instance.clone()).with("from", from.clone()).with("until", until.clone());
    let mut read = |name: &'static str, text: &str| {
        let at = sent_time(text);
        if at.is_none() && !text.is_empty() {
            form.fault(name, "Enter a time such as 2026-11-20T12:00, in UTC.");
        }
        at
    };
    let (since, before) = (read("from", &from), read("until", &until));
    if let (Some(since), Some(before)) = (since, before)
        && since > before
    {
        form.fault("from", "The start must be before the end.");
    }
    let (older, newer) = (position(&sent("older")), position(&sent("newer")));
    let at = match (older, newer) {
        (Some(at), _) => Some((at, Towards::Older)),
        (None, Some(at)) => Some((at, Towards::Newer)),
        (None, None) => None,
    };
    let window = LogWindow {
        instance: (!instance.is_empty()).then(|| instance.clone()),
        since,
        // Includes the whole last minute.
        until: before.map(|at| at.plus_seconds(60)),
        from: at,
        limit: PAGE,
    };
    let faulty = form.has_faults();
    let found = visit.read(move |hub| -> Result<_, DeploymentError> {
        let instances = hub.deployments().instances(&access)?;
        let logs = if faulty { None } else { Some(hub.deployments().logs(&access, &window)?) };
        Ok((instances, logs))
    });
    let (instances, logs) = found.await?;
    let path = format!("{}/logs", frame.path);
    let kept = [("instance", instance.as_str()), ("from", from.as_str()), ("until", until.as_str())];
    let to = |name: &str, at: OutputPosition| {
        let at = shown(at);
        let parameters: Vec<(&str, &str)> = kept.iter().copied().chain([(name, at.as_str())]).collect();
        paths::with_query(&path, &parameters)
    };
    let (mut lines, mut older, mut newer) = (Vec::new(), None, None);
    if let Some(logs) = logs {
        older = logs.lines.first().filter(|_| logs.has_older).map(|first| to("older", first.begin));
        newer = logs.lines.last().filter(|_| at.is_some()).map(|last| to("newer", last.end));
        let line = |line: branchyard_deployments::ports::OutputLine| LogLine {
            time: exact(line.time),
            class: class(&line.text),
            text: line.text,
        };
        lines = logs.lines.into_iter().map(line).collect();
    }
    let of = |instance: &branchyard_deployments::entities::Instance| {
        let what = if instance.index == 0 { "Primary".to_owned() } else { format!("Replica {}", instance.index) };
        (instance.id.to_string(), what)
    };
    let instances = instances.iter().map(of).collect();
    let newest = paths::with_query(&path, &kept);
    let is_filtered = kept.iter().any(|(_, value)| !value.is_empty());
    visit.page(|shell| LogsPage { shell, frame, form, instances, lines, is_filtered, older, newer, newest })
}

#[cfg(test)]
mod tests {
    use super::{class, position, sent_time, shown};

    #[test]
    fn times_are_those_of_browsers_and_in_utc() {
        for text in ["2026-11-20T12:00", "2026-11-20T12:00:00", "2026-11-20 12:00"] {
            assert_eq!(sent_time(text).map(|at| at.as_seconds()), Some(1_795_176_000), "{text}");
        }
        for text in ["", "yesterday", "2026-11-20", "2026-13-01T00:00"] {
            assert!(sent_time(text).is_none(), "{text}");
        }
    }

    #[test]
    fn positions_are_written_and_read() {
        assert_eq!(position("3.120").map(shown).as_deref(), Some("3.120"));
        for text in ["", "3", "3.", ".1", "a.b", "-1.0"] {
            assert!(position(text).is_none(), "{text}");
        }
    }

    #[test]
    fn the_first_word_of_a_line_says_how_severe_it_is() {
        assert_eq!((class("ERROR x"), class("WARN"), class("panic: ERROR")), ("error", "warn", "info"));
    }
}
