//! Ecosystems.

use svc_wire::proto::svc::ec::v1::{
    Ecosystem, MsgArchiveEcosystem, MsgArchiveEcosystemResponse, MsgCreateEcosystem, MsgCreateEcosystemResponse,
    MsgUpdateEcosystem, MsgUpdateEcosystemResponse, MsgUpdateParams, MsgUpdateParamsResponse,
};

use super::{
    super::{
        error::LedgerError,
        exec::{Chain, Exec},
        state::next,
        table::Plain,
        validate::{self, ensure},
    },
    authority, de, gf,
};

const AUTHORIZATION: &str = "authorization check failed";

fn addresses(chain: &Chain, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", corporation)?;
    validate::address(&chain.prefix, "operator", operator)
}

fn valid_id(id: u64) -> Result<(), LedgerError> {
    ensure(id > 0, "ec", 1110, || "invalid subject: ecosystem id must be greater than 0".to_owned())
}

fn valid_did(did: &str) -> Result<(), LedgerError> {
    ensure(validate::is_did(did), "ec", 1106, || format!("invalid DID: {did:?}"))
}

pub fn validate_create(chain: &Chain, message: &MsgCreateEcosystem) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_did(&message.did)?;
    ensure(validate::is_short_language(&message.language), "ec", 1107, || {
        format!("invalid language: {:?}", message.language)
    })?;
    ensure(validate::is_http_url(&message.doc_url), "ec", 1108, || format!("invalid URL: {:?}", message.doc_url))?;
    ensure(validate::is_digest_sri(&message.doc_digest_sri), "ec", 1109, || {
        format!("invalid digest SRI: {:?}", message.doc_digest_sri)
    })
}

/// Checks 5 and 1 in this module's order; yields the corporation's id.
fn authorize(exec: &mut Exec<'_>, corporation: &str, operator: &str, message: &str) -> Result<u64, LedgerError> {
    let id = de::registered(exec, corporation, ("ec", 1102)).map_err(|error| error.wrap(AUTHORIZATION))?;
    let url = de::url(exec, "ec", message);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap(AUTHORIZATION))?;
    Ok(id)
}

/// No ecosystem of another corporation may carry the DID.
fn own_did(exec: &Exec<'_>, did: &str, corporation: u64) -> Result<(), LedgerError> {
    let range = (did.to_owned(), 0)..=(did.to_owned(), u64::MAX);
    let is_foreign = exec.state.ecosystem_by_did.range(range).any(|(_, owner)| owner.0 != corporation);
    exec.gas.read(did.len());
    ensure(!is_foreign, "ec", 1104, || format!("DID ownership conflict: {did} is used by another corporation"))
}

fn controlled(exec: &Exec<'_>, id: u64, corporation: u64) -> Result<Ecosystem, LedgerError> {
    let ecosystem = exec.state.ecosystems.get(&id, exec.gas).cloned();
    let ecosystem = ecosystem.ok_or_else(|| LedgerError::new("ec", 1101, format!("ecosystem not found: {id}")))?;
    ensure(ecosystem.corporation_id == corporation, "ec", 1103, || {
        format!("unauthorized operator: corporation {corporation} does not control ecosystem {id}")
    })?;
    Ok(ecosystem)
}

pub fn create(exec: &mut Exec<'_>, message: MsgCreateEcosystem) -> Result<MsgCreateEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgCreateEcosystem")?;
    own_did(exec, &message.did, corporation_id)?;
    let (id, now) = (next(&mut exec.state.next_ecosystem), exec.now());
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
    exec.state.ecosystem_by_did.put((message.did.clone(), id), Plain(corporation_id), exec.gas);
    let document =
        gf::first_version(exec, gf::Owner::Ecosystem(id), &message.language, &message.doc_url, &message.doc_digest_sri);
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

pub fn validate_update(chain: &Chain, message: &MsgUpdateEcosystem) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_id(message.id)?;
    valid_did(&message.did)
}

pub fn update(exec: &mut Exec<'_>, message: MsgUpdateEcosystem) -> Result<MsgUpdateEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgUpdateEcosystem")?;
    let mut ecosystem = controlled(exec, message.id, corporation_id)?;
    // Quirk: the same DID again is a success without any effect.
    if ecosystem.did == message.did {
        return Ok(MsgUpdateEcosystemResponse {});
    }
    own_did(exec, &message.did, corporation_id)?;
    exec.state.ecosystem_by_did.remove(&(ecosystem.did.clone(), message.id), exec.gas);
    exec.state.ecosystem_by_did.put((message.did.clone(), message.id), Plain(corporation_id), exec.gas);
    ecosystem.did = message.did.clone();
    ecosystem.modified = Some(exec.now());
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

pub fn validate_archive(chain: &Chain, message: &MsgArchiveEcosystem) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_id(message.id)
}

pub fn archive(exec: &mut Exec<'_>, message: MsgArchiveEcosystem) -> Result<MsgArchiveEcosystemResponse, LedgerError> {
    let corporation_id = authorize(exec, &message.corporation, &message.operator, "MsgArchiveEcosystem")?;
    let mut ecosystem = controlled(exec, message.id, corporation_id)?;
    ensure(ecosystem.archived != message.archive, "ec", 1105, || {
        format!("ecosystem {} is already in the target archive state", message.id)
    })?;
    ecosystem.archived = message.archive;
    ecosystem.modified = Some(exec.now());
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

pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("ec", 1100))?;
    exec.state.params.ec = message.params.unwrap_or_default();
    Ok(MsgUpdateParamsResponse {})
}
