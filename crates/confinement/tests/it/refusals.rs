//! Refused calls under both lists, in both ways of refusal.

use std::os::unix::process::ExitStatusExt as _;

use crate::attempts;
use crate::probe;

#[test]
fn a_refused_call_of_a_worker_is_an_error() {
    refused_with_an_error("SqlWorker");
}

#[test]
fn a_refused_call_of_a_deployment_is_an_error() {
    refused_with_an_error("Deployment");
}

#[test]
fn a_refused_call_kills_a_worker() {
    refused_with_death("SqlWorker");
}

#[test]
fn a_refused_call_kills_a_deployment() {
    refused_with_death("Deployment");
}

fn refused_with_an_error(list: &str) {
    let names = attempts::names(list);
    let ended = probe::run(&format!("attempt {list} Error {}", names.join(" ")));
    assert!(ended.status.success(), "{list}: {ended:#?}");
    let expected: Vec<String> = names.iter().map(|name| format!("{name} {}", libc::EPERM)).collect();
    assert_eq!(ended.lines, expected, "{}", ended.output);
}

/// Calls that a worker only fails at, because libraries make them by themselves.
const PATHS: &[&str] = &["openat", "openat-below-folder", "open-own-memory", "faccessat", "readlinkat"];

fn refused_with_death(list: &str) {
    for name in attempts::names(list) {
        let ended = probe::run(&format!("attempt {list} Kill {name}"));
        if list == "SqlWorker" && PATHS.contains(&name) {
            assert_eq!(ended.lines, [format!("{name} {}", libc::EPERM)], "{ended:#?}");
            continue;
        }
        assert_eq!(ended.status.signal(), Some(libc::SIGSYS), "{list} {name}: {ended:#?}");
        assert_eq!(ended.lines, [""; 0], "{list} {name}");
    }
}

#[test]
fn abort_ends_a_confined_process_as_usual() {
    for list in ["SqlWorker", "Deployment"] {
        let ended = probe::run(&format!("abort {list} Kill"));
        assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{list}: {ended:#?}");
    }
}

/// The flags of `clone3` are out of sight, so the call does not exist, and the C library uses `clone`.
#[test]
fn a_process_is_led_from_clone3_to_clone() {
    for refusal in ["Error", "Kill"] {
        let ended = probe::run(&format!("attempt Deployment {refusal} clone3"));
        assert_eq!(ended.lines, [format!("clone3 {}", libc::ENOSYS)], "{refusal}: {ended:#?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn a_call_of_x32_kills_under_any_list() {
    for list in ["SqlWorker", "Deployment"] {
        for refusal in ["Error", "Kill"] {
            let ended = probe::run(&format!("attempt {list} {refusal} x32"));
            assert_eq!(ended.status.signal(), Some(libc::SIGSYS), "{list} {refusal}: {ended:#?}");
        }
    }
}
