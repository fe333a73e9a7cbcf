//! Runs the blocks of steps.txt.

use std::collections::HashMap;
use std::time::Duration;

use branchyard_api_snapshots::{Block, Content, DeclaredOperation, SentRequest, ShapeSnapshot};
use branchyard_api_testing::InProcessAnswer;
use branchyard_domain::entities::Visibility;
use branchyard_domain::usecases::Limits;
use branchyard_domain_testing::fakes;
use serde_json::Value;

use super::{ID, shape};
use crate::good::{self, FORM};
use crate::harness::LegacyHarness;

/// A block that is being run, with its harness.
struct Play<'a> {
    operation: &'a DeclaredOperation,
    world: LegacyHarness,
    /// One token per kind of caller.
    tokens: HashMap<&'static str, Option<String>>,
    last: Option<(SentRequest, InProcessAnswer)>,
    /// Name of the latest operation that was started.
    started: String,
}

pub(super) async fn play(operation: &DeclaredOperation, block: &Block) -> ShapeSnapshot {
    let limits = block.steps.first().and_then(|step| step.strip_prefix("limit ")).map(limits);
    let fakes = fakes::hub_with(limits.clone().unwrap_or_default());
    let world = LegacyHarness::over(fakes, Visibility::Public, None);
    let mut play = Play { operation, world, tokens: HashMap::new(), last: None, started: String::new() };
    let steps = &block.steps[usize::from(limits.is_some())..];
    for (number, step) in steps.iter().enumerate() {
        play.take(step).await;
        let settled = number + 1 == steps.len();
        if let (false, Some((asked, answer))) = (settled, &play.last) {
            assert_eq!(answer.status, 200, "{} {}: {asked:?}: {}", block.operation, block.name, answer.text);
        }
    }
    let (asked, answer) = play.last.unwrap_or_else(|| panic!("{} {} has no request", block.operation, block.name));
    shape(&block.operation, block.name.clone(), asked, answer)
}

fn limits(text: &str) -> Limits {
    match text.split_once(' ') {
        Some(("databases", number)) => Limits { databases_per_owner: number.parse().unwrap(), ..Limits::default() },
        _ => panic!("no such limit: {text}"),
    }
}

/// Parses a JSON string.
fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"))
}

impl Play<'_> {
    async fn take(&mut self, step: &'static str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let asked = match word {
            "work" => return self.world.work(),
            "setting" => return self.set(rest),
            "again" => self.last.as_ref().map(|(asked, _)| asked.clone()).unwrap_or_else(|| panic!("nothing before")),
            "good" => good::good(&self.world, "owner", &self.operation.method, &self.operation.path),
            "upload" => {
                let (branch, file) = rest.split_once(' ').unwrap_or((rest, ""));
                self.form(good::upload("t.csv", branch, &text(file)))
            }
            "form" => self.form(text(rest)),
            caller => self.request(caller, rest),
        };
        let answer = self.world.send(asked.clone().into_request().insert_header(ID)).await;
        if let Ok(json) = serde_json::from_str::<Value>(&answer.text) {
            self.started = json["operation_name"].as_str().map_or(std::mem::take(&mut self.started), str::to_owned);
        }
        self.last = Some((asked, answer));
    }

    fn set(&mut self, rest: &str) {
        let settings = &mut self.world.settings;
        match rest.split_once(' ') {
            Some(("read_timeout_ms", ms)) => settings.read_timeout = Duration::from_millis(ms.parse().unwrap()),
            Some(("row_limit", rows)) => settings.row_limit = rows.parse().unwrap(),
            Some(("upload_max_bytes", bytes)) => settings.upload_max_bytes = bytes.parse().unwrap(),
            _ => panic!("no such setting: {rest}"),
        }
    }

    fn token(&mut self, caller: &'static str) -> Option<String> {
        let world = &self.world;
        self.tokens.entry(caller).or_insert_with(|| good::token(world, caller)).clone()
    }

    fn form(&mut self, form: String) -> SentRequest {
        let address = "/api/v1alpha1/olga/rivers/upload".to_owned();
        SentRequest::new(self.token("owner"), "POST", "", address, Content::Text(FORM, form))
    }

    /// Parses a request of the form `METHOD ADDRESS BODY`.
    fn request(&mut self, caller: &'static str, rest: &str) -> SentRequest {
        let token = self.token(caller);
        let known = [("…", "/api/v1alpha1/olga/rivers"), ("~", "/api/v1alpha1"), ("{last}", &self.started)];
        let rest = known.iter().fold(rest.to_owned(), |text, (name, value)| text.replace(name, value));
        let (method, rest) = rest.split_once(' ').unwrap_or_else(|| panic!("no address in {rest}"));
        let (address, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let content = match body {
            "" => Content::None,
            body => Content::Json(serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))),
        };
        SentRequest::new(token, method, "", address.to_owned(), content)
    }
}
