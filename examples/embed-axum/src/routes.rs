//! The routes of the service. The domain is synchronous, so every call runs on a thread for blocking work.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{FromRequestParts, Path, Query, State};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::routing::{get, post};
use axum::{Json, Router};
use branchyard_auth::bearer_token;
use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, Participate, Write};
use branchyard_domain::entities::{Operation, OperationStatus, User, Visibility};
use branchyard_domain::ports::{CollectedRows, ReadQuery};
use branchyard_domain::usecases::{MergePull, NewBranch, NewDatabase, NewPull, ReadEnd, SqlWrite};
use branchyard_domain::values::{DatabaseName, PullNumber, RefName, Revision, Title};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::errors::ApiError;
use crate::service::OWNER;

/// How long a request waits for a write or a merge that it queued.
const WAIT: Duration = Duration::from_secs(20);
/// Time limit of a read.
const READ_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum number of rows of an answer.
const ROWS_MAX: usize = 1_000;

type Answer = Result<Json<Value>, ApiError>;

/// Returns the routes over a hub.
pub fn routes(hub: Hub) -> Router {
    Router::new()
        .route("/databases", post(create_database))
        .route("/databases/{name}/branches", post(create_branch))
        .route("/databases/{name}/branches/{branch}/writes", post(write))
        .route("/databases/{name}/branches/{branch}/rows", get(read))
        .route("/databases/{name}/pulls", post(open_pull))
        .route("/databases/{name}/pulls/{number}/merge", post(merge))
        .with_state(hub)
}

/// The user whose token a request has.
struct SignedIn(Arc<User>);

impl FromRequestParts<Hub> for SignedIn {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, hub: &Hub) -> Result<Self, ApiError> {
        let denied = || ApiError::new(StatusCode::UNAUTHORIZED, "send a valid token: Authorization: Bearer …");
        let header = parts.headers.get("authorization").and_then(|value| value.to_str().ok());
        let token = header.and_then(bearer_token).ok_or_else(denied)?;
        let token = branchyard_auth::PlainToken::parse(token).map_err(|_| denied())?;
        let found = blocking(hub, move |hub| Ok(hub.tokens().check(&token.hash())?)).await?;
        found.map(|(_, user)| Self(user)).ok_or_else(denied)
    }
}

/// Runs calls of the hub on a thread for blocking work.
async fn blocking<T: Send + 'static>(
    hub: &Hub,
    calls: impl FnOnce(&Hub) -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let hub = hub.clone();
    let ended = tokio::task::spawn_blocking(move || calls(&hub)).await;
    ended.unwrap_or_else(|_| Err(ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "the service failed; try again")))
}

/// Returns the status 400 with what is wrong with a value.
fn invalid(error: impl std::fmt::Display) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, error.to_string())
}

#[derive(Deserialize)]
struct DatabaseRequest {
    name: String,
}

async fn create_database(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Json(request): Json<DatabaseRequest>,
) -> Answer {
    let name = DatabaseName::parse(&request.name).map_err(invalid)?;
    let (owner, visibility) = (OWNER.to_owned(), Visibility::Private);
    let new = NewDatabase { owner, name, visibility, description: None, default_branch: None };
    let created = blocking(&hub, move |hub| Ok(hub.databases().create(&user, new, None)?)).await?;
    Ok(Json(json!({"name": created.database.locator.name.to_string()})))
}

#[derive(Deserialize)]
struct BranchRequest {
    name: String,
    from: String,
}

async fn create_branch(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Path(database): Path<String>,
    Json(request): Json<BranchRequest>,
) -> Answer {
    let name = RefName::parse(&request.name).map_err(invalid)?;
    let new = NewBranch { name, from: Revision::Branch(request.from) };
    let branch = blocking(&hub, move |hub| {
        let access = hub.databases().access::<Write>(&Caller::User(user), OWNER, &database)?;
        Ok(hub.branches().create(&access, new, None)?)
    });
    let branch = branch.await?;
    Ok(Json(json!({"name": branch.name.to_string(), "commit": branch.head.to_string()})))
}

#[derive(Deserialize)]
struct WriteRequest {
    sql: String,
}

async fn write(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Path((database, branch)): Path<(String, String)>,
    Json(request): Json<WriteRequest>,
) -> Answer {
    let to_branch = RefName::parse(&branch).map_err(invalid)?;
    let write = SqlWrite {
        from_branch: branch,
        to_branch,
        statements: request.sql,
        message: None,
        expected_head: None,
        start: None,
    };
    blocking(&hub, move |hub| {
        let caller = Caller::User(user);
        let access = hub.databases().access::<Write>(&caller, OWNER, &database)?;
        let queued = hub.operations().sql_write(&access, write, None)?;
        ended(&hub.operations().wait_until_settled(&caller, queued.id, WAIT)?)
    })
    .await
}

/// Returns the answer for a queued operation.
fn ended(operation: &Operation) -> Answer {
    match &operation.status {
        OperationStatus::Succeeded(outcome) => Ok(Json(json!({
            "commit": outcome.commit.as_ref().map(ToString::to_string),
            "rows_affected": outcome.rows_affected,
        }))),
        OperationStatus::Failed(failure) => {
            Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, failure.detail.clone()))
        }
        OperationStatus::Queued | OperationStatus::Running => {
            Err(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "the change is queued and takes longer than usual"))
        }
    }
}

#[derive(Deserialize)]
struct RowsRequest {
    sql: String,
}

async fn read(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Path((database, branch)): Path<(String, String)>,
    Query(request): Query<RowsRequest>,
) -> Answer {
    blocking(&hub, move |hub| {
        let access = hub.databases().access::<Participate>(&Caller::User(user), OWNER, &database)?;
        let head = hub.sql().resolve(&access, Some(&branch))?;
        let mut rows = CollectedRows::stopping_after(ROWS_MAX);
        match hub.sql().read(&access, &head, &ReadQuery::new(&request.sql, READ_TIMEOUT), &mut rows)? {
            ReadEnd::Failed(failure) => Err(ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, failure.to_string())),
            _ => Ok(Json(json!({
                "columns": rows.columns.iter().map(|column| &column.name).collect::<Vec<_>>(),
                "rows": rows.lines(),
            }))),
        }
    })
    .await
}

#[derive(Deserialize)]
struct PullRequest {
    title: String,
    from: String,
    to: String,
}

async fn open_pull(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Path(database): Path<String>,
    Json(request): Json<PullRequest>,
) -> Answer {
    let title = Title::parse(&request.title).map_err(invalid)?;
    let pull = blocking(&hub, move |hub| {
        let access = hub.databases().access::<Participate>(&Caller::User(user), OWNER, &database)?;
        let here = (OWNER.to_owned(), database);
        let new = NewPull {
            title,
            description: None,
            from_database: here.clone(),
            from_branch: request.from,
            to_database: here,
            to_branch: request.to,
            publish: false,
        };
        Ok(hub.pulls().open(&access, new, None)?)
    });
    Ok(Json(json!({"number": pull.await?.number.to_string()})))
}

async fn merge(
    State(hub): State<Hub>,
    SignedIn(user): SignedIn,
    Path((database, number)): Path<(String, String)>,
) -> Answer {
    let number = PullNumber::parse(&number).map_err(invalid)?;
    blocking(&hub, move |hub| {
        let caller = Caller::User(user);
        let access = hub.databases().access::<Write>(&caller, OWNER, &database)?;
        let queued = hub.pulls().merge(&access, number, MergePull::default(), None)?;
        ended(&hub.operations().wait_until_settled(&caller, queued.id, WAIT)?)
    })
    .await
}
