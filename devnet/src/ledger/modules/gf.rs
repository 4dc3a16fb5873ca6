//! Governance frameworks: versions of documents, owned by a corporation or by an ecosystem.

use svc_wire::{
    instant,
    proto::svc::gf::v1::{
        GovernanceFrameworkDocument, GovernanceFrameworkVersion, GovernanceFrameworkVersionWithDocs,
        MsgAddGovernanceFrameworkDocument, MsgAddGovernanceFrameworkDocumentResponse,
        MsgIncreaseActiveGovernanceFrameworkVersion, MsgIncreaseActiveGovernanceFrameworkVersionResponse,
        MsgUpdateParams, MsgUpdateParamsResponse,
    },
};

use super::{
    super::{
        error::LedgerError,
        exec::{Chain, Exec},
        state::{State, next},
        table::Plain,
        validate::{self, ensure},
    },
    authority, de,
};

/// Whose framework it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    Corporation(u64),
    Ecosystem(u64),
}

impl Owner {
    /// Place of a version in the index.
    fn key(self, number: u32) -> [u64; 3] {
        match self {
            Self::Corporation(id) => [id, 0, u64::from(number)],
            Self::Ecosystem(id) => [0, id, u64::from(number)],
        }
    }

    /// Versions of this owner, ascending.
    fn versions(self, state: &State) -> impl DoubleEndedIterator<Item = &GovernanceFrameworkVersion> {
        let range = self.key(0)..=self.key(u32::MAX);
        state.version_index.range(range).filter_map(|(_, id)| state.versions.peek(&id.0))
    }

    fn ecosystem_id(self) -> u64 {
        match self {
            Self::Corporation(_) => 0,
            Self::Ecosystem(id) => id,
        }
    }
}

fn new_version(exec: &mut Exec<'_>, owner: Owner, number: u32, is_active: bool) -> u64 {
    let (id, now) = (next(&mut exec.state.next_version), exec.now());
    let version = GovernanceFrameworkVersion {
        id,
        ecosystem_id: owner.ecosystem_id(),
        corporation_id: if let Owner::Corporation(id) = owner { id } else { 0 },
        created: Some(now),
        version: number,
        active_since: is_active.then_some(now),
    };
    exec.state.versions.put(id, version, exec.gas);
    exec.state.version_index.put(owner.key(number), Plain(id), exec.gas);
    id
}

fn new_document(
    exec: &mut Exec<'_>,
    gfv_id: u64,
    language: &str,
    url: &str,
    digest: &str,
) -> GovernanceFrameworkDocument {
    let document = GovernanceFrameworkDocument {
        id: next(&mut exec.state.next_document),
        gfv_id,
        created: Some(exec.now()),
        language: language.to_owned(),
        url: url.to_owned(),
        digest_sri: digest.to_owned(),
    };
    exec.state.documents.put(document.id, document.clone(), exec.gas);
    exec.state.document_index.put([gfv_id, document.id], Plain(()), exec.gas);
    document
}

/// Documents of a version, by id.
fn documents(state: &State, gfv_id: u64) -> impl Iterator<Item = &GovernanceFrameworkDocument> {
    let keys = state.document_index.range([gfv_id, 0]..=[gfv_id, u64::MAX]);
    keys.filter_map(|([_, id], _)| state.documents.peek(id))
}

/// Version 1, active at once, with its first document.
pub fn first_version(
    exec: &mut Exec<'_>,
    owner: Owner,
    language: &str,
    url: &str,
    digest: &str,
) -> GovernanceFrameworkDocument {
    let version = new_version(exec, owner, 1, true);
    new_document(exec, version, language, url, digest)
}

pub fn validate_add(chain: &Chain, message: &MsgAddGovernanceFrameworkDocument) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", &message.corporation)?;
    validate::address(&chain.prefix, "operator", &message.operator)?;
    ensure(validate::is_language(&message.doc_language), "gf", 1105, || {
        format!("invalid language: {:?}", message.doc_language)
    })?;
    ensure(validate::is_http_url(&message.doc_url), "gf", 1106, || format!("invalid URL: {:?}", message.doc_url))?;
    ensure(validate::is_digest_sri(&message.doc_digest_sri), "gf", 1107, || {
        format!("invalid digest SRI: {:?}", message.doc_digest_sri)
    })?;
    ensure(message.version >= 1, "gf", 1104, || "invalid version: must be at least 1".to_owned())
}

/// Owner named by a message, its active version and its language. Quirk: check 1 comes before check 5 here, so an unknown
/// corporation shows as a missing authorization.
fn subject(
    exec: &mut Exec<'_>,
    corporation: &str,
    operator: &str,
    message: &str,
    ecosystem_id: u64,
) -> Result<(Owner, u32, String), LedgerError> {
    let url = de::url(exec, "gf", message);
    de::authorize(exec, corporation, operator, &url)?;
    let corporation_id = de::registered(exec, corporation, ("gf", 1102))?;
    if ecosystem_id == 0 {
        let found = exec.state.corporations.get(&corporation_id, exec.gas);
        let found = found.ok_or_else(|| LedgerError::new("gf", 1102, "subject not found"))?;
        return Ok((Owner::Corporation(corporation_id), found.active_version, found.language.clone()));
    }
    let found = exec.state.ecosystems.get(&ecosystem_id, exec.gas);
    let found =
        found.ok_or_else(|| LedgerError::new("gf", 1102, format!("subject not found: ecosystem {ecosystem_id}")))?;
    ensure(found.corporation_id == corporation_id, "gf", 1103, || {
        format!("subject not controlled: ecosystem {ecosystem_id}")
    })?;
    Ok((Owner::Ecosystem(ecosystem_id), found.active_version, found.language.clone()))
}

pub fn add_document(
    exec: &mut Exec<'_>,
    message: MsgAddGovernanceFrameworkDocument,
) -> Result<MsgAddGovernanceFrameworkDocumentResponse, LedgerError> {
    let name = "MsgAddGovernanceFrameworkDocument";
    let (owner, active, _) = subject(exec, &message.corporation, &message.operator, name, message.ecosystem_id)?;
    let highest = owner.versions(exec.state).next_back().map_or(0, |version| version.version);
    let existing = exec.state.version_index.get(&owner.key(message.version), exec.gas).map(|id| id.0);
    let is_in_line = existing.is_some() || message.version == highest + 1;
    ensure(is_in_line && message.version > active, "gf", 1104, || {
        format!("invalid version: {} (active {active}, highest {highest})", message.version)
    })?;
    let gfv_id = match existing {
        Some(id) => id,
        None => new_version(exec, owner, message.version, false),
    };
    let same = documents(exec.state, gfv_id).find(|one| one.language == message.doc_language).cloned();
    let document = match same {
        Some(mut document) => {
            document.url = message.doc_url.clone();
            document.digest_sri = message.doc_digest_sri.clone();
            exec.state.documents.put(document.id, document.clone(), exec.gas);
            document
        }
        None => new_document(exec, gfv_id, &message.doc_language, &message.doc_url, &message.doc_digest_sri),
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
    chain: &Chain,
    message: &MsgIncreaseActiveGovernanceFrameworkVersion,
) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", &message.corporation)?;
    validate::address(&chain.prefix, "operator", &message.operator)
}

pub fn increase_active(
    exec: &mut Exec<'_>,
    message: MsgIncreaseActiveGovernanceFrameworkVersion,
) -> Result<MsgIncreaseActiveGovernanceFrameworkVersionResponse, LedgerError> {
    let name = "MsgIncreaseActiveGovernanceFrameworkVersion";
    let (owner, active, language) = subject(exec, &message.corporation, &message.operator, name, message.ecosystem_id)?;
    let following = exec.state.version_index.get(&owner.key(active + 1), exec.gas);
    let following = following.and_then(|id| exec.state.versions.get(&id.0, exec.gas));
    let mut version = following.cloned().ok_or_else(|| {
        LedgerError::new("gf", 1108, format!("no activatable version: {} does not exist", active + 1))
    })?;
    let has_default = documents(exec.state, version.id).any(|one| one.language == language);
    ensure(has_default, "gf", 1109, || format!("missing default language document: {language}"))?;
    let now = exec.now();
    version.active_since = Some(now);
    let (gfv_id, number) = (version.id, version.version);
    exec.state.versions.put(gfv_id, version, exec.gas);
    match owner {
        Owner::Corporation(id) => {
            if let Some(mut corporation) = exec.state.corporations.get(&id, exec.gas).cloned() {
                corporation.active_version = number;
                corporation.modified = Some(now);
                exec.state.corporations.put(id, corporation, exec.gas);
            }
        }
        Owner::Ecosystem(id) => {
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
            ("active_since", instant::iso_seconds(&now)),
        ],
    );
    Ok(MsgIncreaseActiveGovernanceFrameworkVersionResponse {})
}

/// Versions of an owner, ascending, each with its documents. With a preferred language each version carries one document:
/// that language, else the document with the lowest id.
pub fn versions_of(
    state: &State,
    owner: Owner,
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
    state: &State,
    version: &GovernanceFrameworkVersion,
    preferred_language: &str,
) -> GovernanceFrameworkVersionWithDocs {
    let mut documents: Vec<_> = documents(state, version.id).cloned().collect();
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

/// Quirk: a wrong authority gets the SDK's own error. There are no parameters.
pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("sdk", 4))?;
    Ok(MsgUpdateParamsResponse {})
}
