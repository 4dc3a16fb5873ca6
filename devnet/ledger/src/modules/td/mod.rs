//! The module td: trust deposits of corporations and their yield. Policy accounts pay and receive the coins.

mod deposit;
mod messages;

pub use deposit::{
    agent_rates, burn_ecosystem_slash, deposit_rate, distribute_yield, ensure_int64, has_outstanding_slash, increase,
    increase_on_behalf, load, release, required_deposit, to_u64,
};
pub use messages::{reclaim, repay, slash, update_params, validate_reclaim, validate_repay, validate_slash};
