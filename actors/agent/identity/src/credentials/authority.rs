//! The right to issue a credential: the participants of issuer and holder at the node, and the end of its validity by them.

use std::cmp::Reverse;

use prost_types::Timestamp;
use svc_agent_core::{
    error::{Refusal, RefusalCode},
    grant::WantedGrant,
};
use svc_agent_store::CredentialKind;
use svc_trust::authorize_holder;
use svc_wire::{
    proto::svc::pp::v1::{Participant, ParticipantRole},
    timestamp,
};

use super::{issuance::IssueStop, issuer::CredentialIssuer};
use crate::{
    account_write::WriteStop,
    grant::AgentGrant,
    registry::{SchemaOnChain, all_to_evidence},
};

/// The registry's side of a credential that may be issued.
pub struct Authority {
    /// The grant of the account, with the participant that issues.
    pub grant: AgentGrant,
    /// End of the participant that holds the credential.
    holder_until: Option<i128>,
}

impl CredentialIssuer {
    /// Reads the right to issue a credential to a participant that was read just now; without one there is no onboarding.
    pub async fn flow_authority(
        &self,
        (schema_id, issuer_participant): (u64, u64),
        holder: Option<&Participant>,
    ) -> Result<Authority, WriteStop> {
        let wanted = WantedGrant::to_issue(schema_id, Some(issuer_participant));
        let grant = self.account.read_grant(&wanted).await?;
        let holder_until = holder.and_then(|one| one.effective_until.as_ref()).map(timestamp::unix_nanos);
        Ok(Authority { grant, holder_until })
    }

    /// Reads at the node the participants that authorise issuer and holder.
    pub async fn read_authority(
        &self,
        did: &str,
        schema: &SchemaOnChain,
        kind: CredentialKind,
    ) -> Result<Authority, IssueStop> {
        let now = timestamp::unix_nanos(&self.account.chain_time());
        let (schema_id, is_own) = (schema.schema.id, kind == CredentialKind::Own);
        let found = self.registry().participants(did).await?;
        if is_own {
            let grant = self.account.read_grant(&WantedGrant::to_issue(schema_id, None)).await?;
            let participants = all_to_evidence(&found, now);
            let holder = authorize_holder(&participants, &schema.to_evidence(), true);
            return match holder {
                Ok(holder) => Ok(Authority { grant, holder_until: holder.and_then(|one| one.effective_until) }),
                Err(reason) => Err(not_a_holder(did, schema_id, &reason.message)),
            };
        }
        // The DID may be a holder under one of several ISSUER participants of this agent.
        let of_schema = |one: &&Participant| one.role() == ParticipantRole::Holder && one.schema_id == schema_id;
        let mut holders: Vec<&Participant> = found.iter().filter(of_schema).collect();
        holders.sort_by_key(|one| Reverse(one.effective_until.map_or(i64::MAX, |until| until.seconds)));
        let mut ungranted = None;
        for holder in holders {
            let evidence = all_to_evidence(std::slice::from_ref(holder), now);
            let Ok(Some(active)) = authorize_holder(&evidence, &schema.to_evidence(), false) else { continue };
            let holder_until = active.effective_until;
            let wanted = WantedGrant::to_issue(schema_id, Some(holder.validator_participant_id));
            match self.account.read_grant(&wanted).await {
                Ok(grant) => return Ok(Authority { grant, holder_until }),
                Err(stop @ WriteStop::Blocked(_)) => ungranted = Some(stop),
                Err(stop) => return Err(stop.into()),
            }
        }
        // Without any right to issue, that is the first thing to be mended.
        self.account.read_grant(&WantedGrant::to_issue(schema_id, None)).await?;
        let reason = match ungranted {
            Some(stop) => format!("it is one under another participant ({})", stop.reason()),
            None => "the registry has none in effect".to_owned(),
        };
        Err(not_a_holder(did, schema_id, &reason))
    }

    /// The earliest of the configured days, the ends of both participants, and the requested end.
    pub fn end_of_validity(&self, authority: &Authority, requested: Option<i64>, now: &Timestamp) -> i64 {
        let days = now.seconds + i64::from(self.days) * 86_400;
        let issuer_until = authority.grant.participant.effective_until.map(|until| until.seconds);
        let seconds = |nanos: i128| i64::try_from(nanos.div_euclid(1_000_000_000)).unwrap_or(i64::MAX);
        let ends = [issuer_until, authority.holder_until.map(seconds), requested];
        ends.into_iter().flatten().fold(days, i64::min)
    }
}

fn not_a_holder(did: &str, schema_id: u64, reason: &str) -> IssueStop {
    let message = format!("{did} has no active HOLDER participant of schema {schema_id} under this agent's: {reason}");
    IssueStop::Refused(Refusal::new(RefusalCode::PeerNotAuthorized, message))
}
