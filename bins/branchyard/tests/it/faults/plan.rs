//! What will be done, drawn from a seed.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Where metadata is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// SIGKILL, and a start.
    Kill,
    /// SIGKILL, and again while the next start recovers.
    KillTwice,
    /// SIGTERM; it must end well.
    Terminate,
    /// SIGTERM twice; it must end well, and soon.
    Hurry,
    /// SIGSTOP, and SIGCONT.
    Freeze,
    /// No byte is left on the disk of the data folder for a while.
    DiskFull,
    /// The same, and SIGKILL before there is space again.
    DiskFullKill,
    /// Files cannot grow beyond a size for a while (RLIMIT_FSIZE).
    FilesFull,
    /// The data folder cannot be written at a start, which must say so.
    ReadOnly,
    /// Postgres restarts and cuts its clients off.
    StoreRestart,
    /// Postgres crashes, and comes back.
    StoreCrash,
    /// Postgres refuses connections for a while.
    StoreGone,
    /// Postgres drops every connection.
    StoreCut,
    /// SIGKILL to the process of a deployment.
    KillInstance,
    /// The clock is set an hour forward.
    ClockForward,
    /// The clock is set an hour back.
    ClockBack,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::KillTwice => "kill, and kill the next start",
            Self::Terminate => "terminate",
            Self::Hurry => "terminate twice",
            Self::Freeze => "freeze",
            Self::DiskFull => "disk full",
            Self::DiskFullKill => "disk full, and kill",
            Self::FilesFull => "files cannot grow",
            Self::ReadOnly => "read-only data folder",
            Self::StoreRestart => "Postgres restarts",
            Self::StoreCrash => "Postgres crashes",
            Self::StoreGone => "Postgres refuses connections",
            Self::StoreCut => "Postgres drops connections",
            Self::KillInstance => "kill a deployment's process",
            Self::ClockForward => "clock forward an hour",
            Self::ClockBack => "clock back an hour",
        }
    }
}

/// One fault: what, after how much traffic, how long it lasts, how much traffic follows.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) after: Duration,
    pub(super) lasts: Duration,
    pub(super) calm: Duration,
    /// Bytes that a full disk still takes, or by which a file may still grow.
    pub(super) left: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} ms", self.kind.name(), self.after.as_millis())
    }
}

/// What faults need of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub(super) postgres: bool,
    pub(super) small_disks: bool,
    pub(super) clocks: bool,
}

/// An episode.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) store: StoreKind,
    /// Whether a deployment serves clients of SQL meanwhile.
    pub(super) deployment: bool,
    pub(super) faults: Vec<Fault>,
}

const EVERYWHERE: &[Kind] = &[
    Kind::Kill,
    Kind::Kill,
    Kind::Kill,
    Kind::KillTwice,
    Kind::Terminate,
    Kind::Hurry,
    Kind::Freeze,
    Kind::FilesFull,
    Kind::DiskFull,
    Kind::DiskFull,
    Kind::DiskFullKill,
    Kind::ReadOnly,
    Kind::ClockForward,
    Kind::ClockBack,
];
const ON_POSTGRES: &[Kind] = &[Kind::StoreRestart, Kind::StoreCrash, Kind::StoreGone, Kind::StoreCut];

impl Plan {
    /// Odd seeds are for SQLite, even ones for Postgres where there is one. Without a small disk to fill, files that cannot grow take its place;
    /// without a clock to set, SIGKILL does.
    pub(super) fn new(seed: u64, faults: usize, means: Means) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let store = if seed.is_multiple_of(2) && means.postgres { StoreKind::Postgres } else { StoreKind::Sqlite };
        let deployment = seed % 4 < 2;
        let mut kinds = EVERYWHERE.to_vec();
        if store == StoreKind::Postgres {
            kinds.extend_from_slice(ON_POSTGRES);
        }
        if deployment {
            kinds.push(Kind::KillInstance);
        }
        let fault = |_| {
            let kind = match kinds.choose(&mut random).copied().unwrap_or(Kind::Kill) {
                Kind::DiskFull | Kind::ReadOnly if !means.small_disks => Kind::FilesFull,
                Kind::DiskFullKill if !means.small_disks => Kind::Kill,
                Kind::ClockForward | Kind::ClockBack if !means.clocks => Kind::Kill,
                kind => kind,
            };
            let mut millis = |from, to| Duration::from_millis(random.random_range(from..to));
            let (after, lasts, calm) = (millis(20, 700), millis(100, 1_500), millis(50, 400));
            // Mostly next to nothing, so that it ends in the middle of something.
            let left = if random.random_ratio(2, 3) {
                random.random_range(0..20_000)
            } else {
                random.random_range(0..400_000)
            };
            Fault { kind, after, lasts, calm, left }
        };
        let faults = (0..faults).map(fault).collect();
        Self { seed, store, deployment, faults }
    }

    /// Whether the server is to live by a clock of ours.
    pub(super) fn sets_the_clock(&self) -> bool {
        self.faults.iter().any(|fault| matches!(fault.kind, Kind::ClockForward | Kind::ClockBack))
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let store = match self.store {
            StoreKind::Sqlite => "SQLite",
            StoreKind::Postgres => "Postgres",
        };
        let with = if self.deployment { " with a deployment" } else { "" };
        write!(f, "{store}{with}, {} faults", self.faults.len())
    }
}

#[test]
fn a_seed_gives_one_plan() {
    let means = Means { postgres: true, small_disks: true, clocks: true };
    let shown = |seed| format!("{:?}", Plan::new(seed, 12, means));
    assert_eq!(shown(7), shown(7));
    assert_ne!(shown(7), shown(9));
}
