//! Workers that break the protocol, and workers that lie within it.

use branchyard_domain::ports::{BatchedWrite, Engine as _, EngineError, MergeOutcome, Written};
use branchyard_domain::values::CommitHash;
use branchyard_engine_doltlite::CellBatch;
use sha2::{Digest as _, Sha256};

use super::log::logged;
use super::started_reads::Started;
use super::{AMPLE, Db, Harness, author, blamed, deed};
use crate::messages::FromWorker;
use crate::wire::Wire;
use crate::worker::tests::{DEED, DONE, columns, message, raw_message, row, to_hex};

fn asks<T: Wire>(kind: FromWorker, value: T) -> Vec<u8> {
    message(kind, &value.encode())
}

/// What a worker sends in the middle of a read, instead of an answer.
fn lies() -> Vec<(&'static str, String)> {
    use FromWorker::*;
    let described = |count| message(Columns, &columns(count).encode());
    let not_a_number = [&[2][..], &f64::NAN.to_bits().to_le_bytes()].concat();
    let written = Written { outcome: MergeOutcome::Conflicts(Vec::new()), rows_affected: 1 };
    let after_the_answer = [
        ("a second answer", format!("{DONE} {DONE}")),
        ("a question after the answer", format!("{DONE} {}", to_hex(&message(GoOn, &[])))),
        ("a part of a message after the answer", format!("{DONE} 09")),
    ];
    let lies = vec![
        ("an unknown kind", raw_message(200, &[])),
        ("no kind", vec![0, 0, 0, 0]),
        ("a length above the limit", vec![1, 0, 0, 0x20, 5]),
        ("the largest length", vec![0xff; 5]),
        ("rows before columns", message(Rows, &row())),
        ("columns twice", [described(1), described(1)].concat()),
        ("no columns, with rows", [described(0), message(Rows, &row())].concat()),
        ("too few values", [described(2), message(Rows, &row())].concat()),
        ("a value that is not a number", [described(1), message(Rows, &not_a_number)].concat()),
        ("a value of an unknown type", [described(1), message(Rows, &[9])].concat()),
        ("a value without an end", [described(1), message(Rows, &[3, 5, b'x'])].concat()),
        ("columns that are none", message(Columns, &[0xff; 20])),
        ("more columns than bytes", message(Columns, &[0xff, 0xff, 0xff, 0x7f])),
        ("an answer of another type", message(Done, &(1_u32, Ok::<_, EngineError>(written)).encode())),
        ("an empty answer", message(Done, &[])),
        ("an answer and more", message(Done, &[1, 1, 1, 1])),
        ("an error of an unknown kind", message(Done, &[1, 0, 99])),
        ("an answer to another call", message(Done, &[99, 1, 1])),
        ("ready again", message(Ready, &[1])),
        ("bound again", message(Bound, &[])),
        ("parents of no commit", message(Parents, &[1, 0])),
        ("a question for rows", message(NextRows, &[])),
        ("a question for a script", asks(NextBytes, 100_usize)),
        ("rows of a file", asks(Cells, CellBatch::new())),
        ("a write turn in a read", message(EnterTurn, &[])),
        ("no memory", asks(TakeMemory, (0_i64, 0_i64))),
        ("negative memory", asks(TakeMemory, (-1_i64, 0_i64))),
        ("the most negative memory", asks(TakeMemory, (i64::MIN, i64::MIN))),
        ("all memory", asks(TakeMemory, (i64::MAX, i64::MAX))),
        ("negative memory returned", asks(ReturnMemory, i64::MIN)),
        ("a wait for negative memory", asks(WaitForMemory, (-1_i64, std::time::Duration::MAX))),
        ("a wait for all memory", asks(WaitForMemory, (i64::MAX, std::time::Duration::MAX))),
        ("a commit that is none", message(Reaches, &[b'x'; 40])),
    ];
    lies.into_iter().map(|(name, bytes)| (name, to_hex(&bytes))).chain(after_the_answer).collect()
}

/// Checks that a statement failed because its worker broke the protocol, and how that was logged.
fn broke(name: &str, statement: &str, failed: EngineError, log: &str) {
    let text = blamed(failed);
    assert!(text.contains("broke the process"), "{name}: {text}");
    let digest: String = Sha256::digest(statement).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    assert!(log.contains(&digest) && log.contains("broke the protocol"), "{name}: {log}");
    assert!(!log.contains("SELECT") && !log.contains("INSERT") && !log.contains("deed"), "{name}: {log}");
}

#[test]
fn a_worker_that_breaks_the_protocol_is_killed_and_its_statement_fails() {
    let harness = Harness::new();
    let db = harness.database(1);
    let lies = lies();
    for (name, what) in &lies {
        let statement = deed(&format!("raw {what}"));
        let before = harness.engine.workers().killed;
        let (read, log) = logged(|| harness.read(&db, &statement));
        broke(name, &statement, read.expect_err(name), &log);
        assert_eq!(harness.engine.workers().killed, before + 1, "{name}");
    }
    println!("{} lies", lies.len());
    harness.works(&[&db]);
}

/// The thread that takes a result which is at hand must not wait.
#[test]
fn a_lie_in_a_started_read_breaks_the_protocol_and_keeps_no_one_waiting() {
    let harness = Harness::new();
    let db = harness.database(1);
    for (name, what) in &lies() {
        let statement = deed(&format!("raw {what}"));
        let (started, log) = logged(|| harness.read_started(&db, &statement));
        let Started { at_hand, took, rows } = started;
        broke(name, &statement, rows.expect_err(name), &log);
        assert!(!at_hand || took < super::LIMIT, "{name}: {took:?}");
    }
    harness.works(&[&db]);
}

#[test]
fn a_value_above_the_limit_breaks_the_protocol() {
    let harness = Harness::new();
    let db = harness.database(1);
    let statement = deed("long-value");
    let (read, log) = logged(|| harness.read(&db, &statement));
    broke("long-value", &statement, read.unwrap_err(), &log);
    harness.works(&[&db]);
}

/// The thread of a write holds the turn, and would wait for itself.
#[test]
fn a_write_that_asks_for_its_turn_breaks_the_protocol() {
    let harness = Harness::new();
    let db = harness.database(1);
    let statement = format!("{DEED}raw {}\nINSERT", to_hex(&message(FromWorker::EnterTurn, &[])));
    let (written, log) = logged(|| harness.write(&db, &statement));
    broke("a turn", &statement, written.unwrap_err(), &log);
    harness.works(&[&db]);
}

#[test]
fn bytes_that_do_not_come_end_the_statement() {
    let harness = Harness::new();
    let db = harness.database(1);
    let text = blamed(harness.read(&db, &deed("short 00010000050101")).unwrap_err());
    assert!(text.contains("ended the process"), "{text}");
    harness.works(&[&db]);
}

/// What comes after the answer is not the answer to the next call, whenever it comes.
#[test]
fn an_answer_without_a_call_is_not_used() {
    let harness = Harness::new();
    let db = harness.database(1);
    for _ in 0..20 {
        let broke = |error| assert!(blamed(error).contains("broke the process"));
        match harness.read(&db, &deed("late")) {
            Ok(rows) => assert_eq!(rows, [""; 0]),
            Err(error) => broke(error),
        }
        match harness.read(&db, "SELECT v FROM t") {
            Ok(rows) => assert_eq!(rows, ["x"]),
            Err(error) => broke(error),
        }
    }
    harness.works(&[&db]);
}

fn acknowledges(head: &CommitHash) -> String {
    format!("{DEED}acknowledge {}\nINSERT INTO t VALUES ('z')", head.as_str())
}

#[test]
fn a_commit_that_is_acknowledged_is_proved_in_another_process() {
    let harness = Harness::new();
    let db = harness.database(1);
    let other = harness.database(2);
    let second = Db { head: harness.write(&db, "INSERT INTO t VALUES ('y')").unwrap(), ..db.clone() };
    let beside = harness.write(&db, "INSERT INTO t VALUES ('beside')").unwrap();
    let foreign = harness.write(&other, "INSERT INTO t VALUES ('foreign')").unwrap();
    let invented = CommitHash::parse(&"ab".repeat(20)).unwrap();
    for is_burst in [false, true] {
        if is_burst {
            // The proofs that follow soon are made on a connection that stays open.
            harness.write(&second, "INSERT INTO t VALUES ('z')").unwrap();
        } else {
            std::thread::sleep(std::time::Duration::from_millis(150));
        }
        for head in [&invented, &foreign] {
            let error = harness.write(&second, &acknowledges(head)).unwrap_err();
            assert!(matches!(error, EngineError::NoSuchCommit(_) | EngineError::Damaged(_)), "{error:?}");
        }
        for head in [&db.first, &db.head, &beside] {
            let error = harness.write(&second, &acknowledges(head)).unwrap_err();
            assert!(matches!(error, EngineError::Damaged(_)), "{error:?}");
        }
    }
    harness.works(&[&db]);
}

#[test]
fn each_commit_of_a_batch_is_proved_to_follow_the_one_before() {
    let harness = Harness::new();
    let db = harness.database(1);
    let next = harness.write(&db, "INSERT INTO t VALUES ('next')").unwrap();
    let last = harness.write(&Db { head: next.clone(), ..db.clone() }, "INSERT INTO t VALUES ('last')").unwrap();
    let beside = harness.write(&db, "INSERT INTO t VALUES ('beside')").unwrap();
    let invented = CommitHash::parse(&"ab".repeat(20)).unwrap();
    let author = author();
    let acknowledges = |heads: &[&CommitHash]| {
        let heads: Vec<&str> = heads.iter().map(|head| head.as_str()).collect();
        let deed = format!("{DEED}acknowledge-batch {}\nINSERT INTO t VALUES ('z')", heads.join(" "));
        let write = |statements| BatchedWrite { statements, message: "write", author: &author, timeout: AMPLE };
        harness.engine.write_batch(db.id, &db.head, &[write("SELECT 1"), write(&deed)], AMPLE)
    };
    let heads = |results: Vec<Result<Written, EngineError>>| -> Vec<Option<CommitHash>> {
        let head = |written: Written| match written.outcome {
            MergeOutcome::Head(head) => Some(head),
            MergeOutcome::Conflicts(_) => None,
        };
        results.into_iter().map(|result| result.ok().and_then(head)).collect()
    };
    assert_eq!(heads(acknowledges(&[&next, &last])), [Some(next.clone()), Some(last.clone())]);
    for lie in [[&beside, &last], [&last, &next], [&invented, &last], [&next, &invented], [&db.first, &next]] {
        assert_eq!(heads(acknowledges(&lie)), [None], "{lie:?}");
    }
    assert_eq!(heads(acknowledges(&[&next, &next, &last])), [None], "more than were asked for");
    harness.works(&[&db]);
}
