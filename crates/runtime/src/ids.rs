//! Ids and randomness of the machine.

use branchyard_domain::ports::Ids;
use branchyard_domain::values::Timestamp;
use rand::RngCore as _;
use uuid::Uuid;

/// UUIDs of version 7 (RFC 9562 §5.7) and secrets from the system's random number generator.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemIds;

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
    fn ids_sort_by_time_within_a_millisecond() {
        let at = |micros: i64| SystemIds.uuid(Timestamp::from_micros(1_790_000_000_000_000 + micros));
        let ids: Vec<_> = (0..2_000).map(at).collect();
        assert!(ids.is_sorted());
        assert_eq!(ids[0].get_version_num(), 7);
    }
}
