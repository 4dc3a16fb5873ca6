//! Schemas, participants, sessions, trust deposits, digests, exchange rates and parameters.

use serde_json::{Map, Value, json};
use svc_wire::proto::svc::{
    cs::v1::CredentialSchema,
    di::v1::DigestInfo,
    pp::v1::{Participant, ParticipantSession, ParticipantSessionRecord},
    td::v1::TrustDeposit,
    xr::v1::ExchangeRate,
};

use super::{choice, id, millis, text};
use crate::derive::decimal;

/// Discounts are ten-thousandths on the chain.
fn ratio(value: u64) -> Value {
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
        "issuer_onboarding_mode": choice(entity.issuer_onboarding_mode().as_str_name(), "ISSUER_ONBOARDING_MODE_"),
        "verifier_onboarding_mode": choice(entity.verifier_onboarding_mode().as_str_name(), "VERIFIER_ONBOARDING_MODE_"),
        "holder_onboarding_mode": choice(entity.holder_onboarding_mode().as_str_name(), "HOLDER_ONBOARDING_MODE_"),
        "pricing_asset_type": choice(entity.pricing_asset_type().as_str_name(), ""),
        "pricing_asset": text(&entity.pricing_asset), "digest_algorithm": text(&entity.digest_algorithm),
        "archived": millis(entity.archived.as_ref()), "created": millis(entity.created.as_ref()),
        "modified": millis(entity.modified.as_ref()),
    });
    for key in ["title", "description"] {
        if let Some(text) = document[key].as_str() {
            body[key] = text.into();
        }
    }
    body
}

/// Without `ecosystem_id`, which the chain does not tell.
pub fn participant(entity: &Participant) -> Value {
    json!({
        "id": entity.id, "schema_id": entity.schema_id, "ecosystem_id": null,
        "role": choice(entity.role().as_str_name(), ""), "did": text(&entity.did),
        "corporation_id": entity.corporation_id, "vs_operator": text(&entity.vs_operator),
        "created": millis(entity.created.as_ref()), "modified": millis(entity.modified.as_ref()),
        "adjusted": millis(entity.adjusted.as_ref()), "slashed": millis(entity.slashed.as_ref()),
        "repaid": millis(entity.repaid.as_ref()), "revoked": millis(entity.revoked.as_ref()),
        "effective_from": millis(entity.effective_from.as_ref()),
        "effective_until": millis(entity.effective_until.as_ref()),
        "validation_fees": entity.validation_fees, "issuance_fees": entity.issuance_fees,
        "verification_fees": entity.verification_fees, "issuance_fee_discount": ratio(entity.issuance_fee_discount),
        "verification_fee_discount": ratio(entity.verification_fee_discount), "deposit": entity.deposit,
        "slashed_deposit": entity.slashed_deposit, "repaid_deposit": entity.repaid_deposit,
        "validator_participant_id": id(entity.validator_participant_id),
        "op_state": choice(entity.op_state().as_str_name(), ""),
        "op_last_state_change": millis(entity.op_last_state_change.as_ref()),
        "op_current_fees": entity.op_current_fees, "op_current_deposit": entity.op_current_deposit,
        "op_summary_digest": text(&entity.op_summary_digest), "op_exp": millis(entity.op_exp.as_ref()),
        "op_validator_deposit": entity.op_validator_deposit,
    })
}

pub fn session(entity: &ParticipantSession) -> Value {
    let records: Vec<Value> = entity.session_records.iter().map(session_record).collect();
    json!({
        "id": entity.id, "corporation_id": entity.corporation_id, "vs_operator": text(&entity.vs_operator),
        "session_records": records, "created": millis(entity.created.as_ref()),
        "modified": millis(entity.modified.as_ref()),
    })
}

/// Optional members are absent, not null.
fn session_record(record: &ParticipantSessionRecord) -> Value {
    let mut object = Map::new();
    object.insert("created".to_owned(), millis(record.created.as_ref()));
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

/// Without `claimable`, which moves with the value of a share.
pub fn trust_deposit(entity: &TrustDeposit) -> Value {
    json!({
        "corporation_id": entity.corporation_id, "share": decimal::number(&entity.share), "_share": entity.share,
        "deposit": entity.deposit, "refunded": entity.refunded, "slashed_deposit": entity.slashed_deposit,
        "repaid_deposit": entity.repaid_deposit, "last_slashed": millis(entity.last_slashed.as_ref()),
        "last_repaid": millis(entity.last_repaid.as_ref()), "slash_count": entity.slash_count,
    })
}

pub fn digest(entity: &DigestInfo) -> Value {
    json!({"digest": entity.digest, "created": millis(entity.created.as_ref())})
}

pub fn exchange_rate(entity: &ExchangeRate) -> Value {
    json!({
        "id": entity.id, "base_asset_type": choice(entity.base_asset_type().as_str_name(), ""),
        "base_asset": entity.base_asset, "quote_asset_type": choice(entity.quote_asset_type().as_str_name(), ""),
        "quote_asset": entity.quote_asset, "rate": entity.rate, "rate_scale": entity.rate_scale,
        "validity_duration": entity.validity_duration.as_ref().map_or(0, |span| span.seconds),
        "updated": millis(entity.updated.as_ref()), "expires": millis(entity.expires.as_ref()), "state": entity.state,
    })
}

/// Parameters of a module from their protobuf JSON: numbers where they are numeric, else texts.
pub fn params(json: &Value) -> Value {
    let mut object = Map::new();
    for (key, value) in json.as_object().into_iter().flatten() {
        let shown = match value.as_str() {
            // Decimals travel scaled by 10^18, and keep their exact form for what is computed from them.
            Some(digits) if is_decimal(key) => {
                object.insert(format!("_{key}"), digits.into());
                decimal::number(digits)
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
    fn parameters_are_numbers_where_they_are_numeric() {
        let json = json!({"trust_unit_price": "1000000", "trust_deposit_rate": "200000000000000000", "max_days": 3,
            "yield_intermediate_pool": "pool", "max_validity_duration": "2592000s"});
        let expected = json!({"trust_unit_price": 1_000_000, "trust_deposit_rate": 0.2, "max_days": 3,
            "_trust_deposit_rate": "200000000000000000", "yield_intermediate_pool": "pool",
            "max_validity_duration": 2_592_000});
        assert_eq!(params(&json), expected);
    }

    #[test]
    fn a_schema_keeps_its_document_to_the_byte_and_shows_its_title() {
        let json_schema = "{ \"title\":\"T\", \"$id\" : 1}".to_owned();
        let body = schema(&CredentialSchema { json_schema: json_schema.clone(), ..Default::default() });
        assert_eq!((&body["json_schema"], &body["title"]), (&json_schema.into(), &"T".into()));
        assert!(body.get("description").is_none());
        assert_eq!(body["issuer_onboarding_mode"], Value::Null);
    }
}
