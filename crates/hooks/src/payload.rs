//! Payloads: compact JSON, with keys in the order of the contract and all leaf values as strings.

use branchyard_domain::entities::{DatabaseLocator, EventKind, PullAction};
use branchyard_domain::ports::Payloads;
use serde::Serialize;

/// Renders payloads in the form of the contract.
#[derive(Debug, Clone, Copy, Default)]
pub struct JsonPayloads;

#[derive(Serialize)]
struct Repository<'a> {
    name: &'a str,
    owner: &'a str,
}

impl<'a> From<&'a DatabaseLocator> for Repository<'a> {
    fn from(locator: &'a DatabaseLocator) -> Self {
        Self { name: locator.name.as_str(), owner: locator.owner.as_str() }
    }
}

#[derive(Serialize)]
struct Push<'a> {
    event_name: &'static str,
    r#ref: String,
    head: &'a str,
    prev: &'a str,
    repository: Repository<'a>,
}

#[derive(Serialize)]
struct PullRequest<'a> {
    event_name: &'static str,
    repository: Repository<'a>,
    #[serde(rename = "pullID")]
    pull_id: String,
    action: &'static str,
    state: &'static str,
    #[serde(rename = "fromRepository")]
    from_repository: Repository<'a>,
    #[serde(rename = "fromBranch")]
    from_branch: &'a str,
    #[serde(rename = "toBranch")]
    to_branch: &'a str,
    author: &'a str,
    sender: &'a str,
}

#[derive(Serialize)]
struct BranchRef<'a> {
    event_name: &'static str,
    repository: Repository<'a>,
    branch: &'a str,
    r#ref: String,
    action: &'static str,
}

#[derive(Serialize)]
struct Ping<'a> {
    event_name: &'static str,
    repository: Repository<'a>,
    hook_id: String,
}

impl Payloads for JsonPayloads {
    fn render(&self, database: &DatabaseLocator, kind: &EventKind) -> String {
        let repository = Repository::from(database);
        let full_name = |branch: &str| format!("refs/heads/{branch}");
        let branch_event = |repository, branch, action| {
            json(&BranchRef { event_name: "branch", repository, branch, r#ref: full_name(branch), action })
        };
        match kind {
            EventKind::Push { branch, head, previous } => json(&Push {
                event_name: "push",
                r#ref: full_name(branch.as_str()),
                head: head.as_str(),
                prev: previous.as_str(),
                repository,
            }),
            EventKind::BranchCreated { branch } => branch_event(repository, branch.as_str(), "Created branch"),
            EventKind::BranchDeleted { branch } => branch_event(repository, branch.as_str(), "Deleted branch"),
            EventKind::Pull { number, action, from, from_branch, to_branch, author, sender } => {
                let (action, state) = words(*action);
                json(&PullRequest {
                    event_name: "pull_request",
                    repository,
                    pull_id: number.to_string(),
                    action,
                    state,
                    from_repository: from.into(),
                    from_branch: from_branch.as_str(),
                    to_branch: to_branch.as_str(),
                    author: author.as_str(),
                    sender: sender.as_str(),
                })
            }
            EventKind::Ping { hook } => json(&Ping { event_name: "ping", repository, hook_id: hook.to_string() }),
        }
    }
}

/// Returns the words for the action and for the state after it.
const fn words(action: PullAction) -> (&'static str, &'static str) {
    match action {
        PullAction::Opened => ("Opened", "Open"),
        PullAction::Closed => ("Closed", "Closed"),
        PullAction::Merged => ("Merged", "Merged"),
        PullAction::Reopened => ("Reopened", "Open"),
    }
}

/// Serializes a payload.
#[expect(clippy::expect_used, reason = "structs of texts always serialize")]
fn json(payload: &impl Serialize) -> String {
    serde_json::to_string(payload).expect("a payload serializes")
}

#[cfg(test)]
mod tests {
    use branchyard_domain::entities::{DatabaseLocator, EventKind, PullAction};
    use branchyard_domain::ports::Payloads as _;
    use branchyard_domain::values::{CommitHash, DatabaseName, HookId, OwnerName, PullNumber, RefName};

    use super::JsonPayloads;

    fn locator(owner: &str, name: &str) -> DatabaseLocator {
        DatabaseLocator { owner: OwnerName::parse(owner).unwrap(), name: DatabaseName::parse(name).unwrap() }
    }

    fn name(text: &str) -> RefName {
        RefName::parse(text).unwrap()
    }

    fn render(kind: &EventKind) -> String {
        JsonPayloads.render(&locator("ana", "trees"), kind)
    }

    fn pull(action: PullAction) -> String {
        render(&EventKind::Pull {
            number: PullNumber::new(4).unwrap(),
            action,
            from: locator("bob", "trees"),
            from_branch: name("fix-7"),
            to_branch: name("main"),
            author: OwnerName::parse("bob").unwrap(),
            sender: OwnerName::parse("ana").unwrap(),
        })
    }

    #[test]
    fn payloads_are_those_of_the_contract_byte_by_byte() {
        let push = EventKind::Push {
            branch: name("main"),
            head: CommitHash::parse("3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1").unwrap(),
            previous: CommitHash::parse("a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16").unwrap(),
        };
        assert_eq!(
            render(&push),
            r#"{"event_name":"push","ref":"refs/heads/main","head":"3f2c9a7d5e1b8064c2d7f9a1b3e5d70896a4c2f1","prev":"a91e07c4d2b85f3360e7f1c9d4a8b25e7703fc16","repository":{"name":"trees","owner":"ana"}}"#
        );
        assert_eq!(
            pull(PullAction::Merged),
            r#"{"event_name":"pull_request","repository":{"name":"trees","owner":"ana"},"pullID":"4","action":"Merged","state":"Merged","fromRepository":{"name":"trees","owner":"bob"},"fromBranch":"fix-7","toBranch":"main","author":"bob","sender":"ana"}"#
        );
        assert_eq!(
            render(&EventKind::BranchCreated { branch: name("fix-7") }),
            r#"{"event_name":"branch","repository":{"name":"trees","owner":"ana"},"branch":"fix-7","ref":"refs/heads/fix-7","action":"Created branch"}"#
        );
        assert!(render(&EventKind::BranchDeleted { branch: name("x") }).ends_with(r#""action":"Deleted branch"}"#));
        let hook = HookId::parse("019b7ca0-1f00-7b11-8a22-93c4d5e6f708").unwrap();
        assert_eq!(
            render(&EventKind::Ping { hook }),
            r#"{"event_name":"ping","repository":{"name":"trees","owner":"ana"},"hook_id":"019b7ca0-1f00-7b11-8a22-93c4d5e6f708"}"#
        );
    }

    #[test]
    fn actions_and_the_states_after_them() {
        for (action, words) in [
            (PullAction::Opened, r#""action":"Opened","state":"Open""#),
            (PullAction::Closed, r#""action":"Closed","state":"Closed""#),
            (PullAction::Merged, r#""action":"Merged","state":"Merged""#),
            (PullAction::Reopened, r#""action":"Reopened","state":"Open""#),
        ] {
            assert!(pull(action).contains(words), "{words}");
        }
    }

    #[test]
    fn the_longest_names_stay_below_the_promised_size() {
        // The longest form of a branch name: every character is escaped to two.
        let long = name(&"\"".repeat(200));
        let locator = locator(&"o".repeat(32), &"d".repeat(64));
        let kind = EventKind::Pull {
            number: PullNumber::new(i64::MAX).unwrap(),
            action: PullAction::Reopened,
            from: locator.clone(),
            from_branch: long.clone(),
            to_branch: long,
            author: locator.owner.clone(),
            sender: locator.owner.clone(),
        };
        assert!(JsonPayloads.render(&locator, &kind).len() < 20 << 10);
    }
}
