//! Operator authorizations and VS operator authorizations.

use svc_wire::proto::svc::de;

use super::view::{QueryContext, not_found, page_size};
use crate::error::LedgerError;

pub fn get_authorization(
    view: &QueryContext<'_>,
    request: de::v1::QueryGetOperatorAuthorizationRequest,
) -> Result<de::v1::QueryGetOperatorAuthorizationResponse, LedgerError> {
    let found = view.state.operator_authorizations.peek(&request.id).cloned();
    let found = found.ok_or_else(|| not_found(format!("operator authorization {} not found", request.id)))?;
    Ok(de::v1::QueryGetOperatorAuthorizationResponse { operator_authorization: Some(found) })
}

pub fn list_authorizations(
    view: &QueryContext<'_>,
    request: de::v1::QueryListOperatorAuthorizationsRequest,
) -> Result<de::v1::QueryListOperatorAuthorizationsResponse, LedgerError> {
    let is_wanted = |one: &&de::v1::OperatorAuthorization| {
        (request.corporation_id == 0 || one.corporation_id == request.corporation_id)
            && (request.operator.is_empty() || one.operator == request.operator)
    };
    let size = page_size(request.response_max_size)?;
    let operator_authorizations =
        view.state.operator_authorizations.values().filter(is_wanted).take(size).cloned().collect();
    Ok(de::v1::QueryListOperatorAuthorizationsResponse { operator_authorizations })
}

pub fn get_vs_authorization(
    view: &QueryContext<'_>,
    request: de::v1::QueryGetVsOperatorAuthorizationRequest,
) -> Result<de::v1::QueryGetVsOperatorAuthorizationResponse, LedgerError> {
    let found = view.state.vs_authorizations.peek(&request.id).cloned().map(|found| shown(view, found));
    let found = found.ok_or_else(|| not_found(format!("VS operator authorization {} not found", request.id)))?;
    Ok(de::v1::QueryGetVsOperatorAuthorizationResponse { vs_operator_authorization: Some(found) })
}

pub fn list_vs_authorizations(
    view: &QueryContext<'_>,
    request: de::v1::QueryListVsOperatorAuthorizationsRequest,
) -> Result<de::v1::QueryListVsOperatorAuthorizationsResponse, LedgerError> {
    let is_wanted = |one: &&de::v1::VsOperatorAuthorization| {
        (request.corporation_id == 0 || one.corporation_id == request.corporation_id)
            && (request.vs_operator.is_empty() || one.vs_operator == request.vs_operator)
    };
    let size = page_size(request.response_max_size)?;
    let vs_operator_authorizations = view
        .state
        .vs_authorizations
        .values()
        .filter(is_wanted)
        .take(size)
        .cloned()
        .map(|one| shown(view, one))
        .collect();
    Ok(de::v1::QueryListVsOperatorAuthorizationsResponse { vs_operator_authorizations })
}

/// An authorization as the node's generation shows it: later ones have no cap of fees for each record.
fn shown(
    view: &QueryContext<'_>,
    mut authorization: de::v1::VsOperatorAuthorization,
) -> de::v1::VsOperatorAuthorization {
    if !view.chain.generation.has_own_record_limits() {
        authorization.records.iter_mut().for_each(|record| record.remaining_fee_spend.clear());
    }
    authorization
}
