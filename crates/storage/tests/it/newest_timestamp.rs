//! The newest timestamp in the store.

use branchyard_domain::values::Timestamp;

use crate::home::Home;

/// Statements that record work, and the newest timestamp after each. Rows that they refer to need not exist.
const RECORDS: &[(&str, i64)] = &[
    ("INSERT INTO answers VALUES ('a', 's', 'k', '12345678901234567890123456789012', '', 10)", 10),
    (
        "INSERT INTO operations VALUES
            ('o1', 'd', 'import', '{}', NULL, NULL, 'queued', NULL, NULL, NULL, NULL, 0, 'a', 20, NULL, NULL, NULL)",
        20,
    ),
    ("UPDATE operations SET state = 'failed', failure = '{}', finished_at = 30", 30),
    ("INSERT INTO activities VALUES ('v1', 'd', 40, 'a', 'branch_created', 'b', NULL, NULL)", 40),
    ("INSERT INTO events (id, database_id, at, event, body) VALUES ('e1', 'd', 50, '{}', '')", 50),
    (
        "INSERT INTO deliveries (id, hook_id, event_id, event_name, state, created_at, attempt_count, run_attempts, next_attempt_at)
            VALUES ('l1', 'h', 'e1', 'push', 'pending', 60, 0, 0, 60)",
        60,
    ),
    (
        "INSERT INTO attempts (delivery_id, number, id, started_at, duration_ms) VALUES ('l1', 1, 't1', 70, 1);
        UPDATE deliveries SET attempt_count = 1, run_attempts = 1, next_attempt_at = 5000",
        70,
    ),
    ("UPDATE deliveries SET state = 'delivered', next_attempt_at = NULL, finished_at = 80", 80),
    ("INSERT INTO samples VALUES ('i', 'fine', 90, '{}')", 90),
    // Out of order, as written by another server whose clock is behind.
    ("INSERT INTO answers VALUES ('a', 's', 'l', '12345678901234567890123456789012', '', 15)", 90),
];

#[test]
fn the_newest_record_of_any_kind() {
    for home in Home::each() {
        let store = home.ready();
        assert_eq!(store.latest().unwrap(), None, "nothing was done yet");
        let alone =
            if home.is_sqlite() { "PRAGMA foreign_keys = OFF" } else { "SET session_replication_role = replica" };
        for (sql, at) in RECORDS {
            home.execute(&format!("{alone}; {sql}"));
            assert_eq!(store.latest().unwrap(), Some(Timestamp::from_micros(*at)), "after {sql}");
        }
    }
}
