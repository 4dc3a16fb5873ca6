//! Reads of authorizations and fee grants.

use serde_json::Value;

use super::{
    Ask, ReadError, Reader,
    scan::{holds, is_unexpired},
    wrapped,
};
use crate::{
    project::public,
    store::{Filter, Kind},
};

impl Reader {
    pub(super) async fn operator_authorization(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let body = self.one(ask, Kind::OperatorAuthorization, ask.params.required("id")?).await?;
        Ok(wrapped("authorization", public(body)))
    }

    pub(super) async fn vs_operator_authorization(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let body = self.one(ask, Kind::VsOperatorAuthorization, ask.params.required("id")?).await?;
        Ok(wrapped("authorization", public(body)))
    }

    pub(super) async fn operator_authorizations(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let is_active_only = ask.params.flag("only_active") == Some(true);
        let msg_type = ask.params.text("msg_type");
        let is_wanted = |body: &Value| {
            msg_type.is_none_or(|wanted| holds(body, "msg_types", wanted))
                && (!is_active_only || is_unexpired(body, ask.now))
        };
        let filter = owned(ask, "corporation_id", "operator");
        Ok(wrapped("authorizations", self.plain_list(ask, Kind::OperatorAuthorization, &filter, is_wanted).await?))
    }

    pub(super) async fn vs_operator_authorizations(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let is_active_only = ask.params.flag("only_active") == Some(true);
        let participant = ask.params.number("participant_id");
        let is_wanted = |body: &Value| {
            let records = body["records"].as_array().map_or(&[][..], Vec::as_slice);
            participant.is_none_or(|id| records.iter().any(|record| record["participant_id"] == id))
                && (!is_active_only || records.iter().any(|record| is_unexpired(record, ask.now)))
        };
        let filter = owned(ask, "corporation_id", "vs_operator");
        Ok(wrapped("authorizations", self.plain_list(ask, Kind::VsOperatorAuthorization, &filter, is_wanted).await?))
    }

    pub(super) async fn fee_grants(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let is_active_only = ask.params.flag("only_active") == Some(true);
        let msg_type = ask.params.text("msg_type");
        let is_wanted = |body: &Value| {
            // An empty list limits the grant to no message types.
            let is_unrestricted = body["msg_types"].as_array().is_none_or(Vec::is_empty);
            msg_type.is_none_or(|wanted| is_unrestricted || holds(body, "msg_types", wanted))
                && (!is_active_only || body.get("period").is_some() || is_unexpired(body, ask.now))
        };
        let filter = owned(ask, "grantor_corporation_id", "grantee");
        Ok(wrapped("fee_grants", self.plain_list(ask, Kind::FeeGrant, &filter, is_wanted).await?))
    }
}

/// By the corporation that gives and the account that receives.
fn owned(ask: &Ask<'_>, corporation: &str, account: &str) -> Filter {
    Filter {
        corporation_id: ask.params.number(corporation),
        name: ask.params.text(account).map(str::to_owned),
        ..Filter::default()
    }
}
