//! The module gf: governance frameworks. A corporation or an ecosystem owns versions of documents.

use svc_wire::{
    proto::svc::gf::v1::{
        GovernanceFrameworkDocument, GovernanceFrameworkVersion, GovernanceFrameworkVersionWithDocs,
        MsgAddGovernanceFrameworkDocument, MsgAddGovernanceFrameworkDocumentResponse,
        MsgIncreaseActiveGovernanceFrameworkVersion, MsgIncreaseActiveGovernanceFrameworkVersionResponse,
        MsgUpdateParams, MsgUpdateParamsResponse,
    },
    timestamp,
};

use super::{authority::ensure_authority, de};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    state::{
        LedgerState,
        keys::{DocumentKey, VersionKey},
        next_id,
        table::PlainValue,
    },
    values::validate::{self, ensure},
};

/// The owner of a governance framework, by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameworkOwner {
    Corporation(u64),
    Ecosystem(u64),
}

impl FrameworkOwner {
    /// Returns the index key of a version.
    pub fn version_key(self, number: u32) -> VersionKey {
        let version = u64::from(number);
        match self {
            Self::Corporation(id) => VersionKey { corporation_id: id, ecosystem_id: 0, version },
            Self::Ecosystem(id) => VersionKey { corporation_id: 0, ecosystem_id: id, version },
        }
    }

    /// Returns the versions of this owner, ascending.
    fn versions(self, state: &LedgerState) -> impl DoubleEndedIterator<Item = &GovernanceFrameworkVersion> {
        let range = self.version_key(0)..=self.version_key(u32::MAX);
        state.version_index.range(range).filter_map(|(_, id)| state.versions.peek(&id.0))
    }

    fn ecosystem_id(self) -> u64 {
        match self {
            Self::Corporation(_) => 0,
            Self::Ecosystem(id) => id,
        }
    }
}

fn create_version(exec: &mut ExecContext<'_>, owner: FrameworkOwner, number: u32, is_active: bool) -> u64 {
    let (id, now) = (next_id(&mut exec.state.next_version), exec.block_time());
    let version = GovernanceFrameworkVersion {
        id,
        ecosystem_id: owner.ecosystem_id(),
        corporation_id: if let FrameworkOwner::Corporation(id) = owner { id } else { 0 },
        created: Some(now),
        version: number,
        active_since: is_active.then_some(now),
    };
    exec.state.versions.put(id, version, exec.gas);
    exec.state.version_index.put(owner.version_key(number), PlainValue(id), exec.gas);
    id
}

fn create_document(
    exec: &mut ExecContext<'_>,
    gfv_id: u64,
    language: &str,
    url: &str,
    digest: &str,
) -> GovernanceFrameworkDocument {
    let document = GovernanceFrameworkDocument {
        id: next_id(&mut exec.state.next_document),
        gfv_id,
        created: Some(exec.block_time()),
        language: language.to_owned(),
        url: url.to_owned(),
        digest_sri: digest.to_owned(),
    };
    exec.state.documents.put(document.id, document.clone(), exec.gas);
    exec.state.document_index.put(
        DocumentKey { version_id: gfv_id, document_id: document.id },
        PlainValue(()),
        exec.gas,
    );
    document
}

/// Returns the documents of a version, ordered by id.
fn version_documents(state: &LedgerState, gfv_id: u64) -> impl Iterator<Item = &GovernanceFrameworkDocument> {
    let key = |document_id| DocumentKey { version_id: gfv_id, document_id };
    let keys = state.document_index.range(key(0)..=key(u64::MAX));
    keys.filter_map(|(key, _)| state.documents.peek(&key.document_id))
}

/// Creates version 1, active at once, with its first document.
pub fn create_first_version(
    exec: &mut ExecContext<'_>,
    owner: FrameworkOwner,
    language: &str,
    url: &str,
    digest: &str,
) -> GovernanceFrameworkDocument {
    let version = create_version(exec, owner, 1, true);
    create_document(exec, version, language, url, digest)
}

pub fn validate_add(chain: &ChainConfig, message: &MsgAddGovernanceFrameworkDocument) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", &message.corporation)?;
    validate::address(&chain.prefix, "operator", &message.operator)?;
    ensure(validate::is_language(&message.doc_language), "gf", 1105, || {
        format!("invalid language: {:?}", message.doc_language)
    })?;
    ensure(validate::is_http_url(&message.doc_url), "gf", 1106, || format!("invalid URL: {:?}", message.doc_url))?;
    ensure(validate::is_document_digest(chain, &message.doc_digest_sri), "gf", 1107, || {
        format!("invalid digest SRI: {:?}", message.doc_digest_sri)
    })?;
    ensure(message.version >= 1, "gf", 1104, || "invalid version: must be at least 1".to_owned())
}

/// The owner that a message names.
struct AuthorizedOwner {
    owner: FrameworkOwner,
    active_version: u32,
    language: String,
}

/// Authorizes the sender for the owner that a message names. Quirk: AUTHZ-CHECK-1 comes before AUTHZ-CHECK-5, so an
/// unknown corporation is reported as a missing authorization.
fn authorize_owner(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    operator: &str,
    message: &str,
    ecosystem_id: u64,
) -> Result<AuthorizedOwner, LedgerError> {
    let url = de::message_url(exec, "gf", message);
    de::authorize(exec, corporation, operator, &url)?;
    let corporation_id = de::require_corporation(exec, corporation, ("gf", 1102))?;
    if ecosystem_id == 0 {
        let found = exec.state.corporations.get(&corporation_id, exec.gas);
        let found = found.ok_or_else(|| LedgerError::new("gf", 1102, "subject not found"))?;
        return Ok(AuthorizedOwner {
            owner: FrameworkOwner::Corporation(corporation_id),
            active_version: found.active_version,
            language: found.language.clone(),
        });
    }
    let found = exec.state.ecosystems.get(&ecosystem_id, exec.gas);
    let found =
        found.ok_or_else(|| LedgerError::new("gf", 1102, format!("subject not found: ecosystem {ecosystem_id}")))?;
    ensure(found.corporation_id == corporation_id, "gf", 1103, || {
        format!("subject not controlled: ecosystem {ecosystem_id}")
    })?;
    Ok(AuthorizedOwner {
        owner: FrameworkOwner::Ecosystem(ecosystem_id),
        active_version: found.active_version,
        language: found.language.clone(),
    })
}

pub fn add_document(
    exec: &mut ExecContext<'_>,
    message: MsgAddGovernanceFrameworkDocument,
) -> Result<MsgAddGovernanceFrameworkDocumentResponse, LedgerError> {
    let name = "MsgAddGovernanceFrameworkDocument";
    let AuthorizedOwner { owner, active_version: active, .. } =
        authorize_owner(exec, &message.corporation, &message.operator, name, message.ecosystem_id)?;
    let highest = owner.versions(exec.state).next_back().map_or(0, |version| version.version);
    let existing = exec.state.version_index.get(&owner.version_key(message.version), exec.gas).map(|id| id.0);
    let is_in_line = existing.is_some() || message.version == highest + 1;
    ensure(is_in_line && message.version > active, "gf", 1104, || {
        format!("invalid version: {} (active {active}, highest {highest})", message.version)
    })?;
    let gfv_id = match existing {
        Some(id) => id,
        None => create_version(exec, owner, message.version, false),
    };
    let same = version_documents(exec.state, gfv_id).find(|one| one.language == message.doc_language).cloned();
    let document = match same {
        Some(mut document) => {
            document.url = message.doc_url.clone();
            document.digest_sri = message.doc_digest_sri.clone();
            exec.state.documents.put(document.id, document.clone(), exec.gas);
            document
        }
        None => create_document(exec, gfv_id, &message.doc_language, &message.doc_url, &message.doc_digest_sri),
    };
    exec.emit(
        "add_gf_document",
        [
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("ecosystem_id", message.ecosystem_id.to_string()),
            ("gfv_id", gfv_id.to_string()),
            ("gfd_id", document.id.to_string()),
            ("version", message.version.to_string()),
            ("language", message.doc_language),
            ("doc_url", message.doc_url),
            ("doc_digest_sri", message.doc_digest_sri),
        ],
    );
    Ok(MsgAddGovernanceFrameworkDocumentResponse {})
}

pub fn validate_increase(
    chain: &ChainConfig,
    message: &MsgIncreaseActiveGovernanceFrameworkVersion,
) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", &message.corporation)?;
    validate::address(&chain.prefix, "operator", &message.operator)
}

pub fn increase_active(
    exec: &mut ExecContext<'_>,
    message: MsgIncreaseActiveGovernanceFrameworkVersion,
) -> Result<MsgIncreaseActiveGovernanceFrameworkVersionResponse, LedgerError> {
    let name = "MsgIncreaseActiveGovernanceFrameworkVersion";
    let AuthorizedOwner { owner, active_version: active, language } =
        authorize_owner(exec, &message.corporation, &message.operator, name, message.ecosystem_id)?;
    let following = exec.state.version_index.get(&owner.version_key(active + 1), exec.gas);
    let following = following.and_then(|id| exec.state.versions.get(&id.0, exec.gas));
    let mut version = following.cloned().ok_or_else(|| {
        LedgerError::new("gf", 1108, format!("no activatable version: {} does not exist", active + 1))
    })?;
    let has_default = version_documents(exec.state, version.id).any(|one| one.language == language);
    ensure(has_default, "gf", 1109, || format!("missing default language document: {language}"))?;
    let now = exec.block_time();
    version.active_since = Some(now);
    let (gfv_id, number) = (version.id, version.version);
    exec.state.versions.put(gfv_id, version, exec.gas);
    match owner {
        FrameworkOwner::Corporation(id) => {
            if let Some(mut corporation) = exec.state.corporations.get(&id, exec.gas).cloned() {
                corporation.active_version = number;
                corporation.modified = Some(now);
                exec.state.corporations.put(id, corporation, exec.gas);
            }
        }
        FrameworkOwner::Ecosystem(id) => {
            if let Some(mut ecosystem) = exec.state.ecosystems.get(&id, exec.gas).cloned() {
                ecosystem.active_version = number;
                ecosystem.modified = Some(now);
                exec.state.ecosystems.put(id, ecosystem, exec.gas);
            }
        }
    }
    exec.emit(
        "increase_active_gf_version",
        [
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("ecosystem_id", message.ecosystem_id.to_string()),
            ("gfv_id", gfv_id.to_string()),
            ("version", number.to_string()),
            ("active_since", timestamp::iso_seconds(&now)),
        ],
    );
    Ok(MsgIncreaseActiveGovernanceFrameworkVersionResponse {})
}

/// Returns the versions of an owner, ascending, each with its documents. With a preferred language each version has one
/// document: the one in that language, else the one with the lowest id.
pub fn versions_of(
    state: &LedgerState,
    owner: FrameworkOwner,
    only: Option<u32>,
    preferred_language: &str,
) -> Vec<GovernanceFrameworkVersionWithDocs> {
    owner
        .versions(state)
        .filter(|version| only.is_none_or(|number| number == version.version))
        .map(|version| with_documents(state, version, preferred_language))
        .collect()
}

pub fn with_documents(
    state: &LedgerState,
    version: &GovernanceFrameworkVersion,
    preferred_language: &str,
) -> GovernanceFrameworkVersionWithDocs {
    let mut documents: Vec<_> = version_documents(state, version.id).cloned().collect();
    if preferred_language.is_empty() {
        documents.sort_by(|left, right| left.language.cmp(&right.language));
    } else {
        let preferred = documents.iter().find(|document| document.language.eq_ignore_ascii_case(preferred_language));
        let lowest = documents.iter().min_by_key(|document| document.id);
        documents = preferred.or(lowest).cloned().into_iter().collect();
    }
    GovernanceFrameworkVersionWithDocs {
        id: version.id,
        ecosystem_id: version.ecosystem_id,
        corporation_id: version.corporation_id,
        created: version.created,
        version: version.version,
        active_since: version.active_since,
        documents,
    }
}

/// Quirk: a wrong authority gets an error of the SDK. The module has no parameters.
pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("sdk", 4))?;
    Ok(MsgUpdateParamsResponse {})
}
