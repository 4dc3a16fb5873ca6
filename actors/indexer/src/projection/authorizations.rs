//! Projections of authorizations and fee grants. Optional members are absent, not null.

use prost::Message;
use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use svc_wire::{
    proto::{
        cosmos::{
            base::v1beta1::Coin,
            feegrant::v1beta1::{AllowedMsgAllowance, BasicAllowance, PeriodicAllowance},
        },
        svc::de::v1::{OperatorAuthorization, VsOperatorAuthorization},
    },
    timestamp::{duration_text, iso_millis},
};

fn coins_json(coins: &[Coin]) -> Value {
    coins.iter().map(|coin| json!({"denom": coin.denom, "amount": coin.amount})).collect()
}

fn insert_limits(object: &mut Map<String, Value>, limits: [(&str, &[Coin]); 2]) {
    for (name, limit) in limits {
        if !limit.is_empty() {
            object.insert(name.to_owned(), coins_json(limit));
        }
    }
}

fn insert_times(
    object: &mut Map<String, Value>,
    expiration: Option<&Timestamp>,
    period: Option<&prost_types::Duration>,
) {
    if let Some(expiration) = expiration {
        object.insert("expiration".to_owned(), iso_millis(expiration).into());
    }
    if let Some(period) = period {
        object.insert("period".to_owned(), duration_text(period).into());
    }
}

pub fn operator_authorization(entity: &OperatorAuthorization) -> Value {
    let mut object = Map::new();
    object.insert("id".to_owned(), entity.id.into());
    object.insert("corporation_id".to_owned(), entity.corporation_id.into());
    object.insert("operator".to_owned(), entity.operator.as_str().into());
    object.insert("msg_types".to_owned(), entity.msg_types.clone().into());
    insert_limits(&mut object, [("spend_limit", &entity.spend_limit), ("remaining_spend", &entity.remaining_spend)]);
    insert_times(&mut object, entity.expiration.as_ref(), entity.period.as_ref());
    Value::Object(object)
}

pub fn vs_operator_authorization(entity: &VsOperatorAuthorization) -> Value {
    let records: Vec<Value> = entity
        .records
        .iter()
        .map(|record| {
            let mut object = Map::new();
            object.insert("participant_id".to_owned(), record.participant_id.into());
            object.insert("msg_types".to_owned(), record.msg_types.clone().into());
            insert_limits(
                &mut object,
                [("spend_limit", &record.spend_limit), ("remaining_spend", &record.remaining_spend)],
            );
            insert_limits(
                &mut object,
                [("fee_spend_limit", &record.fee_spend_limit), ("remaining_fee_spend", &record.remaining_fee_spend)],
            );
            object.insert("with_feegrant".to_owned(), record.with_feegrant.into());
            insert_times(&mut object, record.expiration.as_ref(), record.period.as_ref());
            Value::Object(object)
        })
        .collect();
    json!({
        "id": entity.id, "corporation_id": entity.corporation_id, "vs_operator": entity.vs_operator, "records": records,
    })
}

/// Whether an authorization has a record as releases before spend cycles store it: with the rest of a limit of fees, or with an end of its own.
pub fn has_older_record(body: &Value) -> bool {
    let is_older = |record: &Value| {
        let has = |member: &str| record.get(member).is_some();
        has("remaining_fee_spend") || (has("expiration") && !has("period"))
    };
    body["records"].as_array().is_some_and(|records| records.iter().any(is_older))
}

/// Returns a fee grant without its id, from the current allowance. A basic allowance contains only the rest of its
/// limit. The limit itself comes from the block that granted the allowance (`is_new`), later from `before`.
pub fn fee_grant(
    corporation_id: u64,
    grantee: &str,
    allowance: &prost_types::Any,
    before: Option<&Value>,
    is_new: bool,
) -> Option<Value> {
    if !allowance.type_url.ends_with(".AllowedMsgAllowance") {
        return None;
    }
    let filter = AllowedMsgAllowance::decode(allowance.value.as_slice()).ok()?;
    let inner = filter.allowance?;
    let mut object = Map::new();
    object.insert("grantor_corporation_id".to_owned(), corporation_id.into());
    object.insert("grantee".to_owned(), grantee.into());
    object.insert("msg_types".to_owned(), filter.allowed_messages.into());
    match inner.type_url.as_str() {
        "/cosmos.feegrant.v1beta1.PeriodicAllowance" => {
            let periodic = PeriodicAllowance::decode(inner.value.as_slice()).ok()?;
            insert_limits(
                &mut object,
                [("spend_limit", &periodic.period_spend_limit), ("remaining_spend", &periodic.period_can_spend)],
            );
            // A periodic allowance is shown with the end of its period, when it is full again.
            insert_times(&mut object, periodic.period_reset.as_ref(), periodic.period.as_ref());
        }
        _ => {
            let basic = BasicAllowance::decode(inner.value.as_slice()).ok()?;
            insert_limits(&mut object, [("remaining_spend", &basic.spend_limit), ("spend_limit", &basic.spend_limit)]);
            let known = before.filter(|_| !is_new).and_then(|before| before.get("spend_limit"));
            if let Some(known) = known {
                object.insert("spend_limit".to_owned(), known.clone());
            }
            insert_times(&mut object, basic.expiration.as_ref(), None);
        }
    }
    Some(Value::Object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn basic(amount: &str) -> prost_types::Any {
        let coin = Coin { denom: "usvc".into(), amount: amount.into() };
        let inner = BasicAllowance { spend_limit: vec![coin], expiration: None };
        let pack = |url: &str, value| prost_types::Any { type_url: url.into(), value };
        let inner = pack("/cosmos.feegrant.v1beta1.BasicAllowance", inner.encode_to_vec());
        let filter = AllowedMsgAllowance { allowance: Some(inner), allowed_messages: vec!["/a".into()] };
        pack("/cosmos.feegrant.v1beta1.AllowedMsgAllowance", filter.encode_to_vec())
    }

    #[test]
    fn a_record_of_a_release_before_spend_cycles_is_told_by_its_members() {
        let coins = json!([{"denom": "usvc", "amount": "1"}]);
        for (record, is_older) in [
            (json!({}), false),
            (json!({"spend_limit": coins, "remaining_spend": coins, "fee_spend_limit": coins}), false),
            (json!({"expiration": "2027-01-01T00:00:00.000Z", "period": "60s"}), false),
            (json!({"expiration": "2027-01-01T00:00:00.000Z"}), true),
            (json!({"remaining_fee_spend": coins, "period": "60s"}), true),
        ] {
            let body = json!({"records": [{}, record]});
            assert_eq!(has_older_record(&body), is_older, "{body}");
        }
        assert!(!has_older_record(&json!({})));
    }

    #[test]
    fn a_basic_allowance_keeps_its_initial_limit() {
        let granted = fee_grant(1, "o", &basic("10"), None, true).expect("a grant");
        let spent = fee_grant(1, "o", &basic("7"), Some(&granted), false).expect("a grant");
        assert_eq!(spent["spend_limit"][0]["amount"], "10");
        assert_eq!(spent["remaining_spend"][0]["amount"], "7");
        let renewed = fee_grant(1, "o", &basic("9"), Some(&spent), true).expect("a grant");
        assert_eq!(renewed["spend_limit"][0]["amount"], "9");
        assert!(renewed.get("expiration").is_none(), "absent, not null");
    }

    #[test]
    fn a_periodic_allowance_has_the_rest_of_its_period_and_the_next_reset() {
        let coins = |amount: u64| {
            let coin = Coin { denom: "usvc".into(), amount: amount.to_string() };
            if amount == 0 { Vec::new() } else { vec![coin] }
        };
        let pack = |url: &str, value| prost_types::Any { type_url: url.into(), value };
        let periodic = |left: u64, reset: i64| {
            let inner = PeriodicAllowance {
                basic: Some(BasicAllowance::default()),
                period: Some(prost_types::Duration { seconds: 86_400, nanos: 0 }),
                period_spend_limit: coins(10),
                period_can_spend: coins(left),
                period_reset: Some(Timestamp { seconds: reset, nanos: 0 }),
            };
            let inner = pack("/cosmos.feegrant.v1beta1.PeriodicAllowance", inner.encode_to_vec());
            let filter = AllowedMsgAllowance { allowance: Some(inner), allowed_messages: vec!["/a".into()] };
            pack("/cosmos.feegrant.v1beta1.AllowedMsgAllowance", filter.encode_to_vec())
        };
        let mut before = None;
        // Granted, used twice, used in the next period, and granted again.
        for (left, reset, is_new, expected) in [
            (10, 0, true, json!("10")),
            (3, 0, false, json!("3")),
            (0, 0, false, Value::Null),
            (9, 86_400, false, json!("9")),
            (10, 86_460, true, json!("10")),
        ] {
            let grant = fee_grant(1, "o", &periodic(left, reset), before.as_ref(), is_new).expect("a grant");
            assert_eq!(grant["spend_limit"][0]["amount"], "10", "{grant}");
            assert_eq!(grant["remaining_spend"][0]["amount"], expected, "{grant}");
            assert_eq!(grant["expiration"], iso_millis(&Timestamp { seconds: reset, nanos: 0 }), "{grant}");
            before = Some(grant);
        }
    }
}
