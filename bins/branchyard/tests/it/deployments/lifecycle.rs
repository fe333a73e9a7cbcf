//! The life cycle of an instance: adoption, orphans, logs, and drains.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use branchyard_deployments::ports::{
    Authorizer, InstanceEvent, InstanceHandle, OutputQuery, ProvisionError, Provisioner, Series, Towards,
};
use branchyard_deployments::values::Setting;
use branchyard_domain::ports::SqlPower;
use branchyard_testkit::{AMPLE, wait_for, wait_until};
use serde_json::json;

use super::harness::{InstanceAnswer, InstanceHarness, execute, provisioner, rows};

impl InstanceHarness {
    /// Sends requests with a token that the process has not cached until they are no longer refused by the server, because the server
    /// is away. Returns the answer.
    fn while_away(&self, token: &str) -> InstanceAnswer {
        wait_for("an answer without the server", AMPLE, || {
            let answer = self.pipeline_as(token, None, json!([]));
            if answer.status != 401 {
                return Ok(answer);
            }
            // Stays below ten rejected requests per second, which would trigger the rate limit.
            thread::sleep(Duration::from_millis(200));
            Err("the server is still asked")
        })
    }
}

fn lines(harness: &InstanceHarness) -> Vec<String> {
    let query = OutputQuery { from: None, towards: Towards::Older, limit: 1000, since: None, until: None };
    harness.local.logs(harness.spec.instance, &query).unwrap().into_iter().map(|line| line.text).collect()
}

#[cfg(target_os = "linux")]
#[test]
fn every_thread_of_the_process_is_confined() {
    let harness = InstanceHarness::start();
    harness.sql(&["select 1"]);
    let threads = fs::read_dir(format!("/proc/{}/task", harness.handle.process)).unwrap();
    let mut count = 0;
    for thread in threads {
        // A thread that ended meanwhile has no status.
        let Ok(status) = fs::read_to_string(thread.unwrap().path().join("status")) else { continue };
        let value = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
            line.unwrap_or_else(|| panic!("no {name} in {status}")).to_owned()
        };
        assert_eq!((value("Seccomp"), value("NoNewPrivs")), ("2".to_owned(), "1".to_owned()));
        // Of the capabilities of root, one is left, with which it uses files below its folder.
        let dac_override = 1 << 1;
        for set in ["CapEff", "CapPrm", "CapInh", "CapAmb"] {
            let held = u64::from_str_radix(&value(set), 16).unwrap();
            assert_eq!(held & !dac_override, 0, "{set}: {held:x}");
        }
        count += 1;
    }
    assert!(count > 3, "{count}");
}

#[test]
fn another_server_adopts_a_process_and_its_clients_notice_nothing() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)"]);
    let begun =
        harness.pipeline_as(&harness.writer, None, json!([execute("begin"), execute("insert into t values (1)")]));
    let baton = begun.ok()["baton"].as_str().unwrap().to_owned();
    harness.local.release(&harness.handle);

    // While the server is away, recently authorized callers are served and others are rejected.
    let answer = harness.while_away(&super::harness::mint());
    assert!(answer.refused(503, "SERVICE_UNAVAILABLE").headers.contains_key("retry-after"));
    harness.sql(&["select 1"]);

    let other = provisioner(harness.dir.path(), &harness.engine, Duration::from_secs(60));
    other.connect(Arc::clone(&harness.people) as Arc<dyn Authorizer>);
    // A handle with another process id or another start time does not match the process.
    for wrong in [
        InstanceHandle { process: std::process::id(), ..harness.handle.clone() },
        InstanceHandle { process_started: "1".into(), ..harness.handle.clone() },
    ] {
        assert!(matches!(other.adopt(&harness.spec, &wrong), Err(ProvisionError::Gone)));
    }
    other.adopt(&harness.spec, &harness.handle).unwrap();
    let event = other.watch(&harness.handle, Duration::from_secs(100)).unwrap();
    assert!(matches!(event, Some(InstanceEvent::Ready { .. })), "{event:?}");
    let ended = harness.pipeline_as(
        &harness.writer,
        Some(&baton),
        json!([execute("commit"), execute("select count(*) from t"), {"type": "close"}]),
    );
    assert_eq!(rows(&ended.ok()["results"][1]["response"]["result"]), [["1"]]);
    harness.people.revoke(&harness.writer);
    harness.pipeline_as(&harness.writer, None, json!([])).refused(401, "UNAUTHENTICATED");

    other.stop(&harness.handle, Duration::from_secs(15)).unwrap();
    assert!(matches!(other.adopt(&harness.spec, &harness.handle), Err(ProvisionError::Gone)));
    assert!(matches!(other.watch(&harness.handle, Duration::ZERO), Err(ProvisionError::Gone)));
    let said = lines(&harness);
    assert!(said.iter().any(|line| line.starts_with("INFO ready port=")), "{said:?}");
    assert!(said[said.len() - 2].starts_with("INFO ended"), "{said:?}");
    assert!(said.last().unwrap().contains("event=stopped"), "{said:?}");
}

#[test]
fn without_a_server_a_process_ends_after_the_grace() {
    let mut harness = InstanceHarness::start_as(&[], Duration::from_secs(1), 1);
    harness.sql(&["create table t(id integer primary key)"]);
    harness.ends = false;
    harness.local.release(&harness.handle);
    let proc = format!("/proc/{}/cmdline", harness.handle.process);
    wait_until("the end of the process", AMPLE, || fs::read(&proc).map_or(true, |line| line.is_empty()));
    assert!(lines(&harness).iter().any(|line| line.contains("the server did not come back")));
    harness.start_again();
    assert_eq!(harness.sql(&["select count(*) from t"]), [["0"]]);
    harness.ends = true;
}

#[test]
fn one_process_serves_a_folder_and_its_files_are_its_owners() {
    let harness = InstanceHarness::start();
    let run = harness.dir.path().join("deployments");
    let run = run.join(harness.spec.deployment.to_string()).join(harness.spec.instance.to_string()).join("run");
    let second =
        crate::process::program().command().args(["serve-deployment", "--run-dir"]).arg(&run).output().unwrap();
    assert!(!second.status.success());
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("another process serves"), "{said}");
    harness.sql(&["select 1"]);
    for file in ["spec.json", "control", "lock"] {
        let mode = fs::metadata(run.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{file} {mode:o}");
    }
    assert_eq!(harness.local.start(&harness.spec).unwrap(), harness.handle, "it runs already");
    assert!(!harness.local.port_is_free(harness.spec.port));
    assert!(matches!(harness.local.remove(harness.spec.instance), Err(ProvisionError::Refused(_))));
    assert!(matches!(harness.local.forget(harness.spec.deployment), Err(ProvisionError::Refused(_))));
    let limits = fs::read_to_string(format!("/proc/{}/limits", harness.handle.process)).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max open files"), "1024");
    assert_eq!(limit("Max file size"), (1_u64 << 30).to_string());
    assert_eq!(limit("Max address space"), (5_u64 << 30).to_string());
    // The process hides its memory, so that only root can read its environment.
    match fs::read(format!("/proc/{}/environ", harness.handle.process)) {
        Ok(environment) => assert!(environment.is_empty()),
        Err(error) => assert_eq!(error.kind(), ErrorKind::PermissionDenied),
    }
    let status = fs::read_to_string(format!("/proc/{}/status", harness.handle.process)).unwrap();
    assert!(status.contains("NoNewPrivs:\t1"));
}

#[test]
fn neither_tokens_nor_values_are_in_the_log_or_on_disk() {
    let harness = InstanceHarness::start_with(&[(Setting::LogQueries, "all"), (Setting::LogLevel, "debug")]);
    harness.sql(&["create table t(v text)", "insert into t values ('s3cret-value'), (424242)"]);
    assert_eq!(harness.failure(&harness.writer, "select 's3cret-value' from nowhere"), "SQLITE_ERROR");
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    let said = lines(&harness).join("\n");
    assert!(said.contains("insert into t values (?), (?)"), "{said}");
    assert!(said.contains("SQLITE_ERROR"));
    assert!(!said.contains("s3cret") && !said.contains("424242"));
    let digits = &harness.writer["hsat.v1.".len()..];
    let mut folders = vec![harness.dir.path().join("deployments")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if let Ok(bytes) = fs::read(&path) {
                let found = bytes.windows(digits.len()).any(|window| window == digits.as_bytes());
                assert!(!found, "{}", path.display());
            }
        }
    }
}

#[test]
fn samples_tell_what_happened() {
    let harness = InstanceHarness::start();
    harness.local.sample(&harness.handle).unwrap();
    harness.sql(&["create table t(id integer primary key)", "insert into t values (1)", "select * from t", "select 1"]);
    harness.failure(&harness.writer, "select * from nowhere");
    let sample = harness.local.sample(&harness.handle).unwrap();
    let get = |series| sample.get(series).unwrap_or_else(|| panic!("{series:?}"));
    assert_eq!((get(Series::Reads), get(Series::Writes), get(Series::Errors)), (2.0, 2.0, 1.0));
    assert_eq!(get(Series::MemoryLimit), f64::from(1 << 30));
    assert!(get(Series::Resident) > 1e6 && get(Series::Received) > 100.0 && get(Series::Sent) > 100.0);
    assert!(get(Series::P50) > 0.0 && get(Series::P99) >= get(Series::P50));
    assert!(get(Series::CpuUsed) >= 0.0 && get(Series::DiskUsed) >= 0.0);
    let idle = harness.local.sample(&harness.handle).unwrap();
    assert_eq!((idle.get(Series::Reads), idle.get(Series::P50)), (Some(0.0), None));
}

#[test]
fn what_cannot_start_says_why() {
    let mut harness = InstanceHarness::start();
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    let db = harness.dir.path().join("deployments").join(harness.spec.deployment.to_string());
    let db = db.join(harness.spec.instance.to_string()).join("db/databases.json");
    fs::write(&db, "nonsense").unwrap();
    harness.handle = harness.local.start(&harness.spec).unwrap();
    match harness.next_event() {
        InstanceEvent::Ended { cause, stderr } => {
            assert_eq!(cause, "exit status 1");
            assert!(stderr.contains("list of databases"), "{stderr}");
        }
        other => panic!("{other:?}"),
    }
    assert!(matches!(harness.local.watch(&harness.handle, Duration::ZERO), Err(ProvisionError::Gone)));
    assert!(lines(&harness).iter().any(|line| line.starts_with("ERROR cannot serve")));
    harness.local.remove(harness.spec.instance).unwrap();
    assert!(matches!(harness.local.start(&harness.spec), Err(ProvisionError::NoData { .. })));
    assert!(!lines(&harness).is_empty(), "logs stay");
    harness.local.forget(harness.spec.deployment).unwrap();
    assert!(lines(&harness).is_empty());
    assert_eq!(harness.local.stop(&harness.handle, Duration::ZERO).ok(), Some(()));
}

#[test]
fn a_drain_lets_what_runs_finish() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)"]);
    let admin = harness.person("ada", SqlPower::Admin);
    thread::scope(|scope| {
        let slow = "insert into t with recursive c(n) as (select 1 union all select n + 1 from c limit 100000) select n from c";
        let runs = scope.spawn(|| harness.sql(&[slow]));
        let streams = || harness.local.sample(&harness.handle).unwrap().get(Series::Streams).unwrap_or_default();
        wait_until("the statement", AMPLE, || streams() >= 1.0 || runs.is_finished());
        harness.local.stop(&harness.handle, Duration::from_secs(15)).unwrap();
        runs.join().unwrap();
    });
    let mut harness = harness;
    harness.start_again();
    assert_eq!(harness.sql_as(&admin, &["select count(*) from t"]), [["100000"]]);
    harness.sql_as(&admin, &["delete from t", "select dolt_gc()"]);
}

/// An instance with a memory size of 0 exceeds its memory limit from the start.
#[test]
fn too_much_memory_in_use_is_a_planned_restart() {
    let mut harness = InstanceHarness::start_as(&[], Duration::from_secs(60), 0);
    let began = Instant::now();
    let event = harness.next_event();
    let InstanceEvent::Ended { cause, stderr } = event else { panic!("{event:?}") };
    // The check takes three samples, five seconds apart. No load on the machine makes this shorter.
    assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(cause, "exit status 1");
    assert!(stderr.contains("used more memory"), "{stderr}");
    let said = lines(&harness);
    for expected in [
        "WARN the process uses more memory than the instance has",
        "INFO draining",
        "INFO ended in_time=true rolled_back=true",
    ] {
        assert!(said.iter().any(|line| line.starts_with(expected)), "{expected}: {said:?}");
    }
    harness.spec.memory_gb = 1;
    harness.start_again();
    harness.sql(&["create table t(id integer primary key)"]);
}

#[test]
fn who_lost_a_right_is_not_served_by_an_orphan() {
    // The orphan grace is longer than this test.
    let mut harness = InstanceHarness::start_as(&[], Duration::from_secs(600), 1);
    let (ada, bob) = (harness.person("ada", SqlPower::Read), harness.person("bob", SqlPower::Read));
    for token in [&ada, &bob] {
        harness.sql_as(token, &["select 1"]);
    }
    harness.people.revoke(&bob);
    harness.local.forget_callers(&harness.handle).unwrap();
    // After `forget_callers`, only callers that were authorized since are remembered.
    harness.sql_as(&ada, &["select 1"]);
    harness.ends = false;
    harness.local.release(&harness.handle);
    harness.while_away(&bob).refused(503, "SERVICE_UNAVAILABLE");
    harness.sql_as(&ada, &["select 1"]);
    harness.ends = true;
    let other = provisioner(harness.dir.path(), &harness.engine, Duration::from_secs(60));
    other.connect(Arc::clone(&harness.people) as Arc<dyn Authorizer>);
    other.adopt(&harness.spec, &harness.handle).unwrap();
    other.stop(&harness.handle, Duration::from_secs(15)).unwrap();
}

#[test]
fn a_full_volume_takes_no_writes_until_there_is_room_again() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)", "insert into t values (1)", "create table spare(a)"]);
    let folder = harness.dir.path().join("deployments").join(harness.spec.deployment.to_string());
    let ballast = folder.join(harness.spec.instance.to_string()).join("db/ballast");
    fs::File::create(&ballast).unwrap().set_len(1 << 30).unwrap();
    assert_eq!(harness.next_event(), InstanceEvent::VolumeFull(true));
    for write in ["insert into t values (2)", "insert into t values (2) -- dolt_gc", "/* DROP */ delete from t"] {
        assert_eq!(harness.failure(&harness.writer, write), "SQLITE_FULL", "{write}");
    }
    harness.sql(&["/* app */ drop table spare"]);
    harness.sql_as(&harness.person("ada", SqlPower::Admin), &["select dolt_gc()"]);
    assert_eq!(harness.sql(&["select count(*) from t"]), [["1"]]);
    fs::remove_file(&ballast).unwrap();
    assert_eq!(harness.next_event(), InstanceEvent::VolumeFull(false));
    assert_eq!(harness.sql(&["insert into t values (2)", "select count(*) from t"]), [["2"]]);
}

/// Returns the events in the log.
fn events(harness: &InstanceHarness) -> Vec<String> {
    let event = |line: String| Some(line.split_once("event=")?.1.split(' ').next()?.to_owned());
    lines(harness).into_iter().filter_map(event).collect()
}

#[test]
fn a_process_that_hangs_is_killed_within_twenty_seconds_and_its_log_says_so() {
    let mut harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)"]);
    let began = Instant::now();
    harness.signal("-STOP");
    // Nothing else is asked of the process: its kill does not depend on its supervisor, which may wait for an answer.
    let stat = format!("/proc/{}/stat", harness.handle.process);
    wait_until("the end of the process", AMPLE, || {
        fs::read_to_string(&stat).map_or(true, |text| text.rsplit(')').next().unwrap_or_default().starts_with(" Z"))
    });
    let took = began.elapsed();
    assert!(took >= Duration::from_secs(13), "{took:?}");
    assert!(took < Duration::from_secs(21), "{took:?}");
    assert_eq!(harness.next_event(), InstanceEvent::Unresponsive);
    harness.local.stop(&harness.handle, Duration::ZERO).unwrap();
    assert_eq!(events(&harness), ["started", "ping_missed", "ping_missed", "ping_missed", "killed"]);
    assert!(lines(&harness).iter().any(|line| line.contains("it missed three pings")));
    harness.start_again();
    harness.kill();
    assert!(matches!(harness.next_event(), InstanceEvent::Ended { cause, .. } if cause == "signal 9"));
    assert_eq!(events(&harness)[5..], ["started", "killed"]);
    harness.start_again();
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    assert_eq!(events(&harness)[7..], ["started", "stopped"]);
}

#[test]
fn data_that_is_mounted_late_is_neither_created_nor_removed() {
    let mut harness = InstanceHarness::start();
    harness.sql(&["create table t(id integer primary key)", "insert into t values (1)"]);
    harness.local.stop(&harness.handle, Duration::from_secs(10)).unwrap();
    let root = harness.dir.path().join("deployments");
    let (mounted, away) = (root.join(harness.spec.deployment.to_string()), harness.dir.path().join("away"));
    fs::rename(&mounted, &away).unwrap();
    for _ in 0..2 {
        let started = harness.local.start(&harness.spec);
        assert!(matches!(&started, Err(ProvisionError::NoData { path }) if path.ends_with("/db")), "{started:?}");
    }
    assert!(matches!(harness.local.sizes(&harness.spec), Err(ProvisionError::NoData { .. })));
    assert!(!mounted.exists(), "nothing that a mount would hide");
    fs::rename(&away, &mounted).unwrap();
    harness.start_again();
    assert_eq!(harness.sql(&["select count(*) from t"]), [["1"]]);
}

/// A file that may not grow stands for a full file system: the databases are far smaller than the volume.
#[cfg(target_os = "linux")]
#[test]
fn a_write_that_finds_no_space_is_reported_until_one_succeeds() {
    let harness = InstanceHarness::start();
    harness.sql(&["create table t(a)"]);
    let limit = |bytes: &str| {
        let process = harness.handle.process.to_string();
        let set = ["--pid", &process, &format!("--fsize={bytes}:1073741824")];
        assert!(std::process::Command::new("prlimit").args(set).status().unwrap().success());
    };
    limit("4194304");
    let big = "insert into t select randomblob(1000000) from generate_series(1, 10)";
    assert_eq!(harness.failure(&harness.writer, big), "SQLITE_FULL");
    assert_eq!(harness.next_event(), InstanceEvent::VolumeFull(true));
    // Smaller writes still fit. Rows that exist can be read.
    assert_eq!(harness.sql(&["select count(*) from t"]), [["0"]]);
    limit("1073741824");
    harness.sql(&[big]);
    assert_eq!(harness.next_event(), InstanceEvent::VolumeFull(false));
}
