//! Random steps.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::model::{Branch, Db, Model, Person, Role, Step};

/// A step, and whether the server has time to fetch the commits of pull requests before the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Move {
    pub(super) step: Step,
    pub(super) settles: bool,
}

/// The beginning of each story: the base, Ben's private fork of it with its own row, and Cleo as a reader of the fork.
const FORKED: [Step; 7] = [
    Step::Push(Person::Ada, Db::Base, Branch::Main),
    Step::Push(Person::Ada, Db::Base, Branch::Work),
    Step::Fork(Person::Ben),
    Step::Push(Person::Ben, Db::Fork, Branch::Main),
    Step::See(Person::Ben, Db::Fork, false),
    Step::Push(Person::Ben, Db::Fork, Branch::Work),
    Step::Share(Person::Ben, Db::Fork, Person::Cleo, Role::Read),
];

/// Added to every second beginning: the base becomes private, and the people on the fork may read it. A pull request needs no consent
/// then.
const PRIVATE_BASE: [Step; 4] = [
    Step::Share(Person::Ada, Db::Base, Person::Ben, Role::Read),
    Step::Share(Person::Ada, Db::Base, Person::Cleo, Role::Read),
    Step::See(Person::Ada, Db::Base, false),
    Step::Open(Person::Ben, Db::Fork, Branch::Main, false),
];

/// Returns the beginning of the story of a seed.
pub(super) fn beginning(seed: u64) -> Vec<Step> {
    let private = if seed.is_multiple_of(2) { PRIVATE_BASE.as_slice() } else { &[] };
    FORKED.iter().chain(private).copied().collect()
}

pub(super) struct Steps(StdRng);

impl Steps {
    pub(super) fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Chooses one of these.
    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.0.random_range(0..all.len())]
    }

    /// Returns `true` with a probability in percent.
    pub(super) fn chance(&mut self, percent: u32) -> bool {
        self.0.random_range(0..100) < percent
    }

    /// Returns the next move: a random one of the steps of one kind that have the same expected status. Steps that must be refused matter
    /// as much as allowed ones, because they detect a missing rule.
    pub(super) fn next(&mut self, model: &Model) -> Move {
        let settles = self.chance(75);
        loop {
            let kind = self.kind();
            let mut by_status: BTreeMap<u16, Vec<Step>> = BTreeMap::new();
            for step in kind.steps(model) {
                let status = model.verdict(&step)[0];
                by_status.entry(if status < 300 { 200 } else { status }).or_default().push(step);
            }
            // Rarely 401, because the credential is checked before any rule.
            if by_status.len() > 1 && self.chance(90) {
                by_status.remove(&401);
            }
            let refused: Vec<u16> = by_status.keys().copied().filter(|status| *status != 200).collect();
            let status = if refused.is_empty() || by_status.contains_key(&200) && self.chance(50) {
                200
            } else {
                self.of(&refused)
            };
            if let Some(steps) = by_status.get(&status) {
                return Move { step: self.of(steps), settles };
            }
        }
    }

    fn kind(&mut self) -> Kind {
        match self.0.random_range(0..100) {
            0..16 => Kind::Push,
            16..20 => Kind::DropBranch,
            20..40 => Kind::Open,
            40..46 => Kind::Close,
            46..56 => Kind::Reopen,
            56..62 => Kind::Withdraw,
            62..68 => Kind::Merge,
            68..82 => Kind::See,
            82..84 => Kind::Delete,
            84..92 => Kind::Share,
            92..97 => Kind::Unshare,
            _ => Kind::Fork,
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Push,
    DropBranch,
    Open,
    Close,
    Reopen,
    Withdraw,
    Merge,
    See,
    Delete,
    Share,
    Unshare,
    Fork,
}

impl Kind {
    /// Returns all steps of this kind.
    fn steps(self, model: &Model) -> Vec<Step> {
        let dbs: Vec<Db> = model.dbs.keys().copied().collect();
        let on_each = |step: &dyn Fn(Person, Db) -> Vec<Step>| -> Vec<Step> {
            Person::ALL.iter().flat_map(|who| dbs.iter().flat_map(|db| step(*who, *db))).collect()
        };
        let pulls = u32::try_from(model.pulls.len()).unwrap();
        let of_pulls = |step: &dyn Fn(Person, u32) -> Step| -> Vec<Step> {
            Person::ALL.iter().flat_map(|who| (1..=pulls).map(|number| step(*who, number))).collect()
        };
        let both = [false, true];
        match self {
            Self::Push => on_each(&|who, db| Branch::ALL.map(|branch| Step::Push(who, db, branch)).into()),
            Self::DropBranch => on_each(&|who, db| vec![Step::DropBranch(who, db)]),
            Self::Open => on_each(&|who, db| {
                let of = |branch| both.map(|publish| Step::Open(who, db, branch, publish));
                Branch::ALL.into_iter().flat_map(of).collect()
            }),
            Self::Close => of_pulls(&Step::Close),
            Self::Reopen => {
                both.iter().flat_map(|publish| of_pulls(&|who, number| Step::Reopen(who, number, *publish))).collect()
            }
            Self::Withdraw => of_pulls(&Step::Withdraw),
            Self::Merge => of_pulls(&Step::Merge),
            Self::See => on_each(&|who, db| both.map(|public| Step::See(who, db, public)).into()),
            Self::Delete => on_each(&|who, db| vec![Step::Delete(who, db)]),
            Self::Share => on_each(&|who, db| {
                let whom = [Person::Ben, Person::Cleo, Person::Dan].into_iter();
                let roles = [Role::Read, Role::Write, Role::Admin];
                whom.flat_map(|whom| roles.map(|role| Step::Share(who, db, whom, role))).collect()
            }),
            Self::Unshare => on_each(&|who, db| {
                [Person::Ben, Person::Cleo, Person::Dan].map(|whom| Step::Unshare(who, db, whom)).into()
            }),
            Self::Fork if model.dbs.contains_key(&Db::Copy) => Vec::new(),
            Self::Fork => vec![Step::Fork(Person::Dan)],
        }
    }
}
