//! The context of a request: its caller, path, query, headers and body, and methods that run use cases for it.

use std::sync::Arc;

use actix_web::dev::Payload;
use actix_web::http::Method;
use actix_web::web::Bytes;
use actix_web::{FromRequest, HttpMessage as _, HttpRequest, web};
use branchyard_deployments::access::{DeploymentAccess, DeploymentLevel};
use branchyard_domain::access::{Admin, Belong, Caller, DatabaseAccess, Level, OrganizationAccess, Read, Standing};
use branchyard_domain::entities::User;
use branchyard_domain::errors::{AccessError, HookError, PortError};
use branchyard_domain::ports::{AddressError, EngineError, StartedRead};
use branchyard_domain::usecases::{HookAddress, IdempotencyRecord};
use branchyard_domain::{CallContext, Hub};
use branchyard_problem_details::Problem;
use futures_util::future::LocalBoxFuture;
use tokio::sync::oneshot;

use crate::answer_budget::NoEffect;
use crate::api_error::{ApiError, problem_of_fault, read_only, storage_low};
use crate::api_response::ApiResponse;
use crate::body::{self, AnonymousBodies, ReadBody};
use crate::caller::{self, address_of, address_text, caller_of, user_agent_of};
use crate::coding::Coding;
use crate::conditional::{IfMatch, IfNoneMatch};
use crate::fields::{Fields, read_open};
use crate::handler_error::HandlerError;
use crate::idempotency::{self, ClaimedKey};
use crate::json::Json;
use crate::paging::PageRequest;
use crate::query::{Query, Repeats, pairs};
use crate::rate::key as network_key;
use crate::read_in_flight::ReadStart;
use crate::request_body::RequestBody;
use crate::request_id::RequestId;
use crate::request_log::{RoutedRequest, in_context};
use crate::request_policy::RequestPolicy;
use crate::services::Services;
use crate::state::AppState;
use branchyard_executor::BodyRoom;
use branchyard_executor::CallerKey;
use branchyard_executor::{Pool, PoolError};

/// Whether a response includes secrets, which depends on its recipient.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretsShown {
    /// The client of this request. Secrets are included.
    Now,
    /// A client that repeats the request under its idempotency key. Secrets are omitted.
    Later,
}

/// One request. Extraction checks the credential (401), counts the request against the caller's quota (429), and checks the
/// declared size (413) and media type (415) of the body. It refuses callers without a credential where [`AnonymousBodies`] requires
/// one (401), and reads the body last (v2 §2.5).
pub struct RequestContext {
    /// The state that all handlers share.
    pub state: AppState,
    /// The authenticated caller, or an anonymous one.
    pub caller: Caller,
    pub(crate) request: HttpRequest,
    pub(crate) body: Bytes,
    pub(crate) id: RequestId,
    /// The memory reservation of `body`.
    room: Option<BodyRoom>,
}

impl FromRequest for RequestContext {
    type Error = HandlerError;
    type Future = LocalBoxFuture<'static, Result<Self, HandlerError>>;

    fn from_request(request: &HttpRequest, payload: &mut Payload) -> Self::Future {
        let (request, payload) = (request.clone(), payload.take());
        Box::pin(async move {
            let mut call = Self::without_body(&request).await?;
            if matches!(*request.method(), Method::POST | Method::PUT | Method::PATCH) {
                let read = call.read_json(payload).await?;
                (call.body, call.room) = (read.bytes, Some(read.room));
            }
            Ok(call)
        })
    }
}

fn state_of(request: &HttpRequest) -> Result<AppState, HandlerError> {
    let state = request.app_data::<web::Data<AppState>>().ok_or_else(Problem::internal)?;
    Ok(state.get_ref().clone())
}

/// Returns a path segment of a request, percent-decoded once.
pub fn path_segment(request: &HttpRequest, name: &str) -> String {
    let raw = request.match_info().get(name).unwrap_or_default();
    percent_encoding::percent_decode_str(raw).decode_utf8_lossy().into_owned()
}

/// Returns the first query parameter with this name, even if the rest of the query is invalid. For responses that repeat a value of
/// the request.
pub fn sent_parameter(request: &HttpRequest, name: &str) -> Option<String> {
    let read = Query::read(request.query_string(), Repeats::First, |query| Some(query.optional(name)?.to_owned()));
    read.ok()
}

/// Runs a use case and records its answer under the idempotency key.
fn recorded<T, E>(
    services: &Services,
    key: &ClaimedKey,
    act: impl FnOnce(&Services, Option<&IdempotencyRecord<'_, T>>) -> Result<T, E>,
    render: impl Fn(&T, SecretsShown) -> ApiResponse,
) -> Result<ApiResponse, E> {
    let encode = |value: &T| render(value, SecretsShown::Later).encode();
    let once = key.once(&encode);
    act(services, once.as_ref()).map(|value| render(&value, SecretsShown::Now))
}

/// Returns the values of a query parameter in their order, with invalid UTF-8 replaced. A pair without `=` has no value.
pub fn sent_parameters(request: &HttpRequest, name: &str) -> Vec<String> {
    pairs(request.query_string())
        .filter(|(key, _)| String::from_utf8_lossy(key) == name)
        .filter_map(|(_, value)| Some(String::from_utf8_lossy(&value?).into_owned()))
        .collect()
}

impl RequestContext {
    /// Creates the context of a caller that was authenticated by other means than the `Authorization` header. The request counts
    /// against the caller's quota. Its body is not read.
    ///
    /// # Errors
    /// 429 if the quota is used up.
    pub async fn on_behalf_of(caller: Caller, state: AppState, request: &HttpRequest) -> Result<Self, HandlerError> {
        caller::count(&state, request, &caller).await?;
        let id = RequestId::of_request(request, &state.services);
        Ok(Self::new(state, caller, request, id))
    }

    /// Creates the context of a request whose body the handler reads itself.
    ///
    /// # Errors
    /// As for extraction, except the errors about the body.
    pub async fn without_body(request: &HttpRequest) -> Result<Self, HandlerError> {
        let state = state_of(request)?;
        let id = RequestId::of_request(request, &state.services);
        let caller = caller_of(&state, request, &id, &RequestPolicy::of(request)).await?;
        Ok(Self::new(state, caller, request, id))
    }

    fn new(state: AppState, caller: Caller, request: &HttpRequest, id: RequestId) -> Self {
        if let Some(user) = caller.user() {
            request.extensions_mut().insert(CallerKey::User(user.id));
        }
        RoutedRequest::note(request);
        Self { state, caller, request: request.clone(), body: Bytes::new(), id, room: None }
    }

    async fn read_json(&self, payload: Payload) -> Result<ReadBody, HandlerError> {
        let (types, anonymous) = (RequestPolicy::of(&self.request).bodies, AnonymousBodies::of(&self.request));
        let is_anonymous = self.caller.user().is_none();
        let whole = self.state.config.max_json_body_bytes;
        let limit = if is_anonymous { anonymous.limit(whole) } else { whole };
        body::check_head(&self.request, types, limit)?;
        if is_anonymous && anonymous == AnonymousBodies::Refused {
            return Err(self.explain(AccessError::SignInRequired.into()));
        }
        self.read_body(payload, limit, || body::check_type(&self.request, types)).await
    }

    /// Reads a form of at most `limit` bytes. For an anonymous caller, the limit is at most 64 KiB.
    ///
    /// # Errors
    /// 400 if the body is truncated or too slow, 413 above the limit, 429 or 503 if there is no memory for it.
    pub async fn read_form(&self, payload: Payload, limit: usize) -> Result<ReadBody, HandlerError> {
        let limit = if self.caller.user().is_none() { AnonymousBodies::Short.limit(limit) } else { limit };
        if body::declared(&self.request).is_some_and(|length| length > limit as u64) {
            return Err(body::too_large(limit).into());
        }
        self.read_body(payload, limit, || Ok(())).await
    }

    /// Reads a body of at most `limit` bytes, of any media type.
    ///
    /// # Errors
    /// 400 if the body is truncated or too slow, 413 above the limit, 429 or 503 if there is no memory for it.
    pub async fn read_bytes(&self, payload: Payload, limit: usize) -> Result<ReadBody, HandlerError> {
        self.read_body(payload, limit, || Ok(())).await
    }

    async fn read_body(
        &self,
        payload: Payload,
        limit: usize,
        check: impl Fn() -> Result<(), Problem>,
    ) -> Result<ReadBody, HandlerError> {
        let owner = self.caller_key();
        let patience = &self.state.config.patience;
        Ok(body::read(payload, limit, patience, (&self.state.bodies, owner), check).await?)
    }

    /// Returns the key by which limits count this caller.
    fn caller_key(&self) -> CallerKey {
        let user = self.caller.user();
        user.map_or_else(|| self.state.address_key(&self.request), |user| CallerKey::User(user.id))
    }
}

/// Converts an error for the client. Faults are logged here and nowhere else, so that each is logged once.
pub(crate) fn explain(refusal: ApiError, id: &RequestId) -> HandlerError {
    match refusal {
        ApiError::Problem(problem) => problem.into(),
        // Overload is not logged: it is no defect, and it affects many requests at once.
        ApiError::Port(PortError::Engine(EngineError::Busy)) => PoolError::TooLong.into(),
        ApiError::Port(fault) => {
            tracing::error!(request_id = id.as_str(), error = &fault as &dyn std::error::Error, "a request failed");
            problem_of_fault(&fault).into()
        }
    }
}

async fn run_on<T, E>(
    services: Services,
    (pool, caller): (&Pool, CallerKey),
    id: &RequestId,
    work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
) -> Result<T, HandlerError>
where
    T: Send + 'static,
    E: Into<ApiError>,
{
    let work = in_context(move || work(&services).map_err(Into::into));
    conclude(pool.run(caller, work).await, id)
}

/// Converts the result of a call on a pool for the client. Logs a panic.
fn conclude<T>(ended: Result<Result<T, ApiError>, PoolError>, id: &RequestId) -> Result<T, HandlerError> {
    if let Err(PoolError::Lost) = &ended {
        tracing::error!(request_id = id.as_str(), "a call was lost to a panic");
    }
    ended?.map_err(|refusal| explain(refusal, id))
}

/// The database that a path names, and the caller that requests it. The database need not exist.
#[derive(Debug, Clone)]
pub struct DatabasePath {
    caller: Caller,
    owner: String,
    name: String,
}

impl DatabasePath {
    /// Returns access to the database. Blocks.
    ///
    /// # Errors
    /// [`AccessError`] if sign-in is required, the database is absent or hidden, or the caller's role is too low.
    pub fn access<L: Level>(&self, hub: &Hub) -> Result<DatabaseAccess<L>, AccessError> {
        hub.databases().access::<L>(&self.caller, &self.owner, &self.name)
    }

    /// Returns access if the caller's role is cached. Never blocks. `None` does not mean that access is denied.
    pub fn known_access<L: Level>(&self, hub: &Hub) -> Option<DatabaseAccess<L>> {
        hub.databases().known_access::<L>(&self.caller, &self.owner, &self.name)
    }
}

impl RequestContext {
    /// Returns a segment of the path, percent-decoded once.
    pub fn segment(&self, name: &str) -> String {
        path_segment(&self.request, name)
    }

    /// Returns a request header; `None` if it is absent or not ASCII text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.request.headers().get(name)?.to_str().ok()
    }

    /// Returns a request header that is a list. Its lines are joined by commas, as RFC 9110 §5.3 allows. `None` if it is absent.
    pub fn list_header(&self, name: &str) -> Option<String> {
        let lines: Vec<&str> = self.request.headers().get_all(name).filter_map(|line| line.to_str().ok()).collect();
        (!lines.is_empty()).then(|| lines.join(","))
    }

    /// Drops the body and the memory reserved for it. A request that goes on waiting afterwards takes none of the memory that
    /// other requests need for theirs.
    pub fn release_body(&mut self) {
        (self.body, self.room) = (Bytes::new(), None);
    }

    /// Returns `true` if the method is `GET` or `HEAD`.
    pub fn is_read(&self) -> bool {
        matches!(*self.request.method(), Method::GET | Method::HEAD)
    }

    /// Declares that this request has no effect although its method is not `GET`. Its response may then be refused when there is no
    /// memory for it.
    pub fn has_no_effect(&self) {
        self.request.extensions_mut().insert(NoEffect);
    }

    /// Returns the network address of the client; empty if unknown.
    pub fn address(&self) -> String {
        address_text(address_of(&self.state, &self.request))
    }

    /// Counts an attempt to sign in. Returns the seconds to wait if the attempt exceeds a limit.
    ///
    /// # Errors
    /// 503 if the server is busy, or if the metadata store does not answer.
    pub async fn count_sign_in(&self, account: &str) -> Result<Option<i64>, HandlerError> {
        let (account, network) = (account.to_owned(), network_key(address_of(&self.state, &self.request)));
        self.write_session(move |hub| hub.sessions().count_attempt(&account, network)).await
    }

    /// Returns the first 256 characters of `User-Agent`; empty if the header is absent.
    pub fn user_agent(&self) -> String {
        user_agent_of(&self.request)
    }

    /// Returns the content coding that the client prefers.
    pub fn coding(&self) -> Coding {
        Coding::accepted(&self.request)
    }

    /// Returns the id of the request, as sent in `X-Request-Id`.
    pub fn id(&self) -> &RequestId {
        &self.id
    }

    /// Returns the `If-Match` of the request, if present.
    pub fn if_match(&self) -> Option<IfMatch> {
        IfMatch::of(&self.request)
    }

    /// Returns the `If-None-Match` of the request.
    pub fn if_none_match(&self) -> IfNoneMatch {
        IfNoneMatch::of(&self.request)
    }

    /// Returns the signed-in user.
    ///
    /// # Errors
    /// 401 for an anonymous caller.
    pub fn signed_in(&self) -> Result<Arc<User>, HandlerError> {
        match &self.caller {
            Caller::User(user) => Ok(Arc::clone(user)),
            Caller::Anonymous => Err(self.explain(AccessError::SignInRequired.into())),
        }
    }

    /// Returns the database that the path names, without looking it up.
    pub fn sought(&self) -> DatabasePath {
        DatabasePath { caller: self.caller.clone(), owner: self.segment("owner"), name: self.segment("database") }
    }

    /// Returns the caller's access to the database of the path.
    ///
    /// # Errors
    /// 401, 404 and 403 in the order of the contract (v2 §2.5).
    pub async fn access<L: Level>(&self) -> Result<DatabaseAccess<L>, HandlerError> {
        let sought = self.sought();
        if let Some(known) = sought.known_access::<L>(&self.state.services) {
            return Ok(known);
        }
        self.read(move |hub| sought.access::<L>(hub)).await
    }

    /// Returns the caller's access to the database of the path, after `probe` has looked up the other resources of the path. A
    /// missing resource (404) thus precedes a role that is too low (403).
    ///
    /// # Errors
    /// In this order: 401, 404 for the database, the errors of `probe`, 403.
    pub async fn access_to<L, T, E>(
        &self,
        probe: impl FnOnce(&Services, &DatabaseAccess<Read>) -> Result<T, E> + Send + 'static,
    ) -> Result<(DatabaseAccess<L>, T), HandlerError>
    where
        L: Level,
        T: Send + 'static,
        E: Into<ApiError>,
    {
        let sought = self.sought();
        self.read(move |hub| -> Result<_, ApiError> {
            if L::who(&sought.caller).is_none() {
                return Err(AccessError::SignInRequired.into());
            }
            let seen = sought.access::<Read>(hub)?;
            let found = probe(hub, &seen).map_err(Into::into)?;
            Ok((sought.access::<L>(hub)?, found))
        })
        .await
    }

    /// Returns the caller's access to the deployment of the path.
    ///
    /// # Errors
    /// 401, 404 and 403, in this order.
    pub async fn deployment<L: DeploymentLevel>(&self) -> Result<DeploymentAccess<L>, HandlerError> {
        let (caller, owner, name) = (self.caller.clone(), self.segment("owner"), self.segment("deployment"));
        self.read(move |hub| hub.deployments().access::<L>(&caller, &owner, &name)).await
    }

    /// Returns the caller's access to the organization of the path.
    ///
    /// # Errors
    /// 401, 404 and 403 in the order of the contract (v2 §2.5).
    pub async fn organization<S: Standing>(&self) -> Result<OrganizationAccess<S>, HandlerError> {
        let (caller, name) = (self.caller.clone(), self.segment("organization"));
        self.read(move |hub| hub.organizations().access::<S>(&caller, &name)).await
    }

    /// Returns the caller's access to the organization of the path, after `probe` has looked up the other resources of the path.
    /// For a member, a missing resource (404) precedes a role that is too low (403). For other callers `probe` does not run.
    ///
    /// # Errors
    /// In this order: 401, 404 for the organization, 403 for callers that are not members, the errors of `probe`, 403.
    pub async fn organization_to<S, T, E>(
        &self,
        probe: impl FnOnce(&Services, &OrganizationAccess<Belong>) -> Result<T, E> + Send + 'static,
    ) -> Result<(OrganizationAccess<S>, T), HandlerError>
    where
        S: Standing,
        T: Send + 'static,
        E: Into<ApiError>,
    {
        let (caller, name) = (self.caller.clone(), self.segment("organization"));
        self.read(move |hub| -> Result<_, ApiError> {
            let seen = hub.organizations().access::<Belong>(&caller, &name)?;
            let found = probe(hub, &seen).map_err(Into::into)?;
            let access = hub.organizations().access::<S>(&caller, &name)?;
            Ok((access, found))
        })
        .await
    }

    /// Runs a lookup on the read pool.
    ///
    /// # Errors
    /// The errors of `work`; 503 if the server is busy.
    pub async fn read<T, E>(
        &self,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        self.run(&self.state.reads, work).await
    }

    /// Runs a change on the write pool. While storage is low, only requests with the method `DELETE` are served.
    ///
    /// # Errors
    /// The errors of `work`; 503 if the server is busy or storage is low.
    pub async fn write<T, E>(
        &self,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        self.refuse_if_storage_is_low()?;
        self.write_always(work).await
    }

    /// Runs a change that needs next to no storage: a deletion, or what a user needs to delete.
    ///
    /// # Errors
    /// The errors of `work`; 503 if the server is busy, or if nothing may be changed.
    pub async fn write_always<T, E>(
        &self,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        if self.state.services.is_read_only() {
            return Err(read_only().into());
        }
        self.write_session(work).await
    }

    /// Runs a change of what a user needs to sign in and out, which is always possible.
    ///
    /// # Errors
    /// The errors of `work`; 503 if the server is busy.
    pub async fn write_session<T, E>(
        &self,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        self.run(&self.state.writes, work).await
    }

    /// Refuses a request that would need storage while storage is low.
    ///
    /// # Errors
    /// 503 unless the method is `DELETE`.
    fn refuse_if_storage_is_low(&self) -> Result<(), HandlerError> {
        if !self.state.services.is_storage_low() || *self.request.method() == Method::DELETE {
            return Ok(());
        }
        Err(storage_low().into())
    }

    /// Checks that changes are possible, for those that [`RequestContext::write`] does not run.
    ///
    /// # Errors
    /// 503 if storage is low or the server only reads.
    pub fn check_writable(&self) -> Result<(), HandlerError> {
        self.refuse_if_storage_is_low()?;
        if self.state.services.is_read_only() { Err(read_only().into()) } else { Ok(()) }
    }

    /// Checks the address of a webhook. Waits outside all pools, because a name server may not respond.
    ///
    /// # Errors
    /// 400 or 422 for an address that is not allowed; 429 or 503 if too many lookups are running.
    pub async fn hook_address(&self, access: &DatabaseAccess<Admin>, url: &str) -> Result<HookAddress, HandlerError> {
        let (give, take) = oneshot::channel();
        self.state.services.hooks().check_address(access, url, move |checked| drop(give.send(checked)));
        let checked = take.await.unwrap_or(Err(HookError::Address(AddressError::Busy)));
        checked.map_err(|error| explain(error.into(), &self.id))
    }

    /// Runs a use case on a pool.
    ///
    /// # Errors
    /// The errors of `work`; 503 if the pool is busy.
    pub async fn run<T, E>(
        &self,
        pool: &Pool,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        run_on(self.state.services.clone(), (pool, self.caller_key()), &self.id, work).await
    }

    /// Runs a SQL read with a response in memory. The read counts as running until the response has obtained the memory that it
    /// needs to be sent: a response that waits for memory already occupies some.
    ///
    /// # Errors
    /// The errors of `work`; 429 or 503 if the caller or the server has too many reads.
    pub async fn run_read<T, E>(
        &self,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        let start = self.start_read(|_| None).await?;
        self.finish_read(start, |services, _| work(services)).await
    }

    /// Begins a SQL read once it has a slot. `start` returns `None` if the read needs a thread from its beginning, and must not block.
    ///
    /// # Errors
    /// 429 or 503 if the caller or the server has too many reads.
    pub async fn start_read(
        &self,
        start: impl FnOnce(&Services) -> Option<Box<dyn StartedRead>>,
    ) -> Result<ReadStart, HandlerError> {
        let admitted = self.state.sql.enter(self.caller_key()).await?;
        Ok(ReadStart::new(admitted, start(&self.state.services)))
    }

    /// Runs the rest of a SQL read, as [`RequestContext::run_read`] does. `work` runs on this thread if the result of a started read
    /// comes at once.
    ///
    /// # Errors
    /// The errors of `work`; 503 if no thread could be started.
    pub async fn finish_read<T, E>(
        &self,
        mut start: ReadStart,
        work: impl FnOnce(&Services, Option<Box<dyn StartedRead>>) -> Result<T, E> + Send + 'static,
    ) -> Result<T, HandlerError>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        let services = self.state.services.clone();
        let is_at_hand = start.is_at_hand().await;
        let Some((admitted, started)) = start.into_parts() else { return Err(Problem::internal().into()) };
        let work = in_context(move || work(&services, started).map_err(Into::into));
        let ended = if is_at_hand { admitted.run_here(work) } else { admitted.run_and_hold(work).await };
        let ended = ended.map(|(result, running)| {
            self.request.extensions_mut().insert(running);
            result
        });
        conclude(ended, &self.id)
    }

    /// Starts a use case on a pool without waiting for it. The work goes on if the handle is dropped.
    pub fn spawn<T, E>(
        &self,
        pool: &Pool,
        work: impl FnOnce(&Services) -> Result<T, E> + Send + 'static,
    ) -> actix_web::rt::task::JoinHandle<Result<T, HandlerError>>
    where
        T: Send + 'static,
        E: Into<ApiError>,
    {
        let (services, pool, caller, id) =
            (self.state.services.clone(), pool.clone(), self.caller_key(), self.id.clone());
        let (context, span) = (CallContext::current(), tracing::Span::current());
        let work = move |services: &Services| {
            let work = || span.in_scope(|| work(services));
            match &context {
                Some(context) => context.enter(work),
                None => work(),
            }
        };
        actix_web::rt::spawn(async move { run_on(services, (&pool, caller), &id, work).await })
    }

    /// Claims the request's idempotency key for this user.
    ///
    /// # Errors
    /// 400, 409, 422; a saved response as [`HandlerError::Replay`].
    pub async fn key(&self, user: &User) -> Result<ClaimedKey, HandlerError> {
        idempotency::claim(self, user).await
    }

    /// Runs a use case with an effect under an idempotency key. `render` creates the response.
    ///
    /// # Errors
    /// The errors of the use case; 503 if the server is busy.
    pub async fn effect<T, E>(
        &self,
        key: ClaimedKey,
        act: impl FnOnce(&Services, Option<&IdempotencyRecord<'_, T>>) -> Result<T, E> + Send + 'static,
        render: impl Fn(&T) -> ApiResponse + Send + 'static,
    ) -> Result<ApiResponse, HandlerError>
    where
        T: 'static,
        E: Into<ApiError>,
    {
        self.effect_once(key, act, move |value, _| render(value)).await
    }

    /// Runs a use case with an effect whose response shows a secret once. `render` creates the response to this request and the
    /// response to be saved; its second argument distinguishes them.
    ///
    /// # Errors
    /// The errors of the use case; 503 if the server is busy.
    pub async fn effect_once<T, E>(
        &self,
        key: ClaimedKey,
        act: impl FnOnce(&Services, Option<&IdempotencyRecord<'_, T>>) -> Result<T, E> + Send + 'static,
        render: impl Fn(&T, SecretsShown) -> ApiResponse + Send + 'static,
    ) -> Result<ApiResponse, HandlerError>
    where
        T: 'static,
        E: Into<ApiError>,
    {
        self.write(move |hub| recorded(hub, &key, act, render)).await
    }

    /// Runs a use case as [`RequestContext::effect`] does, also while storage is low.
    ///
    /// # Errors
    /// The errors of the use case; 503 if the server is busy.
    pub async fn effect_always<T, E>(
        &self,
        key: ClaimedKey,
        act: impl FnOnce(&Services, Option<&IdempotencyRecord<'_, T>>) -> Result<T, E> + Send + 'static,
        render: impl Fn(&T) -> ApiResponse + Send + 'static,
    ) -> Result<ApiResponse, HandlerError>
    where
        T: 'static,
        E: Into<ApiError>,
    {
        self.write_always(move |hub| recorded(hub, &key, act, move |value, _| render(value))).await
    }

    /// Parses the JSON body. An absent body counts as an empty object.
    ///
    /// # Errors
    /// 400 with all validation errors.
    pub fn json<T>(&self, body: &RequestBody<T>) -> Result<T, HandlerError> {
        Ok(body.parse(&self.body)?)
    }

    /// Parses a JSON body in which unknown fields are ignored, with a reader that depends on the request. The schema of such a
    /// body has to be declared separately.
    ///
    /// # Errors
    /// 400 with all validation errors.
    pub fn open_body<T>(&self, read: impl FnOnce(&Fields<'_>) -> Option<T>) -> Result<T, HandlerError> {
        Ok(read_open(&self.body, read)?)
    }

    /// Reads the query. A repeated parameter is an error.
    ///
    /// # Errors
    /// 400 with all validation errors.
    pub fn query<T>(&self, read: impl FnOnce(&Query<'_>) -> Option<T>) -> Result<T, HandlerError> {
        Ok(Query::read(self.request.query_string(), Repeats::Refused, read)?)
    }

    /// Reads the query. Of a repeated parameter, the first occurrence counts.
    ///
    /// # Errors
    /// 400 with all validation errors.
    pub fn open_query<T>(&self, read: impl FnOnce(&Query<'_>) -> Option<T>) -> Result<T, HandlerError> {
        Ok(Query::read(self.request.query_string(), Repeats::First, read)?)
    }

    /// Returns a string field of the body, even if the rest of the body is invalid. For responses that repeat a value of the
    /// request.
    pub fn sent_string(&self, field: &str) -> Option<String> {
        let Ok(Json::Object(members)) = serde_json::from_slice(&self.body) else { return None };
        members.into_iter().find_map(|(name, value)| match value {
            Json::String(text) if name == field => Some(text),
            _ => None,
        })
    }

    /// Returns the key after which the page begins; `None` for the first page.
    ///
    /// # Errors
    /// 400 if the token is not a token of this list.
    pub fn page_key<K: serde::de::DeserializeOwned>(
        &self,
        page: &PageRequest,
        bound: &str,
    ) -> Result<Option<K>, HandlerError> {
        page.key(&self.state.keys, bound)
    }

    pub(crate) fn explain(&self, refusal: ApiError) -> HandlerError {
        explain(refusal, &self.id)
    }

    pub(crate) fn raw(&self) -> (&HttpRequest, &Bytes) {
        (&self.request, &self.body)
    }
}
