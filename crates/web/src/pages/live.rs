//! `/{owner}/{database}/live` and `/deployments/{owner}/{deployment}/live`: the stream on which an open page learns that it changed.
//!
//! A stream shows nothing: its events have no data. It has the permissions of the page that it is for, and ends when one of them may be
//! lost.

use branchyard_deployments::access::Observe;
use branchyard_deployments::ports::DeploymentWatchKey;
use branchyard_domain::access::{Admin, Caller, Read};
use branchyard_domain::errors::OperationError;
use branchyard_domain::ports::WatchKey;
use branchyard_domain::values::{HookId, OperationId, PullNumber};
use branchyard_http_common::{ApiError, CallerKey, HandlerError, LiveKey, LiveStreams, LiveSubject, Services};
use branchyard_problem_details::{ErrorCode, Problem};

use super::deployments::list::PAGE as LISTED_DEPLOYMENTS;
use crate::error_page::PageError;
use crate::page_context::{PageContext, PageResult};

/// Seconds after which a page may ask for a stream again.
const RETRY_SECONDS: u32 = 60;

/// What the page of a database shows.
#[derive(Debug, Clone, Copy)]
enum WatchedPart {
    Operation(OperationId),
    /// All operations of the database.
    Operations,
    Pull(PullNumber),
    /// The deliveries of a webhook.
    Hook(HookId),
}

impl WatchedPart {
    /// Returns what the query names, or `None` if it names nothing.
    fn of(visit: &PageContext) -> Option<Self> {
        if let Some(id) = visit.parameter("operation") {
            return OperationId::parse(&id).ok().map(Self::Operation);
        }
        if let Some(number) = visit.parameter("pull") {
            return PullNumber::parse(&number).ok().map(Self::Pull);
        }
        if let Some(id) = visit.parameter("hook") {
            return HookId::parse(&id).ok().map(Self::Hook);
        }
        visit.parameter("operations").map(|_| Self::Operations)
    }
}

/// `GET /{owner}/{database}/live?operation=…`, or `pull=…`, `hook=…` or `operations=all`
pub(crate) async fn of_database(visit: PageContext) -> PageResult {
    let part = WatchedPart::of(&visit).ok_or_else(PageError::nothing_here)?;
    let (caller, owner, name) = (visit.caller.clone(), visit.segment("owner"), visit.segment("database"));
    open(visit, move |services| database_keys(services, &caller, (&owner, &name), part)).await
}

/// `GET /deployments/{owner}/{deployment}/live?also=…`: `also` names other deployments of the owner, of a page that lists them.
pub(crate) async fn of_deployment(visit: PageContext) -> PageResult {
    let (caller, owner) = (visit.caller.clone(), visit.segment("owner"));
    let mut names = vec![visit.segment("deployment")];
    names.extend(visit.parameters("also"));
    if names.len() > LISTED_DEPLOYMENTS {
        return Err(HandlerError::parameter("also", "names too many deployments").into());
    }
    open(visit, move |services| {
        let (mut rights, mut content) = (Vec::new(), Vec::new());
        for name in &names {
            let access = services.deployments().access::<Observe>(&caller, &owner, name)?;
            let (id, user) = (access.deployment().id, access.who().id);
            rights.push(LiveKey::Deployment(DeploymentWatchKey::Rights(id, user)));
            content.push(LiveKey::Deployment(DeploymentWatchKey::State(id)));
        }
        Ok((rights, content))
    })
    .await
}

/// What the viewer's roles follow from, and what the page shows.
type Keys = (Vec<LiveKey>, Vec<LiveKey>);

/// Checks that the viewer may open the page, as the page does.
fn database_keys(
    services: &Services,
    caller: &Caller,
    (owner, name): (&str, &str),
    part: WatchedPart,
) -> Result<Keys, ApiError> {
    let read = || services.databases().access::<Read>(caller, owner, name);
    let (database, content) = match part {
        WatchedPart::Operations => {
            let id = read()?.database().id;
            (id, vec![WatchKey::Operations(id)])
        }
        WatchedPart::Operation(operation) => {
            let id = read()?.database().id;
            if services.operations().get(caller, operation)?.database_id != id {
                return Err(OperationError::NoSuchOperation.into());
            }
            (id, vec![WatchKey::Operation(operation)])
        }
        WatchedPart::Pull(number) => {
            let access = read()?;
            services.pulls().get(&access, number)?;
            let id = access.database().id;
            // A merge is an operation of the database.
            (id, vec![WatchKey::Pull(id, number), WatchKey::Operations(id)])
        }
        WatchedPart::Hook(hook) => {
            let access = services.databases().access::<Admin>(caller, owner, name)?;
            services.hooks().get(&access, hook)?;
            (access.database().id, vec![WatchKey::Deliveries(hook)])
        }
    };
    let rights = WatchKey::DatabaseRights(database, caller.user().map(|user| user.id));
    Ok((vec![LiveKey::Hub(rights)], content.into_iter().map(LiveKey::Hub).collect()))
}

/// Opens a stream if the viewer may follow what `find` returns.
async fn open(visit: PageContext, find: impl Fn(&Services) -> Result<Keys, ApiError> + Send + 'static) -> PageResult {
    if visit.state.is_stopping() {
        return Err(no_stream("this server is about to stop"));
    }
    let session = visit.session.clone();
    let opened = visit
        .read(move |services| -> Result<_, ApiError> {
            let (mut rights, content) = find(services)?;
            rights.extend(session.as_ref().map(|session| LiveKey::Hub(WatchKey::Session(session.id))));
            let subject = LiveSubject { rights, content, until: session.as_ref().map(|session| session.expires_at) };
            let before = LiveStreams::rights(services, &subject)?;
            // Checked again, because what was read may already be without a right that was lost since the first check.
            if let Some(session) = &session
                && services.sessions().check(&session.hash)?.is_none()
            {
                return Ok(None);
            }
            find(services)?;
            Ok(Some((subject, before)))
        })
        .await?;
    let (subject, rights) = opened.ok_or(PageError::SignIn)?;
    let caller = match visit.caller.user() {
        Some(user) => CallerKey::User(user.id),
        None => visit.state.address_key(visit.request()),
    };
    let stream = visit.state.live.open(caller, subject, rights);
    Ok(stream.ok_or_else(|| no_stream("too many pages wait for changes on a stream"))?.response())
}

/// Returns the answer to a page that has to poll.
fn no_stream(why: &str) -> PageError {
    Problem::new(ErrorCode::ServiceUnavailable, format!("{why}; the page can ask for changes instead"))
        .retry_after(RETRY_SECONDS)
        .into()
}
