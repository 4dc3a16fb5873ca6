//! The fields of three messages that create the record of a VS operator together with the participant.

use prost_types::{Duration, Timestamp};
use svc_wire::proto::{
    cosmos::base::v1beta1::Coin,
    svc::pp::v1::{
        MsgCreateRootParticipant, MsgSelfCreateParticipant, MsgStartParticipantOp, Participant, ParticipantRole as Role,
    },
};

use super::participant::unregistered_error;
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::de::vs::{self, NewVsRecord},
    values::validate,
};

/// The fields, borrowed from a message.
pub struct VsOperatorFields<'a> {
    vs_operator: &'a str,
    msg_types: &'a [String],
    spend_limit: &'a [Coin],
    with_feegrant: bool,
    fee_spend_limit: &'a [Coin],
    period: Option<Duration>,
}

macro_rules! from_message {
    ($($message:ty),*) => {$(
        impl<'a> From<&'a $message> for VsOperatorFields<'a> {
            fn from(message: &'a $message) -> Self {
                Self {
                    vs_operator: &message.vs_operator,
                    msg_types: &message.vs_operator_authz_msg_types,
                    spend_limit: &message.vs_operator_authz_spend_limit,
                    with_feegrant: message.vs_operator_authz_with_feegrant,
                    fee_spend_limit: &message.vs_operator_authz_fee_spend_limit,
                    period: message.vs_operator_authz_period,
                }
            }
        }
    )*};
}

from_message!(MsgStartParticipantOp, MsgCreateRootParticipant, MsgSelfCreateParticipant);

/// Returns the messages that a VS operator can send for a participant of a role.
fn allowed_messages(role: Role) -> &'static [&'static str] {
    match role {
        Role::Holder => &["MsgTriggerResolver"],
        Role::Issuer => &["MsgCreateOrUpdateParticipantSession", "MsgSetParticipantOPToValidated"],
        Role::Verifier => &["MsgCreateOrUpdateParticipantSession"],
        Role::IssuerGrantor | Role::VerifierGrantor | Role::Ecosystem => &["MsgSetParticipantOPToValidated"],
        Role::Unspecified => &[],
    }
}

impl VsOperatorFields<'_> {
    /// Runs the stateless checks. A VS operator without an authorization is valid: it has no record.
    pub fn validate(&self, chain: &ChainConfig, role: Role) -> Result<(), LedgerError> {
        if !self.vs_operator.is_empty() {
            validate::plain_address(&chain.prefix, "vs_operator", self.vs_operator)?;
        }
        let has_authorization = !self.msg_types.is_empty()
            || !self.spend_limit.is_empty()
            || !self.fee_spend_limit.is_empty()
            || self.with_feegrant
            || self.period.is_some();
        if !has_authorization {
            return Ok(());
        }
        if self.msg_types.is_empty() {
            return unregistered_error("vs_operator_authz_msg_types is required with an authorization");
        }
        if self.vs_operator.is_empty() {
            return unregistered_error("vs_operator is required with an authorization");
        }
        let is_allowed = |url: &&String| {
            let split = chain.namespace().split_type_url(url);
            split.is_some_and(|(module, name)| module == "pp" && allowed_messages(role).contains(&name))
        };
        match self.msg_types.iter().find(|url| !is_allowed(url)) {
            None => Ok(()),
            Some(url) => {
                unregistered_error(format!("message type {url} is not allowed for role {}", role.as_str_name()))
            }
        }
    }

    /// Creates the record if the message asks for one.
    pub fn create_record(
        &self,
        exec: &mut ExecContext<'_>,
        corporation: &str,
        participant: &Participant,
        expiration: Option<Timestamp>,
    ) -> Result<(), LedgerError> {
        if self.msg_types.is_empty() {
            return Ok(());
        }
        let record = NewVsRecord {
            participant_id: participant.id,
            vs_operator: self.vs_operator.to_owned(),
            msg_types: self.msg_types.to_vec(),
            spend_limit: self.spend_limit.to_vec(),
            fee_spend_limit: self.fee_spend_limit.to_vec(),
            with_feegrant: self.with_feegrant,
            expiration,
            period: self.period,
        };
        vs::create_record(exec, corporation, participant.corporation_id, record)
    }
}
