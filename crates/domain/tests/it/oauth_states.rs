//! The states of grants under any sequence of steps: no token without consent, none after the end, none twice. A model of a few lines
//! says after each step which tokens have to work.

use branchyard_auth::{AccessToken, CodeChallenge, CodeVerifier, PlainSecret, RefreshToken, UserCode};
use branchyard_domain::entities::{Application, User};
use branchyard_domain::errors::GrantError;
use branchyard_domain::usecases::{AuthorizationRequest, Devices, Grants, IssuedTokens, RevokedToken};
use branchyard_domain::values::{ApplicationId, RedirectUri, Scope};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::harness::{DomainHarness, user, world};
use crate::oauth::KEY;

const CALLBACK: &str = "http://localhost:53682/callback";

/// A step. Numbers choose a user (0 or 1) or an application (0, the built-in one, or 1, which user 1 has registered).
#[derive(Debug, Clone)]
enum Step {
    Authorize(usize, usize, Scope),
    Redeem(Index, bool),
    Refresh(Index, Option<Scope>),
    RevokeAccess(Index),
    RevokeRefresh(Index),
    EndGrants(usize),
    BeginDevice(usize, Scope),
    Decide(Index, usize, bool),
    Poll(Index),
    Suspend(usize),
    Resume(usize),
    DeleteApplication,
    Advance(i64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let scope = || prop_oneof![Just(Scope::Read), Just(Scope::ReadWrite)];
    let index = any::<Index>;
    let step = prop_oneof![
        4 => (0..2_usize, 0..2_usize, scope()).prop_map(|(user, app, scope)| Step::Authorize(user, app, scope)),
        6 => (index(), prop::bool::weighted(0.8)).prop_map(|(code, right)| Step::Redeem(code, right)),
        6 => (index(), prop::option::of(scope())).prop_map(|(token, scope)| Step::Refresh(token, scope)),
        1 => index().prop_map(Step::RevokeAccess),
        1 => index().prop_map(Step::RevokeRefresh),
        1 => (0..2_usize).prop_map(Step::EndGrants),
        2 => (0..2_usize, scope()).prop_map(|(app, scope)| Step::BeginDevice(app, scope)),
        2 => (index(), 0..2_usize, any::<bool>()).prop_map(|(device, user, yes)| Step::Decide(device, user, yes)),
        3 => index().prop_map(Step::Poll),
        1 => (0..2_usize).prop_map(Step::Suspend),
        2 => (0..2_usize).prop_map(Step::Resume),
        1 => Just(Step::DeleteApplication),
        4 => prop_oneof![Just(1), Just(30), Just(61), Just(601), Just(3_601), Just(100 * 86_400)]
            .prop_map(Step::Advance),
    ];
    prop::collection::vec(step, 1..40)
}

struct ModelCode {
    secret: PlainSecret,
    user: usize,
    app: usize,
    scope: Scope,
    end: i64,
    redeemed: Option<usize>,
}

struct ModelDevice {
    code: PlainSecret,
    user_code: UserCode,
    app: usize,
    scope: Scope,
    end: i64,
    decision: Option<(usize, bool)>,
    is_taken: bool,
}

struct ModelGrant {
    user: usize,
    app: usize,
    scope: Scope,
    has_ended: bool,
    end: i64,
    rotated: i64,
    /// The refresh tokens in the order in which they replaced each other.
    chain: Vec<RefreshToken>,
}

struct ModelAccess {
    token: AccessToken,
    grant: usize,
    scope: Scope,
    end: i64,
    is_revoked: bool,
}

/// What the steps so far have to lead to.
struct Model {
    world: DomainHarness,
    users: [User; 2],
    apps: [ApplicationId; 2],
    now: i64,
    is_suspended: [bool; 2],
    is_deleted: bool,
    codes: Vec<ModelCode>,
    devices: Vec<ModelDevice>,
    grants: Vec<ModelGrant>,
    access: Vec<ModelAccess>,
}

fn verifier(right: bool) -> CodeVerifier {
    CodeVerifier::parse(&if right { "v" } else { "w" }.repeat(43)).unwrap()
}

fn again(token: &RefreshToken) -> RefreshToken {
    RefreshToken::parse(token.expose()).unwrap()
}

impl Model {
    fn new() -> Self {
        let world = world();
        let users = [user(&world.ada).clone(), user(&world.ben).clone()];
        let own = world.hub.applications().register(&users[1], "own", &[CALLBACK.to_owned()]).unwrap().id;
        let apps = [ApplicationId::parse(Application::DH).unwrap(), own];
        Self {
            world,
            users,
            apps,
            now: 0,
            is_suspended: [false; 2],
            is_deleted: false,
            codes: Vec::new(),
            devices: Vec::new(),
            grants: Vec::new(),
            access: Vec::new(),
        }
    }

    fn is_usable(&self, app: usize) -> bool {
        app == 0 || !self.is_deleted && !self.is_suspended[1]
    }

    /// Records tokens that were issued. `grant` is the grant that they belong to, or `None` for a new one.
    fn issued(&mut self, tokens: IssuedTokens, grant: Option<usize>, new: (usize, usize, Scope)) {
        let (user, app, scope) = new;
        let grant = grant.unwrap_or_else(|| {
            let end = self.now + Grants::REFRESH_SECONDS;
            let (has_ended, rotated, chain) = (false, self.now, vec![again(&tokens.refresh)]);
            self.grants.push(ModelGrant { user, app, scope, has_ended, end, rotated, chain });
            self.grants.len() - 1
        });
        let end = self.now + Grants::ACCESS_SECONDS;
        self.access.push(ModelAccess { token: tokens.access, grant, scope: tokens.scope, end, is_revoked: false });
    }

    fn take(&mut self, step: Step) {
        let hub = self.world.hub.clone();
        match step {
            Step::Authorize(user, app, scope) => {
                let request = AuthorizationRequest {
                    application: self.apps[app].clone(),
                    redirect_uri: RedirectUri::parse(CALLBACK).unwrap(),
                    scope,
                    challenge: CodeChallenge::of(&verifier(true)),
                };
                let result = hub.grants().authorize(&self.users[user], None, &request);
                assert_eq!(result.is_ok(), self.is_usable(app));
                if let Ok(secret) = result {
                    let end = self.now + Grants::CODE_SECONDS;
                    self.codes.push(ModelCode { secret, user, app, scope, end, redeemed: None });
                }
            }
            Step::Redeem(code, right) if !self.codes.is_empty() => {
                let at = code.index(self.codes.len());
                let code = &self.codes[at];
                let (user, app, scope) = (code.user, code.app, code.scope);
                let result = hub.grants().redeem(&self.apps[app], &code.secret.hash(), CALLBACK, &verifier(right));
                let expected = code.redeemed.is_none()
                    && right
                    && self.now < code.end
                    && self.is_usable(app)
                    && !self.is_suspended[user];
                assert_eq!(result.is_ok(), expected, "{result:?}");
                match result {
                    Ok(tokens) => {
                        self.issued(tokens, None, (user, app, scope));
                        self.codes[at].redeemed = Some(self.grants.len() - 1);
                    }
                    Err(_) => {
                        if let Some(grant) = code.redeemed {
                            self.grants[grant].has_ended = true;
                        }
                    }
                }
            }
            Step::Refresh(token, scope) if !self.grants.is_empty() => {
                let sent: Vec<(usize, usize)> = (0..self.grants.len())
                    .flat_map(|grant| (0..self.grants[grant].chain.len()).map(move |at| (grant, at)))
                    .collect();
                let (at, place) = *token.get(&sent);
                let grant = &self.grants[at];
                let (token, app, newest) = (again(&grant.chain[place]), grant.app, grant.chain.len() - 1);
                let is_alive = !grant.has_ended && self.now < grant.end && !(app == 1 && self.is_deleted);
                let is_repeated = place + 1 == newest && self.now < grant.rotated + 60;
                let is_good = place == newest || is_repeated;
                let may = self.is_usable(app) && !self.is_suspended[grant.user];
                let is_narrow = scope.is_none_or(|scope| scope <= grant.scope);
                let result = hub.grants().refresh(&self.apps[app], &token, token.successor(&KEY), scope);
                assert_eq!(result.is_ok(), is_alive && is_good && may && is_narrow, "{result:?}");
                let new = (grant.user, app, grant.scope);
                match result {
                    Ok(tokens) => {
                        let successor = again(&tokens.refresh);
                        let grant = &mut self.grants[at];
                        if place == newest {
                            grant.chain.push(successor);
                            (grant.rotated, grant.end) = (self.now, self.now + Grants::REFRESH_SECONDS);
                        } else {
                            assert_eq!(successor.hash(), grant.chain[newest].hash());
                        }
                        self.issued(tokens, Some(at), new);
                    }
                    Err(error) => {
                        assert!(!matches!(error, GrantError::Port(_)));
                        self.grants[at].has_ended |= is_alive && !is_good;
                    }
                }
            }
            Step::RevokeAccess(token) if !self.access.is_empty() => {
                let at = token.index(self.access.len());
                let access = &mut self.access[at];
                let app = &self.apps[self.grants[access.grant].app];
                let token = RevokedToken::Access(AccessToken::parse(access.token.expose()).unwrap());
                hub.grants().revoke(app, &token).unwrap();
                access.is_revoked = true;
            }
            Step::RevokeRefresh(token) if !self.grants.is_empty() => {
                let at = token.index(self.grants.len());
                let grant = &mut self.grants[at];
                let token = RevokedToken::Refresh(again(&grant.chain[0]));
                hub.grants().revoke(&self.apps[grant.app], &token).unwrap();
                grant.has_ended = true;
            }
            Step::EndGrants(user) => {
                for view in hub.grants().list(&self.users[user], None, 1_000).unwrap() {
                    hub.grants().end(&self.users[user], view.grant.id).unwrap();
                }
                self.grants.iter_mut().filter(|grant| grant.user == user).for_each(|grant| grant.has_ended = true);
            }
            Step::BeginDevice(app, scope) => {
                let result = hub.devices().begin(&self.apps[app], scope);
                assert_eq!(result.is_ok(), self.is_usable(app));
                if let Ok(device) = result {
                    self.devices.push(ModelDevice {
                        code: device.device_code,
                        user_code: device.user_code,
                        app,
                        scope,
                        end: self.now + Devices::SECONDS,
                        decision: None,
                        is_taken: false,
                    });
                }
            }
            Step::Decide(device, user, yes) if !self.devices.is_empty() => {
                let at = device.index(self.devices.len());
                let device = &self.devices[at];
                let expected = device.decision.is_none()
                    && self.now < device.end
                    && !device.is_taken
                    && self.is_usable(device.app);
                let result = hub.devices().decide(&self.users[user], None, device.user_code, yes);
                assert_eq!(result.is_ok(), expected, "{result:?}");
                if expected {
                    self.devices[at].decision = Some((user, yes));
                }
            }
            Step::Poll(device) if !self.devices.is_empty() => {
                let at = device.index(self.devices.len());
                let device = &self.devices[at];
                let (app, scope) = (device.app, device.scope);
                let waits = !device.is_taken && self.now < device.end && !(app == 1 && self.is_deleted);
                let approved_by = device.decision.filter(|(_, yes)| *yes).map(|(user, _)| user);
                let result = hub.devices().poll(&self.apps[app], &device.code.hash());
                let expected = waits && approved_by.is_some_and(|user| !self.is_suspended[user] && self.is_usable(app));
                assert_eq!(result.is_ok(), expected, "{result:?}");
                match (result, approved_by) {
                    (Ok(tokens), Some(user)) => {
                        self.issued(tokens, None, (user, app, scope));
                        self.devices[at].is_taken = true;
                    }
                    (Err(GrantError::Denied), None) => self.devices[at].is_taken = true,
                    _ => {}
                }
            }
            Step::Suspend(user) => {
                let proof = hub.administration().operator();
                hub.administration().suspend(&proof, self.users[user].name.as_str()).unwrap();
                self.is_suspended[user] = true;
            }
            Step::Resume(user) => {
                let proof = hub.administration().operator();
                hub.administration().resume(&proof, self.users[user].name.as_str()).unwrap();
                self.is_suspended[user] = false;
            }
            Step::DeleteApplication => {
                assert_eq!(hub.applications().remove(&self.users[1], &self.apps[1]).is_ok(), !self.is_deleted);
                self.is_deleted = true;
            }
            Step::Advance(seconds) => {
                self.world.fakes.clock.advance_seconds(seconds);
                self.now += seconds;
            }
            _ => {}
        }
    }

    /// Compares each token that was ever issued with the model.
    fn check(&self) {
        let grants = self.world.hub.grants();
        for access in &self.access {
            let grant = &self.grants[access.grant];
            let expected = !access.is_revoked
                && !grant.has_ended
                && self.now < access.end
                && self.is_usable(grant.app)
                && !self.is_suspended[grant.user];
            let hash = access.token.hash();
            let checked = grants.check(&hash).unwrap();
            assert_eq!(checked.is_some(), expected);
            assert!(grants.known(&hash).is_none() || expected, "a cache knows what is refused");
            if let Some(checked) = checked {
                assert_eq!((checked.user.id, checked.access.scope), (self.users[grant.user].id, access.scope));
                assert!(access.scope <= grant.scope, "no token allows more than the user granted");
            }
        }
        for (number, user) in self.users.iter().enumerate() {
            let live = self.grants.iter().filter(|grant| {
                grant.user == number && !grant.has_ended && self.now < grant.end && !(grant.app == 1 && self.is_deleted)
            });
            assert_eq!(grants.list(user, None, 1_000).unwrap().len(), live.count());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_token_without_consent_none_after_its_end_and_none_twice(steps in steps()) {
        let mut model = Model::new();
        for step in steps {
            model.take(step);
            model.check();
        }
    }
}
