//! Runs on in-memory sessions.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use branchyard_domain::ports::{SessionCaller, SqlPower};
use branchyard_domain::values::{AccountId, DatabaseId};
use serde_json::Value;
use uuid::Uuid;

use super::*;
use crate::hrana::fake::FakeEngine;
use crate::hrana::streams::{NoStream, StreamOf, Streams};
use crate::hrana::wire::{Cursor, Pipeline};

#[derive(Default)]
struct Counting {
    ran: AtomicUsize,
    full: AtomicBool,
    /// Number of statements after which the request is canceled.
    cancels_after: Option<usize>,
}

impl Observer for Counting {
    fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    fn ran(&self, _: &str, _: Duration, _: Result<&StatementReport, &StatementError>) {
        self.ran.fetch_add(1, Ordering::Relaxed);
    }

    fn between_statements(&self, canceled: &CancellationToken) {
        if self.cancels_after == Some(self.ran.load(Ordering::Relaxed)) {
            canceled.cancel();
        }
    }
}

struct Bench {
    engine: FakeEngine,
    limits: RunLimits,
    observer: Counting,
    canceled: CancellationToken,
    streams: Streams,
    turn: Arc<tokio::sync::Mutex<()>>,
}

fn of(branch: Option<&str>) -> StreamOf {
    StreamOf {
        user: AccountId::from_uuid(Uuid::from_u128(1)),
        caller: SessionCaller { name: "ada".into(), email: String::new() },
        power: SqlPower::Write,
        database: DatabaseId::from_uuid(Uuid::from_u128(2)),
        branch: branch.map(str::to_owned),
    }
}

impl Bench {
    fn new() -> Self {
        let limits = RunLimits {
            foreign_keys: true,
            commits_transactions: false,
            query_timeout: Duration::from_secs(1),
            transaction_timeout: Duration::from_secs(60),
            max_result_bytes: 3000,
            max_sql_bytes: 100,
            max_batch_steps: 10,
            busy_timeout: Duration::from_secs(1),
        };
        Self {
            engine: FakeEngine::default(),
            limits,
            observer: Counting::default(),
            canceled: CancellationToken::default(),
            streams: Streams::default(),
            turn: Arc::default(),
        }
    }

    fn stream(&self) -> Stream {
        self.streams.open(of(None), Uuid::from_u128(3), 9, Instant::now()).unwrap()
    }

    fn around(&self) -> Around<'_> {
        Around { engine: &self.engine, limits: &self.limits, observer: &self.observer, canceled: &self.canceled }
    }

    /// Runs requests to their end and grants the write turn where it is needed. Returns the number of grants and the
    /// results.
    fn run(&self, stream: &mut Stream, requests: &str) -> (u32, Vec<Value>) {
        let read: Pipeline = serde_json::from_str(&format!(r#"{{"requests":[{requests}]}}"#)).unwrap();
        let mut run = PipelineRun::new(read.requests);
        let mut turns = 0;
        while run.advance(stream, &self.around()) == RunProgress::NeedsTurn {
            turns += 1;
            stream.turn = Arc::clone(&self.turn).try_lock_owned().ok();
            run.was_denied = stream.turn.is_none();
        }
        let answer: Value = serde_json::from_slice(&run.answer(None)).unwrap();
        (turns, answer["results"].as_array().unwrap().clone())
    }

    fn written(&self) -> u64 {
        self.engine.written.load(Ordering::Relaxed)
    }
}

fn execute(sql: &str) -> String {
    format!(r#"{{"type":"execute","stmt":{{"sql":"{sql}"}}}}"#)
}

fn requests(words: &[&str]) -> String {
    words.iter().map(|word| execute(word)).collect::<Vec<_>>().join(",")
}

fn codes(results: &[Value]) -> Vec<&str> {
    results.iter().map(|result| result["error"]["code"].as_str().unwrap_or("ok")).collect()
}

#[test]
fn nothing_runs_after_a_cancellation() {
    let batch = r#"{"type":"batch","batch":{"steps":[{"stmt":{"sql":"begin"}},{"stmt":{"sql":"write"}},{"stmt":{"sql":"commit"}}]}}"#;
    for text in [requests(&["begin", "write", "commit"]), batch.to_owned()] {
        let mut bench = Bench::new();
        bench.observer.cancels_after = Some(2);
        let mut stream = bench.stream();
        let read: Pipeline = serde_json::from_str(&format!(r#"{{"requests":[{text}]}}"#)).unwrap();
        let mut run = PipelineRun::new(read.requests);
        let mut progress = run.advance(&mut stream, &bench.around());
        if progress == RunProgress::NeedsTurn {
            stream.turn = Arc::clone(&bench.turn).try_lock_owned().ok();
            progress = run.advance(&mut stream, &bench.around());
        }
        assert_eq!((progress, bench.observer.ran.load(Ordering::Relaxed)), (RunProgress::Canceled, 2));
        drop(stream);
        assert_eq!(bench.written(), 0, "the transaction was cut off before its commit");
        assert!(bench.turn.try_lock().is_ok(), "others may write");
    }
}

#[test]
fn a_run_waits_for_the_turn_where_it_writes_and_goes_on_there() {
    let bench = Bench::new();
    let mut stream = bench.stream();
    let (turns, results) = bench.run(&mut stream, &requests(&["one", "write", "fail", "write", "one"]));
    assert_eq!((turns, bench.written()), (2, 2));
    assert_eq!(codes(&results), ["ok", "ok", "SQLITE_ERROR", "ok", "ok"]);
    assert!(stream.turn.is_none(), "given back after each statement");
    assert_eq!(bench.observer.ran.load(Ordering::Relaxed), 5, "none ran twice");

    // A transaction keeps the turn until it ends.
    let (turns, _) = bench.run(&mut stream, &requests(&["begin", "write", "write"]));
    assert_eq!((turns, stream.turn.is_some(), stream.settle()), (1, true, false));
    let mut other = bench.streams.open(of(None), Uuid::from_u128(4), 9, Instant::now()).unwrap();
    let (_, results) = bench.run(&mut other, &requests(&["write", "one"]));
    assert_eq!(codes(&results), ["SQLITE_BUSY", "ok"]);
    bench.run(&mut stream, &requests(&["commit"]));
    assert!(stream.turn.is_none() && stream.settle());
    assert_eq!(bench.written(), 4);
}

#[test]
fn batches_and_sequences_are_taken_up_where_they_stopped() {
    let bench = Bench::new();
    let mut stream = bench.stream();
    let batch = r#"{"type":"batch","batch":{"steps":[{"stmt":{"sql":"write"}},{"stmt":{"sql":"write"},"condition":{"type":"ok","step":0}},
        {"stmt":{"sql":"write"},"condition":{"type":"error","step":0}}]}}"#;
    let sequence = r#"{"type":"sequence","sql":"write;one;write"}"#;
    let (turns, results) = bench.run(&mut stream, &format!("{batch},{sequence},{sequence}"));
    assert_eq!((turns, bench.written()), (6, 6));
    assert_eq!(results[0]["response"]["result"]["step_errors"], json!([null, null, null]));
    assert!(results[0]["response"]["result"]["step_results"][2].is_null());
    assert_eq!(codes(&results), ["ok"; 3]);
    let broken = r#"{"type":"sequence","sql":"write;fail;write"}"#;
    let (_, results) = bench.run(&mut stream, broken);
    assert_eq!((codes(&results), bench.written()), (vec!["SQLITE_ERROR"], 7));
}

#[test]
fn an_overdue_transaction_is_told_until_it_is_ended() {
    let mut bench = Bench::new();
    bench.limits.transaction_timeout = Duration::ZERO;
    let mut stream = bench.stream();
    let (_, results) = bench.run(&mut stream, &requests(&["begin", "write", "one", "commit", "one"]));
    assert_eq!(codes(&results), ["ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", "ok"]);
    assert_eq!(bench.written(), 0);
    // The timeout also applies between requests.
    let mut stream = bench.streams.open(of(None), Uuid::from_u128(5), 9, Instant::now()).unwrap();
    bench.run(&mut stream, &requests(&["begin"]));
    assert!(!stream.settle());
    let id = stream.id;
    bench.streams.put_back(stream, Instant::now());
    bench.streams.expire_transactions(Instant::now());
    let mut stream = bench.streams.take(id, 0).unwrap();
    assert!(!stream.settle(), "the client has to be told");
    let (_, results) = bench.run(&mut stream, &requests(&["rollback", "one"]));
    assert_eq!(codes(&results), ["TRANSACTION_TIMEOUT", "ok"]);
}

#[test]
fn an_overdue_transaction_is_ended_in_every_spelling_and_not_by_going_back_to_a_savepoint() {
    for (end, then) in [
        ("/* app */ ROLLBACK", "ok"),
        (";COMMIT", "ok"),
        ("-- app\\nEND", "ok"),
        ("ROLLBACK TO x", "TRANSACTION_TIMEOUT"),
        ("rollback transaction to savepoint x", "TRANSACTION_TIMEOUT"),
        ("select 'commit'", "TRANSACTION_TIMEOUT"),
    ] {
        let mut bench = Bench::new();
        bench.limits.transaction_timeout = Duration::ZERO;
        let mut stream = bench.stream();
        let (_, results) = bench.run(&mut stream, &requests(&["begin", "write", end, "one"]));
        assert_eq!(codes(&results), ["ok", "TRANSACTION_TIMEOUT", "TRANSACTION_TIMEOUT", then], "{end}");
    }
}

#[test]
fn limits_of_answers_texts_and_stores_hold() {
    let bench = Bench::new();
    let mut stream = bench.stream();
    let (_, results) = bench.run(&mut stream, &requests(&["big", "big", "big", "one"]));
    assert_eq!(codes(&results), ["ok", "ok", "RESPONSE_TOO_LARGE", "ok"]);
    let (_, results) = bench.run(&mut stream, &requests(&[&"x".repeat(101)]));
    assert_eq!(codes(&results), ["SQLITE_TOOBIG"]);
    let store = |id: usize, sql: &str| format!(r#"{{"type":"store_sql","sql_id":{id},"sql":"{sql}"}}"#);
    let stores: Vec<String> = (0..=MOST_STORED).map(|id| store(id, "one")).collect();
    let (_, results) = bench.run(&mut stream, &stores.join(","));
    assert_eq!(codes(&results[MOST_STORED - 1..]), ["ok", "SQL_STORE_TOO_MANY"]);
    assert!(!stream.settle());
    let close = r#"{"type":"close_sql","sql_id":0}"#;
    let long = store(0, &"x".repeat(LONGEST_STORED + 1));
    let (_, results) = bench.run(&mut stream, &format!("{close},{long},{}", store(0, &"x".repeat(LONGEST_STORED))));
    assert_eq!(codes(&results), ["ok", "SQL_STORE_TOO_LARGE", "ok"]);
    let (_, results) = bench.run(&mut stream, &format!(r#"{{"type":"close"}},{}"#, execute("one")));
    assert_eq!(codes(&results), ["ok", "STREAM_CLOSED"]);
}

#[test]
fn a_full_volume_takes_no_writes_but_what_makes_room() {
    let bench = Bench::new();
    bench.observer.full.store(true, Ordering::Relaxed);
    let mut stream = bench.stream();
    let (_, results) = bench.run(&mut stream, &requests(&["write", "one", "/* dolt_gc */ write", "/* drop */ shrink"]));
    assert_eq!((codes(&results), bench.written()), (vec!["SQLITE_FULL", "ok", "SQLITE_FULL", "ok"], 0));
}

#[test]
fn a_cursor_tells_each_step_and_stops_when_nobody_listens() {
    #[derive(Default)]
    struct Kept(Vec<Value>, usize);
    impl LineSink for Kept {
        fn line(&mut self, line: Vec<u8>) -> ControlFlow<()> {
            self.0.push(serde_json::from_slice(&line).unwrap());
            if self.0.len() >= self.1 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    let bench = Bench::new();
    let mut stream = bench.stream();
    let cursor: Cursor = serde_json::from_str(
        r#"{"batch":{"steps":[{"stmt":{"sql":"one"}},{"stmt":{"sql":"fail"}},{"stmt":{"sql":"one"},"condition":{"type":"ok","step":1}},{"stmt":{"sql":"one","want_rows":false}}]}}"#,
    )
    .unwrap();
    let mut lines = Kept(Vec::new(), usize::MAX);
    let mut run = CursorRun::new(cursor.batch);
    assert_eq!(run.advance(&mut stream, &bench.around(), &mut lines), RunProgress::Done);
    let told: Vec<&str> = lines.0.iter().map(|line| line["type"].as_str().unwrap()).collect();
    assert_eq!(told, ["step_begin", "row", "step_end", "step_error", "step_begin", "step_end"]);
    assert_eq!((&lines.0[3]["step"], &lines.0[4]["step"]), (&json!(1), &json!(3)));
    let cursor: Cursor =
        serde_json::from_str(r#"{"batch":{"steps":[{"stmt":{"sql":"one"}},{"stmt":{"sql":"one"}}]}}"#).unwrap();
    let mut lines = Kept(Vec::new(), 3);
    CursorRun::new(cursor.batch).advance(&mut stream, &bench.around(), &mut lines);
    assert_eq!(lines.0.len(), 3);
}

#[test]
fn streams_are_taken_once_counted_and_ended() {
    let bench = Bench::new();
    let now = Instant::now();
    let mut stream = bench.stream();
    let id = stream.id;
    assert!(bench.streams.open(of(None), Uuid::from_u128(8), 1, now).is_none(), "one is the most");
    assert!(matches!(bench.streams.take(id, 0), Err(NoStream::InUse)));
    bench.run(&mut stream, &requests(&["temp"]));
    assert!(!stream.settle());
    stream.sequence = 1;
    bench.streams.put_back(stream, now);
    assert!(matches!(bench.streams.take(id, 0), Err(NoStream::InUse)), "an old baton");
    assert!(bench.streams.expired(now + Duration::from_secs(9), Duration::from_secs(10)).is_empty());
    assert_eq!(bench.streams.expired(now + Duration::from_secs(10), Duration::from_secs(10)).len(), 1);
    assert!(matches!(bench.streams.take(id, 1), Err(NoStream::Gone)));
    assert_eq!(bench.streams.count(), 0);
    let mut lost = bench.streams.open(of(Some("nope")), Uuid::from_u128(9), 9, now).unwrap();
    assert!(matches!(open(&mut lost, &bench.around()), Err(HttpError::NotFound(_))));
}
