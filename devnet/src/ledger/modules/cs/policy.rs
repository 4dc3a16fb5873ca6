//! Schema authorization policies: for each schema and role a line of versions, of which the draft has not begun, one is in
//! force, and earlier ones have ended.

use svc_wire::proto::svc::cs::v1::{
    MsgCreateSchemaAuthorizationPolicy, MsgCreateSchemaAuthorizationPolicyResponse,
    MsgIncreaseActiveSchemaAuthorizationPolicyVersion, MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse,
    MsgRevokeSchemaAuthorizationPolicy, MsgRevokeSchemaAuthorizationPolicyResponse, SchemaAuthorizationPolicy,
    SchemaAuthorizationPolicyRole as Role,
};

use super::{addresses, authorize, owned};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    state::next,
    validate,
};

fn valid_subject(schema_id: u64, role: Role) -> Result<(), LedgerError> {
    if schema_id == 0 {
        return Err(LedgerError::plain("schema_id must be greater than 0"));
    }
    if role == Role::Unspecified {
        return Err(LedgerError::plain("role must be ISSUER or VERIFIER"));
    }
    Ok(())
}

pub fn validate_create(chain: &Chain, message: &MsgCreateSchemaAuthorizationPolicy) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_subject(message.schema_id, message.role())?;
    if !validate::is_uri(&message.url) {
        return Err(LedgerError::plain(format!("invalid URL: {:?}", message.url)));
    }
    if !validate::is_digest_sri(&message.digest_sri) {
        return Err(LedgerError::plain(format!("invalid digest SRI: {:?}", message.digest_sri)));
    }
    Ok(())
}

/// All versions of a schema and role, in order.
fn line(exec: &Exec<'_>, schema_id: u64, role: Role) -> Vec<SchemaAuthorizationPolicy> {
    let is_of = |policy: &&SchemaAuthorizationPolicy| policy.schema_id == schema_id && policy.role() == role;
    let mut found: Vec<_> = exec.state.schema_policies.values().filter(is_of).cloned().collect();
    found.sort_by_key(|policy| policy.version);
    found
}

fn is_draft(policy: &SchemaAuthorizationPolicy) -> bool {
    policy.effective_from.is_none() && !policy.revoked
}

fn told(
    exec: &mut Exec<'_>,
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

/// Overwrites the draft, or begins the next version.
pub fn create(
    exec: &mut Exec<'_>,
    message: MsgCreateSchemaAuthorizationPolicy,
) -> Result<MsgCreateSchemaAuthorizationPolicyResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgCreateSchemaAuthorizationPolicy")?;
    owned(exec, &message.corporation, message.schema_id)?;
    let line = line(exec, message.schema_id, message.role());
    let mut policy = match line.iter().find(|policy| is_draft(policy)) {
        Some(draft) => draft.clone(),
        None => SchemaAuthorizationPolicy {
            id: next(&mut exec.state.next_schema_policy),
            schema_id: message.schema_id,
            role: message.role,
            created: Some(exec.now()),
            version: line.last().map_or(0, |last| last.version) + 1,
            ..SchemaAuthorizationPolicy::default()
        },
    };
    policy.url.clone_from(&message.url);
    policy.digest_sri.clone_from(&message.digest_sri);
    let id = policy.id;
    told(exec, "create_schema_authorization_policy", &policy, "version", (message.corporation, message.operator));
    exec.state.schema_policies.put(id, policy, exec.gas);
    Ok(MsgCreateSchemaAuthorizationPolicyResponse { id })
}

pub fn validate_increase(
    chain: &Chain,
    message: &MsgIncreaseActiveSchemaAuthorizationPolicyVersion,
) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_subject(message.schema_id, message.role())
}

/// Puts the draft into force, which ends the version before.
pub fn increase(
    exec: &mut Exec<'_>,
    message: MsgIncreaseActiveSchemaAuthorizationPolicyVersion,
) -> Result<MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse, LedgerError> {
    let name = "MsgIncreaseActiveSchemaAuthorizationPolicyVersion";
    authorize(exec, &message.corporation, &message.operator, name)?;
    owned(exec, &message.corporation, message.schema_id)?;
    let line = line(exec, message.schema_id, message.role());
    let Some(draft) = line.iter().find(|policy| is_draft(policy)) else {
        return Err(LedgerError::plain(format!("schema {} has no draft policy to activate", message.schema_id)));
    };
    let now = exec.now();
    let in_force = line.iter().filter(|policy| policy.effective_from.is_some() && policy.effective_until.is_none());
    for policy in in_force {
        let ended = SchemaAuthorizationPolicy { effective_until: Some(now), ..policy.clone() };
        exec.state.schema_policies.put(ended.id, ended, exec.gas);
    }
    let policy = SchemaAuthorizationPolicy { effective_from: Some(now), ..draft.clone() };
    let kind = "increase_active_schema_authorization_policy_version";
    told(exec, kind, &policy, "new_active_version", (message.corporation, message.operator));
    exec.state.schema_policies.put(policy.id, policy, exec.gas);
    Ok(MsgIncreaseActiveSchemaAuthorizationPolicyVersionResponse {})
}

pub fn validate_revoke(chain: &Chain, message: &MsgRevokeSchemaAuthorizationPolicy) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    valid_subject(message.schema_id, message.role())?;
    if message.version == 0 {
        return Err(LedgerError::plain("version must be greater than 0"));
    }
    Ok(())
}

pub fn revoke(
    exec: &mut Exec<'_>,
    message: MsgRevokeSchemaAuthorizationPolicy,
) -> Result<MsgRevokeSchemaAuthorizationPolicyResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgRevokeSchemaAuthorizationPolicy")?;
    owned(exec, &message.corporation, message.schema_id)?;
    let line = line(exec, message.schema_id, message.role());
    let Some(policy) = line.iter().find(|policy| policy.version == message.version) else {
        return Err(LedgerError::plain(format!("policy version {} not found", message.version)));
    };
    if policy.effective_from.is_none() {
        return Err(LedgerError::plain(format!("policy version {} is not effective yet", message.version)));
    }
    if policy.revoked {
        return Err(LedgerError::plain(format!("policy version {} is already revoked", message.version)));
    }
    let policy = SchemaAuthorizationPolicy { revoked: true, ..policy.clone() };
    let by = (message.corporation, message.operator);
    told(exec, "revoke_schema_authorization_policy", &policy, "version", by);
    exec.state.schema_policies.put(policy.id, policy, exec.gas);
    Ok(MsgRevokeSchemaAuthorizationPolicyResponse {})
}
