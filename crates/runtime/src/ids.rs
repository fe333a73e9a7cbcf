//! Ids and randomness of the machine.

use branchyard_domain::ports::Ids;
use branchyard_domain::values::Timestamp;
use parking_lot::Mutex;
use rand::RngCore as _;
use uuid::Uuid;

/// UUIDs of version 7 (RFC 9562 §5.7) and secrets from the system's random number generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

/// Times whose ids are counted at once. Threads make ids of different times, and each goes on with its own.
const COUNTED: usize = 256;

/// Returns how many ids of this time there were before, up to 16,383.
fn count_at(now: Timestamp) -> u16 {
    static LATEST: Mutex<[(i64, u16); COUNTED]> = Mutex::new([(i64::MIN, 0); COUNTED]);
    const MOST: u16 = (1 << 14) - 1;
    let at = now.as_micros();
    let place = usize::try_from(at.rem_euclid(COUNTED as i64)).unwrap_or(0);
    let mut latest = LATEST.lock();
    let counted = &mut latest[place];
    *counted = if counted.0 == at { (at, (counted.1 + 1).min(MOST)) } else { (at, 0) };
    counted.1
}

impl Ids for SystemIds {
    fn uuid(&self, now: Timestamp) -> Uuid {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = u64::try_from(now.as_micros().div_euclid(1_000)).unwrap_or(0);
        let sub_millis = now.as_micros().rem_euclid(1_000);
        // The 12 bits after the version hold the fraction of the millisecond (RFC 9562 §6.2, method 3), so that ids made in
        // one millisecond still sort by time.
        let fraction = u16::try_from(sub_millis * 4_096 / 1_000).unwrap_or(0);
        let [high, low] = fraction.to_be_bytes();
        random[0] = high;
        random[1] = low;
        // The 14 bits after the variant count ids of the same microsecond (RFC 9562 §6.2, method 1): the events of one transaction
        // sort in the order of their creation.
        let [high, low] = count_at(now).to_be_bytes();
        random[2] = high;
        random[3] = low;
        uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid()
    }

    fn fill(&self, buffer: &mut [u8]) {
        rand::rng().fill_bytes(buffer);
    }
}

#[cfg(test)]
mod tests {
    use branchyard_domain::ports::Ids as _;
    use branchyard_domain::values::Timestamp;

    use super::SystemIds;

    #[test]
    fn ids_sort_by_time_within_a_millisecond_and_by_their_creation_within_a_microsecond() {
        let at = |micros: i64| SystemIds.uuid(Timestamp::from_micros(1_790_000_000_000_000 + micros));
        let ids: Vec<_> = (0..2_000).map(at).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[0].get_version_num(), 7);

        let at = Timestamp::from_micros(1_790_000_009_000_000);
        let ids: Vec<_> = (0..2_000).map(|_| SystemIds.uuid(at)).collect();
        assert!(ids.is_sorted() && ids.windows(2).all(|pair| pair[0] != pair[1]));
        assert!(ids.iter().all(|id| id.get_variant() == uuid::Variant::RFC4122));
    }
}
