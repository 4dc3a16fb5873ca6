//! The module pp: participants, which issue, verify, hold and grant under a credential schema, and their payments.

mod create;
mod lifecycle;
mod onboarding;
pub mod participant;
mod rules;
mod session;
mod terms;
mod vs_operator;

use svc_wire::proto::svc::pp::v1::{MsgUpdateParams, MsgUpdateParamsResponse};

use super::authority::ensure_authority;
use crate::{context::ExecContext, error::LedgerError};

pub use create::{create_root, self_create, validate_create_root, validate_self_create};
pub use lifecycle::{
    repay, revoke, set_effective_until, slash, trigger_resolver, validate_id, validate_set_effective_until,
    validate_slash,
};
pub use onboarding::{cancel, renew, set_validated, start, validate_set_validated, validate_start};
pub use participant::inactive_reason;
pub use rules::{beneficiaries, fee_denom};
pub use session::{create_or_update_session, validate_session};

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("pp", 1100))?;
    exec.state.params.pp = message.params.unwrap_or_default();
    Ok(MsgUpdateParamsResponse {})
}
