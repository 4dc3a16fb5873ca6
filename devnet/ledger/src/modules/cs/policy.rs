//! Schema authorization policies. Each schema and role has a series of versions: at most one draft, one in force, and ended
//! ones.

use svc_wire::proto::svc::cs::v1::{
    MsgCreateSchemaAuthorizationPolicy, MsgCreateSchemaAuthorizationPolicyResponse,
    MsgIncreaseActiveSchemaAuthorizationPolicyVersion, MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse,
    MsgRevokeSchemaAuthorizationPolicy, MsgRevokeSchemaAuthorizationPolicyResponse, SchemaAuthorizationPolicy,
    SchemaAuthorizationPolicyRole as Role,
};

use super::schema::{authorize, ensure_addresses, load_owned};
use crate::{chain::ChainConfig, context::ExecContext, error::LedgerError, state::next_id, values::validate};

fn ensure_valid_subject(schema_id: u64, role: Role) -> Result<(), LedgerError> {
    if schema_id == 0 {
        return Err(LedgerError::unregistered("schema_id must be greater than 0"));
    }
    if role == Role::Unspecified {
        return Err(LedgerError::unregistered("role must be ISSUER or VERIFIER"));
    }
    Ok(())
}

pub fn validate_create(chain: &ChainConfig, message: &MsgCreateSchemaAuthorizationPolicy) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_subject(message.schema_id, message.role())?;
    if !validate::is_uri(&message.url) {
        return Err(LedgerError::unregistered(format!("invalid URL: {:?}", message.url)));
    }
    if !validate::is_digest_sri(&message.digest_sri) {
        return Err(LedgerError::unregistered(format!("invalid digest SRI: {:?}", message.digest_sri)));
    }
    Ok(())
}

/// Returns all versions of a schema and role, ordered by version.
fn policy_versions(exec: &ExecContext<'_>, schema_id: u64, role: Role) -> Vec<SchemaAuthorizationPolicy> {
    let is_of = |policy: &&SchemaAuthorizationPolicy| policy.schema_id == schema_id && policy.role() == role;
    let mut found: Vec<_> = exec.state.schema_policies.values().filter(is_of).cloned().collect();
    found.sort_by_key(|policy| policy.version);
    found
}

fn is_draft(policy: &SchemaAuthorizationPolicy) -> bool {
    policy.effective_from.is_none() && !policy.revoked
}

fn emit_policy_event(
    exec: &mut ExecContext<'_>,
    kind: &str,
    policy: &SchemaAuthorizationPolicy,
    version: &'static str,
    (corporation, operator): (String, String),
) {
    exec.emit(
        kind,
        [
            ("id", policy.id.to_string()),
            ("schema_id", policy.schema_id.to_string()),
            ("role", policy.role().as_str_name().to_owned()),
            (version, policy.version.to_string()),
            ("corporation", corporation),
            ("operator", operator),
        ],
    );
}

/// Overwrites the draft, or creates the next version as a draft.
pub fn create(
    exec: &mut ExecContext<'_>,
    message: MsgCreateSchemaAuthorizationPolicy,
) -> Result<MsgCreateSchemaAuthorizationPolicyResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgCreateSchemaAuthorizationPolicy")?;
    load_owned(exec, &message.corporation, message.schema_id)?;
    let versions = policy_versions(exec, message.schema_id, message.role());
    let mut policy = match versions.iter().find(|policy| is_draft(policy)) {
        Some(draft) => draft.clone(),
        None => SchemaAuthorizationPolicy {
            id: next_id(&mut exec.state.next_schema_policy),
            schema_id: message.schema_id,
            role: message.role,
            created: Some(exec.block_time()),
            version: versions.last().map_or(0, |last| last.version) + 1,
            ..SchemaAuthorizationPolicy::default()
        },
    };
    policy.url.clone_from(&message.url);
    policy.digest_sri.clone_from(&message.digest_sri);
    let id = policy.id;
    emit_policy_event(
        exec,
        "create_schema_authorization_policy",
        &policy,
        "version",
        (message.corporation, message.operator),
    );
    exec.state.schema_policies.put(id, policy, exec.gas);
    Ok(MsgCreateSchemaAuthorizationPolicyResponse { id })
}

pub fn validate_increase(
    chain: &ChainConfig,
    message: &MsgIncreaseActiveSchemaAuthorizationPolicyVersion,
) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_subject(message.schema_id, message.role())
}

/// Puts the draft into force and ends the version before it.
pub fn increase(
    exec: &mut ExecContext<'_>,
    message: MsgIncreaseActiveSchemaAuthorizationPolicyVersion,
) -> Result<MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse, LedgerError> {
    let name = "MsgIncreaseActiveSchemaAuthorizationPolicyVersion";
    authorize(exec, &message.corporation, &message.operator, name)?;
    load_owned(exec, &message.corporation, message.schema_id)?;
    let versions = policy_versions(exec, message.schema_id, message.role());
    let Some(draft) = versions.iter().find(|policy| is_draft(policy)) else {
        return Err(LedgerError::unregistered(format!("schema {} has no draft policy to activate", message.schema_id)));
    };
    let now = exec.block_time();
    let in_force = versions.iter().filter(|policy| policy.effective_from.is_some() && policy.effective_until.is_none());
    for policy in in_force {
        let ended = SchemaAuthorizationPolicy { effective_until: Some(now), ..policy.clone() };
        exec.state.schema_policies.put(ended.id, ended, exec.gas);
    }
    let policy = SchemaAuthorizationPolicy { effective_from: Some(now), ..draft.clone() };
    let kind = "increase_active_schema_authorization_policy_version";
    emit_policy_event(exec, kind, &policy, "new_active_version", (message.corporation, message.operator));
    exec.state.schema_policies.put(policy.id, policy, exec.gas);
    Ok(MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse {})
}

pub fn validate_revoke(chain: &ChainConfig, message: &MsgRevokeSchemaAuthorizationPolicy) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_subject(message.schema_id, message.role())?;
    if message.version == 0 {
        return Err(LedgerError::unregistered("version must be greater than 0"));
    }
    Ok(())
}

pub fn revoke(
    exec: &mut ExecContext<'_>,
    message: MsgRevokeSchemaAuthorizationPolicy,
) -> Result<MsgRevokeSchemaAuthorizationPolicyResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgRevokeSchemaAuthorizationPolicy")?;
    load_owned(exec, &message.corporation, message.schema_id)?;
    let versions = policy_versions(exec, message.schema_id, message.role());
    let Some(policy) = versions.iter().find(|policy| policy.version == message.version) else {
        return Err(LedgerError::unregistered(format!("policy version {} not found", message.version)));
    };
    if policy.effective_from.is_none() {
        return Err(LedgerError::unregistered(format!("policy version {} is not effective yet", message.version)));
    }
    if policy.revoked {
        return Err(LedgerError::unregistered(format!("policy version {} is already revoked", message.version)));
    }
    let policy = SchemaAuthorizationPolicy { revoked: true, ..policy.clone() };
    let by = (message.corporation, message.operator);
    emit_policy_event(exec, "revoke_schema_authorization_policy", &policy, "version", by);
    exec.state.schema_policies.put(policy.id, policy, exec.gas);
    Ok(MsgRevokeSchemaAuthorizationPolicyResponse {})
}
