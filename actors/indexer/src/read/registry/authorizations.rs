//! Reads of authorizations and fee grants.

use serde_json::Value;
use svc_wire::participant_state::{ParticipantInstants, ParticipantState};

use super::entity_scan::{contains_text, is_unexpired};
use crate::{
    projection::public_members,
    read::{
        answer_json::wrap_member,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind},
};

impl IndexReader {
    pub(in crate::read) async fn operator_authorization(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let body = self
            .require_entity(request, EntityKind::OperatorAuthorization, request.params.required_number("id")?)
            .await?;
        Ok(wrap_member("authorization", public_members(body)))
    }

    pub(in crate::read) async fn vs_operator_authorization(
        &self,
        request: &ReadRequest<'_>,
    ) -> Result<Value, ReadError> {
        let body = self
            .require_entity(request, EntityKind::VsOperatorAuthorization, request.params.required_number("id")?)
            .await?;
        Ok(wrap_member("authorization", public_members(body)))
    }

    pub(in crate::read) async fn operator_authorizations(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let is_active_only = request.params.flag("only_active") == Some(true);
        let msg_type = request.params.text("msg_type");
        let is_wanted = |body: &Value| {
            msg_type.is_none_or(|wanted| contains_text(body, "msg_types", wanted))
                && (!is_active_only || is_unexpired(body, request.block_time))
        };
        let filter = authorization_filter(request, "corporation_id", "operator");
        Ok(wrap_member(
            "authorizations",
            self.list_entities(request, EntityKind::OperatorAuthorization, &filter, is_wanted).await?,
        ))
    }

    pub(in crate::read) async fn vs_operator_authorizations(
        &self,
        request: &ReadRequest<'_>,
    ) -> Result<Value, ReadError> {
        let participant = request.params.number("participant_id");
        let is_wanted = |body: &Value| {
            participant.is_none_or(|id| records(body).iter().any(|record| record["participant_id"] == id))
        };
        let filter = authorization_filter(request, "corporation_id", "vs_operator");
        Ok(wrap_member(
            "authorizations",
            self.list_entities(request, EntityKind::VsOperatorAuthorization, &filter, is_wanted).await?,
        ))
    }

    /// Whether an authorization of a VS operator has a record that counts.
    pub(super) async fn has_active_record(&self, request: &ReadRequest<'_>, body: &Value) -> Result<bool, ReadError> {
        // Records that have ended cost no read of their participant.
        for record in records(body).iter().filter(|record| is_running(record, request.block_time)) {
            let id = record["participant_id"].as_u64().unwrap_or_default();
            let participant = self.store.entity(EntityKind::Participant, id, request.height).await?;
            let state = participant.map(|body| ParticipantInstants::of_json(&body).chain_state_at(request.block_time));
            if has_participant(state) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    pub(in crate::read) async fn fee_grants(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let is_active_only = request.params.flag("only_active") == Some(true);
        let msg_type = request.params.text("msg_type");
        let is_wanted = |body: &Value| {
            // An empty list does not restrict the grant to message types.
            let is_unrestricted = body["msg_types"].as_array().is_none_or(Vec::is_empty);
            msg_type.is_none_or(|wanted| is_unrestricted || contains_text(body, "msg_types", wanted))
                && (!is_active_only || body.get("period").is_some() || is_unexpired(body, request.block_time))
        };
        let filter = authorization_filter(request, "grantor_corporation_id", "grantee");
        Ok(wrap_member("fee_grants", self.list_entities(request, EntityKind::FeeGrant, &filter, is_wanted).await?))
    }
}

fn records(body: &Value) -> &[Value] {
    body["records"].as_array().map_or(&[][..], Vec::as_slice)
}

/// Whether a record of a VS operator has not ended by itself. With a period its expiration is the end of a cycle: the first use after it opens
/// the next one.
fn is_running(record: &Value, now: i128) -> bool {
    record.get("period").is_some() || is_unexpired(record, now)
}

/// Whether the participant of a record keeps it: the right ends with it, and newer nodes do not repeat that end in the record. One that the
/// index lacks says nothing against it.
fn has_participant(state: Option<ParticipantState>) -> bool {
    state.is_none_or(|state| matches!(state, ParticipantState::Active | ParticipantState::Future))
}

/// Returns the filter by the granting corporation and the receiving account.
fn authorization_filter(request: &ReadRequest<'_>, corporation: &str, account: &str) -> EntityFilter {
    EntityFilter {
        corporation_id: request.params.number(corporation),
        name: request.params.text(account).map(str::to_owned),
        ..EntityFilter::default()
    }
}
