//! Checks that each person can read what the rules allow, and nothing else, after any sequence of steps.
//!
//! A story is a random sequence of steps by four people on a base, a private fork of it and a second fork, on a whole server. After
//! the steps, each person and an anonymous caller read everything there is to read. The responses are compared with a model of the
//! rules (`model.rs`), and searched for rows and hashes that the reader may not see anywhere.
//!
//! `SHARING_SEED` and `SHARING_STORIES` choose which stories are played and how many. A story that fails is shortened: it is played
//! again without one of its steps as long as it still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;

mod look;
mod model;
mod stage;
mod steps;

use look::Look;
use model::{Model, Person, Step};
use stage::{Stage, Story};
use steps::{Move, Steps};

/// The number of steps of a story, after its beginning.
const STEPS: usize = 40;
/// How many of some hundred things are read after each step.
const LOOKS: usize = 15;
/// The most replays for shortening a story that failed.
const REPLAYS: usize = 80;

/// A story that failed: its steps, and what is wrong.
struct Failure {
    moves: Vec<Move>,
    what: String,
}

/// Plays a story and checks what each person reads. With `looks`, some things are read after each step, chosen by it; otherwise,
/// everything is read after the last step.
fn play(
    stage: &Stage,
    name: String,
    beginning: &[Step],
    mut next: impl FnMut(&Model) -> Option<Move>,
    mut looks: Option<Steps>,
) -> Result<usize, Failure> {
    let mut moves = Vec::new();
    let mut read = 0;
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let mut story = Story::new(stage, name);
        beginning.iter().try_for_each(|step| story.perform(step))?;
        while let Some(now) = next(&story.model) {
            moves.push(now);
            story.perform(&now.step)?;
            if now.settles {
                story.settle()?;
                if let Some(chosen) = &mut looks {
                    read += read_some(&story, chosen)?;
                }
            }
        }
        story.settle()?;
        read += read_all(&story)?;
        Ok(())
    }));
    let ended = outcome.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
        Err(text.unwrap_or("a panic").to_owned())
    });
    ended.map(|()| read).map_err(|what| Failure { moves, what })
}

fn read_some(story: &Story<'_>, chosen: &mut Steps) -> Result<usize, String> {
    let all = Look::all(story);
    let mut read = 0;
    for who in Person::ALL {
        let percent = u32::try_from(100 * LOOKS / all.len() / Person::ALL.len() + 1).unwrap();
        for look in all.iter().filter(|_| chosen.chance(percent)) {
            story.look(who, look)?;
            read += 1;
        }
    }
    Ok(read)
}

fn read_all(story: &Story<'_>) -> Result<usize, String> {
    let all = Look::all(story);
    Person::ALL.iter().try_for_each(|who| all.iter().try_for_each(|look| story.look(*who, look)))?;
    Ok(all.len() * Person::ALL.len())
}

/// Removes steps as long as the story still fails.
fn shorten(stage: &Stage, names: &AtomicUsize, beginning: &[Step], mut failure: Failure) -> Failure {
    let mut at = failure.moves.len();
    for _ in 0..REPLAYS {
        let Some(without) = at.checked_sub(1) else { break };
        at = without;
        let mut fewer = failure.moves.clone();
        fewer.remove(at);
        let mut left = fewer.into_iter();
        let name = format!("again{}", names.fetch_add(1, Ordering::Relaxed));
        if let Err(shorter) = play(stage, name, beginning, |_| left.next(), None) {
            at = at.min(shorter.moves.len());
            failure = shorter;
        }
    }
    failure
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

#[test]
fn everyone_reads_what_the_rules_say() {
    let (seed, stories) = (setting("SHARING_SEED", 1), setting("SHARING_STORIES", 8));
    let stage = Stage::new();
    let (next, names) = (Mutex::new(seed..seed + stories), AtomicUsize::new(0));
    let failed = Mutex::new(None);
    let (read, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(seed) = next.lock().next() else { return };
                    let (mut steps, mut left) = (Steps::new(seed), STEPS);
                    let script = |model: &Model| {
                        left = left.checked_sub(1)?;
                        Some(steps.next(model))
                    };
                    let looks = Some(Steps::new(!seed));
                    match play(&stage, format!("story{seed}"), &steps::beginning(seed), script, looks) {
                        Ok(count) => {
                            read.fetch_add(count, Ordering::Relaxed);
                            done.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(failure) => {
                            failed.lock().get_or_insert((seed, failure));
                            *next.lock() = 0..0;
                        }
                    }
                }
            });
        }
    });
    if let Some((seed, failure)) = failed.into_inner() {
        let long = failure.moves.len();
        let first = failure.what.clone();
        let short = shorten(&stage, &names, &steps::beginning(seed), failure);
        let steps: Vec<Step> = short.moves.iter().map(|now| now.step).collect();
        panic!("SHARING_SEED={seed}: {first}\n\nThe shortest of {long} steps that fails: {steps:#?}\n{}", short.what);
    }
    assert_eq!(done.into_inner(), usize::try_from(stories).unwrap());
    println!("{} answers were compared", read.into_inner());
}
