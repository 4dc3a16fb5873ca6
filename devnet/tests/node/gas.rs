//! The gas of messages, beside that of a real node.

use std::collections::BTreeMap;

use prost::Message;
use serde_json::json;
use svc_devnet::scenario::Scenario;
use svc_wire::proto::cosmos::tx::v1beta1::{AuthInfo, TxBody, TxRaw};

use super::harness::devnet;

/// Gas that a real node used for a message, with a fee allowance as payer.
const NODE_GAS: [(&str, u64); 22] = [
    ("co.v1.MsgUpdateCorporation", 130_859),
    ("ec.v1.MsgCreateEcosystem", 154_814),
    ("ec.v1.MsgUpdateEcosystem", 129_446),
    ("ec.v1.MsgArchiveEcosystem", 124_669),
    ("gf.v1.MsgAddGovernanceFrameworkDocument", 143_560),
    ("gf.v1.MsgIncreaseActiveGovernanceFrameworkVersion", 132_539),
    ("cs.v1.MsgCreateCredentialSchema", 141_235),
    ("cs.v1.MsgUpdateCredentialSchema", 136_181),
    ("cs.v1.MsgArchiveCredentialSchema", 135_203),
    ("pp.v1.MsgCreateRootParticipant", 138_829),
    ("pp.v1.MsgStartParticipantOP", 197_145),
    ("pp.v1.MsgCancelParticipantOPLastRequest", 155_247),
    ("pp.v1.MsgSetParticipantOPToValidated", 191_934),
    ("pp.v1.MsgRenewParticipantOP", 192_369),
    ("pp.v1.MsgSetParticipantEffectiveUntil", 137_397),
    ("pp.v1.MsgSelfCreateParticipant", 138_199),
    ("pp.v1.MsgSlashParticipantTrustDeposit", 157_091),
    ("pp.v1.MsgRepayParticipantSlashedTrustDeposit", 167_645),
    ("pp.v1.MsgTriggerResolver", 120_701),
    ("di.v1.MsgStoreDigest", 126_079),
    ("de.v1.MsgGrantOperatorAuthorization", 138_365),
    ("de.v1.MsgRevokeOperatorAuthorization", 127_662),
];

/// Messages of which the scenario has another kind than the one that was measured: an end without the rights of an agent.
const OTHERS: [&str; 1] = ["pp.v1.MsgSetParticipantEffectiveUntil"];

#[tokio::test]
async fn messages_use_the_gas_of_a_real_node() {
    let devnet = devnet("marketplace").await;
    let seeded = devnet.node.read_core(|core| core.height());
    let end: Scenario = serde_json::from_value(json!({
        "description": "an end",
        "step": [{"name": "end", "signer": "issuer_operator", "granter": "issuer", "messages": [{
            "type": "pp.MsgSetParticipantEffectiveUntil",
            "value": {"corporation": "$issuer", "operator": "$issuer_operator", "id": "$badge_issuer", "effective_until": "$now+2592000s"},
        }]}],
    }))
    .expect("a scenario");
    devnet.run_steps(&end).await.expect("ended");
    let mut used: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    devnet.node.read_core(|core| {
        for block in core.blocks() {
            for (bytes, outcome) in block.txs.iter().zip(&block.tx_outcomes) {
                let raw = TxRaw::decode(bytes.as_slice()).expect("a transaction");
                let body = TxBody::decode(raw.body_bytes.as_slice()).expect("a body");
                let auth = AuthInfo::decode(raw.auth_info_bytes.as_slice()).expect("an auth info");
                let [message] = &body.messages[..] else { continue };
                let name = message.type_url.trim_start_matches("/svc.");
                let is_measured = block.height > seeded || !OTHERS.contains(&name);
                if outcome.code == 0 && is_measured && auth.fee.is_some_and(|fee| !fee.granter.is_empty()) {
                    used.entry(name.to_owned()).or_default().push(outcome.gas_used);
                }
            }
        }
    });
    for (name, node) in NODE_GAS {
        let found = used.get_mut(name).unwrap_or_else(|| panic!("the scenario sends no {name}"));
        found.sort_unstable();
        let median = found[(found.len() - 1) / 2];
        assert!(median.abs_diff(node) * 10 <= node, "{name} uses {median}, a node {node}: of {found:?}");
    }
}
