//! The module co: corporations.

use rust_decimal::Decimal;
use svc_wire::proto::svc::{
    co::v1::{
        Corporation, MsgCreateCorporation, MsgCreateCorporationResponse, MsgUpdateCorporation,
        MsgUpdateCorporationResponse, MsgUpdateParams, MsgUpdateParamsResponse,
    },
    gf::v1::GovernanceFrameworkDocument,
};

use super::{
    authority::ensure_authority,
    de, gf,
    group::{self, NewMember},
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::did_owner::ensure_did_is_own,
    state::{next_id, table::PlainValue},
    values::validate::{self, ensure},
};

pub fn validate_create(chain: &ChainConfig, message: &MsgCreateCorporation) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "signer", &message.signer)?;
    ensure(!message.members.is_empty(), "co", 1108, || "invalid members: at least one member is required".to_owned())?;
    for member in &message.members {
        ensure(!member.address.is_empty(), "co", 1108, || "invalid members: member address is required".to_owned())?;
        validate::address(&chain.prefix, "member", &member.address)?;
        let is_positive = member.weight.parse::<Decimal>().is_ok_and(|weight| weight > Decimal::ZERO);
        ensure(is_positive, "co", 1108, || {
            format!("invalid members: weight {:?} is not a positive decimal", member.weight)
        })?;
    }
    let is_policy = message.decision_policy.as_ref().is_some_and(group::is_decision_policy);
    ensure(is_policy, "co", 1107, || "invalid decision policy: threshold or percentage is required".to_owned())?;
    ensure(validate::is_did(&message.did), "co", 1109, || format!("invalid DID: {:?}", message.did))?;
    ensure(validate::is_short_language(&message.language), "co", 1104, || {
        format!("invalid language: {:?}", message.language)
    })?;
    ensure(validate::is_http_url(&message.doc_url), "co", 1105, || format!("invalid URL: {:?}", message.doc_url))?;
    ensure(validate::is_document_digest(chain, &message.doc_digest_sri), "co", 1106, || {
        format!("invalid digest SRI: {:?}", message.doc_digest_sri)
    })
}

pub fn create(
    exec: &mut ExecContext<'_>,
    message: MsgCreateCorporation,
) -> Result<MsgCreateCorporationResponse, LedgerError> {
    ensure(!exec.state.corporation_by_did.contains(&message.did, exec.gas), "co", 1102, || {
        format!("DID already exists: {}", message.did)
    })?;
    if exec.chain.has_window_rules() {
        ensure_did_is_own(exec, &message.did, None, ("co", 1114))?;
    }
    let members = message
        .members
        .into_iter()
        .map(|member| NewMember { address: member.address, weight: member.weight, metadata: member.metadata })
        .collect();
    let decision_policy = message.decision_policy.unwrap_or_default();
    let policy_address = group::create_with_policy(
        exec,
        members,
        &message.group_metadata,
        &message.group_policy_metadata,
        &decision_policy,
    )?;
    let (id, now) = (next_id(&mut exec.state.next_corporation), exec.block_time());
    let corporation = Corporation {
        id,
        policy_address: policy_address.clone(),
        did: message.did.clone(),
        created: Some(now),
        modified: Some(now),
        language: message.language.clone(),
        active_version: 1,
    };
    exec.state.corporations.put(id, corporation, exec.gas);
    exec.state.corporation_by_address.put(policy_address.clone(), PlainValue(id), exec.gas);
    exec.state.corporation_by_did.put(message.did.clone(), PlainValue(id), exec.gas);
    let document: GovernanceFrameworkDocument = gf::create_first_version(
        exec,
        gf::FrameworkOwner::Corporation(id),
        &message.language,
        &message.doc_url,
        &message.doc_digest_sri,
    );
    exec.emit(
        "add_gf_document",
        [
            ("corporation_id", id.to_string()),
            ("gfv_id", document.gfv_id.to_string()),
            ("gfd_id", document.id.to_string()),
            ("version", "1".to_owned()),
            ("language", message.language),
        ],
    );
    exec.emit(
        "create_corporation",
        [("corporation_id", id.to_string()), ("policy_address", policy_address.clone()), ("did", message.did)],
    );
    Ok(MsgCreateCorporationResponse { corporation_id: id, policy_address })
}

pub fn validate_update(chain: &ChainConfig, message: &MsgUpdateCorporation) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", &message.corporation)?;
    validate::address(&chain.prefix, "operator", &message.operator)?;
    ensure(validate::is_did(&message.did), "co", 1109, || format!("invalid DID: {:?}", message.did))
}

pub fn update(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateCorporation,
) -> Result<MsgUpdateCorporationResponse, LedgerError> {
    let id = de::require_corporation(exec, &message.corporation, ("co", 1101))?;
    de::authorize(exec, &message.corporation, &message.operator, &de::message_url(exec, "co", "MsgUpdateCorporation"))?;
    let Some(mut corporation) = exec.state.corporations.get(&id, exec.gas).cloned() else {
        return Err(LedgerError::new("co", 1101, "corporation not registered"));
    };
    // Quirk: an update to the same DID succeeds without any effect, not even on `modified`.
    if corporation.did == message.did {
        return Ok(MsgUpdateCorporationResponse {});
    }
    ensure(!exec.state.corporation_by_did.contains(&message.did, exec.gas), "co", 1102, || {
        format!("DID already exists: {}", message.did)
    })?;
    if exec.chain.has_window_rules() {
        ensure_did_is_own(exec, &message.did, Some(id), ("co", 1114))?;
    }
    exec.state.corporation_by_did.remove(&corporation.did, exec.gas);
    exec.state.corporation_by_did.put(message.did.clone(), PlainValue(id), exec.gas);
    corporation.did = message.did.clone();
    corporation.modified = Some(exec.block_time());
    exec.state.corporations.put(id, corporation, exec.gas);
    exec.emit(
        "update_corporation",
        [("corporation_id", id.to_string()), ("policy_address", message.corporation), ("did", message.did)],
    );
    Ok(MsgUpdateCorporationResponse {})
}

/// Quirk: a wrong authority gets an error of the gov module. The module has no parameters.
pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("gov", 13))?;
    Ok(MsgUpdateParamsResponse {})
}
