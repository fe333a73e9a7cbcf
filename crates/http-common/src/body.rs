//! Request bodies that are read into memory, with limits on size, time and total memory.

use std::sync::Arc;

use actix_web::HttpRequest;
use actix_web::dev::Payload;
use actix_web::http::header;
use actix_web::web::{Bytes, BytesMut};
use branchyard_problem_details::{ErrorCode, Problem};

use crate::body_clock::{BodyClock, TooSlow};
use crate::config::BodyTimeouts;
use crate::request_policy::BodyTypes;
use branchyard_executor::CallerKey;
use branchyard_executor::{BodyBudget, BodyRoom, NoRoom};

/// Maximum size in bytes of the body of a caller without a credential.
const ANONYMOUS_BODY: usize = 64 << 10;

/// The treatment of request bodies of callers without a credential. A route sets its policy in its app data; the default is
/// [`Self::Refused`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnonymousBodies {
    /// 401 before the body is read: the route needs a credential.
    #[default]
    Refused,
    /// The body is read up to 64 KiB.
    Short,
    /// The body is read up to the general limit.
    Whole,
}

impl AnonymousBodies {
    pub(crate) fn of(request: &HttpRequest) -> Self {
        request.app_data::<Self>().copied().unwrap_or_default()
    }

    /// Returns the limit for a caller without a credential, where `limit` applies to all others.
    pub(crate) fn limit(self, limit: usize) -> usize {
        match self {
            Self::Refused | Self::Short => limit.min(ANONYMOUS_BODY),
            Self::Whole => limit,
        }
    }
}

/// A body in memory, with its reservation in the memory budget.
pub struct ReadBody {
    /// The bytes of the body.
    pub bytes: Bytes,
    /// The reservation. Keep it for as long as the body, or data derived from it, is in memory.
    pub room: BodyRoom,
}

/// Checks the declared length of a body and, if the length is not zero, its media type. Reads nothing.
///
/// # Errors
/// 413, 415.
pub(crate) fn check_head(request: &HttpRequest, types: BodyTypes, limit: usize) -> Result<(), Problem> {
    match declared(request) {
        Some(length) if length > limit as u64 => Err(too_large(limit)),
        Some(length) if length > 0 => check_type(request, types),
        // A chunked body declares no length.
        Some(_) | None => Ok(()),
    }
}

pub(crate) fn check_type(request: &HttpRequest, types: BodyTypes) -> Result<(), Problem> {
    if types.take(content_type(request)) {
        return Ok(());
    }
    Err(Problem::new(ErrorCode::UnsupportedMediaType, "the body must be sent as application/json"))
}

/// Reads a body of at most `limit` bytes within its deadline and the memory budget. Calls `check` before accepting the first byte.
///
/// # Errors
/// 400 if the body is truncated or too slow, 413 above the limit, 429 or 503 if there is no memory for it, and any error of
/// `check`.
pub(crate) async fn read(
    mut payload: Payload,
    limit: usize,
    patience: &BodyTimeouts,
    (budget, owner): (&Arc<BodyBudget>, CallerKey),
    check: impl Fn() -> Result<(), Problem>,
) -> Result<ReadBody, Problem> {
    let (room, mut pace, mut body) = (budget.open(owner), BodyClock::bounded(patience), BytesMut::new());
    loop {
        let next = tokio::select! {
            biased;
            () = room.evicted() => return Err(no_room(NoRoom::Budget)),
            next = pace.next(&mut payload) => next.map_err(|slow| too_slow(slow, patience))?,
        };
        let Some(chunk) = next else { break };
        let chunk =
            chunk.map_err(|_| Problem::new(ErrorCode::ValidationFailed, "the body could not be read to its end"))?;
        if body.is_empty() && !chunk.is_empty() {
            check()?;
        }
        if body.len() + chunk.len() > limit {
            return Err(too_large(limit));
        }
        let asked = tokio::time::Instant::now();
        room.grow(chunk.len()).await.map_err(no_room)?;
        pace.exclude(asked.elapsed());
        body.extend_from_slice(&chunk);
    }
    room.arrived().map_err(no_room)?;
    Ok(ReadBody { bytes: body.freeze(), room })
}

pub(crate) fn too_large(limit: usize) -> Problem {
    Problem::new(ErrorCode::PayloadTooLarge, format!("the body is larger than {limit} bytes"))
}

fn too_slow(_: TooSlow, patience: &BodyTimeouts) -> Problem {
    let (pace, grace) = (patience.bytes_per_second, patience.grace.as_secs_f32());
    let detail = format!(
        "the body came too slowly: after {grace} seconds it needs {pace} bytes a second, and has to be there within {} seconds",
        patience.body.as_secs_f32()
    );
    Problem::new(ErrorCode::ValidationFailed, detail)
}

fn no_room(why: NoRoom) -> Problem {
    match why {
        NoRoom::Share => {
            let detail = "too many bytes of your requests are in progress; wait for one to finish";
            Problem::new(ErrorCode::RateLimited, detail).retry_after(1)
        }
        NoRoom::Budget => {
            let detail = "the server has no memory for more request bodies at the moment; try again";
            Problem::new(ErrorCode::ServiceUnavailable, detail).retry_after(1)
        }
    }
}

/// Returns the value of `Content-Length`, if the request has one.
pub(crate) fn declared(request: &HttpRequest) -> Option<u64> {
    request.headers().get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn content_type(request: &HttpRequest) -> &str {
    request.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use actix_web::dev::Payload;
    use actix_web::error::PayloadError;
    use actix_web::web::Bytes;
    use branchyard_problem_details::{ErrorCode, Problem};
    use futures_util::stream;
    use futures_util::{FutureExt as _, StreamExt as _};

    use super::{AnonymousBodies, read};
    use crate::config::BodyTimeouts;
    use branchyard_executor::BodyBudget;
    use branchyard_executor::CallerKey;

    const CALLER: CallerKey = CallerKey::Address(1);

    /// Returns a body that delivers one byte every 5 ms.
    fn slow(bytes: usize) -> Payload {
        let slowed = stream::iter(0..bytes).then(|_| async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok::<_, PayloadError>(Bytes::from_static(b" "))
        });
        Payload::from(slowed.boxed_local())
    }

    async fn read_all(payload: Payload, limit: usize, patience: BodyTimeouts) -> Result<usize, Problem> {
        let budget = BodyBudget::new(1 << 20, limit);
        let read = read(payload, limit, &patience, (&budget, CALLER), || Ok(())).await?;
        assert_eq!(budget.used(), read.bytes.len());
        let length = read.bytes.len();
        drop(read);
        assert_eq!(budget.used(), 0);
        Ok(length)
    }

    #[actix_web::test]
    async fn a_body_that_comes_a_byte_at_a_time_has_to_be_there_in_time() {
        assert_eq!(read_all(slow(3), 10_000, BodyTimeouts::default()).await.unwrap(), 3);
        for impatient in [
            BodyTimeouts { body: Duration::from_millis(50), ..BodyTimeouts::default() },
            BodyTimeouts { grace: Duration::from_millis(50), ..BodyTimeouts::default() },
        ] {
            let refused = read_all(slow(10_000), 10_000, impatient).await.unwrap_err();
            assert_eq!(refused.code(), ErrorCode::ValidationFailed);
        }
    }

    #[actix_web::test]
    async fn a_body_is_read_up_to_its_limit() {
        let of = |bytes: usize| Payload::from(vec![b' '; bytes]);
        assert_eq!(read_all(of(100), 100, BodyTimeouts::default()).await.unwrap(), 100);
        let refused = read_all(of(101), 100, BodyTimeouts::default()).await.unwrap_err();
        assert_eq!(refused.code(), ErrorCode::PayloadTooLarge);
        assert_eq!(AnonymousBodies::Short.limit(2 << 20), 65_536);
        assert_eq!(AnonymousBodies::Short.limit(1_000), 1_000);
        assert_eq!(AnonymousBodies::Whole.limit(2 << 20), 2 << 20);
    }

    /// One caller sends large bodies that never end. Another caller's small body must still be read.
    #[actix_web::test]
    async fn bodies_that_never_end_make_room_for_those_of_others() {
        let budget = BodyBudget::new(4_000, 1_000);
        let endless = || {
            let begun = stream::iter([Ok::<_, PayloadError>(Bytes::from(vec![b' '; 1_000]))]);
            Payload::from(begun.chain(stream::pending()).boxed_local())
        };
        let patience = BodyTimeouts::default();
        let owner = CallerKey::Address;
        let mut hostile: Vec<_> = (10..14)
            .map(|number| Box::pin(read(endless(), 2_000, &patience, (&budget, owner(number)), || Ok(()))))
            .collect();
        for body in &mut hostile {
            assert!(body.as_mut().now_or_never().is_none());
        }
        assert_eq!(budget.used(), 4_000);
        let other = read(Payload::from(vec![b' '; 500]), 1_000, &patience, (&budget, CALLER), || Ok(())).await;
        assert_eq!(other.map(|read| read.bytes.len()).ok(), Some(500));
        let mut refused = Vec::new();
        for body in &mut hostile {
            refused.extend(body.as_mut().now_or_never());
        }
        let codes: Vec<ErrorCode> = refused.into_iter().filter_map(|ended| ended.err().map(|p| p.code())).collect();
        assert_eq!(codes, [ErrorCode::ServiceUnavailable]);
        assert!(budget.used() <= 3_000);
    }
}
