use std::sync::{Arc, OnceLock};

use branchyard_domain::access::{Participate, Read, Write};
use branchyard_domain::entities::{Operation, Pull, PullComment, PullState, ResolvedRow, RowResolution, Side};
use branchyard_domain::errors::{AccessError, PullError, PullStateError};
use branchyard_domain::ports::{PullFilter, PullStanding};
use branchyard_domain::usecases::{EditPull, IdempotencyRecord, MergePull, NewPull, WantedState};
use branchyard_domain::values::{CommentId, LongText, PullNumber, Timestamp, Title};
use branchyard_http_common::{
    ApiError, ApiResponse, Endpoint, Fields, HandlerError, NO_FIELDS, NOT_BLANK_PATTERN, RequestBody, RequestContext,
    Services, Words, bound, page, section,
};
use branchyard_problem_details::{ErrorCode, FieldError, Problem};

use super::{HandlerResult, accepted, long_page_of, page_of, unchanged, urls};
use crate::openapi::examples;
use crate::{convert, waiting, wire};
use branchyard_http_common::methods::{get, patch, post};
use branchyard_openapi::{Credential, Success, one};
use serde_json::{Value, json};

/// Declares the endpoints of this file.
pub(crate) fn endpoints() -> Vec<Endpoint> {
    section("Database", "/databases/{owner}/{database}/pulls", vec![
get("", "listPulls", "Pull requests, newest first", list_pulls).credential(Credential::Optional).query(&["state", "page_token", "page_size"]).responds(200, Success::List("PullSummary"), "DL"),
post("", "createPull", "Open a pull request", create_pull).json(&CREATE_PULL).responds(201, Success::One("Pull"), ("DBK", &[403, 409, 422])).describe("Unknown fields of the body are ignored, also inside both branches. The source may be in any \
                     database of the same fork network that the caller can read. A source that is not public requires \
                     the write role and, if the base is public, `publish: true`. While the commits of the source are \
                     being fetched, the diff, tables and conflicts are answered 503."),
get("/{pull_number}", "getPull", "A pull request", get_pull).credential(Credential::Optional).responds(200, Success::One("Pull"), ("D", &[400])).shows(get_pull_shows),
patch("/{pull_number}", "updatePull", "Edit, close or reopen a pull request", update_pull).json(&UPDATE_PULL).responds(200, Success::One("Pull"), ("DBPM", &[409, 422])).describe("A `state` equal to the current one changes nothing. The state of a merged pull request is final.").shows(update_pull_shows),
post("/{pull_number}/withdraw", "withdrawPull", "Withdraw a pull request and hide its changes", withdraw_pull).responds(200, Success::One("WithdrawnPull"), ("ABKP", &[404, 422])).describe("Requires the admin role on the source database, also if the base is hidden from the caller. The \
                 changes are hidden from all callers at once. An open pull request is closed."),
get("/{pull_number}/comments", "listPullComments", "Comments, oldest first", list_pull_comments).credential(Credential::Optional).query(&["page_token", "long_page_size"]).responds(200, Success::List("PullComment"), "DL"),
post("/{pull_number}/comments", "createPullComment", "Comment on a pull request", create_pull_comment).json(&CREATE_PULL_COMMENT).responds(201, Success::One("PullComment"), "DBK"),
post("/{pull_number}/merge", "mergePull", "Merge a pull request", merge_pull).optional_json(&MERGE_PULL).responds(202, Success::One("OperationRef"), ("DBKP", &[422])).describe("Runs as an operation: merges the head that `from_branch` has when the operation runs, and sets the \
                 pull request to `merged`, all or nothing. Conflicts that `resolve` does not resolve fail the \
                 operation with `MERGE_CONFLICT`."),
])
}

fn get_pull_shows() -> Value {
    let mut brings = examples::pull();
    brings["brings"] = json!(["trigger"]);
    one(brings)
}

fn update_pull_shows() -> Value {
    let mut closed = examples::pull();
    closed["state"] = "closed".into();
    closed["closed_at"] = examples::LATER.into();
    closed["brings"] = json!([]);
    one(closed)
}

/// Parses the pull request number of a path. Callers first check that the database is visible, because that 404 precedes this 400.
pub(crate) fn number_of(text: &str) -> Result<PullNumber, Problem> {
    PullNumber::parse(text).map_err(|_| {
        let text = "must match ^[1-9][0-9]*$";
        Problem::new(ErrorCode::ValidationFailed, format!("pull_number: {text}"))
            .with_error(FieldError::at_parameter("pull_number", text))
    })
}

/// Handles `GET …/pulls`.
pub(crate) async fn list_pulls(call: RequestContext) -> HandlerResult {
    const STATES: &[(&str, PullStanding)] =
        &[("open", PullStanding::Open), ("closed", PullStanding::Closed), ("merged", PullStanding::Merged)];
    let access = call.access::<Read>().await?;
    let (page_request, filter, state) = call.query(|q| {
        let page = page_of(&call, q);
        let filter = PullFilter { standing: q.choice("state", STATES), contains: None };
        Some((page?, filter, q.optional("state").unwrap_or_default().to_owned()))
    })?;
    let bound = bound(&["pulls", &access.database().id.to_string(), &state]);
    let before: Option<i64> = call.page_key(&page_request, &bound)?;
    let before = before.and_then(|number| PullNumber::new(number).ok());
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.pulls().list(&access, &filter, before, fetch)).await?;
    page(&call.state, &page_request, &bound, found, convert::pull_summary, |pull| pull.number.get())
}

/// Handles `POST …/pulls`.
pub(crate) async fn create_pull(call: RequestContext) -> HandlerResult {
    let access = call.access::<Participate>().await?;
    let key = call.key(access.who()).await?;
    let wanted = call.json(&CREATE_PULL)?;
    let (urls, locator) = (urls(&call.state), access.database().locator.clone());
    // Computed before the transaction, because the response saved under the idempotency key is rendered inside the transaction.
    let brings = Arc::new(OnceLock::new());
    let rendered_brings = Arc::clone(&brings);
    let created = move |pull: &Pull| {
        let location = urls.below(&locator, "pulls", &pull.number.to_string());
        ApiResponse::resource(201, &convert::pull(pull, &locator, rendered_brings.get().map(Vec::as_slice)))
            .at(location)
    };
    let open = move |hub: &Services, once: Option<&IdempotencyRecord<'_, Pull>>| {
        if let Some(kinds) = hub.pulls().brings_of_new(&access, &wanted) {
            brings.get_or_init(|| kinds);
        }
        hub.pulls().open(&access, wanted, once)
    };
    call.effect(key, open, created).await
}

const CREATE_PULL: RequestBody<NewPull> = RequestBody::open("CreatePullRequest", new_pull).example(|| json!({"title": "Fix gauges", "from_branch": examples::branch_of("bob", "work"), "to_branch": examples::branch_of("ada", "main")}));

fn new_pull(fields: &Fields<'_>) -> Option<NewPull> {
    fields.describe_object(|| json!({"description": "Unknown fields are ignored, also inside the branches."}));
    let title = fields.required::<Title>("title");
    let description = fields.optional::<LongText>("description");
    let from = fields.component("BranchRef").required_object("from_branch", branch_ref);
    let to = fields.component("BranchRef").required_object("to_branch", branch_ref);
    let publish =
        fields.doc("Consent of the caller to making the source branch visible to everyone.").optional_bool("publish");
    let publish = publish.unwrap_or(false);
    let ((from_database, from_branch), (to_database, to_branch)) = (from?, to?);
    Some(NewPull { title: title?, description, from_database, from_branch, to_database, to_branch, publish })
}

fn branch_ref(fields: &Fields<'_>) -> Option<((String, String), String)> {
    let database = fields.component("DatabaseRef").required_object("database", |database| {
        let owner = database.required_string("owner");
        let name = database.required_string("name");
        Some((owner?, name?))
    });
    let branch = fields.required_text("branch_name");
    Some((database?, branch?))
}

/// Handles `GET …/pulls/{pull_number}`.
pub(crate) async fn get_pull(call: RequestContext) -> HandlerResult {
    let number = call.segment("pull_number");
    let (access, (pull, brings)) = call
        .access_to::<Read, _, ApiError>(move |hub, access| {
            let pull = hub.pulls().get(access, number_of(&number)?)?;
            let brings = hub.pulls().brings(access, &pull)?;
            Ok((pull, brings))
        })
        .await?;
    Ok(ApiResponse::resource(200, &convert::pull(&pull, &access.database().locator, brings.as_deref())))
}

/// Handles `PATCH …/pulls/{pull_number}`.
pub(crate) async fn update_pull(call: RequestContext) -> HandlerResult {
    let number = call.segment("pull_number");
    let access = call.access::<Participate>().await?;
    let (access, pull) = call
        .read(move |hub| -> Result<_, ApiError> {
            let pull = hub.pulls().editable(&access, number_of(&number)?)?;
            Ok((access, pull))
        })
        .await?;
    let edit = call.json(&UPDATE_PULL)?;
    if edit.state.is_some() && matches!(pull.state, PullState::Merged { .. }) {
        return Err(HandlerError::from(is_merged(pull.number)));
    }
    let (if_match, base) = (call.if_match(), access.database().locator.clone());
    let (pull, brings) = call
        .write(move |hub| -> Result<_, ApiError> {
            let base = access.database().locator.clone();
            // Computed before the transaction, and only if `If-Match` needs it.
            let seen = if if_match.is_some() { hub.pulls().brings(&access, &pull)? } else { None };
            let as_seen = |pull: &Pull| unchanged(if_match.as_ref(), &convert::pull(pull, &base, seen.as_deref()));
            let pull = match hub.pulls().edit(&access, pull.number, edit, Some(&as_seen)) {
                Err(PullError::State(PullStateError::Merged)) => return Err(is_merged(pull.number).into()),
                other => other?,
            };
            // The edit is already committed, so an error of the engine is not reported.
            let brings = hub.pulls().brings(&access, &pull).ok().flatten();
            Ok((pull, brings))
        })
        .await?;
    Ok(ApiResponse::resource(200, &convert::pull(&pull, &base, brings.as_deref())))
}

fn is_merged(number: PullNumber) -> Problem {
    Problem::new(ErrorCode::ValidationFailed, format!("pull {number} is merged; its state is final"))
        .with_error(FieldError::at_pointer("/state", "the pull request is merged"))
}

const WANTED_STATES: Words<WantedState> =
    Words::component("WantedPullState", &[("open", WantedState::Open), ("closed", WantedState::Closed)]);

const UPDATE_PULL: RequestBody<EditPull> =
    RequestBody::patch("UpdatePullRequest", edit_pull).example(|| json!({"state": "closed"}));

fn edit_pull(fields: &Fields<'_>) -> Option<EditPull> {
    let title = fields.optional::<Title>("title");
    let description = fields.clearable::<LongText>("description");
    let state = fields.optional_choice("state", &WANTED_STATES);
    let publish = fields
        .doc("Only with the `state` `open`: consent of the caller to making the source branch visible to everyone.")
        .optional_bool("publish");
    if fields.has("publish") && state != Some(WantedState::Open) {
        fields.fault("publish", "is allowed only with state: open");
    }
    Some(EditPull { title, description, state, publish: publish.unwrap_or(false) })
}

/// Handles `POST …/pulls/{pull_number}/withdraw`.
pub(crate) async fn withdraw_pull(call: RequestContext) -> HandlerResult {
    call.signed_in()?;
    let (number, sought) = (call.segment("pull_number"), call.sought());
    let (caller, owner, name) = (call.caller.clone(), call.segment("owner"), call.segment("database"));
    let withdrawable = call
        .read(move |hub| -> Result<_, ApiError> {
            let seen = sought.access::<Participate>(hub);
            let number = match (number_of(&number), seen) {
                (Ok(number), Ok(_) | Err(AccessError::NoSuchDatabase)) => number,
                (Err(problem), Ok(_)) => return Err(problem.into()),
                (_, Err(error)) => return Err(error.into()),
            };
            Ok(hub.pulls().withdrawable(&caller, &owner, &name, number)?)
        })
        .await?;
    let key = call.key(withdrawable.who()).await?;
    call.json(&NO_FIELDS)?;
    let (base, sees_base) = (withdrawable.base().clone(), withdrawable.sees_base);
    let withdrawn = move |pull: &Pull| ApiResponse::data(200, &convert::withdrawn(pull, &base, sees_base));
    call.effect(key, move |hub, once| hub.pulls().withdraw(&withdrawable, once), withdrawn).await
}

/// Handles `GET …/pulls/{pull_number}/comments`.
pub(crate) async fn list_pull_comments(call: RequestContext) -> HandlerResult {
    let number = call.segment("pull_number");
    let (access, pull) = call
        .access_to::<Read, _, ApiError>(move |hub, access| Ok(hub.pulls().get(access, number_of(&number)?)?))
        .await?;
    let page_request = call.query(|q| long_page_of(&call, q))?;
    let bound = bound(&["comments", &access.database().id.to_string(), &pull.number.to_string()]);
    let after: Option<(i64, String)> = call.page_key(&page_request, &bound)?;
    let after = after.and_then(|(at, id)| Some((Timestamp::from_micros(at), CommentId::parse(&id).ok()?)));
    let fetch = page_request.fetch();
    let found = call.read(move |hub| hub.pulls().comments(&access, pull.number, after, fetch)).await?;
    let key = |comment: &PullComment| (comment.created_at.as_micros(), comment.id.to_string());
    page(&call.state, &page_request, &bound, found, |comment| wire::PullComment::from(comment), key)
}

/// Handles `POST …/pulls/{pull_number}/comments`.
pub(crate) async fn create_pull_comment(call: RequestContext) -> HandlerResult {
    let number = call.segment("pull_number");
    let (access, pull) = call
        .access_to::<Participate, _, ApiError>(move |hub, access| Ok(hub.pulls().get(access, number_of(&number)?)?))
        .await?;
    let key = call.key(access.who()).await?;
    let body = call.json(&CREATE_PULL_COMMENT)?;
    let created = |comment: &PullComment| ApiResponse::data(201, &wire::PullComment::from(comment));
    call.effect(key, move |hub, once| hub.pulls().comment(&access, pull.number, body, once), created).await
}

const CREATE_PULL_COMMENT: RequestBody<LongText> = RequestBody::closed("CreatePullCommentRequest", |fields| {
    let rules = || {
        let text = "Not blank; at most 65,536 bytes.";
        json!({"minLength": 1, "maxLength": LongText::MAX, "pattern": NOT_BLANK_PATTERN, "description": text})
    };
    fields.schema(rules).required_as("body", comment_text)
})
.example(|| json!({"body": "Looks right."}));

fn comment_text(text: &str) -> Result<LongText, String> {
    if text.trim().is_empty() {
        return Err("must not be blank".to_owned());
    }
    LongText::parse(text).map_err(|error| error.to_string())
}

/// Handles `POST …/pulls/{pull_number}/merge`.
pub(crate) async fn merge_pull(call: RequestContext) -> HandlerResult {
    let queued = queue_merge(&call).await;
    waiting::completed(call, queued).await
}

async fn queue_merge(call: &RequestContext) -> HandlerResult {
    let number = call.segment("pull_number");
    let (access, pull) = call
        .access_to::<Write, _, ApiError>(move |hub, access| Ok(hub.pulls().get(access, number_of(&number)?)?))
        .await?;
    let key = call.key(access.who()).await?;
    let how = call.json(&MERGE_PULL)?;
    let urls = urls(&call.state);
    let merged = move |operation: &Operation| accepted(operation, &urls);
    call.effect(key, move |hub, once| hub.pulls().merge(&access, pull.number, how, once), merged).await
}

const SIDES: Words<Side> = Words::component("Side", &[("ours", Side::Ours), ("theirs", Side::Theirs)]);

const MERGE_PULL: RequestBody<MergePull> = RequestBody::closed("MergePullRequest", merge_how).example(|| {
    json!({
        "resolve": {"gauges": "theirs"},
        "resolve_rows": [{"table": "rivers", "primary_key": {"id": "7"}, "row": {"km": "1091"}}],
    })
});

fn merge_how(fields: &Fields<'_>) -> Option<MergePull> {
    let message = fields.optional::<LongText>("message");
    let resolve = fields.doc("The side to keep in each table with conflicts.").word_map("resolve", &SIDES);
    let rows = fields
        .doc("Decisions about single rows in conflict, which come before those about tables. At most 1,000.")
        .optional_objects("resolve_rows", row_resolution);
    if rows.as_ref().is_some_and(|rows| rows.len() > MergePull::MOST_ROWS) {
        fields.fault("resolve_rows", format!("has more than {} rows; choose sides for tables", MergePull::MOST_ROWS));
    }
    let fast_forward = fields
        .doc("If `false`, there is a merge commit also where `to_branch` could move to `from_branch`. Default: `true`.")
        .optional_bool("fast_forward");
    Some(MergePull { message, resolve: resolve?, rows: rows?, fast_forward: fast_forward.unwrap_or(true) })
}

fn row_resolution(fields: &Fields<'_>) -> Option<RowResolution> {
    let table = fields.required_text("table");
    let primary_key = fields.doc("As the conflict shows it.").required_row("primary_key");
    let take = fields.doc("The side whose row is kept, or whose removal.").optional_choice("take", &SIDES);
    let row = fields
        .doc("The values of the row. Columns that are left out keep the value of `ours` or, if that side removed the row, of `theirs`.")
        .optional_row("row");
    let becomes = match (fields.has("take"), fields.has("row")) {
        (true, false) => take.map(ResolvedRow::Of),
        (false, true) => row.flatten().map(ResolvedRow::With),
        _ => {
            fields.fault_here("needs exactly one of `take` and `row`");
            None
        }
    };
    Some(RowResolution { table: table?, primary_key: primary_key?, becomes: becomes? })
}
