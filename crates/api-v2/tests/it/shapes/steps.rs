//! Runs the blocks of `steps.txt`.

use std::collections::HashMap;
use std::time::Duration;

use branchyard_api_snapshots::{Block, Content, SentRequest, ShapeSnapshot};
use branchyard_api_testing::InProcessAnswer;
use branchyard_api_v2::BASE;
use branchyard_domain::entities::Visibility;
use branchyard_domain::usecases::Limits;
use branchyard_domain_testing::fakes;
use serde_json::{Value, json};

use super::{operation, rules, shape};
use crate::authorization::{AuthorizationHarness, OWNER};
use crate::harness::ApiHarness;
use crate::imports;

/// A server on which the steps of a block run.
struct Play<'a> {
    block: &'a Block,
    scene: AuthorizationHarness,
    /// One token per caller.
    tokens: HashMap<&'static str, Option<String>>,
    last: Option<(SentRequest, InProcessAnswer)>,
}

pub(super) async fn play(block: &Block) -> ShapeSnapshot {
    let (limits, steps) = match block.steps.first().and_then(|step| step.strip_prefix("limit ")) {
        Some(limit) => (limits(limit), &block.steps[1..]),
        None => (Limits::default(), &block.steps[..]),
    };
    let world = ApiHarness::over(fakes::hub_with(limits), |_| {});
    let scene = AuthorizationHarness::over(world, Visibility::Public);
    let mut play = Play { block, scene, tokens: HashMap::new(), last: None };
    for (number, step) in steps.iter().enumerate() {
        play.take(step).await;
        let settled = number + 1 == steps.len();
        if let (false, Some((asked, answer))) = (settled, &play.last) {
            assert!(answer.status < 300, "{} {}: {asked:?}: {}", block.operation, block.name, answer.text);
        }
    }
    let (asked, answer) = play.last.expect("a block has a request");
    shape(&block.operation, block.name.clone(), asked, answer)
}

fn limits(text: &str) -> Limits {
    let (name, number) = text.split_once(' ').expect("a name and a number");
    let (number, mut limits) = (number.parse().unwrap(), Limits::default());
    match name {
        "tokens" => limits.tokens_per_user = number,
        "keys" => limits.keys_per_user = number,
        "databases" => limits.databases_per_owner = number,
        "queued" => limits.queued_per_database = number,
        "organizations" => limits.organizations_per_user = number,
        "bytes" => limits.bytes_per_owner = number,
        "operations" => limits.operations_per_day = number,
        "uploads" => limits.open_uploads_per_user = number,
        other => panic!("no limit is called {other}"),
    }
    limits
}

impl Play<'_> {
    async fn take(&mut self, step: &'static str) {
        let (word, rest) = step.split_once(' ').unwrap_or((step, ""));
        let asked = match word {
            "work" => return self.scene.world.work(),
            "slow-scans" => return self.scene.world.fakes.engine.scans_take(Duration::from_secs(601)),
            "again" => self.last.as_ref().expect("a request before").0.clone(),
            "good" => self.good(rest).await,
            "good-import" => self.good_import(rest).await,
            "large-statement" => {
                let token = self.token("owner");
                let body = json!({"q": "x".repeat((1 << 20) + 1)});
                SentRequest::new(token, "POST", BASE, "/databases/hydro/rivers/sql".to_owned(), Content::Json(body))
            }
            "large-write" => {
                let token = self.token("owner");
                let body = json!({"from_branch": "main", "to_branch": "main", "q": "x".repeat(10_000)});
                let path = "/databases/hydro/rivers/sql-writes".to_owned();
                SentRequest::new(token, "POST", BASE, path, Content::Json(body))
            }
            "used-part" => self.used_part().await,
            caller => self.request(caller, rest),
        };
        let answer = self.scene.world.send(asked.clone().into_request().insert_header(rules::ID)).await;
        self.last = Some((asked, answer));
    }

    fn token(&mut self, caller: &'static str) -> Option<String> {
        let scene = &self.scene;
        self.tokens.entry(caller).or_insert_with(|| scene.token(caller).0).clone()
    }

    /// Parses `METHOD ADDRESS [Header: value] BODY`.
    fn request(&mut self, caller: &'static str, rest: &str) -> SentRequest {
        let token = self.token(caller);
        let last = self.last.as_ref().filter(|(_, answer)| answer.status < 300).map(|(_, answer)| answer.data());
        let last = last.and_then(|data| data["id"].as_str().map(str::to_owned)).unwrap_or_default();
        let known = [("…", "/databases/hydro/rivers"), ("{head}", self.scene.head.as_str())];
        let known = known.into_iter().chain([("{operation}", self.scene.operation.as_str()), ("{last}", &last)]);
        let rest = known.fold(rest.to_owned(), |text, (name, value)| text.replace(name, value));
        let (method, rest) = rest.split_once(' ').expect("a method");
        let (address, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        let asked = SentRequest::new(token, method, BASE, address.to_owned(), Content::None);
        match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((header, body)) => {
                let (name, value) = header.split_once(": ").expect("a header");
                let name = ["Accept", "Idempotency-Key", "Range"]
                    .into_iter()
                    .find(|known| *known == name)
                    .expect("a known header");
                with_body(asked.with(name, value), body.trim())
            }
            None => with_body(asked, rest),
        }
    }

    async fn good(&mut self, rest: &'static str) -> SentRequest {
        let (caller, body) = rest.split_once(' ').unwrap_or((rest, ""));
        let operation = operation(&self.block.operation);
        with_body(self.scene.good(caller, &operation.method, &operation.path).await, body)
    }

    /// Returns an import that opens a pull request.
    async fn good_import(&mut self, caller: &'static str) -> SentRequest {
        let token = self.token(caller);
        let mut body = self.scene.import(caller).await;
        body["pull_request_branch_name"] = json!("people");
        SentRequest::new(token, "POST", BASE, "/databases/hydro/rivers/imports".to_owned(), Content::Json(body))
    }

    async fn used_part(&mut self) -> SentRequest {
        let session = self.scene.session(OWNER).await;
        let world = &self.scene.world;
        let etag = world.send(imports::put(imports::url(&session), imports::FILE)).await.header("etag").to_owned();
        let address = imports::url(&session).strip_prefix("https://yard.test/api/v2").unwrap().to_owned();
        let body = imports::request(&session, &etag);
        let token = self.token("owner");
        self.scene.world.post(token.as_deref(), "/databases/hydro/rivers/imports", body).await.expect(202);
        SentRequest::new(None, "PUT", BASE, address, Content::Bytes(imports::FILE.to_vec()))
    }
}

fn with_body(asked: SentRequest, body: &str) -> SentRequest {
    if body.is_empty() {
        return asked;
    }
    let content = match serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}")) {
        Value::String(text) => Content::Bytes(text.into_bytes()),
        body => Content::Json(body),
    };
    SentRequest { content, ..asked }
}
