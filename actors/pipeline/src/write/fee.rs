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

    /// The smaller of two budgets.
    pub fn min(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unlimited, bound) | (bound, Self::Unlimited) => bound,
            (Self::UpTo(one), Self::UpTo(other)) => Self::UpTo(one.min(other)),
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

/// The price of gas, and the ceilings of one transaction. A node that states too much gas or too high a price never raises them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FeePolicy {
    /// Price of one unit of gas in millionths of the fee denom.
    pub gas_price_micros: u64,
    /// Largest gas limit.
    pub max_gas: u64,
    /// Largest fee in the fee denom.
    pub max_fee: u128,
    /// Largest sum of the fees of one day (UTC) in the fee denom; `None` for no limit.
    pub max_fee_per_day: Option<u128>,
}

/// Largest gas limit without a setting.
const DEFAULT_MAX_GAS: u64 = 20_000_000;

impl FeePolicy {
    /// The default ceilings at a gas price: 20,000,000 gas, and the fee of so much gas.
    pub fn at_price(gas_price_micros: u64) -> Self {
        let policy = Self { gas_price_micros, max_gas: DEFAULT_MAX_GAS, max_fee: 0, max_fee_per_day: None };
        Self { max_fee: policy.fee(DEFAULT_MAX_GAS), ..policy }
    }

    /// The same ceilings at a price that is not below a node's minimum. The ceilings bound it: a node that states a high one is refused.
    pub fn at_least(self, minimum_price: u64) -> Self {
        Self { gas_price_micros: self.gas_price_micros.max(minimum_price), ..self }
    }

    /// Fee of a gas limit: the smallest amount that is not below the gas price.
    pub fn fee(&self, gas_limit: u64) -> u128 {
        (u128::from(gas_limit) * u128::from(self.gas_price_micros)).div_ceil(1_000_000)
    }

    /// Fee of a gas limit, unless one of them is above its ceiling or above one of the principal's.
    pub fn fee_below_ceiling(
        &self,
        gas_limit: u64,
        spent: SpentToday,
        limits: FeeLimits,
    ) -> Result<u128, CeilingExceeded> {
        if gas_limit > self.max_gas {
            let (needed, limit) = (u128::from(gas_limit), u128::from(self.max_gas));
            return Err(CeilingExceeded { ceiling: Ceiling::Gas, needed, limit });
        }
        let fee = self.fee(gas_limit);
        if fee > self.max_fee {
            return Err(CeilingExceeded { ceiling: Ceiling::Fee, needed: fee, limit: self.max_fee });
        }
        let of_all = spent.in_all.saturating_add(fee);
        let of_principal = spent.by_principal.saturating_add(fee);
        for (ceiling, needed, limit) in [
            (Ceiling::DailyFee, of_all, self.max_fee_per_day),
            (Ceiling::PrincipalFee, fee, limits.max_fee),
            (Ceiling::PrincipalDailyFee, of_principal, limits.max_fee_per_day),
        ] {
            if let Some(limit) = limit.filter(|limit| needed > *limit) {
                return Err(CeilingExceeded { ceiling, needed, limit });
            }
        }
        Ok(fee)
    }
}

/// A price in millionths as a decimal, as `SVC_GAS_PRICE` has it.
pub fn decimal_price(micros: u64) -> String {
    let text = format!("{}.{:06}", micros / 1_000_000, micros % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Ceilings of one principal in the fee denom; `None` for no limit of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct FeeLimits {
    /// Largest fee of one transaction.
    pub max_fee: Option<u128>,
    /// Largest sum of the fees of one day (UTC).
    pub max_fee_per_day: Option<u128>,
}

/// The fees of the day so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpentToday {
    /// Of all principals.
    pub in_all: u128,
    /// Of the principal of the write.
    pub by_principal: u128,
}

/// A ceiling of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Ceiling {
    /// Of its gas limit.
    Gas,
    /// Of its fee.
    Fee,
    /// Of the fees of a day (UTC).
    DailyFee,
    /// Of the fee of a transaction of one principal.
    PrincipalFee,
    /// Of the fees of one principal on a day (UTC).
    PrincipalDailyFee,
}

impl Ceiling {
    /// The figure that it bounds.
    fn figure(self) -> &'static str {
        match self {
            Self::Gas => "gas limit",
            Self::Fee | Self::PrincipalFee => "fee",
            Self::DailyFee => "sum of the fees of this day (UTC)",
            Self::PrincipalDailyFee => "sum of the principal's fees of this day (UTC)",
        }
    }
}

/// A transaction that would be above a ceiling. It is not signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the {} would be {needed}, the limit is {limit}", .ceiling.figure())]
pub struct CeilingExceeded {
    /// The ceiling.
    pub ceiling: Ceiling,
    /// Gas or fee that the transaction would need.
    pub needed: u128,
    /// The limit.
    pub limit: u128,
}

/// Gas limit in percent of the simulated gas, without a setting.
pub const DEFAULT_GAS_ADJUSTMENT: u32 = 150;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fees_round_up() {
        for (gas, price, fee) in [(200_000, 25_000, 5_000), (1, 25_000, 1), (0, 25_000, 0), (3, 500_000, 2)] {
            assert_eq!(FeePolicy::at_price(price).fee(gas), fee);
        }
        let price = u64::MAX / 1_000_000;
        let largest = (u128::from(u64::MAX) * u128::from(price)).div_ceil(1_000_000);
        assert_eq!(FeePolicy::at_price(price).fee(u64::MAX), largest);
    }

    #[test]
    fn the_minimum_of_a_node_raises_the_price_and_no_ceiling() {
        let policy = FeePolicy::at_price(25_000);
        assert_eq!(policy.at_least(24_999), policy);
        assert_eq!(policy.at_least(250_000), FeePolicy { gas_price_micros: 250_000, ..policy });
        let greedy = policy.at_least(u64::MAX);
        let exceeded = greedy.fee_below_ceiling(200_000, SpentToday::default(), FeeLimits::default());
        assert_eq!(exceeded.expect_err("above").limit, policy.max_fee);
        for (micros, text) in [(0, "0"), (25_000, "0.025"), (1_000_000, "1"), (12_500_001, "12.500001")] {
            assert_eq!(decimal_price(micros), text);
        }
    }

    #[test]
    fn gas_and_fee_have_ceilings() {
        let spent = |in_all| SpentToday { in_all, by_principal: 0 };
        let none = FeeLimits::default();
        let policy = FeePolicy::at_price(25_000);
        assert_eq!(
            policy,
            FeePolicy { gas_price_micros: 25_000, max_gas: 20_000_000, max_fee: 500_000, max_fee_per_day: None }
        );
        assert_eq!(policy.fee_below_ceiling(20_000_000, spent(0), none), Ok(500_000));
        let exceeded = policy.fee_below_ceiling(20_000_001, spent(0), none).expect_err("above");
        assert_eq!(exceeded, CeilingExceeded { ceiling: Ceiling::Gas, needed: 20_000_001, limit: 20_000_000 });
        assert_eq!(exceeded.to_string(), "the gas limit would be 20000001, the limit is 20000000");
        let cheap = FeePolicy { max_fee: 4_999, ..policy };
        let exceeded = cheap.fee_below_ceiling(200_000, spent(0), none).expect_err("above");
        assert_eq!(exceeded, CeilingExceeded { ceiling: Ceiling::Fee, needed: 5_000, limit: 4_999 });
        let daily = FeePolicy { max_fee_per_day: Some(9_999), ..policy };
        assert_eq!(daily.fee_below_ceiling(200_000, spent(4_999), none), Ok(5_000));
        let exceeded = daily.fee_below_ceiling(200_000, spent(5_000), none).expect_err("above");
        assert_eq!(exceeded, CeilingExceeded { ceiling: Ceiling::DailyFee, needed: 10_000, limit: 9_999 });
    }

    #[test]
    fn a_budget_covers_fees_up_to_its_amount() {
        assert!(FeeBudget::Unlimited.covers(u128::MAX));
        assert!(FeeBudget::UpTo(5).covers(5) && !FeeBudget::UpTo(5).covers(6));
    }
}
