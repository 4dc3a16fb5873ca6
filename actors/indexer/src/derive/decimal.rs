//! Exact arithmetic on the chain's decimals (`LegacyDec`: an ASCII integer scaled by 10^18) and on prices.

use num_bigint::{BigInt, BigUint};
use serde_json::Value;

fn one() -> BigInt {
    BigInt::from(10u64.pow(18))
}

fn scaled(text: &str) -> BigInt {
    text.parse().unwrap_or_default()
}

/// A decimal as a JSON number: an integer where it is one.
pub fn number(text: &str) -> Value {
    let value = scaled(text);
    if (&value % one()) == BigInt::ZERO
        && let Ok(whole) = u64::try_from(&value / one())
    {
        return whole.into();
    }
    let (whole, part) = (&value / one(), (&value % one()).magnitude().clone());
    let sign = if value < BigInt::ZERO && whole == BigInt::ZERO { "-" } else { "" };
    format!("{sign}{whole}.{part:0>18}").parse::<f64>().map_or(Value::Null, Value::from)
}

/// What of a trust deposit its corporation may take out: `max(0, share × share value − deposit)`, in whole coins.
pub fn claimable(share: &str, share_value: &str, deposit: u64) -> u64 {
    let worth = scaled(share) * scaled(share_value) / one() / one();
    u64::try_from(worth - BigInt::from(deposit)).unwrap_or(0)
}

/// `floor(amount × rate / 10^scale)`; `None` when amount or rate is no number.
pub fn price(amount: &str, rate: &str, scale: u32) -> Option<String> {
    let digits = amount.len() + rate.len();
    let (amount, rate): (BigUint, BigUint) = (amount.parse().ok()?, rate.parse().ok()?);
    if usize::try_from(scale).is_ok_and(|scale| scale > digits) {
        return Some("0".to_owned());
    }
    Some((amount * rate / BigUint::from(10u32).pow(scale)).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(number("51400000000000000000000000"), 51_400_000);
        assert_eq!(number("200000000000000000"), 0.2);
        assert_eq!(number("-500000000000000000"), -0.5);
        assert_eq!(claimable("1000000000000000000000", "1500000000000000000", 1000), 500);
        assert_eq!(claimable("1000000000000000000000", "999999999999999999", 1000), 0);
        assert_eq!(
            price("123456789012345678901234567890", "105", 1).as_deref(),
            Some("1296296284629629628462962962845")
        );
        assert_eq!(price("7", "x", 0), None);
        assert_eq!(price("7", "3", u32::MAX).as_deref(), Some("0"), "without computing ten to the four billionth");
    }
}
