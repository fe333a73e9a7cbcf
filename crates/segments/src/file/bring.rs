//! Bringing the local file to the durable bytes.

use super::store::sha256;
use super::{DatabaseFile, Error};
use crate::ports::{Draft, FileError, LocalFile, Nonces, Objects, Records};
use crate::record::{Known, Record, Segment};
use crate::status::State;
use std::collections::VecDeque;

/// How often a range is read from the store if it does not have the right bytes. A transfer can damage them, too.
const READS: u32 = 3;

/// What of the local file can stay.
struct Kept {
    length: u64,
    /// Whether the file has nothing else, so that it can be continued in place.
    is_exact: bool,
    /// Whether it was compared with the segments just now.
    is_proved: bool,
}

/// Where missing bytes go.
enum Target<D> {
    /// To the end of the file, which readers may have open.
    InPlace,
    /// To a new file.
    Draft(D),
}

impl<R: Records, O: Objects, F: LocalFile, N: Nonces> DatabaseFile<R, O, F, N> {
    /// Brings the file to exactly the durable bytes of the record, in the state [`State::Prefix`].
    ///
    /// A file with other bytes is never shortened in place: connections to it would go on with what they remember of these bytes.
    /// What stays is copied to a new file, which then replaces the old one.
    pub(super) async fn bring(&mut self, record: &Record) -> Result<(), Error> {
        let kept = self.keep(record).await?;
        let durable = Known { generation: record.generation, length: record.durable_length };
        if kept.length > durable.length {
            return Err(Error::RecordsOlder { known: kept.length, durable_length: durable.length });
        }
        let ports = self.ports.clone();
        let mut target = if kept.is_exact {
            self.status.set(State::Prefix(Known { length: kept.length, ..durable }));
            Target::InPlace
        } else if durable.length == 0 {
            // The file is yet to be made. What an earlier attempt to make it left is in the way.
            self.status.set(State::Absent);
            return Ok(());
        } else {
            Target::Draft(ports.file.draft(kept.length).await?)
        };
        self.fetch(record, kept.length, &mut target).await?;
        if let Target::Draft(draft) = target
            && let Err(error) = ports.file.install(draft).await
        {
            // Either file may be in place.
            self.distrust();
            return Err(error.into());
        }
        if !self.is_complete(record).await? {
            self.distrust();
            return Err(match kept.is_proved {
                true => Error::Incomplete { durable_length: durable.length },
                false => FileError::Damaged("it does not end as the durable bytes do".to_owned()).into(),
            });
        }
        self.status.set(State::Prefix(durable));
        Ok(())
    }

    /// Returns `true` if the file has the durable length, ends as the durable bytes do, and can be continued there.
    ///
    /// If a writer found the last root damaged, it took it for a torn tail and wrote over it. The file may end in a root at the same
    /// place all the same.
    async fn is_complete(&self, record: &Record) -> Result<bool, FileError> {
        let file = &self.ports.file;
        let length = record.durable_length;
        let Some(last) = record.segments.last().filter(|last| last.end == length) else {
            return Ok(false);
        };
        Ok(file.length().await? == Some(length)
            && file.ends_record(length).await?
            && sha256(&[&file.read(last.start..last.end).await?]) == last.sha256)
    }

    /// Returns what of the local file can stay.
    async fn keep(&mut self, record: &Record) -> Result<Kept, Error> {
        let nothing = Kept { length: 0, is_exact: false, is_proved: true };
        match self.status.state() {
            State::Absent => Ok(nothing),
            State::Unknown => self.prove_prefix(record).await,
            state @ (State::Prefix(known) | State::Leading(known, _) | State::Dirty(known)) => {
                if known.generation != record.generation {
                    return Ok(nothing);
                }
                // A connection that was open for writing appends when it is closed, so this comes before the length is looked at.
                if !matches!(state, State::Prefix(_)) {
                    self.close(known).await?;
                }
                let length = self.ports.file.length().await?.unwrap_or(0);
                if length < known.length {
                    let what = format!("it has {length} bytes, and {} are durable", known.length);
                    return Err(self.file_error(FileError::Damaged(what)));
                }
                Ok(Kept { length: known.length, is_exact: length == known.length, is_proved: false })
            }
        }
    }

    /// Compares the local file with the segments, from the start to the first difference.
    async fn prove_prefix(&mut self, record: &Record) -> Result<Kept, Error> {
        let file = &self.ports.file;
        file.close_all().await?;
        let length = file.length().await?.unwrap_or(0);
        let mut proved = 0;
        for segment in &record.segments {
            if segment.start != proved || segment.end > length {
                break;
            }
            if sha256(&[&file.read(segment.start..segment.end).await?]) != segment.sha256 {
                break;
            }
            proved = segment.end;
        }
        Ok(Kept { length: proved, is_exact: proved > 0 && proved == length, is_proved: true })
    }

    /// Fetches the bytes behind `from`. Several reads are under way at once; what they return is appended in the order of the file.
    async fn fetch(&mut self, record: &Record, from: u64, target: &mut Target<F::Draft>) -> Result<(), Error> {
        let ports = self.ports.clone();
        let mut missing = record.segments.iter().filter(|segment| segment.end > from);
        let mut under_way = VecDeque::new();
        let mut end = from;
        loop {
            while under_way.len() < ports.limits.gets.max(1)
                && let Some(segment) = missing.next()
            {
                // A compaction may have merged segments that the file has with others that it lacks.
                let start = segment.start.max(from);
                under_way.push_back((segment, start, self.get(segment, start)));
            }
            let Some((segment, start, get)) = under_way.pop_front() else {
                break;
            };
            if start != end {
                return Err(Error::Incomplete { durable_length: record.durable_length });
            }
            let bytes = self.checked(segment, start, get).await?;
            match target {
                Target::Draft(draft) => draft.append(&bytes).await?,
                Target::InPlace => {
                    if let Err(error) = ports.file.append(start, &bytes).await {
                        // Some of the bytes may be there.
                        self.distrust();
                        return Err(error.into());
                    }
                    let known = Known { generation: record.generation, length: segment.end };
                    self.status.set(State::Prefix(known));
                }
            }
            end = segment.end;
        }
        Ok(())
    }

    /// Begins to read a segment from this offset of the file on.
    fn get(&self, segment: &Segment, start: u64) -> O::Get {
        let at = segment.object_offset + (start - segment.start);
        self.ports.objects.get(&segment.object, at..at + (segment.end - start))
    }

    /// Waits for bytes of a segment, and compares them with its hash.
    async fn checked(&mut self, segment: &Segment, start: u64, mut get: O::Get) -> Result<Vec<u8>, Error> {
        let ports = self.ports.clone();
        for _ in 1..READS {
            let bytes = ports.objects.finish(get).await?;
            if self.is_segment(segment, start, &bytes).await? {
                return Ok(bytes);
            }
            get = self.get(segment, start);
        }
        let bytes = ports.objects.finish(get).await?;
        if self.is_segment(segment, start, &bytes).await? {
            return Ok(bytes);
        }
        if start > segment.start {
            // The difference may be in the bytes that the file already has. The next attempt finds out.
            self.distrust();
        }
        Err(Error::Corrupt(segment.object.clone()))
    }

    async fn is_segment(&self, segment: &Segment, start: u64, bytes: &[u8]) -> Result<bool, FileError> {
        let before = if start > segment.start { self.ports.file.read(segment.start..start).await? } else { Vec::new() };
        let has_length = bytes.len() as u64 == segment.end - start;
        Ok(has_length && sha256(&[&before, bytes]) == segment.sha256)
    }
}
