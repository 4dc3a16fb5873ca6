//! Corporations, ecosystems and their governance frameworks.

use svc_wire::{
    proto::svc::{co, ec, gf},
    timestamp,
};

use super::view::{QueryContext, is_after, not_found, page_size};
use crate::{
    error::{LedgerError, QueryStatus},
    modules::gf::{FrameworkOwner, versions_of, with_documents},
    state::LedgerState,
};

pub fn get_corporation(
    view: &QueryContext<'_>,
    request: co::v1::QueryGetCorporationRequest,
) -> Result<co::v1::QueryGetCorporationResponse, LedgerError> {
    let found = view.state.corporations.peek(&request.corporation_id);
    let corporation = found.ok_or_else(|| not_found(format!("corporation {} not found", request.corporation_id)))?;
    let view = corporation_view(view.state, corporation, request.active_gf_only, &request.preferred_language);
    Ok(co::v1::QueryGetCorporationResponse { corporation: Some(view) })
}

fn corporation_view(
    state: &LedgerState,
    corporation: &co::v1::Corporation,
    active_only: bool,
    language: &str,
) -> co::v1::CorporationWithGf {
    let only = active_only.then_some(corporation.active_version);
    co::v1::CorporationWithGf {
        id: corporation.id,
        policy_address: corporation.policy_address.clone(),
        did: corporation.did.clone(),
        created: corporation.created,
        modified: corporation.modified,
        language: corporation.language.clone(),
        active_version: corporation.active_version,
        versions: versions_of(state, FrameworkOwner::Corporation(corporation.id), only, language),
    }
}

pub fn list_corporations(
    view: &QueryContext<'_>,
    request: co::v1::QueryListCorporationsRequest,
) -> Result<co::v1::QueryListCorporationsResponse, LedgerError> {
    let mut found: Vec<_> =
        view.state.corporations.values().filter(|one| is_after(one.modified, request.modified_after)).collect();
    found.sort_by_key(|one| std::cmp::Reverse(one.modified.as_ref().map_or(0, timestamp::unix_nanos)));
    let views = found
        .into_iter()
        .take(page_size(request.response_max_size)?)
        .map(|one| corporation_view(view.state, one, request.active_gf_only, &request.preferred_language));
    Ok(co::v1::QueryListCorporationsResponse { corporations: views.collect() })
}

fn ecosystem_view(
    state: &LedgerState,
    ecosystem: &ec::v1::Ecosystem,
    active_only: bool,
    language: &str,
) -> ec::v1::EcosystemWithVersions {
    let only = active_only.then_some(ecosystem.active_version);
    ec::v1::EcosystemWithVersions {
        id: ecosystem.id,
        did: ecosystem.did.clone(),
        corporation_id: ecosystem.corporation_id,
        created: ecosystem.created,
        modified: ecosystem.modified,
        archived: ecosystem.archived,
        language: ecosystem.language.clone(),
        active_version: ecosystem.active_version,
        versions: versions_of(state, FrameworkOwner::Ecosystem(ecosystem.id), only, language),
    }
}

pub fn get_ecosystem(
    view: &QueryContext<'_>,
    request: ec::v1::QueryGetEcosystemRequest,
) -> Result<ec::v1::QueryGetEcosystemResponse, LedgerError> {
    let found = view.state.ecosystems.peek(&request.id);
    let ecosystem = found.ok_or_else(|| not_found(format!("ecosystem {} not found", request.id)))?;
    let view = ecosystem_view(view.state, ecosystem, request.active_gf_only, &request.preferred_language);
    Ok(ec::v1::QueryGetEcosystemResponse { ecosystem: Some(view) })
}

pub fn list_ecosystems(
    view: &QueryContext<'_>,
    request: ec::v1::QueryListEcosystemsRequest,
) -> Result<ec::v1::QueryListEcosystemsResponse, LedgerError> {
    let is_wanted = |one: &&ec::v1::Ecosystem| {
        let is_owned = request.corporation_id == 0 || one.corporation_id == request.corporation_id;
        is_owned && is_after(one.modified, request.modified_after)
    };
    let mut found: Vec<_> = view.state.ecosystems.values().filter(is_wanted).collect();
    // Quirk: ascending by id, but newest first once `modified_after` is set.
    if request.modified_after.is_some() {
        found.sort_by_key(|one| std::cmp::Reverse(one.modified.as_ref().map_or(0, timestamp::unix_nanos)));
    }
    let views = found
        .into_iter()
        .take(page_size(request.response_max_size)?)
        .map(|one| ecosystem_view(view.state, one, request.active_gf_only, &request.preferred_language));
    Ok(ec::v1::QueryListEcosystemsResponse { ecosystems: views.collect() })
}

pub fn get_version(
    view: &QueryContext<'_>,
    request: gf::v1::QueryGetGovernanceFrameworkVersionRequest,
) -> Result<gf::v1::QueryGetGovernanceFrameworkVersionResponse, LedgerError> {
    let found = view.state.versions.peek(&request.id);
    let version = found.ok_or_else(|| not_found(format!("governance framework version {} not found", request.id)))?;
    let version = with_documents(view.state, version, &request.preferred_language);
    Ok(gf::v1::QueryGetGovernanceFrameworkVersionResponse { version: Some(version) })
}

pub fn list_versions(
    view: &QueryContext<'_>,
    request: gf::v1::QueryListGovernanceFrameworkVersionsRequest,
) -> Result<gf::v1::QueryListGovernanceFrameworkVersionsResponse, LedgerError> {
    let (owner, active) = match (request.ecosystem_id, request.corporation_id) {
        (0, id) if id > 0 => {
            (FrameworkOwner::Corporation(id), view.state.corporations.peek(&id).map(|one| one.active_version))
        }
        (id, 0) if id > 0 => {
            (FrameworkOwner::Ecosystem(id), view.state.ecosystems.peek(&id).map(|one| one.active_version))
        }
        _ => {
            let text = "exactly one of ecosystem_id and corporation_id is required";
            return Err(LedgerError::from_query(QueryStatus::InvalidArgument, text));
        }
    };
    let only = request.active_only.then_some(active.unwrap_or(0));
    let mut versions = versions_of(view.state, owner, only, &request.preferred_language);
    versions.truncate(page_size(request.response_max_size)?);
    Ok(gf::v1::QueryListGovernanceFrameworkVersionsResponse { versions })
}
