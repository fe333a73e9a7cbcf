//! Formats amounts of money.

use branchyard_deployments::values::Usd;

const DOLLAR: i64 = 1_000_000_000;

/// Rounds an amount to `places` decimals.
fn rounded(amount: Usd, places: u32) -> String {
    let unit = DOLLAR / 10_i64.pow(places.min(9));
    let units = amount.as_nanos().saturating_add(unit / 2).div_euclid(unit);
    let per_dollar = DOLLAR / unit;
    let width = usize::try_from(places).unwrap_or(9);
    let whole = u64::try_from(units / per_dollar).unwrap_or(0);
    format!("${}.{:0width$}", crate::format::count(whole), units % per_dollar)
}

/// Formats an amount in cents. Positive amounts that round to zero become "less than $0.01".
pub(crate) fn dollars(amount: Usd) -> String {
    if amount != Usd::ZERO && amount.as_nanos() < DOLLAR / 200 {
        return "less than $0.01".to_owned();
    }
    rounded(amount, 2)
}

/// Formats an hourly price with five decimals, because it may be a fraction of a cent.
pub(crate) fn hourly(rate: Usd) -> String {
    if rate == Usd::ZERO {
        return "$0".to_owned();
    }
    rounded(rate, 5)
}

/// Formats an amount with all digits of the ledger.
pub(crate) fn exact(amount: Usd) -> String {
    format!("${amount}")
}

#[cfg(test)]
mod tests {
    use super::{dollars, exact, hourly};
    use branchyard_deployments::values::Usd;

    #[test]
    fn amounts_are_rounded_to_the_nearest() {
        let usd = |text: &str| Usd::parse(text).expect("an amount");
        let cases = [
            ("0", "$0.00"),
            ("0.004999999", "less than $0.01"),
            ("0.005", "$0.01"),
            ("6.000003590", "$6.00"),
            ("12345.675", "$12,345.68"),
        ];
        for (amount, words) in cases {
            assert_eq!(dollars(usd(amount)), words, "{amount}");
        }
        assert_eq!(hourly(Usd::ZERO), "$0");
        assert_eq!((hourly(usd("0.008219183")), exact(usd("0.1"))), ("$0.00822".into(), "$0.100000000".into()));
    }
}
