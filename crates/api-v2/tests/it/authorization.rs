//! Requests every route as every kind of caller, on a public and on a private database. `authorization.txt` lists the expected
//! statuses. The test fails for a route that is missing from the table and for a line without a route.
//! `authorization_forks.txt` lists the expected statuses for the roles on a private fork, and for the pull requests that it
//! opens.
//!
//! Each response comes from a server of its own, so that changes by one caller do not affect the next response.

use std::collections::BTreeSet;
use std::sync::Arc;

use branchyard_api_snapshots::{Content, SentRequest};
use branchyard_api_testing::{InProcessAnswer, create_user, never_issued_token};
use branchyard_auth::TokenExpiry;
use branchyard_domain::Hub;
use branchyard_domain::access::{Admin, Caller, DatabaseAccess, Level, Own, Participate, Write};
use branchyard_domain::entities::{HookEvent, MemberRole, Mirror, Role, Sealed, User, Visibility};
use branchyard_domain::ports::{CancellationToken, Durability, Metadata as _, WriteKeys};
use branchyard_domain::usecases::{
    EditDatabase, NewBranch, NewDatabase, NewHook, NewOrganization, NewPull, NewRelease, NewTag, Room, SqlWrite,
};
use branchyard_domain::values::{CommitHash, DatabaseName, OwnerName, PublicKey, RefName, Revision, Scope, Title};
use serde_json::{Value, json};

use crate::harness::ApiHarness;
use crate::imports;

const TABLE: &str = include_str!("authorization.txt");
const FORKS: &str = include_str!("authorization_forks.txt");

/// The columns of the table: the kinds of callers.
const CALLERS: [&str; 11] = [
    "anonymous",
    "bad-token",
    "expired",
    "stranger",
    "reader",
    "writer",
    "admin",
    "owner",
    "member",
    "read-scope",
    "write-scope",
];

/// The columns of the table of forks: the kinds of callers.
const FORK_CALLERS: [&str; 7] =
    ["anonymous", "outsider", "base-owner", "fork-removed", "fork-reader", "fork-writer", "fork-admin"];

/// The database that a line of the table of forks requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AuthorizationSide {
    /// The private fork.
    Fork,
    /// The base of the fork, for routes about the pull request from the fork.
    Base,
    /// The base of the fork, made private after the fork was created.
    PrivateBase,
}

/// One line of the table of forks.
struct ForkLine {
    method: &'static str,
    path: &'static str,
    side: AuthorizationSide,
    expected: [u16; FORK_CALLERS.len()],
}

fn fork_table() -> Vec<ForkLine> {
    let lines = FORKS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (method, path) = (word(), word());
        let side = match word() {
            "fork" => AuthorizationSide::Fork,
            "base" => AuthorizationSide::Base,
            "private-base" => AuthorizationSide::PrivateBase,
            other => panic!("{other} in: {line}"),
        };
        let expected = FORK_CALLERS.map(|_| word().parse().unwrap_or_else(|_| panic!("no status in: {line}")));
        assert_eq!(words.next(), None, "too long: {line}");
        ForkLine { method, path, side, expected }
    };
    lines.map(line).collect()
}

#[test]
fn every_route_below_a_database_is_in_the_table_of_forks() {
    let mut mounted: BTreeSet<(String, AuthorizationSide)> = BTreeSet::new();
    for (method, path) in branchyard_api_v2::routes() {
        let route = format!("{method} {path}");
        if ["{database}", "{operation_id}", "{upload_id}"].iter().any(|name| path.contains(name)) {
            mounted.insert((route.clone(), AuthorizationSide::Fork));
        }
        if path.contains("/{database}/pulls") {
            mounted.extend([AuthorizationSide::Base, AuthorizationSide::PrivateBase].map(|side| (route.clone(), side)));
        }
    }
    let lines = fork_table();
    let listed: BTreeSet<(String, AuthorizationSide)> =
        lines.iter().map(|line| (format!("{} {}", line.method, line.path), line.side)).collect();
    assert_eq!(listed.len(), lines.len(), "a line is there twice");
    let missing: Vec<_> = mounted.difference(&listed).collect();
    let stray: Vec<_> = listed.difference(&mounted).collect();
    assert!(missing.is_empty() && stray.is_empty(), "not in the table: {missing:?}; not mounted: {stray:?}");
}

#[actix_web::test]
async fn every_role_on_a_private_fork_is_answered_as_the_table_says() {
    let mut wrong = Vec::new();
    for line in fork_table() {
        for (caller, expected) in FORK_CALLERS.into_iter().zip(line.expected) {
            let scene = AuthorizationHarness::forked(line.side);
            let answer = scene.ask(caller, line.method, line.path).await;
            if answer.status != expected {
                let (method, path, status, side) = (line.method, line.path, answer.status, line.side);
                wrong
                    .push(format!("{method} {path} ({side:?}) by {caller}: {status}, not {expected}: {}", answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as the table says:\n{}", wrong.len(), wrong.join("\n"));
}

/// One line of the table.
struct AuthorizationLine {
    method: &'static str,
    path: &'static str,
    visibility: Option<Visibility>,
    expected: [u16; CALLERS.len()],
}

fn table() -> Vec<AuthorizationLine> {
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let line = |line: &'static str| {
        let mut words = line.split_whitespace();
        let mut word = || words.next().unwrap_or_else(|| panic!("too short: {line}"));
        let (method, path) = (word(), word());
        let visibility = match word() {
            "-" => None,
            "public" => Some(Visibility::Public),
            "private" => Some(Visibility::Private),
            other => panic!("{other} in: {line}"),
        };
        let expected = CALLERS.map(|_| word().parse().unwrap_or_else(|_| panic!("no status in: {line}")));
        assert_eq!(words.next(), None, "too long: {line}");
        AuthorizationLine { method, path, visibility, expected }
    };
    lines.map(line).collect()
}

#[test]
fn every_route_is_in_the_table_and_nothing_else() {
    let mounted: BTreeSet<(String, &str)> = branchyard_api_v2::routes()
        .into_iter()
        .flat_map(|(method, path)| {
            let below_a_database =
                ["{database}", "{operation_id}", "{upload_id}"].iter().any(|name| path.contains(name));
            let on: &[&str] = if below_a_database { &["public", "private"] } else { &["-"] };
            on.iter().map(|visibility| (format!("{method} {path}"), *visibility)).collect::<Vec<_>>()
        })
        .collect();
    let listed: Vec<(String, &str)> = table()
        .iter()
        .map(|line| {
            let visibility = match line.visibility {
                None => "-",
                Some(Visibility::Public) => "public",
                Some(Visibility::Private) => "private",
            };
            (format!("{} {}", line.method, line.path), visibility)
        })
        .collect();
    let unique: BTreeSet<(String, &str)> = listed.iter().cloned().collect();
    assert_eq!(unique.len(), listed.len(), "a line is there twice");
    let missing: Vec<_> = mounted.difference(&unique).collect();
    let stray: Vec<_> = unique.difference(&mounted).collect();
    assert!(missing.is_empty() && stray.is_empty(), "not in the table: {missing:?}; not mounted: {stray:?}");
}

#[actix_web::test]
async fn every_caller_is_answered_as_the_table_says() {
    let mut wrong = Vec::new();
    for line in table() {
        for (caller, expected) in CALLERS.into_iter().zip(line.expected) {
            let scene = AuthorizationHarness::new(line.visibility.unwrap_or(Visibility::Private));
            let answer = scene.ask(caller, line.method, line.path).await;
            if answer.status != expected {
                let (method, path, status) = (line.method, line.path, answer.status);
                let on = line.visibility;
                wrong.push(format!("{method} {path} ({on:?}) by {caller}: {status}, not {expected}: {}", answer.text));
            }
        }
    }
    assert!(wrong.is_empty(), "{} answers are not as the table says:\n{}", wrong.len(), wrong.join("\n"));
}

/// A server with the database `hydro/rivers` of an organization, one resource of each kind below it, and an organization
/// without databases.
pub(crate) struct AuthorizationHarness {
    pub(crate) world: ApiHarness,
    /// Owner and name of the requested database.
    at: (&'static str, &'static str),
    /// Owner and name of the database that pull requests come from.
    source: (&'static str, &'static str),
    owner: Caller,
    owner_name: &'static str,
    pub(crate) head: CommitHash,
    pub(crate) operation: String,
    hook: String,
    delivery: String,
}

pub(crate) const OWNER: &str = "olga";

const RIVERS: (&str, &str) = ("hydro", "rivers");
const FORK: (&str, &str) = (FORKER, "rivers");
/// The user who owns the fork.
const FORKER: &str = "finn";
/// The time of the fakes.
const PRESENT: &str = "2026-01-02T03:04:05.678901Z";

fn new_user(hub: &Hub, name: &str) -> Arc<User> {
    Arc::new(create_user(hub, name))
}

/// Returns the user that represents a column; `None` for a column without a user.
fn person(caller: &str) -> Option<&'static str> {
    match caller {
        "stranger" | "outsider" => Some("sam"),
        "base-owner" => Some(OWNER),
        "fork-removed" => Some("rex"),
        "fork-reader" => Some("rob"),
        "fork-writer" => Some("wil"),
        "fork-admin" => Some("fay"),
        "reader" => Some("rita"),
        "writer" => Some("walt"),
        "admin" => Some("adam"),
        "owner" | "read-scope" | "write-scope" => Some(OWNER),
        "member" => Some("mia"),
        _ => None,
    }
}

impl AuthorizationHarness {
    pub(crate) fn new(visibility: Visibility) -> Self {
        Self::over(ApiHarness::new(), visibility)
    }

    pub(crate) fn over(world: ApiHarness, visibility: Visibility) -> Self {
        let mut scene = Self::bare(world, visibility);
        scene.furnish();
        scene
    }

    /// Creates the private fork of `hydro/rivers` with one resource of each kind below it, and a pull request from it to its
    /// base. Its owner shared the fork with an administrator, a writer, a reader, and a user whose role was removed again.
    fn forked(side: AuthorizationSide) -> Self {
        let mut scene = Self::bare(ApiHarness::new(), Visibility::Public);
        let hub = scene.world.fakes.hub.clone();
        scene.write("main", "CREATE TABLE base(id INTEGER PRIMARY KEY)");
        scene.world.work();
        let base = Caller::clone(&scene.owner);
        let finn = Caller::User(new_user(&hub, FORKER));
        let participant = hub.databases().access::<Participate>(&finn, RIVERS.0, RIVERS.1).unwrap();
        hub.operations().fork(&participant, FORKER, None).unwrap();
        scene.world.work();
        (scene.at, scene.source, scene.owner, scene.owner_name) = (FORK, FORK, finn, FORKER);
        see(&hub, &scene.access(), Visibility::Private);
        let [fay, wil, rob, rex] = ["fay", "wil", "rob", "rex"].map(|name| new_user(&hub, name));
        let carl = Arc::new(hub.people().user_named("carl").unwrap());
        scene.collaborate(&[(&fay, Role::Admin), (&wil, Role::Write), (&rob, Role::Read), (&rex, Role::Read)]);
        scene.collaborate(&[(&carl, Role::Read)]);
        hub.collaborators().remove(&scene.access(), "rex").unwrap();
        scene.furnish();
        if side == AuthorizationSide::Fork {
            return scene;
        }
        let wil = Caller::User(wil);
        let participant = hub.databases().access::<Participate>(&wil, RIVERS.0, RIVERS.1).unwrap();
        let pull = NewPull { publish: true, ..new_pull("Ours", FORK, "main", RIVERS) };
        hub.pulls().open(&participant, pull, None).unwrap();
        while hub.pulls().refresh_next(1).unwrap().is_some() {}
        (scene.at, scene.owner, scene.owner_name) = (RIVERS, base, OWNER);
        if side == AuthorizationSide::PrivateBase {
            see(&hub, &scene.access(), Visibility::Private);
        }
        scene
    }

    fn bare(world: ApiHarness, visibility: Visibility) -> Self {
        let hub = &world.fakes.hub;
        let user = |name: &str| new_user(hub, name);
        let olga = user(OWNER);
        let owner = Caller::User(Arc::clone(&olga));
        let people = ["sam", "rita", "walt", "adam", "mia", "carl", "max"].map(user);
        let [_, rita, walt, adam, mia, carl, max] = &people;
        for organization in ["hydro", "delta"] {
            let wanted = NewOrganization::named(OwnerName::parse(organization).unwrap());
            hub.organizations().create(&olga, wanted, None).unwrap();
            let own = hub.organizations().access::<Own>(&owner, organization).unwrap();
            for member in [mia, max] {
                hub.members().put(&own, member, MemberRole::Member).unwrap();
            }
        }
        let wanted = NewDatabase {
            owner: "hydro".to_owned(),
            name: DatabaseName::parse("rivers").unwrap(),
            visibility,
            description: None,
            default_branch: None,
        };
        hub.databases().create(&olga, wanted, None).unwrap();
        let scene = Self {
            world,
            at: RIVERS,
            source: RIVERS,
            owner,
            owner_name: OWNER,
            head: CommitHash::parse(&"0".repeat(40)).unwrap(),
            operation: String::new(),
            hook: String::new(),
            delivery: String::new(),
        };
        scene.collaborate(&[(rita, Role::Read), (walt, Role::Write), (adam, Role::Admin), (carl, Role::Read)]);
        scene
    }

    pub(crate) fn access<L: Level>(&self) -> DatabaseAccess<L> {
        self.world.fakes.hub.databases().access(&self.owner, self.at.0, self.at.1).unwrap()
    }

    fn collaborate(&self, roles: &[(&Arc<User>, Role)]) {
        for (user, role) in roles {
            self.world.fakes.hub.collaborators().put(&self.access(), user, *role).unwrap();
        }
    }

    pub(crate) fn write(&self, branch: &str, statements: &str) -> String {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: RefName::parse(branch).unwrap(),
            statements: statements.to_owned(),
            message: None,
            expected_head: None,
            start: None,
        };
        self.world.fakes.hub.operations().sql_write(&self.access::<Write>(), wanted, None).unwrap().id.to_string()
    }

    /// Creates the branches `main`, `work` and `spare`, the tags `v1` and `v2`, a release of `v2`, a pull request, a hook with
    /// a ping delivery, and a queued operation.
    fn furnish(&mut self) {
        let hub = self.world.fakes.hub.clone();
        self.write("main", "CREATE TABLE t(id INTEGER PRIMARY KEY)");
        self.write("work", "INSERT INTO t VALUES (1)");
        self.world.work();
        let name = |text: &str| RefName::parse(text).unwrap();
        let from = || Revision::Branch("main".to_owned());
        hub.branches().create(&self.access(), NewBranch { name: name("spare"), from: from() }, None).unwrap();
        for tag in ["v1", "v2"] {
            let tag = hub.tags().create(&self.access(), NewTag { name: name(tag), from: from(), message: None }, None);
            self.head = tag.unwrap().commit;
        }
        let release = NewRelease {
            tag: name("v2"),
            title: Title::parse("Two").unwrap(),
            commit: self.head.clone().into(),
            description: None,
            create_tag: false,
        };
        hub.releases().create(&self.access(), release, None).unwrap();
        let pull = new_pull("A change", self.at, "work", self.at);
        hub.pulls().open(&self.access::<Participate>(), pull, None).unwrap();
        let url = hub.hooks().address(&self.access(), "https://hook.test/").unwrap();
        let hook = NewHook { url, events: [HookEvent::Push].into(), active: true };
        let hook = hub.hooks().create(&self.access(), hook, None).unwrap().view.hook.id;
        self.hook = hook.to_string();
        self.delivery = hub.hooks().ping(&self.access(), hook, None).unwrap().delivery.id.to_string();
        let done: Vec<_> = hub.dispatch().turn("test", &[], Room { hooks: 1, held_back: 1, slow: &[] }).unwrap().leases;
        let done: Vec<_> = done
            .into_iter()
            .map(|lease| hub.dispatch().attempt(lease, &CancellationToken::default(), || true).unwrap())
            .collect();
        hub.dispatch().turn("test", &done, Room { hooks: 0, held_back: 0, slow: &[] }).unwrap();
        self.operation = self.write("busy", "INSERT INTO t VALUES (2)");
    }

    /// Mints a token for a column. Returns the token and its id.
    pub(crate) fn token(&self, caller: &str) -> (Option<String>, String) {
        let none = || "0199c3a2-5b7e-7c41-9d1f-2f4f6a8b9c0d".to_owned();
        let mint = |name: &str| {
            let hub = &self.world.fakes.hub;
            let user = hub.people().user_named(name).unwrap();
            let minted = hub.tokens().create(&user, "test", TokenExpiry::Days30, hub.tokens().mint(), None).unwrap();
            (Some(minted.secret.expose().to_owned()), minted.token.id.to_string())
        };
        match (caller, person(caller)) {
            ("read-scope", _) => (Some(self.world.access_token(OWNER, Scope::Read)), mint(OWNER).1),
            ("write-scope", _) => (Some(self.world.access_token(OWNER, Scope::ReadWrite)), mint(OWNER).1),
            (_, Some(name)) => mint(name),
            ("anonymous", None) => (None, none()),
            ("bad-token", None) => (Some(never_issued_token()), none()),
            ("expired", None) => {
                let minted = mint(OWNER);
                self.world.fakes.clock.advance_seconds(31 * 86_400);
                minted
            }
            (other, None) => panic!("{other} is no column"),
        }
    }

    /// Adds a key for a column. Returns its id.
    fn key(&self, caller: &str) -> String {
        let hub = &self.world.fakes.hub;
        let user = hub.people().user_named(person(caller).unwrap_or(OWNER)).unwrap();
        let mut bytes = [0; 32];
        hub.random(&mut bytes);
        match hub.keys().add(&user, "laptop", PublicKey::from_bytes(bytes), None) {
            Ok(key) => key.id.to_string(),
            // The limit is tested elsewhere.
            Err(_) => hub.keys().list(&user, None, 1).unwrap()[0].id.to_string(),
        }
    }

    /// Makes the database a mirror.
    fn follow(&self) {
        let access = self.access::<Admin>();
        let mut tx = self.world.fakes.metadata.write(&WriteKeys::any()).unwrap();
        let mut database = tx.databases().get(access.database().id).unwrap().unwrap();
        let mirror = Mirror {
            database_id: database.id,
            url: "https://yard.example/hydro/rivers".to_owned(),
            interval_seconds: Mirror::DEFAULT_INTERVAL_SECONDS,
            seed: Sealed { key_id: "fake".to_owned(), bytes: Vec::new() },
            public_key: PublicKey::from_bytes([7; 32]),
            created_by: access.who().id,
            last_sync_at: None,
            last_error: None,
            failures: 0,
            next_sync_at: None,
        };
        database.is_mirror = true;
        if tx.mirrors().get(database.id).unwrap().is_none() {
            tx.mirrors().add(&mirror).unwrap();
            assert!(tx.databases().update(&database).unwrap());
            tx.commit(Durability::Synced).unwrap();
        }
    }

    async fn ask(&self, caller: &str, method: &str, path: &str) -> InProcessAnswer {
        self.world.send(self.good(caller, method, path).await.into_request()).await
    }

    /// Returns a request that succeeds if `caller` has permission.
    pub(crate) async fn good(&self, caller: &str, method: &str, path: &str) -> SentRequest {
        let (mut token, token_id) = self.token(caller);
        if path.contains("{token_id}") {
            // The target is not the token that authenticates the request, because the last use of that token is recorded
            // asynchronously, before or after the response.
            token = self.token(caller).0;
        }
        if path == "/uploads/{upload_id}/{part_number}" {
            let session = self.session(self.owner_name).await;
            let address = imports::url(&session).strip_prefix("https://yard.test/api/v2").unwrap().to_owned();
            return SentRequest::new(
                token,
                method,
                branchyard_api_v2::BASE,
                address,
                Content::Bytes(imports::FILE.to_vec()),
            );
        }
        if path.contains("/mirror") {
            self.follow();
        }
        let body = match (method, path) {
            ("POST", "/databases/{owner}/{database}/imports") => Some(self.import(caller).await),
            _ => body(method, path, person(caller).unwrap_or(self.owner_name), (self.source, self.at), &self.head),
        };
        let locator = format!("{}/{}", self.at.0, self.at.1);
        let filled = [
            ("{owner}/{database}", locator.as_str()),
            ("{organization}", "delta"),
            ("collaborators/{username}", "collaborators/carl"),
            ("members/{username}", "members/max"),
            ("{token_id}", &token_id),
            ("{key_id}", &self.key(caller)),
            ("{branch}", "spare"),
            ("tables/{table}", "tables/t"),
            ("tags/{tag}", "tags/v1"),
            ("releases/{tag}", "releases/v2"),
            ("{pull_number}", "1"),
            ("{table}", "t"),
            ("{operation_id}", &self.operation),
            ("{hook_id}", &self.hook),
            ("{delivery_id}", &self.delivery),
        ];
        let query = match path {
            "/databases/{owner}/{database}/sql" if method == "GET" => "?q=select%201",
            "/databases/{owner}/{database}/export" => "?format=csv&table=t",
            "/databases/{owner}/{database}/diff" | "/databases/{owner}/{database}/diff/tables" => "?from=v1&to=work",
            "/databases/{owner}/{database}/tables/{table}/history" => "?ref=work",
            "/databases/{owner}/{database}/tables/{table}/blame" => "?ref=work&key=%7B%22id%22%3A%221%22%7D",
            _ => "",
        };
        let address = filled.iter().fold(path.to_owned(), |path, (name, value)| path.replace(name, value));
        assert!(!address.contains('{'), "{address}: say what stands there");
        let content = body.map_or(Content::None, Content::Json);
        SentRequest::new(token, method, branchyard_api_v2::BASE, format!("{address}{query}"), content)
    }

    /// Opens an upload session as `name`, a user with the write role.
    pub(crate) async fn session(&self, name: &str) -> Value {
        let user = self.world.fakes.hub.people().user_named(name).unwrap();
        let tokens = self.world.fakes.hub.tokens();
        let minted = tokens.create(&user, "uploads", TokenExpiry::Year1, tokens.mint(), None).unwrap();
        let body = json!({"content_length": imports::FILE.len(), "num_parts": 1, "file_type": "csv"});
        let path = format!("/databases/{}/{}/imports/uploads", self.at.0, self.at.1);
        self.world.post(Some(minted.secret.expose()), &path, body).await.expect(201).data()
    }

    /// Uploads a file and returns the body of the import.
    pub(crate) async fn import(&self, caller: &str) -> Value {
        let uploads =
            matches!(caller, "writer" | "admin" | "owner" | "member" | "write-scope" | "fork-writer" | "fork-admin");
        let session = self.session(person(caller).filter(|_| uploads).unwrap_or(self.owner_name)).await;
        let part = self.world.send(imports::put(imports::url(&session), imports::FILE)).await.expect(200);
        imports::request(&session, part.header("etag"))
    }
}

fn see(hub: &Hub, access: &DatabaseAccess<Admin>, visibility: Visibility) {
    let edit = EditDatabase { visibility: Some(visibility), ..EditDatabase::default() };
    hub.databases().edit(access, edit, None).unwrap();
}

/// Returns a pull request to the branch `main`.
fn new_pull(title: &str, from: (&str, &str), branch: &str, to: (&str, &str)) -> NewPull {
    let locator = |(owner, name): (&str, &str)| (owner.to_owned(), name.to_owned());
    NewPull {
        title: Title::parse(title).unwrap(),
        description: None,
        from_database: locator(from),
        from_branch: branch.to_owned(),
        to_database: locator(to),
        to_branch: "main".to_owned(),
        publish: false,
    }
}

/// Returns a body that succeeds if the caller has permission; `None` if the route has no body.
fn body(
    method: &str,
    path: &str,
    name: &str,
    (source, at): ((&str, &str), (&str, &str)),
    head: &CommitHash,
) -> Option<Value> {
    let head = head.as_str();
    let end =
        |of: (&str, &str), branch: &str| json!({"database": {"owner": of.0, "name": of.1}, "branch_name": branch});
    let body = match (method, path.strip_prefix("/databases/{owner}/{database}").unwrap_or(path)) {
        ("GET" | "DELETE", _) => return None,
        ("POST", "/user/tokens") => json!({"name": "ci", "expires_in": "30d"}),
        ("POST", "/user/keys") => json!({"name": "laptop", "public_key": PublicKey::from_bytes([7; 32]).to_string()}),
        ("POST", "/organizations") => json!({"name": "fresh"}),
        ("PATCH", "/organizations/{organization}") => json!({"base_role": "read"}),
        ("PUT", "/organizations/{organization}/members/{username}") => json!({"role": "owner"}),
        ("POST", "/databases") => json!({"owner": "hydro", "name": "lakes", "visibility": "public"}),
        ("PATCH", "") => json!({"description": "Gauges"}),
        ("PATCH", "/mirror") => json!({"interval_seconds": 600}),
        ("POST", "/mirror/sync") => return None,
        ("PUT", "/collaborators/{username}") => json!({"role": "write"}),
        ("POST", "/branches" | "/tags") => json!({"name": "fresh", "from": {"branch": "main"}}),
        ("POST", "/forks") => json!({"owner": name}),
        ("POST", "/releases") => json!({"tag": "v1", "title": "One", "commit_sha": head}),
        ("PATCH", "/releases/{tag}") => json!({"title": "Second"}),
        ("POST", "/pulls") => {
            let to = if source == at { "spare" } else { "main" };
            json!({"title": "Other", "from_branch": end(source, "work"), "to_branch": end(at, to), "publish": true})
        }
        ("PATCH", "/pulls/{pull_number}") => json!({"state": "closed"}),
        ("POST", "/pulls/{pull_number}/comments") => json!({"body": "Fine."}),
        ("POST", "/pulls/{pull_number}/merge") => json!({}),
        ("POST", "/operations/{operation_id}/cancel" | "/pulls/{pull_number}/withdraw" | "/purge") => return None,
        ("POST", "/hooks") => json!({"url": "https://ci.test/yard"}),
        ("PATCH", "/hooks/{hook_id}") => json!({"active": false}),
        ("POST", path) if path.starts_with("/hooks/") => return None,
        ("POST", "/imports/uploads") => json!({"content_length": 1, "num_parts": 1, "file_type": "csv"}),
        ("POST", "/restore") => json!({"branch": "main", "at": PRESENT, "to_branch": "back"}),
        ("POST", "/tables/{table}/edits") => {
            json!({"branch": "main", "base": head, "rows": [{"op": "insert", "set": {"id": 9}}]})
        }
        ("POST", "/sql") => json!({"q": "select 1"}),
        ("POST", "/sql-writes") => json!({"from_branch": "main", "to_branch": "main", "q": "INSERT INTO t VALUES (3)"}),
        other => panic!("{other:?} needs a body"),
    };
    Some(body)
}
