//! Exact arithmetic on the chain's decimals (`LegacyDec`: an ASCII integer scaled by 10^18) and on prices.

use num_bigint::{BigInt, BigUint};
use serde_json::Value;

fn decimal_one() -> BigInt {
    BigInt::from(10u64.pow(18))
}

fn parse_scaled(text: &str) -> BigInt {
    text.parse().unwrap_or_default()
}

/// Returns a decimal as a JSON number, without a fraction if it has none.
pub fn decimal_json(text: &str) -> Value {
    let value = parse_scaled(text);
    if (&value % decimal_one()) == BigInt::ZERO
        && let Ok(whole) = u64::try_from(&value / decimal_one())
    {
        return whole.into();
    }
    let (whole, part) = (&value / decimal_one(), (&value % decimal_one()).magnitude().clone());
    let sign = if value < BigInt::ZERO && whole == BigInt::ZERO { "-" } else { "" };
    format!("{sign}{whole}.{part:0>18}").parse::<f64>().map_or(Value::Null, Value::from)
}

/// Returns the claimable amount of a trust deposit: `max(0, share × share value − deposit)`, in whole coins.
pub fn claimable_amount(share: &str, share_value: &str, deposit: u64) -> u64 {
    let worth = parse_scaled(share) * parse_scaled(share_value) / decimal_one() / decimal_one();
    u64::try_from(worth - BigInt::from(deposit)).unwrap_or(0)
}

/// Returns `floor(amount × rate / 10^scale)`; `None` when amount or rate is not a number.
pub fn convert_price(amount: &str, rate: &str, scale: u32) -> Option<String> {
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
        assert_eq!(decimal_json("51400000000000000000000000"), 51_400_000);
        assert_eq!(decimal_json("200000000000000000"), 0.2);
        assert_eq!(decimal_json("-500000000000000000"), -0.5);
        assert_eq!(claimable_amount("1000000000000000000000", "1500000000000000000", 1000), 500);
        assert_eq!(claimable_amount("1000000000000000000000", "999999999999999999", 1000), 0);
        assert_eq!(
            convert_price("123456789012345678901234567890", "105", 1).as_deref(),
            Some("1296296284629629628462962962845")
        );
        assert_eq!(convert_price("7", "x", 0), None);
        assert_eq!(convert_price("7", "3", u32::MAX).as_deref(), Some("0"), "the power of ten is not computed");
    }
}
