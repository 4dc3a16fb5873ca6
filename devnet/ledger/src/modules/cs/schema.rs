//! Messages on credential schemas.

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::{
    proto::svc::cs::v1::{
        CredentialSchema, MsgArchiveCredentialSchema, MsgArchiveCredentialSchemaResponse, MsgCreateCredentialSchema,
        MsgCreateCredentialSchemaResponse, MsgUpdateCredentialSchema, MsgUpdateCredentialSchemaResponse,
        MsgUpdateParams, MsgUpdateParamsResponse, OptionalUInt32, Params, PricingAssetType,
    },
    timestamp,
};

use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{authority::ensure_authority, de, xr},
    state::next_id,
    values::validate,
};

const PERIODS: [&str; 5] = [
    "issuer_grantor_validation_validity_period",
    "verifier_grantor_validation_validity_period",
    "issuer_validation_validity_period",
    "verifier_validation_validity_period",
    "holder_validation_validity_period",
];

pub fn ensure_addresses(chain: &ChainConfig, corporation: &str, operator: &str) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "corporation", corporation)?;
    validate::address(&chain.prefix, "operator", operator)
}

fn invalid(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::sdk(18, text)
}

/// Returns the five periods of a message; fails on the first one missing. A wrapper without value means 0: no expiry.
fn periods(wrappers: [Option<OptionalUInt32>; 5]) -> Result<[u32; 5], LedgerError> {
    let mut values = [0; 5];
    for ((value, wrapper), name) in values.iter_mut().zip(wrappers).zip(PERIODS) {
        *value = wrapper.ok_or_else(|| invalid(format!("{name} is required")))?.value;
    }
    Ok(values)
}

fn periods_of_create(message: &MsgCreateCredentialSchema) -> Result<[u32; 5], LedgerError> {
    periods([
        message.issuer_grantor_validation_validity_period,
        message.verifier_grantor_validation_validity_period,
        message.issuer_validation_validity_period,
        message.verifier_validation_validity_period,
        message.holder_validation_validity_period,
    ])
}

fn periods_of_update(message: &MsgUpdateCredentialSchema) -> Result<[u32; 5], LedgerError> {
    periods([
        message.issuer_grantor_validation_validity_period,
        message.verifier_grantor_validation_validity_period,
        message.issuer_validation_validity_period,
        message.verifier_validation_validity_period,
        message.holder_validation_validity_period,
    ])
}

fn ensure_within_limits(params: &Params, periods: [u32; 5]) -> Result<(), LedgerError> {
    let limits = [
        params.credential_schema_issuer_grantor_validation_validity_period_max_days,
        params.credential_schema_verifier_grantor_validation_validity_period_max_days,
        params.credential_schema_issuer_validation_validity_period_max_days,
        params.credential_schema_verifier_validation_validity_period_max_days,
        params.credential_schema_holder_validation_validity_period_max_days,
    ];
    for ((period, limit), name) in periods.into_iter().zip(limits).zip(PERIODS) {
        if period > limit {
            return Err(LedgerError::unregistered(format!(
                "{name} of {period} days exceeds the maximum of {limit} days"
            )));
        }
    }
    Ok(())
}

fn set_periods(schema: &mut CredentialSchema, values: [u32; 5]) {
    [
        schema.issuer_grantor_validation_validity_period,
        schema.verifier_grantor_validation_validity_period,
        schema.issuer_validation_validity_period,
        schema.verifier_validation_validity_period,
        schema.holder_validation_validity_period,
    ] = values;
}

/// Checks for an object with `$schema`, type `object`, title, description and properties. Quirk: no meta-schema is applied.
fn ensure_valid_json_schema(text: &str) -> Result<Value, LedgerError> {
    let refuse = |text: String| LedgerError::new("cs", 1103, format!("invalid JSON schema: {text}"));
    let value: Value = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
    let is_text = |name: &str| value.get(name).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    if !value.is_object() {
        return Err(refuse("not an object".to_owned()));
    }
    if value.get("$schema").is_none() {
        return Err(refuse("$schema is required".to_owned()));
    }
    if value.get("type").and_then(Value::as_str) != Some("object") {
        return Err(refuse("type must be \"object\"".to_owned()));
    }
    if let Some(missing) = ["title", "description"].into_iter().find(|name| !is_text(name)) {
        return Err(refuse(format!("{missing} is required")));
    }
    if value.get("properties").and_then(Value::as_object).is_none_or(serde_json::Map::is_empty) {
        return Err(refuse("properties must be a non-empty object".to_owned()));
    }
    Ok(value)
}

pub fn validate_create(chain: &ChainConfig, message: &MsgCreateCredentialSchema) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    if message.ecosystem_id == 0 {
        return Err(invalid("ecosystem_id must be greater than 0"));
    }
    ensure_valid_json_schema(&message.json_schema)?;
    periods_of_create(message)?;
    for (name, mode, last) in [
        ("issuer_onboarding_mode", message.issuer_onboarding_mode, 3),
        ("verifier_onboarding_mode", message.verifier_onboarding_mode, 3),
        ("holder_onboarding_mode", message.holder_onboarding_mode, 2),
    ] {
        if !(1..=last).contains(&mode) {
            return Err(invalid(format!("{name} must be between 1 and {last}, got {mode}")));
        }
    }
    let kind = pricing_kind(message.pricing_asset_type);
    if kind == PricingAssetType::Unspecified {
        return Err(invalid(format!("pricing_asset_type must be between 1 and 3, got {}", message.pricing_asset_type)));
    }
    if !xr::is_asset(kind, &message.pricing_asset) {
        return Err(invalid(format!("invalid pricing_asset {:?} for {}", message.pricing_asset, kind.as_str_name())));
    }
    let algorithms: &[&str] =
        if chain.has_window_rules() { &["sha384", "sha512"] } else { &["sha256", "sha384", "sha512"] };
    if !algorithms.contains(&message.digest_algorithm.as_str()) {
        let allowed = algorithms.join(", ").replacen(", sha512", " or sha512", 1);
        let text = format!("digest_algorithm must be {allowed}, got {:?}", message.digest_algorithm);
        return Err(invalid(text));
    }
    Ok(())
}

fn pricing_kind(number: u32) -> PricingAssetType {
    i32::try_from(number).ok().and_then(|number| PricingAssetType::try_from(number).ok()).unwrap_or_default()
}

/// Runs AUTHZ-CHECK-1. Quirk: an unknown corporation is reported as a missing authorization.
pub fn authorize(exec: &mut ExecContext<'_>, corporation: &str, operator: &str, name: &str) -> Result<(), LedgerError> {
    let url = de::message_url(exec, "cs", name);
    de::authorize(exec, corporation, operator, &url).map_err(|error| error.wrap("authorization check failed"))
}

/// Runs AUTHZ-CHECK-5 and checks that the corporation controls the ecosystem.
fn ensure_owns_ecosystem(exec: &ExecContext<'_>, corporation: &str, ecosystem_id: u64) -> Result<(), LedgerError> {
    let found = exec.state.ecosystems.get(&ecosystem_id, exec.gas).map(|ecosystem| ecosystem.corporation_id);
    let owner = found.ok_or_else(|| LedgerError::unregistered(format!("ecosystem {ecosystem_id} not found")))?;
    let corporation_id = de::require_corporation(exec, corporation, ("co", 1101))?;
    if owner != corporation_id {
        let text = format!("corporation {corporation_id} does not control ecosystem {ecosystem_id}");
        return Err(LedgerError::unregistered(text));
    }
    Ok(())
}

pub fn load_owned(exec: &ExecContext<'_>, corporation: &str, id: u64) -> Result<CredentialSchema, LedgerError> {
    let found = exec.state.schemas.get(&id, exec.gas).cloned();
    let schema = found.ok_or_else(|| LedgerError::unregistered(format!("credential schema {id} not found")))?;
    ensure_owns_ecosystem(exec, corporation, schema.ecosystem_id)?;
    Ok(schema)
}

/// Returns the stored text: with the `$id` of the schema, in RFC 8785 form. Numbers pass through a 64-bit float.
fn canonical_schema(exec: &ExecContext<'_>, mut schema: Value, id: u64) -> Result<String, LedgerError> {
    let own = format!("vpr:{}:{}:cs:{id}", exec.chain.namespace(), exec.chain.chain_id);
    if let Some(object) = schema.as_object_mut() {
        object.insert("$id".to_owned(), own.into());
    }
    serde_json_canonicalizer::to_string(&schema).map_err(|error| LedgerError::unregistered(error.to_string()))
}

pub fn create(
    exec: &mut ExecContext<'_>,
    message: MsgCreateCredentialSchema,
) -> Result<MsgCreateCredentialSchemaResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgCreateCredentialSchema")?;
    ensure_owns_ecosystem(exec, &message.corporation, message.ecosystem_id)?;
    let (size, limit) = (message.json_schema.len() as u64, exec.state.params.cs.credential_schema_schema_max_size);
    if size > limit {
        return Err(LedgerError::unregistered(format!(
            "json_schema of {size} bytes exceeds the maximum of {limit} bytes"
        )));
    }
    let values = periods_of_create(&message)?;
    ensure_within_limits(&exec.state.params.cs, values)?;
    let (id, now) = (next_id(&mut exec.state.next_schema), exec.block_time());
    let mut schema = CredentialSchema {
        id,
        ecosystem_id: message.ecosystem_id,
        created: Some(now),
        modified: Some(now),
        json_schema: canonical_schema(exec, ensure_valid_json_schema(&message.json_schema)?, id)?,
        issuer_onboarding_mode: message.issuer_onboarding_mode.cast_signed(),
        verifier_onboarding_mode: message.verifier_onboarding_mode.cast_signed(),
        holder_onboarding_mode: message.holder_onboarding_mode.cast_signed(),
        pricing_asset_type: message.pricing_asset_type.cast_signed(),
        pricing_asset: message.pricing_asset.clone(),
        digest_algorithm: message.digest_algorithm.clone(),
        ..CredentialSchema::default()
    };
    set_periods(&mut schema, values);
    exec.state.schemas.put(id, schema, exec.gas);
    let mut attributes = common_attributes(id, message.ecosystem_id, &message.corporation, &message.operator);
    attributes.extend(period_attributes(values));
    attributes.extend([
        ("pricing_asset_type", message.pricing_asset_type.to_string()),
        ("pricing_asset", message.pricing_asset),
        ("digest_algorithm", message.digest_algorithm),
        ("timestamp", timestamp::iso_seconds(&now)),
    ]);
    exec.emit_attributes("create_credential_schema", attributes);
    Ok(MsgCreateCredentialSchemaResponse { id })
}

fn common_attributes(id: u64, ecosystem_id: u64, corporation: &str, operator: &str) -> Vec<(&'static str, String)> {
    vec![
        ("credential_schema_id", id.to_string()),
        ("ecosystem_id", ecosystem_id.to_string()),
        ("corporation", corporation.to_owned()),
        ("operator", operator.to_owned()),
    ]
}

fn period_attributes(values: [u32; 5]) -> impl Iterator<Item = (&'static str, String)> {
    PERIODS.into_iter().zip(values).map(|(name, value)| (name, value.to_string()))
}

fn ensure_valid_id(id: u64) -> Result<(), LedgerError> {
    if id == 0 { Err(invalid("id must be greater than 0")) } else { Ok(()) }
}

pub fn validate_update(chain: &ChainConfig, message: &MsgUpdateCredentialSchema) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    ensure_valid_id(message.id)?;
    periods_of_update(message).map(|_| ())
}

pub fn update(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateCredentialSchema,
) -> Result<MsgUpdateCredentialSchemaResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgUpdateCredentialSchema")?;
    let mut schema = load_owned(exec, &message.corporation, message.id)?;
    let values = periods_of_update(&message)?;
    ensure_within_limits(&exec.state.params.cs, values)?;
    let now = exec.block_time();
    set_periods(&mut schema, values);
    schema.modified = Some(now);
    let mut attributes = common_attributes(message.id, schema.ecosystem_id, &message.corporation, &message.operator);
    attributes.extend(period_attributes(values));
    attributes.push(("timestamp", timestamp::iso_seconds(&now)));
    exec.state.schemas.put(message.id, schema, exec.gas);
    exec.emit_attributes("update_credential_schema", attributes);
    Ok(MsgUpdateCredentialSchemaResponse {})
}

pub fn validate_archive(chain: &ChainConfig, message: &MsgArchiveCredentialSchema) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)
}

/// Quirk: an archived schema stays usable by all other messages.
pub fn archive(
    exec: &mut ExecContext<'_>,
    message: MsgArchiveCredentialSchema,
) -> Result<MsgArchiveCredentialSchemaResponse, LedgerError> {
    authorize(exec, &message.corporation, &message.operator, "MsgArchiveCredentialSchema")?;
    let mut schema = load_owned(exec, &message.corporation, message.id)?;
    let status = if message.archive { "archived" } else { "unarchived" };
    if schema.archived.is_some() == message.archive {
        return Err(LedgerError::unregistered(format!("credential schema {} is already {status}", message.id)));
    }
    let now: Timestamp = exec.block_time();
    schema.archived = message.archive.then_some(now);
    schema.modified = Some(now);
    let mut attributes = common_attributes(message.id, schema.ecosystem_id, &message.corporation, &message.operator);
    attributes.extend([("archive_status", status.to_owned()), ("timestamp", timestamp::iso_seconds(&now))]);
    exec.state.schemas.put(message.id, schema, exec.gas);
    exec.emit_attributes("archive_credential_schema", attributes);
    Ok(MsgArchiveCredentialSchemaResponse {})
}

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("cs", 1100))?;
    let params = message.params.unwrap_or_default();
    if params.credential_schema_schema_max_size == 0 {
        return Err(LedgerError::unregistered("credential_schema_schema_max_size must be positive"));
    }
    exec.state.params.cs = params;
    Ok(MsgUpdateParamsResponse {})
}
