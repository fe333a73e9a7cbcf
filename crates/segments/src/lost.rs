//! The bytes that the metadata lost when they were restored to an earlier time, as far as the store still has them.

use crate::key::{ObjectKey, Purpose};
use crate::record::{Epoch, Generation};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What the metadata had of a database when an administrator accepted that they are older than the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AcceptedLoss {
    /// The generation in force.
    pub generation: Generation,
    /// The number of durable bytes.
    pub durable_length: u64,
    /// The highest epoch among the objects of the database. What counts since then was written in higher ones.
    pub epoch: Epoch,
}

impl AcceptedLoss {
    /// Returns `true` if an object may hold bytes that the metadata lost. `epoch` is that of the row, and no segment names the object.
    #[must_use]
    pub fn may_have_lost(&self, epoch: Epoch, object: &ObjectKey) -> bool {
        let is_further = object.generation > self.generation
            || object.generation == self.generation && object.end > self.durable_length;
        object.epoch > epoch || object.epoch == epoch && is_further
    }
}

/// A file of one generation up to the end of what was lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostFile {
    /// The generation.
    pub generation: Generation,
    /// The offset behind the bytes that were not lost. A record of the engine ends there; 0 if the whole generation was lost.
    pub from: u64,
    /// The objects that make up the file, in their order, each with the range of the file that is taken from it.
    pub pieces: Vec<(ObjectKey, Range<u64>)>,
    /// The offset at which the store lacks an object, if it does. The pieces end there.
    pub gap: Option<u64>,
}

/// Returns the files of the generations that have lost bytes, the oldest generation first.
///
/// `objects` are all objects of the database in the store, and `named` are the segments of its row, each with the generation. These count
/// for the bytes that were not lost.
///
/// Within one generation, the bytes that were written in one epoch agree with each other, and with those of the next epoch up to where
/// that one's holder began to add. So an object's bytes count up to the least start of a [`Purpose::Tail`] of a later epoch.
#[must_use]
pub fn lost_files(accepted: &AcceptedLoss, objects: &[ObjectKey], named: &[ObjectKey]) -> Vec<LostFile> {
    let is_before = |object: &&ObjectKey| object.epoch <= accepted.epoch && object.generation >= accepted.generation;
    let generations: BTreeSet<Generation> = objects.iter().filter(is_before).map(|object| object.generation).collect();
    let file = |generation| {
        let from = if generation == accepted.generation { accepted.durable_length } else { 0 };
        let own: Vec<&ObjectKey> =
            objects.iter().filter(is_before).filter(|object| object.generation == generation).collect();
        let kept = named.iter().filter(|object| object.generation == generation);
        lost_file(generation, from, &own, kept)
    };
    generations.into_iter().filter_map(file).collect()
}

fn lost_file<'a>(
    generation: Generation,
    from: u64,
    objects: &[&'a ObjectKey],
    kept: impl Iterator<Item = &'a ObjectKey>,
) -> Option<LostFile> {
    // Where the holder of each epoch began to add bytes.
    let mut begins = BTreeMap::<Epoch, u64>::new();
    for object in objects.iter().filter(|object| object.purpose == Purpose::Tail) {
        let begin = begins.entry(object.epoch).or_insert(object.start);
        *begin = (*begin).min(object.start);
    }
    let valid_to = |epoch: Epoch| begins.iter().filter(|(later, _)| **later > epoch).map(|(_, begin)| *begin).min();
    let of_lost = objects.iter().map(|object| (*object, valid_to(object.epoch).unwrap_or(u64::MAX).min(object.end)));
    let of_kept = kept.map(|object| (object, object.end.min(from)));
    let mut pieces: Vec<(&ObjectKey, u64)> =
        of_lost.chain(of_kept).filter(|(object, end)| object.start < *end).collect();
    let last = pieces.iter().map(|(_, end)| *end).max().filter(|end| *end > from)?;
    // Of pieces that reach as far, that of the newest epoch is the surest.
    pieces.sort_by_key(|(object, end)| (Reverse(*end), Reverse(object.epoch)));
    let (mut chosen, mut at) = (Vec::new(), 0);
    while at < last {
        let Some((object, end)) = pieces.iter().find(|(object, end)| object.start <= at && at < *end) else { break };
        chosen.push(((*object).clone(), at..*end));
        at = *end;
    }
    (at > from || at < last).then_some(LostFile { generation, from, pieces: chosen, gap: (at < last).then_some(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<ObjectKey> {
        let key = |name: &&str| format!("d/{name}-000000000000000000000000000000ff").parse().unwrap();
        names.iter().map(key).collect()
    }

    fn accepted(generation: u64, durable_length: u64, epoch: u64) -> AcceptedLoss {
        AcceptedLoss { generation: Generation(generation), durable_length, epoch: Epoch(epoch) }
    }

    /// Returns the pieces of the only file, as `<object without nonce> <range>`.
    fn pieces(accepted: &AcceptedLoss, objects: &[&str], named: &[&str]) -> (Vec<String>, Option<u64>) {
        let files = lost_files(accepted, &keys(objects), &keys(named));
        let [file] = &files[..] else { panic!("{files:?}") };
        let piece = |(key, range): &(ObjectKey, Range<u64>)| {
            let name = key.to_string();
            let name = name.trim_start_matches("d/").split('-').take(2).collect::<Vec<_>>().join("-");
            format!("{name} {}..{}", range.start, range.end)
        };
        (file.pieces.iter().map(piece).collect(), file.gap)
    }

    #[test]
    fn the_bytes_behind_the_durable_ones_are_lost() {
        let objects = ["0/0-50.1", "0/50-60.2", "0/60-75.2", "0/50-55.9"];
        let (found, gap) = pieces(&accepted(0, 50, 2), &objects, &["0/0-50.1", "0/50-55.9"]);
        assert_eq!(found, ["0/0-50.1 0..50", "0/50-60.2 50..60", "0/60-75.2 60..75"]);
        assert_eq!(gap, None);
    }

    #[test]
    fn nothing_is_lost_if_nothing_lies_behind() {
        let objects = keys(&["0/0-50.1", "0/50-90.7"]);
        assert_eq!(lost_files(&accepted(0, 50, 2), &objects, &keys(&["0/0-50.1", "0/50-90.7"])), []);
    }

    #[test]
    fn what_a_successor_did_not_take_over_does_not_count() {
        // The holder of epoch 2 stored 60-80 in vain, and that of epoch 3 continued at 60. The first attempt at 60 in epoch 3 is part of
        // the second one.
        let objects = ["0/0-50.1", "0/50-60.2", "0/60-80.2", "0/60-70.3", "0/60-72.3", "0/72-75.3"];
        let (found, _) = pieces(&accepted(0, 50, 3), &objects, &[]);
        assert_eq!(found, ["0/0-50.1 0..50", "0/50-60.2 50..60", "0/60-72.3 60..72", "0/72-75.3 72..75"]);
    }

    #[test]
    fn compacted_bytes_count_whatever_was_deleted_since() {
        let objects = ["0/part/0-60.2", "0/60-70.2", "0/part/70-90.2"];
        let (found, gap) = pieces(&accepted(0, 50, 2), &objects, &[]);
        assert_eq!(found, ["0/part/0-60.2 0..60", "0/60-70.2 60..70", "0/part/70-90.2 70..90"]);
        assert_eq!(gap, None);
        // What came later compacted bytes that were lost with others.
        let (found, _) = pieces(&accepted(0, 50, 2), &["0/50-60.2"], &["0/part/0-90.5"]);
        assert_eq!(found, ["0/part/0-90.5 0..50", "0/50-60.2 50..60"]);
    }

    #[test]
    fn a_gap_ends_the_file() {
        let (found, gap) = pieces(&accepted(0, 50, 2), &["0/0-50.1", "0/60-70.2"], &[]);
        assert_eq!((found, gap), (vec!["0/0-50.1 0..50".to_owned()], Some(50)));
    }

    #[test]
    fn a_generation_that_was_lost_is_a_file_of_its_own() {
        let objects = keys(&["0/0-50.1", "0/50-60.1", "1/part/0-40.1", "1/40-45.1", "1/part/0-30.6"]);
        let files = lost_files(&accepted(0, 50, 1), &objects, &[]);
        let of = |file: &LostFile| (file.generation.0, file.from, file.pieces.len(), file.gap);
        assert_eq!(files.iter().map(of).collect::<Vec<_>>(), [(0, 50, 2, None), (1, 0, 2, None)]);
    }

    #[test]
    fn objects_of_lost_changes_are_told_apart_from_others() {
        let (loss, epoch) = (accepted(2, 50, 9), Epoch(3));
        let may = |name: &str| loss.may_have_lost(epoch, &keys(&[name])[0]);
        for lost in ["2/50-60.3", "2/60-70.3", "3/part/0-10.3", "1/0-10.4"] {
            assert!(may(lost), "{lost}");
        }
        for usual in ["2/40-50.3", "1/70-80.3", "2/60-70.2"] {
            assert!(!may(usual), "{usual}");
        }
    }
}
