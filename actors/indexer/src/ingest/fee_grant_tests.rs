//! The time of the last change of a fee grant.

use std::collections::BTreeMap;

use prost::Message;
use prost_types::Any;
use serde_json::{Value, json};
use svc_wire::proto::cosmos::{
    base::v1beta1::Coin,
    feegrant::v1beta1::{AllowedMsgAllowance, BasicAllowance},
};

use super::{
    EntityReading,
    test_ingest::{TestIndex, TestTx, block_time, event},
};
use crate::{
    block::EntityRef,
    store::{EntityChange, EntityKind},
};

const POLICY: &str = "svc1policy";
const GRANTEE: &str = "svc1operator";

/// The node's answer about the allowance, with the rest of its limit, or without one.
fn allowance(rest: Option<u64>) -> (EntityRef, EntityReading) {
    let coin = |amount: u64| Coin { denom: "usvc".to_owned(), amount: amount.to_string() };
    let pack = |name: &str, value: Vec<u8>| Any { type_url: format!("/cosmos.feegrant.v1beta1.{name}"), value };
    let basic = BasicAllowance { spend_limit: rest.map(coin).into_iter().collect(), expiration: None };
    let filter = AllowedMsgAllowance {
        allowance: Some(pack("BasicAllowance", basic.encode_to_vec())),
        allowed_messages: vec!["/svc.di.v1.MsgStoreDigest".to_owned()],
    };
    let allowance = Some(pack("AllowedMsgAllowance", filter.encode_to_vec()));
    let (granter, grantee) = (POLICY.to_owned(), GRANTEE.to_owned());
    let entity = EntityRef::FeeAllowance { granter: granter.clone(), grantee: grantee.clone() };
    (entity, EntityReading::Allowance { granter, grantee, allowance })
}

fn corporation() -> (EntityRef, EntityReading) {
    let body = json!({"id": 1, "policy_address": POLICY, "did": "did:web:corporation.example", "versions": []});
    let change = EntityChange {
        corporation_id: Some(1),
        name: Some(POLICY.to_owned()),
        ..EntityChange::new(EntityKind::Corporation, Some(1), Some(body))
    };
    (EntityRef::Corporation(1), EntityReading::Change(Box::new(change)))
}

/// A transaction with an event of the allowance, which fees emit without a message.
fn tx(kind: &str) -> TestTx {
    TestTx { events: vec![event(kind, &[("granter", POLICY), ("grantee", GRANTEE)])], ..TestTx::default() }
}

#[tokio::test]
async fn the_use_of_a_fee_grant_changes_it_with_and_without_a_limit() {
    for (granted, rest) in [(Some(10), Some(7)), (None, None)] {
        let mut index = TestIndex::new().await;
        let created = TestTx {
            events: vec![event("create_corporation", &[("corporation_id", "1"), ("msg_index", "0")])],
            ..TestTx::default()
        };
        index.ingest(&[created], BTreeMap::from([corporation()])).await;
        index.ingest(&[tx("set_feegrant")], BTreeMap::from([allowance(granted)])).await;
        let changed_after = async |index: &TestIndex, height: u64| {
            let query = format!("grantee={GRANTEE}&modified_after={}", block_time(height));
            let found = index.read("de.listFeeGrants", &query).await["fee_grants"].clone();
            found.as_array().is_some_and(|grants| !grants.is_empty())
        };
        assert!(changed_after(&index, 1).await && !changed_after(&index, 2).await, "granted in block 2");
        index.ingest(&[TestTx::default()], BTreeMap::new()).await;
        assert!(!changed_after(&index, 2).await, "another block is no change");
        index.ingest(&[tx("use_feegrant")], BTreeMap::from([allowance(rest)])).await;
        assert!(changed_after(&index, 3).await && !changed_after(&index, 4).await, "used in block 4: {granted:?}");
        let grants = index.read("de.listFeeGrants", "").await["fee_grants"].clone();
        let amount = |member: &str| grants[0][member][0]["amount"].clone();
        let expected = |amount: Option<u64>| amount.map_or(Value::Null, |amount| amount.to_string().into());
        assert_eq!((amount("spend_limit"), amount("remaining_spend")), (expected(granted), expected(rest)));
        let log = index.read("indexer.listChanges", "").await["activity"].clone();
        let of_grant = log.as_array().expect("a list").iter().filter(|row| row["entity_type"] == "FeeGrant").count();
        assert_eq!(of_grant, usize::from(granted != rest), "a use without a change of members is no activity: {log}");
    }
}
