//! The part of three messages that creates a VS operator's record together with the participant.

use prost_types::{Duration, Timestamp};
use svc_wire::proto::{
    cosmos::base::v1beta1::Coin,
    svc::pp::v1::{
        MsgCreateRootParticipant, MsgSelfCreateParticipant, MsgStartParticipantOp, Participant, ParticipantRole as Role,
    },
};

use super::plain;
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    modules::de::vs::{self, NewRecord},
    validate,
};

pub struct VsBlock<'a> {
    vs_operator: &'a str,
    msg_types: &'a [String],
    spend_limit: &'a [Coin],
    with_feegrant: bool,
    fee_spend_limit: &'a [Coin],
    period: Option<Duration>,
}

macro_rules! from_message {
    ($($message:ty),*) => {$(
        impl<'a> From<&'a $message> for VsBlock<'a> {
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

/// Messages a VS operator may send for a participant of a role.
fn allowed(role: Role) -> &'static [&'static str] {
    match role {
        Role::Holder => &["MsgTriggerResolver"],
        Role::Issuer => &["MsgCreateOrUpdateParticipantSession", "MsgSetParticipantOPToValidated"],
        Role::Verifier => &["MsgCreateOrUpdateParticipantSession"],
        Role::IssuerGrantor | Role::VerifierGrantor | Role::Ecosystem => &["MsgSetParticipantOPToValidated"],
        Role::Unspecified => &[],
    }
}

impl VsBlock<'_> {
    /// Stateless checks. A VS operator alone is fine: it is stored without a record.
    pub fn validate(&self, chain: &Chain, role: Role) -> Result<(), LedgerError> {
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
            return plain("vs_operator_authz_msg_types is required with an authorization");
        }
        if self.vs_operator.is_empty() {
            return plain("vs_operator is required with an authorization");
        }
        let is_allowed = |url: &&String| {
            let split = chain.namespace().split_url(url);
            split.is_some_and(|(module, name)| module == "pp" && allowed(role).contains(&name))
        };
        match self.msg_types.iter().find(|url| !is_allowed(url)) {
            None => Ok(()),
            Some(url) => plain(format!("message type {url} is not allowed for role {}", role.as_str_name())),
        }
    }

    /// Creates the record, when the message asks for one.
    pub fn create_record(
        &self,
        exec: &mut Exec<'_>,
        corporation: &str,
        participant: &Participant,
        expiration: Option<Timestamp>,
    ) -> Result<(), LedgerError> {
        if self.msg_types.is_empty() {
            return Ok(());
        }
        let record = NewRecord {
            participant_id: participant.id,
            vs_operator: self.vs_operator.to_owned(),
            msg_types: self.msg_types.to_vec(),
            spend_limit: self.spend_limit.to_vec(),
            fee_spend_limit: self.fee_spend_limit.to_vec(),
            with_feegrant: self.with_feegrant,
            expiration,
            period: self.period,
        };
        vs::create(exec, corporation, participant.corporation_id, record)
    }
}
