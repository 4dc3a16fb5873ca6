//! Fees and their payer. Pure.

/// The largest fee that a fee allowance pays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FeeBudget {
    /// Any fee.
    Unlimited,
    /// A fee of at most this amount of the fee denom.
    UpTo(u128),
}

impl FeeBudget {
    /// Whether the allowance pays a fee.
    pub fn covers(self, fee: u128) -> bool {
        match self {
            Self::Unlimited => true,
            Self::UpTo(budget) => fee <= budget,
        }
    }
}

/// An account that pays the fee in place of the signing account (x/feegrant).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeeGranter {
    /// Its address.
    pub address: String,
    /// The largest fee that its allowance pays.
    pub budget: FeeBudget,
}

/// Fee of a gas limit: the smallest amount that is not below the gas price.
pub fn fee_for(gas_limit: u64, gas_price_micros: u64) -> u128 {
    (u128::from(gas_limit) * u128::from(gas_price_micros)).div_ceil(1_000_000)
}

/// Gas limit for simulated gas: half as much again.
pub fn gas_limit_for(simulated: u64) -> u64 {
    simulated.saturating_mul(3).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_round_up_and_the_gas_limit_is_half_as_much_again() {
        for (gas, price, fee) in [(200_000, 25_000, 5_000), (1, 25_000, 1), (0, 25_000, 0), (3, 500_000, 2)] {
            assert_eq!(fee_for(gas, price), fee);
        }
        assert_eq!(
            fee_for(u64::MAX, u64::MAX / 1_000_000),
            (u128::from(u64::MAX) * u128::from(u64::MAX / 1_000_000)).div_ceil(1_000_000)
        );
        assert_eq!(gas_limit_for(100_001), 150_002);
    }

    #[test]
    fn a_budget_covers_fees_up_to_its_amount() {
        assert!(FeeBudget::Unlimited.covers(u128::MAX));
        assert!(FeeBudget::UpTo(5).covers(5) && !FeeBudget::UpTo(5).covers(6));
    }
}
