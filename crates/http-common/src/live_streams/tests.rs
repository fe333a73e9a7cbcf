use branchyard_domain::values::Timestamp;
use branchyard_executor::CallerKey;

use super::{LIVE_STREAMS_PER_CALLER, LiveEnd, LiveEvent, LiveLoad, LiveStream, LiveStreams, LiveSubject};

fn subject(until: Option<Timestamp>) -> LiveSubject {
    LiveSubject { rights: Vec::new(), content: Vec::new(), until }
}

fn open(streams: &LiveStreams, caller: u128) -> Option<LiveStream> {
    streams.open(CallerKey::Address(caller), subject(None), 0)
}

#[test]
fn streams_are_limited_in_all_and_by_caller_and_their_places_come_back() {
    let streams = LiveStreams::new(LIVE_STREAMS_PER_CALLER + 2);
    let mut of_one: Vec<_> = (0..LIVE_STREAMS_PER_CALLER).map(|_| open(&streams, 1).unwrap()).collect();
    assert!(open(&streams, 1).is_none(), "the caller has enough");
    let others = [open(&streams, 2).unwrap(), open(&streams, 3).unwrap()];
    assert!(open(&streams, 4).is_none(), "the server has enough");
    assert_eq!(streams.load(), LiveLoad { open: LIVE_STREAMS_PER_CALLER + 2, refused: 2 });
    of_one.pop();
    let again = open(&streams, 1).unwrap();
    drop((of_one, others, again));
    assert_eq!(streams.load(), LiveLoad { open: 0, refused: 2 });
    assert!(streams.0.open.lock().of_callers.is_empty());
}

#[test]
fn none_is_admitted_where_the_number_is_zero() {
    assert!(open(&LiveStreams::new(0), 1).is_none());
}

#[tokio::test]
async fn an_end_is_final_and_the_place_is_kept_until_the_stream_is_dropped() {
    let streams = LiveStreams::new(4);
    let mut stopped = open(&streams, 1).unwrap();
    let now = Timestamp::from_micros(1);
    let mut expired = streams.open(CallerKey::Address(1), subject(Some(now)), 0).unwrap();
    streams.end_due(now, false);
    assert_eq!(expired.next().await, LiveEvent::Ended(LiveEnd::Rights));
    streams.end_due(now, true);
    streams.0.open.lock().streams.values().for_each(|stream| stream.end(LiveEnd::Age));
    assert_eq!(stopped.next().await, LiveEvent::Ended(LiveEnd::Server), "the first reason");
    assert_eq!(streams.load().open, 2);
    drop((stopped, expired));
    assert_eq!(streams.load().open, 0);
}
