//! The module de: delegation. It has operator authorizations, VS operator authorizations, and the checks that every delegable
//! message passes.

mod authz;
mod fees;
mod operator;
mod periodic_fees;
pub mod vs;

pub use authz::{authorize, debit_authorization, find_corporation, message_url, require_corporation};
pub use fees::shown_record as shown_fee_grant;
pub use operator::{grant, revoke, update_params, validate_grant, validate_revoke};
pub use periodic_fees::{FEE_PERIOD, end_block as end_vs_fees};
