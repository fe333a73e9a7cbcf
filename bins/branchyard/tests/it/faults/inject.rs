//! Injection of the planned faults.

use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

use branchyard_testkit::{AMPLE, command_line, descendants, ended_within};
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};

use super::harness::FaultsHarness;
use super::plan::{Fault, Kind};
use super::postgres::Stop;

/// Maximum time for a server to drain: its limit for requests under way and a margin.
const DRAIN: Duration = Duration::from_secs(45);
/// Pause between two kills of workers.
const BETWEEN_KILLS: Duration = Duration::from_millis(30);
/// Step of the clock.
const HOUR_SECONDS: i64 = 3_600;

impl FaultsHarness<'_> {
    /// Lets traffic run, injects the fault, restores the environment, and lets traffic run again.
    pub(super) fn strike(&mut self, fault: &Fault) {
        sleep(fault.after);
        self.client.weather.set_bad(true);
        match fault.kind {
            Kind::Kill => self.kill(),
            Kind::KillTwice => {
                self.kill();
                let mut half_started = self.serve().stdout(Stdio::null()).spawn().unwrap();
                sleep(fault.lasts / 4);
                half_started.kill().unwrap();
                half_started.wait().unwrap();
            }
            Kind::Terminate => self.end(),
            Kind::Hurry => {
                let mut server = self.server.take().unwrap();
                server.signal();
                sleep(fault.lasts / 8);
                server.signal();
                let ended = server.ended_within(DRAIN).unwrap();
                assert!(ended.success(), "{ended}");
            }
            Kind::Freeze => {
                self.signal(Signal::STOP);
                sleep(fault.lasts);
                self.signal(Signal::CONT);
            }
            Kind::DiskFull | Kind::DiskFullKill => {
                self.disk.as_ref().unwrap().fill(fault.left);
                sleep(fault.lasts);
                if fault.kind == Kind::DiskFullKill {
                    self.kill();
                }
                self.disk.as_ref().unwrap().free();
            }
            Kind::FilesFull => {
                self.limit_files(Some(self.largest() + fault.left));
                sleep(fault.lasts);
                self.limit_files(None);
            }
            Kind::ReadOnly => self.read_only(),
            Kind::StoreRestart => {
                self.postgres.unwrap().stop(Stop::Fast);
                self.postgres.unwrap().begin();
            }
            Kind::StoreCrash => {
                self.postgres.unwrap().stop(Stop::Immediate);
                self.postgres.unwrap().begin();
            }
            Kind::StoreGone => {
                self.postgres.unwrap().stop(Stop::Fast);
                sleep(fault.lasts);
                self.postgres.unwrap().begin();
            }
            Kind::StoreCut => self.postgres.unwrap().cut(),
            Kind::KillInstance => {
                for (id, line) in self.processes() {
                    if line.contains("serve-deployment") {
                        // The process may have ended in the meantime.
                        let _ = kill_process(Pid::from_raw(id.cast_signed()).unwrap(), Signal::KILL);
                    }
                }
            }
            Kind::KillWorkers => {
                let until = Instant::now() + fault.lasts;
                for turn in 0.. {
                    if Instant::now() >= until {
                        break;
                    }
                    let workers = self.sql_processes("worker");
                    if let Some(worker) = workers.get(turn * 7 % workers.len().max(1)) {
                        kill(*worker);
                    }
                    sleep(BETWEEN_KILLS);
                }
            }
            Kind::KillLauncher => self.sql_processes("launcher").into_iter().for_each(kill),
            Kind::ClockForward => self.clock.as_mut().unwrap().set_forward(HOUR_SECONDS),
            Kind::ClockBack => self.clock.as_mut().unwrap().set_forward(-HOUR_SECONDS),
        }
        if self.server.is_none() {
            self.start();
        } else {
            self.wait_until_ready();
        }
        self.client.weather.set_bad(false);
        sleep(fault.calm);
    }

    /// Limits the size of files that the server, its launcher and its workers write.
    fn limit_files(&self, bytes: Option<u64>) {
        let limit = || Rlimit { current: bytes, maximum: None };
        prlimit(Some(self.pid()), Resource::Fsize, limit()).unwrap();
        for role in ["launcher", "worker"] {
            for process in self.sql_processes(role) {
                // The process may have ended in the meantime.
                let _ = prlimit(Some(process), Resource::Fsize, limit());
            }
        }
    }

    /// Returns the processes for SQL in a role.
    fn sql_processes(&self, role: &str) -> Vec<Pid> {
        let line = format!("sql-worker {role} ");
        let of_role = descendants(self.server.as_ref().unwrap().id()).into_iter();
        of_role
            .filter(|id| command_line(*id).ends_with(&line))
            .filter_map(|id| Pid::from_raw(id.cast_signed()))
            .collect()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(self.server.as_ref().unwrap().id().cast_signed()).unwrap()
    }

    fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).unwrap();
    }

    fn kill(&mut self) {
        self.server.take().unwrap().kill();
    }

    /// Asserts that a start on a read-only folder fails soon.
    fn read_only(&mut self) {
        self.end();
        let disk = self.disk.as_ref().unwrap();
        disk.writable(false);
        let mut child = self.serve().stdout(Stdio::null()).spawn().unwrap();
        let ended = ended_within(&mut child, AMPLE);
        if ended.is_none() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        assert_eq!(ended.and_then(|status| status.code()), Some(1), "a start on a read-only folder");
        disk.writable(true);
    }
}

fn kill(process: Pid) {
    // The process may have ended in the meantime.
    let _ = kill_process(process, Signal::KILL);
}
