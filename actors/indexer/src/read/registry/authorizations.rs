//! Reads of authorizations and fee grants.

use serde_json::Value;

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
        let is_active_only = request.params.flag("only_active") == Some(true);
        let participant = request.params.number("participant_id");
        let is_wanted = |body: &Value| {
            let records = body["records"].as_array().map_or(&[][..], Vec::as_slice);
            participant.is_none_or(|id| records.iter().any(|record| record["participant_id"] == id))
                && (!is_active_only || records.iter().any(|record| is_unexpired(record, request.block_time)))
        };
        let filter = authorization_filter(request, "corporation_id", "vs_operator");
        Ok(wrap_member(
            "authorizations",
            self.list_entities(request, EntityKind::VsOperatorAuthorization, &filter, is_wanted).await?,
        ))
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

/// Returns the filter by the granting corporation and the receiving account.
fn authorization_filter(request: &ReadRequest<'_>, corporation: &str, account: &str) -> EntityFilter {
    EntityFilter {
        corporation_id: request.params.number(corporation),
        name: request.params.text(account).map(str::to_owned),
        ..EntityFilter::default()
    }
}
