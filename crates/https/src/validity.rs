//! The period in which a certificate is valid. rustls does not check it for the server's own certificate.

/// The period of a certificate, in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Validity {
    pub(crate) not_before: i64,
    pub(crate) not_after: i64,
}

const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
/// The tag of the version, the only optional field before the period.
const VERSION: u8 = 0xa0;

impl Validity {
    /// Reads the period of a DER certificate (RFC 5280, section 4.1). Returns `None` if the bytes are not a certificate.
    pub(crate) fn of(certificate: &[u8]) -> Option<Self> {
        let mut certificate = Der(Der(certificate).read(SEQUENCE)?);
        let mut fields = Der(certificate.read(SEQUENCE)?);
        if fields.0.first() == Some(&VERSION) {
            fields.read(VERSION)?;
        }
        fields.read(INTEGER)?; // serial number
        fields.read(SEQUENCE)?; // signature algorithm
        fields.read(SEQUENCE)?; // issuer
        let mut period = Der(fields.read(SEQUENCE)?);
        Some(Self { not_before: period.time()?, not_after: period.time()? })
    }
}

/// The rest of a DER encoding.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Reads the next value, which must have this tag.
    fn read(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (&found, rest) = self.0.split_first()?;
        let (&first, rest) = rest.split_first()?;
        let (length, rest) = match first {
            0..=0x7f => (usize::from(first), rest),
            // The number of bytes of the length follows. A certificate is shorter than 16 MiB.
            0x81..=0x83 => {
                let (length, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
                (length.iter().fold(0, |sum, byte| sum << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (value, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        (found == tag).then_some(value)
    }

    /// Reads a time in one of the two forms that certificates have: `YYMMDDHHMMSSZ` and `YYYYMMDDHHMMSSZ`.
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let text = std::str::from_utf8(self.read(tag)?).ok()?.strip_suffix('Z')?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let year: i64 = text.get(..2)?.parse().ok()?;
                (if year < 50 { 2_000 + year } else { 1_900 + year }, text.get(2..)?)
            }
            GENERALIZED_TIME => (text.get(..4)?.parse().ok()?, text.get(4..)?),
            _ => return None,
        };
        let two = |at: usize| rest.get(at..at + 2)?.parse::<i64>().ok();
        let [month, day, hour, minute, second] = [two(0)?, two(2)?, two(4)?, two(6)?, two(8)?];
        (rest.len() == 10 && (1..=12).contains(&month))
            .then(|| days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
    }
}

/// Returns the days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Counts years from March, so that a leap day is the last day of its year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::{Validity, days};

    fn certificate(from: (i32, u8, u8), to: (i32, u8, u8)) -> Vec<u8> {
        let mut params = CertificateParams::new(vec!["yard.test".to_owned()]).unwrap();
        params.not_before = date_time_ymd(from.0, from.1, from.2);
        params.not_after = date_time_ymd(to.0, to.1, to.2);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
    }

    #[test]
    fn days_are_counted_from_1970() {
        assert_eq!(
            [days(1970, 1, 1), days(1969, 12, 31), days(2000, 2, 29), days(2000, 3, 1)],
            [0, -1, 11_016, 11_017]
        );
        assert_eq!(days(2026, 11, 25), 20_782);
    }

    #[test]
    fn the_period_of_a_certificate_is_read_in_both_forms() {
        let short = Validity::of(&certificate((2020, 2, 29), (2049, 12, 31))).unwrap();
        assert_eq!(short, Validity { not_before: 1_582_934_400, not_after: 2_524_521_600 });
        let long = Validity::of(&certificate((1999, 1, 2), (2050, 1, 1))).unwrap();
        assert_eq!(long, Validity { not_before: 915_235_200, not_after: 2_524_608_000 });
    }

    #[test]
    fn what_is_no_certificate_has_no_period() {
        let whole = certificate((2020, 1, 1), (2021, 1, 1));
        for end in 0..whole.len() {
            assert_eq!(Validity::of(&whole[..end]), None, "{end}");
        }
        for bytes in
            [&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff][..], &[0x30, 0x83, 0xff, 0xff, 0xff], b"text", &[0x30, 0x80]]
        {
            assert_eq!(Validity::of(bytes), None);
        }
    }
}
