//! From the chain's entities to the indexer's JSON. Pure.
//!
//! Fields that come from modules this indexer does not follow yet (participant counts, trust deposits) are absent: a zero
//! would be a claim.

use prost::Message;
use prost_types::Timestamp;
use serde_json::{Map, Value, json};
use svc_wire::{
    instant::{duration_text, iso_millis},
    proto::{
        cosmos::{
            base::v1beta1::Coin,
            feegrant::v1beta1::{AllowedMsgAllowance, BasicAllowance, PeriodicAllowance},
        },
        svc::{
            co::v1::CorporationWithGf,
            de::v1::{OperatorAuthorization, VsOperatorAuthorization},
            ec::v1::EcosystemWithVersions,
            gf::v1::GovernanceFrameworkVersionWithDocs,
        },
    },
};

fn millis(instant: Option<&Timestamp>) -> Value {
    instant.map_or(Value::Null, |instant| iso_millis(instant).into())
}

fn coins(coins: &[Coin]) -> Value {
    coins.iter().map(|coin| json!({"denom": coin.denom, "amount": coin.amount})).collect()
}

pub fn corporation(entity: &CorporationWithGf) -> Value {
    let versions: Vec<Value> = entity.versions.iter().map(corporation_version).collect();
    json!({
        "id": entity.id, "did": entity.did, "policy_address": entity.policy_address, "language": entity.language,
        "active_version": entity.active_version, "created": millis(entity.created.as_ref()),
        "modified": millis(entity.modified.as_ref()), "versions": versions,
    })
}

/// Row keys are the ledger's own keys here, so both spellings of each key agree.
fn corporation_version(version: &GovernanceFrameworkVersionWithDocs) -> Value {
    let documents: Vec<Value> = version
        .documents
        .iter()
        .map(|document| {
            json!({
                "id": document.id, "gfv_id": document.gfv_id, "language": document.language, "url": document.url,
                "digest_sri": document.digest_sri, "created": millis(document.created.as_ref()), "gfd_id": document.id,
            })
        })
        .collect();
    json!({
        "id": version.id, "corporation_id": version.corporation_id, "ecosystem_id": null, "version": version.version,
        "created": millis(version.created.as_ref()), "active_since": millis(version.active_since.as_ref()),
        "gfv_id": version.id, "documents": documents,
    })
}

/// `before` is the entity's previous version: the chain keeps only a flag, the indexer the time since when.
pub fn ecosystem(entity: &EcosystemWithVersions, before: Option<&Value>) -> Value {
    let since = before.and_then(|before| before.get("archived")).filter(|since| !since.is_null()).cloned();
    let archived =
        if entity.archived { since.unwrap_or_else(|| millis(entity.modified.as_ref())) } else { Value::Null };
    let versions: Vec<Value> = entity.versions.iter().map(ecosystem_version).collect();
    json!({
        "id": entity.id, "did": entity.did, "corporation_id": entity.corporation_id,
        "created": millis(entity.created.as_ref()), "modified": millis(entity.modified.as_ref()), "archived": archived,
        "language": entity.language, "active_version": entity.active_version, "versions": versions,
    })
}

fn ecosystem_version(version: &GovernanceFrameworkVersionWithDocs) -> Value {
    let documents: Vec<Value> = version
        .documents
        .iter()
        .map(|document| {
            json!({
                "id": document.id, "gfv_id": document.gfv_id, "created": millis(document.created.as_ref()),
                "language": document.language, "url": document.url, "digest_sri": document.digest_sri,
            })
        })
        .collect();
    json!({
        "id": version.id, "ecosystem_id": version.ecosystem_id, "created": millis(version.created.as_ref()),
        "version": version.version, "active_since": millis(version.active_since.as_ref()), "documents": documents,
    })
}

/// Optional members are absent, not null.
fn put_limits(object: &mut Map<String, Value>, limits: [(&str, &[Coin]); 2]) {
    for (name, limit) in limits {
        if !limit.is_empty() {
            object.insert(name.to_owned(), coins(limit));
        }
    }
}

fn put_times(object: &mut Map<String, Value>, expiration: Option<&Timestamp>, period: Option<&prost_types::Duration>) {
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
    put_limits(&mut object, [("spend_limit", &entity.spend_limit), ("remaining_spend", &entity.remaining_spend)]);
    put_times(&mut object, entity.expiration.as_ref(), entity.period.as_ref());
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
            put_limits(
                &mut object,
                [("spend_limit", &record.spend_limit), ("remaining_spend", &record.remaining_spend)],
            );
            put_limits(
                &mut object,
                [("fee_spend_limit", &record.fee_spend_limit), ("remaining_fee_spend", &record.remaining_fee_spend)],
            );
            object.insert("with_feegrant".to_owned(), record.with_feegrant.into());
            put_times(&mut object, record.expiration.as_ref(), record.period.as_ref());
            Value::Object(object)
        })
        .collect();
    json!({
        "id": entity.id, "corporation_id": entity.corporation_id, "vs_operator": entity.vs_operator, "records": records,
    })
}

/// A fee grant without its id, from the live allowance. A basic allowance holds only what is left of its limit: the limit
/// itself is known from the block that granted it (`is_new`), later from `before`.
pub fn fee_grant(
    corporation_id: u64,
    grantee: &str,
    allowance: &prost_types::Any,
    before: Option<&Value>,
    is_new: bool,
) -> Option<Value> {
    let filter = AllowedMsgAllowance::decode(allowance.value.as_slice()).ok()?;
    let inner = filter.allowance?;
    let mut object = Map::new();
    object.insert("grantor_corporation_id".to_owned(), corporation_id.into());
    object.insert("grantee".to_owned(), grantee.into());
    object.insert("msg_types".to_owned(), filter.allowed_messages.into());
    match inner.type_url.as_str() {
        "/cosmos.feegrant.v1beta1.PeriodicAllowance" => {
            let periodic = PeriodicAllowance::decode(inner.value.as_slice()).ok()?;
            put_limits(
                &mut object,
                [("spend_limit", &periodic.period_spend_limit), ("remaining_spend", &periodic.period_can_spend)],
            );
            put_times(
                &mut object,
                periodic.basic.and_then(|basic| basic.expiration).as_ref(),
                periodic.period.as_ref(),
            );
        }
        _ => {
            let basic = BasicAllowance::decode(inner.value.as_slice()).ok()?;
            put_limits(&mut object, [("remaining_spend", &basic.spend_limit), ("spend_limit", &basic.spend_limit)]);
            let known = before.filter(|_| !is_new).and_then(|before| before.get("spend_limit"));
            if let Some(known) = known {
                object.insert("spend_limit".to_owned(), known.clone());
            }
            put_times(&mut object, basic.expiration.as_ref(), None);
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
    fn a_basic_allowance_remembers_the_limit_it_started_with() {
        let granted = fee_grant(1, "o", &basic("10"), None, true).expect("a grant");
        let spent = fee_grant(1, "o", &basic("7"), Some(&granted), false).expect("a grant");
        assert_eq!(spent["spend_limit"][0]["amount"], "10");
        assert_eq!(spent["remaining_spend"][0]["amount"], "7");
        let renewed = fee_grant(1, "o", &basic("9"), Some(&spent), true).expect("a grant");
        assert_eq!(renewed["spend_limit"][0]["amount"], "9");
        assert!(renewed.get("expiration").is_none(), "absent, not null");
    }

    #[test]
    fn archiving_is_dated_and_keeps_its_date() {
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        let mut entity = EcosystemWithVersions { archived: true, modified: at(10), ..Default::default() };
        let first = ecosystem(&entity, None);
        assert_eq!(first["archived"], "1970-01-01T00:00:10.000Z");
        entity.modified = at(20);
        assert_eq!(ecosystem(&entity, Some(&first))["archived"], first["archived"]);
        entity.archived = false;
        assert_eq!(ecosystem(&entity, Some(&first))["archived"], Value::Null);
    }
}
