use actix_web::http::header;
use actix_web::{HttpRequest, HttpResponse};
use branchyard_domain::access::{Participate, Read, Write};
use branchyard_domain::entities::{Operation, Pull, PullState};
use branchyard_domain::errors::{PullError, PullStateError};
use branchyard_domain::ports::{PullFilter, PullStanding};
use branchyard_domain::usecases::{EditPull, MergePull, NewPull, WantedState};
use branchyard_domain::values::{LongText, PullNumber, Title};
use branchyard_http_common::{ApiError, Fields, HandlerError, RequestContext, bound, cut};
use branchyard_problem_details::Problem;
use serde_json::value::RawValue;

use super::{polled, word};
use crate::access::access;
use crate::legacy_errors::{LegacyError, field};
use crate::request::{LegacyRequest, Statuses, body, done};
use crate::wire::{self, Done, Place, PullEcho};
use crate::{convert, names};

/// Number of pull requests on a page.
const PAGE: usize = 100;

const STANDINGS: &[(&str, PullStanding)] =
    &[("Open", PullStanding::Open), ("Closed", PullStanding::Closed), ("Merged", PullStanding::Merged)];

const REVIEWS: &[(&str, ())] = &[("Approved", ()), ("AssignedReviewer", ()), ("Rejected", ()), ("Reviewed", ())];

/// Parses the number of a path. A text that is not a number names no pull request (404).
fn number(text: &str) -> Result<PullNumber, Problem> {
    PullNumber::parse(text).map_err(|_| Problem::no_such_pull())
}

/// The filters of a list request.
struct Filters {
    filter: PullFilter,
    reviewed: bool,
    texts: [String; 3],
}

/// Handles `GET /{owner}/{database}/pulls`.
pub(crate) async fn list_pulls(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let listed = list(&asked, &mut place).await;
    asked.answer(listed.map(Done::new), &place.echo())
}

async fn list(asked: &LegacyRequest, place: &mut Place) -> Result<wire::Pulls, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "listing pull requests").await?;
    let (page, Filters { filter, reviewed, texts }) = call.open_query(|q| {
        let page = q.page_of(PAGE, "pageToken");
        let given = |name: &str| q.optional(name).filter(|text| !text.is_empty()).map(str::to_owned);
        let chosen = |name: &str| given(name).map(|text| word(&text, STANDINGS).map_err(|text| q.fault(name, text)));
        let standing = chosen("filterByState").and_then(Result::ok);
        let review = given("filterByReviewStatus");
        if let Some(Err(text)) = review.as_deref().map(|text| word(text, REVIEWS)) {
            q.fault("filterByReviewStatus", text);
        }
        let contains = given("query");
        if contains.as_ref().is_some_and(|text| text.len() > PullFilter::MAX_CONTAINS) {
            q.fault("query", format!("has more than {} bytes; search for a part of it", PullFilter::MAX_CONTAINS));
        }
        let texts = ["filterByState", "filterByReviewStatus", "query"].map(|name| given(name).unwrap_or_default());
        Some((page, Filters { filter: PullFilter { standing, contains }, reviewed: review.is_some(), texts }))
    })?;
    let [state, review, text] = &texts;
    let bound = bound(&["v1alpha1 pulls", &access.database().id.to_string(), state, review, text]);
    let before: Option<i64> = call.page_key(&page, &bound)?;
    let before = before.and_then(|number| PullNumber::new(number).ok());
    let fetch = page.fetch();
    let found = call
        .read(move |hub| -> Result<Vec<Pull>, LegacyError<PullError>> {
            // Branchyard has no reviews, so this filter matches no pull request.
            if reviewed {
                Ok(Vec::new())
            } else {
                hub.pulls().list(&access, &filter, before, fetch).map_err(LegacyError)
            }
        })
        .await?;
    let page = cut(&call.state, &page, &bound, found, convert::pull_item, |pull| pull.number.get())?;
    Ok(wire::Pulls { database: place.echo(), next_page_token: page.next.unwrap_or_default(), pulls: raw(page.items) })
}

/// Wraps the JSON array of a page's items.
pub(super) fn raw(items: String) -> Box<RawValue> {
    RawValue::from_string(items).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

/// Handles `POST /{owner}/{database}/pulls`.
pub(crate) async fn create_pull(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let created = create(&asked, &mut place).await;
    let or = |sent: String, otherwise: &str| if sent.is_empty() { otherwise.to_owned() } else { sent };
    let ends = wire::PullEnds {
        title: asked.sent("title"),
        description: asked.sent("description"),
        from_owner_name: or(asked.sent("fromBranchOwnerName"), &place.owner),
        from_repository_name: or(asked.sent("fromBranchRepoName"), &place.name),
        from_branch_name: asked.sent("fromBranchName"),
        to_owner_name: place.owner.clone(),
        to_repository_name: place.name.clone(),
        to_branch_name: asked.sent("toBranchName"),
    };
    match created {
        Ok(pull) => {
            let id = pull.number.to_string();
            let from = &pull.from_locator;
            let ends = wire::PullEnds {
                from_owner_name: from.owner.to_string(),
                from_repository_name: from.name.to_string(),
                ..ends
            };
            done(&Done::new(wire::PullCreated { ends, pull_id: id.clone(), id }))
        }
        Err(failure) => asked.refuse(Statuses::Flat, &failure, &ends),
    }
}

async fn create(asked: &LegacyRequest, place: &mut Place) -> Result<Pull, HandlerError> {
    let call = asked.call()?;
    let access = access::<Participate>(call, place, "opening a pull request").await?;
    let here = place.clone();
    let wanted = call.open_body(|fields| new_pull(fields, &here))?;
    call.write(move |hub| hub.pulls().open(&access, wanted, None).map_err(LegacyError)).await
}

fn new_pull(fields: &Fields<'_>, here: &Place) -> Option<NewPull> {
    let title = fields.required_as("title", |text| Title::parse(text));
    let description = fields.optional_as("description", |text| LongText::parse(text));
    let of = |owner, name| {
        let owner = fields.optional_string(owner).unwrap_or_else(|| here.owner.clone());
        (owner, fields.optional_string(name).unwrap_or_else(|| here.name.clone()))
    };
    let from_database = of("fromBranchOwnerName", "fromBranchRepoName");
    let to_database = of("toBranchOwnerName", "toBranchRepoName");
    let from_branch = fields.required_text("fromBranchName");
    let to_branch = fields.required_text("toBranchName");
    Some(NewPull {
        title: title?,
        description,
        from_database,
        from_branch: from_branch?,
        to_database,
        to_branch: to_branch?,
        publish: false,
    })
}

fn echo(asked: &LegacyRequest, place: &Place) -> PullEcho {
    PullEcho { database: place.echo(), pull_id: asked.segment("pull_id") }
}

/// Handles `GET /{owner}/{database}/pulls/{pull_id}`.
pub(crate) async fn get_pull(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let found = get(&asked, &mut place).await;
    asked.answer(found.map(Done::new), &echo(&asked, &place))
}

async fn get(asked: &LegacyRequest, place: &mut Place) -> Result<wire::Pull, HandlerError> {
    let call = asked.call()?;
    let access = access::<Read>(call, place, "reading").await?;
    let number = number(&asked.segment("pull_id"))?;
    call.read(move |hub| {
        let pull = hub.pulls().get(&access, number).map_err(LegacyError)?;
        Ok::<_, LegacyError<PullError>>(convert::pull(&pull, &access.database().locator))
    })
    .await
}

/// Handles `PATCH /{owner}/{database}/pulls/{pull_id}`.
pub(crate) async fn update_pull(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let updated = update(&asked, &mut place).await;
    asked.answer(updated.map(Done::new), &echo(&asked, &place))
}

async fn update(asked: &LegacyRequest, place: &mut Place) -> Result<wire::PullPart, HandlerError> {
    let call = asked.call()?;
    let access = access::<Participate>(call, place, "editing a pull request").await?;
    let number = number(&asked.segment("pull_id"))?;
    let (access, pull) = call
        .read(move |hub| {
            let pull = hub.pulls().editable(&access, number).map_err(LegacyError)?;
            Ok::<_, LegacyError<PullError>>((access, pull))
        })
        .await?;
    let edit = call.open_body(edit_pull)?;
    if edit.state.is_some() && matches!(pull.state, PullState::Merged { .. }) {
        return Err(is_merged().into());
    }
    call.write(move |hub| -> Result<_, ApiError> {
        let pull = match hub.pulls().edit(&access, number, edit, None) {
            Err(PullError::State(PullStateError::Merged)) => return Err(is_merged().into()),
            other => other.map_err(LegacyError)?,
        };
        Ok(convert::pull_part(&pull, &access.database().locator))
    })
    .await
}

fn is_merged() -> Problem {
    field("state", "the pull request is merged")
}

fn edit_pull(fields: &Fields<'_>) -> Option<EditPull> {
    const STATES: &[(&str, WantedState)] = &[("open", WantedState::Open), ("closed", WantedState::Closed)];
    let title = fields.optional_as("title", |text| Title::parse(text));
    let description = fields.optional_as("description", |text| LongText::parse(text));
    let state = fields.optional_as("state", |text| word(text, STATES));
    if !["title", "description", "state"].iter().any(|name| fields.has(name)) {
        fields.fault_here("must have title, description or state");
    }
    Some(EditPull { title, description, state, publish: false })
}

/// Handles `POST /{owner}/{database}/pulls/{pull_id}/comments`.
pub(crate) async fn create_comment(asked: LegacyRequest) -> HttpResponse {
    let mut place = asked.place();
    let made = comment(&asked, &mut place).await;
    let Place { owner, name } = place;
    let echo = wire::CommentEcho {
        repository_owner: owner,
        repository_name: name,
        pull_id: asked.segment("pull_id"),
        comment: asked.sent("comment"),
    };
    asked.answer(made.map(|()| Done::new(&echo)), &echo)
}

async fn comment(asked: &LegacyRequest, place: &mut Place) -> Result<(), HandlerError> {
    let call = asked.call()?;
    let access = access::<Participate>(call, place, "commenting").await?;
    let number = number(&asked.segment("pull_id"))?;
    let (access, number) = call
        .read(move |hub| {
            hub.pulls().get(&access, number).map_err(LegacyError)?;
            Ok::<_, LegacyError<PullError>>((access, number))
        })
        .await?;
    let text = call.open_body(|fields| {
        fields.required_as("comment", |text| match text.trim() {
            "" => Err("must not be blank".to_owned()),
            _ => LongText::parse(text).map_err(|error| error.to_string()),
        })
    })?;
    call.write(move |hub| hub.pulls().comment(&access, number, text, None).map(drop).map_err(LegacyError)).await
}

/// Handles `POST /{owner}/{database}/pulls/{pull_id}/merge`.
pub(crate) async fn merge_pull(request: HttpRequest) -> HttpResponse {
    // The body is ignored.
    let asked = LegacyRequest::without_body(request).await;
    let mut place = asked.place();
    let started = merge(&asked, &mut place).await;
    let echo = echo(&asked, &place);
    let started = started.map(|operation| {
        Done::new(wire::MergeStarted {
            echo: echo.clone(),
            operation_name: names::of_job(&operation),
            user_operation_name: names::of_user(&operation),
        })
    });
    asked.answer(started, &echo)
}

async fn merge(asked: &LegacyRequest, place: &mut Place) -> Result<Operation, HandlerError> {
    let call = asked.call()?;
    let access = access::<Write>(call, place, "merging").await?;
    let number = number(&asked.segment("pull_id"))?;
    call.write(move |hub| hub.pulls().merge(&access, number, MergePull::default(), None).map_err(LegacyError)).await
}

/// Handles `GET /{owner}/{database}/pulls/{pull_id}/merge?operationName=`.
pub(crate) async fn poll_merge(asked: LegacyRequest) -> HttpResponse {
    let pull_id = asked.segment("pull_id");
    poll(asked, Some(pull_id)).await
}

/// Answers a poll of a merge or an import.
pub(super) async fn poll(asked: LegacyRequest, pull_id: Option<String>) -> HttpResponse {
    let name = asked.parameter("operationName");
    let mut place = asked.place();
    match found(asked.call(), &asked, &mut place).await {
        Ok(operation) => {
            let shown = convert::job_poll(&operation, &name, pull_id.as_deref());
            let mut response = HttpResponse::Ok();
            if !shown.done {
                response.insert_header((header::RETRY_AFTER, "1"));
            }
            body(response, &shown)
        }
        Err(failure) => asked.refuse(Statuses::Flat, &failure, &wire::NamedEcho { operation_name: name }),
    }
}

async fn found(
    call: Result<&RequestContext, HandlerError>,
    asked: &LegacyRequest,
    place: &mut Place,
) -> Result<Operation, HandlerError> {
    Ok(polled(call?, asked, Some(place)).await?.operation)
}
