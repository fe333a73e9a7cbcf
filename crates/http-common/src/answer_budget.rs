//! A memory budget for long responses that are being sent.
//!
//! A response stays in memory until its client has read it. Long responses share a budget, as request bodies do. When the budget is
//! exhausted, the longest response of the caller that holds the most memory is aborted to make room.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use actix_web::body::{BodySize, BoxBody, MessageBody};
use actix_web::dev::ServiceResponse;
use actix_web::http::Method;
use actix_web::rt::task::JoinHandle;
use actix_web::web::Bytes;
use actix_web::{HttpMessage as _, HttpRequest, HttpResponse};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::handler_error::HandlerError;
use crate::state::AppState;
use branchyard_executor::CallerKey;
use branchyard_executor::{BodyBudget, BodyRoom, NoRoom};

/// Responses of at most this many bytes need no room.
const SHORT: u64 = 64 << 10;
/// Bytes handed to the HTTP library per poll. The library copies every piece it receives.
const PIECE: usize = 64 << 10;

/// Marks a request whose method is not `GET` but which has no effect, so that its response may be refused. Kept in the request's
/// extensions.
#[derive(Debug, Clone, Copy)]
pub struct NoEffect;

/// Marks a response that is made in short pieces while it is sent, so that it needs no room. Kept in the response's extensions.
#[derive(Debug, Clone, Copy)]
pub struct InPieces;

/// Returns the response budget: `total` bytes in all, and per caller half of that or `largest`, whichever is more.
pub(crate) fn answer_budget(total: usize, largest: usize) -> std::sync::Arc<BodyBudget> {
    BodyBudget::new(total, largest.max(total / 2))
}

/// Reserves room for a long response, or replaces the response with 429 or 503 if there is none. The response to a request with an
/// effect is always sent, because the client must learn the outcome.
pub async fn with_room(
    state: &AppState,
    response: ServiceResponse<BoxBody>,
    refuse: impl FnOnce(HandlerError) -> HttpResponse,
) -> ServiceResponse<BoxBody> {
    let BodySize::Sized(size) = response.response().body().size() else { return response };
    if size <= SHORT || response.response().extensions().get::<InPieces>().is_some() {
        return response;
    }
    let room = state.answers.open(caller_of(state, response.request()));
    // A single response always fits the caller's share.
    let bytes = usize::try_from(size).unwrap_or(usize::MAX).min(state.answers.share());
    match room.grow(bytes).await {
        Ok(()) => response.map_body(|_, body| match body.try_into_bytes() {
            Ok(bytes) => BoxBody::new(LongAnswer::new(bytes, room)),
            // A stream holds little memory and needs no room.
            Err(body) => body,
        }),
        Err(why) if has_no_effect(response.request()) => response.into_response(refuse(no_room(why).into())),
        Err(_) => response,
    }
}

fn caller_of(state: &AppState, request: &HttpRequest) -> CallerKey {
    let known = request.extensions().get::<CallerKey>().copied();
    known.unwrap_or_else(|| state.address_key(request))
}

fn has_no_effect(request: &HttpRequest) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD) || request.extensions().get::<NoEffect>().is_some()
}

fn no_room(why: NoRoom) -> Problem {
    match why {
        NoRoom::Share => {
            let detail = "too many bytes of answers to you are in progress; read them first, or request less at a time";
            Problem::new(ErrorCode::RateLimited, detail).retry_after(1)
        }
        NoRoom::Budget => {
            let detail = "too many bytes of answers are in progress; try again";
            Problem::new(ErrorCode::ServiceUnavailable, detail).retry_after(1)
        }
    }
}

/// A long response body that is sent in pieces and can be aborted to free its room.
struct LongAnswer {
    size: u64,
    /// The bytes not sent yet; `None` once the response was aborted.
    rest: Rc<RefCell<Option<Bytes>>>,
    /// The task that holds the room and waits for its eviction.
    eviction: JoinHandle<()>,
}

impl LongAnswer {
    fn new(bytes: Bytes, room: BodyRoom) -> Self {
        let size = bytes.len() as u64;
        let rest = Rc::new(RefCell::new(Some(bytes)));
        let held = Rc::clone(&rest);
        // A separate task is needed, because the body is not polled while its client does not read.
        let eviction = actix_web::rt::spawn(async move {
            room.evicted().await;
            held.replace(None);
        });
        Self { size, rest, eviction }
    }
}

impl Drop for LongAnswer {
    fn drop(&mut self) {
        self.eviction.abort();
    }
}

impl MessageBody for LongAnswer {
    type Error = io::Error;

    fn size(&self) -> BodySize {
        BodySize::Sized(self.size)
    }

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Self::Error>>> {
        Poll::Ready(match &mut *self.rest.borrow_mut() {
            None => Some(Err(io::Error::other("the answer was cut off to make room for other callers"))),
            Some(rest) if rest.is_empty() => None,
            Some(rest) => Some(Ok(rest.split_to(rest.len().min(PIECE)))),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use actix_web::body::MessageBody as _;
    use actix_web::web::Bytes;

    use super::{LongAnswer, PIECE, answer_budget};
    use branchyard_executor::CallerKey;

    async fn answer(budget: &std::sync::Arc<super::BodyBudget>, caller: u128, bytes: usize) -> LongAnswer {
        let room = budget.open(CallerKey::Address(caller));
        room.grow(bytes).await.unwrap();
        LongAnswer::new(Bytes::from(vec![b'x'; bytes]), room)
    }

    fn take(answer: &mut LongAnswer) -> Option<Result<usize, ()>> {
        match pin!(answer).poll_next(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(next) => next.map(|piece| piece.map(|bytes| bytes.len()).map_err(drop)),
            Poll::Pending => panic!("all of it is there"),
        }
    }

    #[actix_web::test]
    async fn an_answer_is_given_away_in_pieces_and_then_needs_no_room() {
        let budget = answer_budget(10 * PIECE, 0);
        let mut answer = answer(&budget, 1, 2 * PIECE + 1).await;
        assert_eq!(budget.used(), 2 * PIECE + 1);
        for expected in [Some(Ok(PIECE)), Some(Ok(PIECE)), Some(Ok(1)), None] {
            assert_eq!(take(&mut answer), expected);
        }
        drop(answer);
        tokio::task::yield_now().await;
        assert_eq!(budget.used(), 0);
    }

    #[actix_web::test]
    async fn the_longest_answer_of_the_caller_with_most_is_broken_off_for_others() {
        let budget = answer_budget(10 * PIECE, 0);
        let mut long = answer(&budget, 1, 3 * PIECE).await;
        let mut short = answer(&budget, 1, 2 * PIECE).await;
        let mut others = answer(&budget, 2, 4 * PIECE).await;
        let mut more = answer(&budget, 3, 2 * PIECE).await;
        tokio::task::yield_now().await;
        assert_eq!(take(&mut long), Some(Err(())));
        assert_eq!([&mut short, &mut others, &mut more].map(take), [Some(Ok(PIECE)); 3]);
        assert_eq!(budget.used(), 8 * PIECE);
    }
}
