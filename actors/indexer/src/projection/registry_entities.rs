//! Projections of schemas, participants, sessions, trust deposits, digests, exchange rates and parameters.

use serde_json::{Map, Value, json};
use svc_wire::proto::svc::{
    cs::v1::CredentialSchema,
    di::v1::DigestInfo,
    pp::v1::{Participant, ParticipantSession, ParticipantSessionRecord},
    td::v1::TrustDeposit,
    xr::v1::ExchangeRate,
};

use super::{enum_or_null, id_or_null, text_or_null, time_or_null};
use crate::derive::decimal;

/// Returns a discount as a ratio; the chain has ten-thousandths.
fn discount_ratio(value: u64) -> Value {
    match value {
        0 => 0.into(),
        value => (value as f64 / 10_000.0).into(),
    }
}

pub fn schema(entity: &CredentialSchema) -> Value {
    let document: Value = serde_json::from_str(&entity.json_schema).unwrap_or_default();
    let mut body = json!({
        "id": entity.id, "ecosystem_id": entity.ecosystem_id, "json_schema": entity.json_schema,
        "issuer_grantor_validation_validity_period": entity.issuer_grantor_validation_validity_period,
        "verifier_grantor_validation_validity_period": entity.verifier_grantor_validation_validity_period,
        "issuer_validation_validity_period": entity.issuer_validation_validity_period,
        "verifier_validation_validity_period": entity.verifier_validation_validity_period,
        "holder_validation_validity_period": entity.holder_validation_validity_period,
        "issuer_onboarding_mode": enum_or_null(entity.issuer_onboarding_mode().as_str_name(), "ISSUER_ONBOARDING_MODE_"),
        "verifier_onboarding_mode": enum_or_null(entity.verifier_onboarding_mode().as_str_name(), "VERIFIER_ONBOARDING_MODE_"),
        "holder_onboarding_mode": enum_or_null(entity.holder_onboarding_mode().as_str_name(), "HOLDER_ONBOARDING_MODE_"),
        "pricing_asset_type": enum_or_null(entity.pricing_asset_type().as_str_name(), ""),
        "pricing_asset": text_or_null(&entity.pricing_asset), "digest_algorithm": text_or_null(&entity.digest_algorithm),
        "archived": time_or_null(entity.archived.as_ref()), "created": time_or_null(entity.created.as_ref()),
        "modified": time_or_null(entity.modified.as_ref()),
    });
    for key in ["title", "description"] {
        if let Some(text) = document[key].as_str() {
            body[key] = text.into();
        }
    }
    body
}

/// Returns a participant without `ecosystem_id`, which the chain does not have.
pub fn participant(entity: &Participant) -> Value {
    json!({
        "id": entity.id, "schema_id": entity.schema_id, "ecosystem_id": null,
        "role": enum_or_null(entity.role().as_str_name(), ""), "did": text_or_null(&entity.did),
        "corporation_id": entity.corporation_id, "vs_operator": text_or_null(&entity.vs_operator),
        "created": time_or_null(entity.created.as_ref()), "modified": time_or_null(entity.modified.as_ref()),
        "adjusted": time_or_null(entity.adjusted.as_ref()), "slashed": time_or_null(entity.slashed.as_ref()),
        "repaid": time_or_null(entity.repaid.as_ref()), "revoked": time_or_null(entity.revoked.as_ref()),
        "effective_from": time_or_null(entity.effective_from.as_ref()),
        "effective_until": time_or_null(entity.effective_until.as_ref()),
        "validation_fees": entity.validation_fees, "issuance_fees": entity.issuance_fees,
        "verification_fees": entity.verification_fees, "issuance_fee_discount": discount_ratio(entity.issuance_fee_discount),
        "verification_fee_discount": discount_ratio(entity.verification_fee_discount), "deposit": entity.deposit,
        "slashed_deposit": entity.slashed_deposit, "repaid_deposit": entity.repaid_deposit,
        "validator_participant_id": id_or_null(entity.validator_participant_id),
        "op_state": enum_or_null(entity.op_state().as_str_name(), ""),
        "op_last_state_change": time_or_null(entity.op_last_state_change.as_ref()),
        "op_current_fees": entity.op_current_fees, "op_current_deposit": entity.op_current_deposit,
        "op_summary_digest": text_or_null(&entity.op_summary_digest), "op_exp": time_or_null(entity.op_exp.as_ref()),
        "op_validator_deposit": entity.op_validator_deposit,
    })
}

pub fn session(entity: &ParticipantSession) -> Value {
    let records: Vec<Value> = entity.session_records.iter().map(session_record).collect();
    json!({
        "id": entity.id, "corporation_id": entity.corporation_id, "vs_operator": text_or_null(&entity.vs_operator),
        "session_records": records, "created": time_or_null(entity.created.as_ref()),
        "modified": time_or_null(entity.modified.as_ref()),
    })
}

/// Returns a record of a session. Optional members are absent, not null.
fn session_record(record: &ParticipantSessionRecord) -> Value {
    let mut object = Map::new();
    object.insert("created".to_owned(), time_or_null(record.created.as_ref()));
    for (key, participant) in [
        ("issuer_participant_id", record.issuer_participant_id),
        ("verifier_participant_id", record.verifier_participant_id),
        ("wallet_agent_participant_id", record.wallet_agent_participant_id),
        ("agent_participant_id", record.agent_participant_id),
    ] {
        if participant > 0 {
            object.insert(key.to_owned(), participant.into());
        }
    }
    Value::Object(object)
}

/// Returns a trust deposit without `claimable`, which changes with the value of a share.
pub fn trust_deposit(entity: &TrustDeposit) -> Value {
    json!({
        "corporation_id": entity.corporation_id, "share": decimal::decimal_json(&entity.share), "_share": entity.share,
        "deposit": entity.deposit, "refunded": entity.refunded, "slashed_deposit": entity.slashed_deposit,
        "repaid_deposit": entity.repaid_deposit, "last_slashed": time_or_null(entity.last_slashed.as_ref()),
        "last_repaid": time_or_null(entity.last_repaid.as_ref()), "slash_count": entity.slash_count,
    })
}

pub fn digest(entity: &DigestInfo) -> Value {
    json!({"digest": entity.digest, "created": time_or_null(entity.created.as_ref())})
}

pub fn exchange_rate(entity: &ExchangeRate) -> Value {
    json!({
        "id": entity.id, "base_asset_type": enum_or_null(entity.base_asset_type().as_str_name(), ""),
        "base_asset": entity.base_asset, "quote_asset_type": enum_or_null(entity.quote_asset_type().as_str_name(), ""),
        "quote_asset": entity.quote_asset, "rate": entity.rate, "rate_scale": entity.rate_scale,
        "validity_duration": entity.validity_duration.as_ref().map_or(0, |span| span.seconds),
        "updated": time_or_null(entity.updated.as_ref()), "expires": time_or_null(entity.expires.as_ref()), "state": entity.state,
    })
}

/// Returns the parameters of a module from their protobuf JSON, numeric ones as numbers.
pub fn params(json: &Value) -> Value {
    let mut object = Map::new();
    for (key, value) in json.as_object().into_iter().flatten() {
        let shown = match value.as_str() {
            // The chain scales decimals by 10^18. The internal member keeps the exact form, for derived values.
            Some(digits) if is_decimal(key) => {
                object.insert(format!("_{key}"), digits.into());
                decimal::decimal_json(digits)
            }
            Some(digits) => match digits.parse::<u64>() {
                Ok(number) => number.into(),
                Err(_) => digits
                    .strip_suffix('s')
                    .and_then(|span| span.parse::<u64>().ok())
                    .map_or_else(|| value.clone(), Value::from),
            },
            None => value.clone(),
        };
        object.insert(key.clone(), shown);
    }
    Value::Object(object)
}

fn is_decimal(key: &str) -> bool {
    ["_rate", "_share_value", "_reward_share"].iter().any(|suffix| key.ends_with(suffix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numeric_parameters_are_numbers() {
        let json = json!({"trust_unit_price": "1000000", "trust_deposit_rate": "200000000000000000", "max_days": 3,
            "yield_intermediate_pool": "pool", "max_validity_duration": "2592000s"});
        let expected = json!({"trust_unit_price": 1_000_000, "trust_deposit_rate": 0.2, "max_days": 3,
            "_trust_deposit_rate": "200000000000000000", "yield_intermediate_pool": "pool",
            "max_validity_duration": 2_592_000});
        assert_eq!(params(&json), expected);
    }

    #[test]
    fn a_schema_keeps_its_document_byte_for_byte_and_has_its_title() {
        let json_schema = "{ \"title\":\"T\", \"$id\" : 1}".to_owned();
        let body = schema(&CredentialSchema { json_schema: json_schema.clone(), ..Default::default() });
        assert_eq!((&body["json_schema"], &body["title"]), (&json_schema.into(), &"T".into()));
        assert!(body.get("description").is_none());
        assert_eq!(body["issuer_onboarding_mode"], Value::Null);
    }
}
