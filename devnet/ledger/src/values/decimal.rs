//! The SDK's `LegacyDec`: a decimal with eighteen fractional digits, rounded half to even, on a big integer.

use std::fmt;

use num_bigint::BigInt;

const DIGITS: usize = 18;

fn one() -> BigInt {
    BigInt::from(10u64.pow(18))
}

/// A decimal, held as an integer scaled by 10^18. The wire form is that integer as text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LegacyDec(BigInt);

impl LegacyDec {
    pub fn from_integer(value: impl Into<BigInt>) -> Self {
        Self(value.into() * one())
    }

    /// Creates a decimal from an integer scaled by 10^18.
    pub fn from_scaled(value: u64) -> Self {
        Self(value.into())
    }

    /// Parses the wire form: an ASCII integer, scaled by 10^18.
    pub fn from_wire(text: &str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().ok()).flatten().map(Self)
    }

    pub fn to_wire(&self) -> String {
        self.0.to_string()
    }

    /// Parses decimal text, the form in JSON: `0.25`, with up to eighteen fractional digits.
    pub fn from_text(text: &str) -> Option<Self> {
        let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
        let is_number =
            !whole.is_empty() && fraction.len() <= DIGITS && fraction.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| Self::from_wire(&format!("{whole}{fraction:0<DIGITS$}"))).flatten()
    }

    pub fn add(&self, other: &Self) -> Self {
        Self(&self.0 + &other.0)
    }

    pub fn sub(&self, other: &Self) -> Self {
        Self(&self.0 - &other.0)
    }

    pub fn mul(&self, other: &Self) -> Self {
        Self(round_half_even(&self.0 * &other.0))
    }

    /// Divides; `None` if the divisor is zero.
    pub fn quo(&self, other: &Self) -> Option<Self> {
        // As the SDK does it: twice the precision, truncated, then rounded.
        let precise = (&self.0 * one() * one()).checked_div(&other.0)?;
        Some(Self(round_half_even(precise)))
    }

    /// Replaces a negative value by zero.
    pub fn floor_at_zero(self) -> Self {
        self.max(Self::default())
    }

    /// Returns the integer part, rounded towards zero; `None` if it is negative or does not fit.
    pub fn truncate(&self) -> Option<u128> {
        (&self.0 / one()).try_into().ok()
    }

    /// Returns the fractional part.
    pub fn fraction(&self) -> Self {
        Self(&self.0 % one())
    }

    pub fn is_zero(&self) -> bool {
        self.0 == BigInt::ZERO
    }

    pub fn is_negative(&self) -> bool {
        self.0 < BigInt::ZERO
    }
}

/// Divides by 10^18, rounding half to even.
fn round_half_even(value: BigInt) -> BigInt {
    let (quotient, rest) = (&value / one(), &value % one());
    let twice = (&rest + &rest).magnitude().clone();
    let is_up = match twice.cmp(one().magnitude()) {
        std::cmp::Ordering::Less => false,
        std::cmp::Ordering::Equal => quotient.bit(0),
        std::cmp::Ordering::Greater => true,
    };
    let step = if value < BigInt::ZERO { -1 } else { 1 };
    if is_up { quotient + step } else { quotient }
}

impl fmt::Display for LegacyDec {
    /// `1.000000000000000000`, as events print it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let digits = format!("{:0>width$}", self.0.magnitude().to_string(), width = DIGITS + 1);
        let (whole, fraction) = digits.split_at(digits.len() - DIGITS);
        write!(formatter, "{sign}{whole}.{fraction}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dec(text: &str) -> LegacyDec {
        LegacyDec::from_text(text).expect("a decimal")
    }

    #[test]
    fn decimal_text_is_read_as_it_is_written() {
        for text in ["0.000000000000000000", "-1.250000000000000000", "12.000000000000000001"] {
            assert_eq!(dec(text).to_string(), text);
        }
        for bad in ["", ".5", "1.2.3", "1e3", "0.0000000000000000001", "1.-5"] {
            assert_eq!(LegacyDec::from_text(bad), None, "{bad}");
        }
    }

    #[test]
    fn products_and_quotients_round_half_to_even() {
        assert_eq!(dec("1.5").mul(&dec("0.2")).to_string(), "0.300000000000000000");
        // 0.000000000000000005 x 0.5 lies in the middle between 2 and 3 units of the last digit.
        assert_eq!(dec("0.000000000000000005").mul(&dec("0.5")).to_wire(), "2");
        assert_eq!(dec("0.000000000000000007").mul(&dec("0.5")).to_wire(), "4");
        assert_eq!(dec("2").quo(&dec("3")).expect("divides").to_string(), "0.666666666666666667");
        assert_eq!(dec("1").quo(&dec("0")), None);
        assert_eq!(dec("7.9").truncate(), Some(7));
        assert_eq!(dec("7.9").fraction(), dec("0.9"));
        assert_eq!(dec("1").sub(&dec("1.25")).to_string(), "-0.250000000000000000");
        assert_eq!(dec("1").sub(&dec("1.25")).truncate(), Some(0));
    }

    #[test]
    fn the_wire_form_is_a_scaled_integer() {
        assert_eq!(dec("1").to_wire(), "1000000000000000000");
        for bad in ["", "-", "1.0", "1e3", "+1"] {
            assert_eq!(LegacyDec::from_wire(bad), None, "{bad}");
        }
    }
}
