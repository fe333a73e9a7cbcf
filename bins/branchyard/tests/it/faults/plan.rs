//! The plan of an episode, drawn from a seed.

use std::fmt;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// The kind of metadata store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StoreKind {
    Sqlite,
    Postgres,
}

/// The kinds of faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// SIGKILL, then a start.
    Kill,
    /// SIGKILL, and another one while the next start recovers.
    KillTwice,
    /// SIGTERM. The server must exit successfully.
    Terminate,
    /// Two SIGTERM signals. The server must exit successfully and soon.
    Hurry,
    /// SIGSTOP, then SIGCONT.
    Freeze,
    /// The disk of the data folder is full for a while.
    DiskFull,
    /// The disk is full, and the server gets SIGKILL before space is freed.
    DiskFullKill,
    /// Files cannot grow beyond a size for a while (`RLIMIT_FSIZE`).
    FilesFull,
    /// The data folder is read-only during a start, which must fail.
    ReadOnly,
    /// Postgres restarts and disconnects its clients.
    StoreRestart,
    /// Postgres crashes and restarts.
    StoreCrash,
    /// Postgres refuses connections for a while.
    StoreGone,
    /// Postgres drops every connection.
    StoreCut,
    /// The process of a deployment gets SIGKILL.
    KillInstance,
    /// Worker processes of SQL get SIGKILL, one after the other.
    KillWorkers,
    /// The launcher of these processes gets SIGKILL.
    KillLauncher,
    /// The clock is set forward by an hour.
    ClockForward,
    /// The clock is set back by an hour.
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
            Self::KillWorkers => "kill SQL workers",
            Self::KillLauncher => "kill the launcher of SQL workers",
            Self::ClockForward => "clock forward an hour",
            Self::ClockBack => "clock back an hour",
        }
    }
}

/// A fault with its timing: traffic before the fault (`after`), duration (`lasts`), and traffic after it (`calm`).
#[derive(Debug, Clone)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    pub(super) after: Duration,
    pub(super) lasts: Duration,
    pub(super) calm: Duration,
    /// Bytes left on a full disk, or by which a file may still grow.
    pub(super) left: u64,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {} ms", self.kind.name(), self.after.as_millis())
    }
}

/// Capabilities of the machine that faults depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Means {
    pub(super) postgres: bool,
    pub(super) small_disks: bool,
    pub(super) clocks: bool,
}

/// The plan of an episode.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) seed: u64,
    pub(super) store: StoreKind,
    /// Whether a deployment serves SQL clients during the episode.
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
    Kind::KillWorkers,
    Kind::KillWorkers,
    Kind::KillWorkers,
    Kind::KillLauncher,
    Kind::ClockForward,
    Kind::ClockBack,
];
const ON_POSTGRES: &[Kind] = &[Kind::StoreRestart, Kind::StoreCrash, Kind::StoreGone, Kind::StoreCut];

impl Plan {
    /// Draws a plan. Odd seeds use SQLite; even seeds use Postgres if available. Without a small disk, faults of the disk become files that
    /// cannot grow, or SIGKILL alone if they include one. Without a settable clock, changes of the clock become SIGKILL.
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
            // Mostly very little, so that the space runs out in the middle of an operation.
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

    /// Returns `true` if the plan needs a clock that can be set.
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
