//! The module ec: ecosystems.

use svc_wire::proto::svc::ec::v1::{
    Ecosystem, MsgArchiveEcosystem, MsgArchiveEcosystemResponse, MsgCreateEcosystem, MsgCreateEcosystemResponse,
    MsgUpdateEcosystem, MsgUpdateEcosystemResponse, MsgUpdateParams, MsgUpdateParamsResponse,
};

use super::{authority::ensure_authority, de, gf};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::did_owner::ensure_did_is_own,
    state::{next_id, table::PlainValue},
    values::validate::{self, ensure},
};

const AUTHORIZATION_FAILED: &str = "authorization check failed";

fn ensure_addresses(chain: &ChainConfig, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", corporation)?;
    validate::address(&chain.prefix, "operator", operator)
}

fn ensure_valid_id(id: u64) -> Result<(), LedgerError> {
    ensure(id > 0, "ec", 1110, || "invalid subject: ecosystem id must be greater than 0".to_owned())
}

fn ensure_valid_did(did: &str) -> Result<(), LedgerError> {
    ensure(validate::is_did(did), "ec", 1106, || format!("invalid DID: {did:?}"))
}

pub fn validate_create(chain: &ChainConfig, message: &MsgCreateEcosystem) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_did(&message.did)?;
    ensure(validate::is_short_language(&message.language), "ec", 1107, || {
        format!("invalid language: {:?}", message.language)
    })?;
    ensure(validate::is_http_url(&message.doc_url), "ec", 1108, || format!("invalid URL: {:?}", message.doc_url))?;
    ensure(validate::is_document_digest(chain, &message.doc_digest_sri), "ec", 1109, || {
        format!("invalid digest SRI: {:?}", message.doc_digest_sri)
    })
}

/// Runs AUTHZ-CHECK-5, then AUTHZ-CHECK-1; returns the corporation's id.
fn authorize(exec: &mut ExecContext<'_>, corporation: &str, operator: &str, message: &str) -> Result<u64, LedgerError> {
    let id =
        de::require_corporation(exec, corporation, ("ec", 1102)).map_err(|error| error.wrap(AUTHORIZATION_FAILED))?;
    let url = de::message_url(exec, "ec", message);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap(AUTHORIZATION_FAILED))?;
    Ok(id)
}

/// Fails if an ecosystem of another corporation has the DID.
fn ensure_did_available(exec: &ExecContext<'_>, did: &str, corporation: u64) -> Result<(), LedgerError> {
    if exec.chain.has_window_rules() {
        return ensure_did_is_own(exec, did, Some(corporation), ("ec", 1104));
    }
    let range = (did.to_owned(), 0)..=(did.to_owned(), u64::MAX);
    let is_foreign = exec.state.ecosystem_by_did.range(range).any(|(_, owner)| owner.0 != corporation);
    exec.gas.charge_read(did.len());
    ensure(!is_foreign, "ec", 1104, || format!("DID ownership conflict: {did} is used by another corporation"))
}

fn load_controlled(exec: &ExecContext<'_>, id: u64, corporation: u64) -> Result<Ecosystem, LedgerError> {
    let ecosystem = exec.state.ecosystems.get(&id, exec.gas).cloned();
    let ecosystem = ecosystem.ok_or_else(|| LedgerError::new("ec", 1101, format!("ecosystem not found: {id}")))?;
    ensure(ecosystem.corporation_id == corporation, "ec", 1103, || {
        format!("unauthorized operator: corporation {corporation} does not control ecosystem {id}")
    })?;
    Ok(ecosystem)
}

pub fn create(
    exec: &mut ExecContext<'_>,
    message: MsgCreateEcosystem,
) -> Result<MsgCreateEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCreateEcosystem")?;
    ensure_did_available(exec, &message.did, corporation_id)?;
    let (id, now) = (next_id(&mut exec.state.next_ecosystem), exec.block_time());
    let ecosystem = Ecosystem {
        id,
        did: message.did.clone(),
        corporation_id,
        created: Some(now),
        modified: Some(now),
        archived: false,
        language: message.language.clone(),
        active_version: 1,
    };
    exec.state.ecosystems.put(id, ecosystem, exec.gas);
    exec.state.ecosystem_by_did.put((message.did.clone(), id), PlainValue(corporation_id), exec.gas);
    let document = gf::create_first_version(
        exec,
        gf::FrameworkOwner::Ecosystem(id),
        &message.language,
        &message.doc_url,
        &message.doc_digest_sri,
    );
    exec.emit(
        "add_gf_document",
        [
            ("ecosystem_id", id.to_string()),
            ("gfv_id", document.gfv_id.to_string()),
            ("gfd_id", document.id.to_string()),
            ("version", "1".to_owned()),
            ("language", message.language.clone()),
        ],
    );
    exec.emit(
        "create_ecosystem",
        [
            ("ecosystem_id", id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("did", message.did),
            ("language", message.language),
        ],
    );
    Ok(MsgCreateEcosystemResponse { ecosystem_id: id })
}

pub fn validate_update(chain: &ChainConfig, message: &MsgUpdateEcosystem) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_id(message.id)?;
    ensure_valid_did(&message.did)
}

pub fn update(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateEcosystem,
) -> Result<MsgUpdateEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgUpdateEcosystem")?;
    let mut ecosystem = load_controlled(exec, message.id, corporation_id)?;
    // Quirk: an update to the same DID succeeds without any effect.
    if ecosystem.did == message.did {
        return Ok(MsgUpdateEcosystemResponse {});
    }
    ensure_did_available(exec, &message.did, corporation_id)?;
    exec.state.ecosystem_by_did.remove(&(ecosystem.did.clone(), message.id), exec.gas);
    exec.state.ecosystem_by_did.put((message.did.clone(), message.id), PlainValue(corporation_id), exec.gas);
    ecosystem.did = message.did.clone();
    ecosystem.modified = Some(exec.block_time());
    exec.state.ecosystems.put(message.id, ecosystem, exec.gas);
    exec.emit(
        "update_ecosystem",
        [
            ("ecosystem_id", message.id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("did", message.did),
        ],
    );
    Ok(MsgUpdateEcosystemResponse {})
}

pub fn validate_archive(chain: &ChainConfig, message: &MsgArchiveEcosystem) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_id(message.id)
}

pub fn archive(
    exec: &mut ExecContext<'_>,
    message: MsgArchiveEcosystem,
) -> Result<MsgArchiveEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgArchiveEcosystem")?;
    let mut ecosystem = load_controlled(exec, message.id, corporation_id)?;
    ensure(ecosystem.archived != message.archive, "ec", 1105, || {
        format!("ecosystem {} is already in the target archive state", message.id)
    })?;
    ecosystem.archived = message.archive;
    ecosystem.modified = Some(exec.block_time());
    let did = ecosystem.did.clone();
    exec.state.ecosystems.put(message.id, ecosystem, exec.gas);
    let status = if message.archive { "archived" } else { "unarchived" };
    exec.emit(
        "archive_ecosystem",
        [
            ("ecosystem_id", message.id.to_string()),
            ("corporation_id", corporation_id.to_string()),
            ("operator", message.operator),
            ("did", did),
            ("archive_status", status.to_owned()),
        ],
    );
    Ok(MsgArchiveEcosystemResponse {})
}

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("ec", 1100))?;
    exec.state.params.ec = message.params.unwrap_or_default();
    Ok(MsgUpdateParamsResponse {})
}
