//! Many applicants in one block: the service's reader of events loses none.

use std::collections::{BTreeMap, BTreeSet};

use prost::Message as _;
use prost_types::Any;
use serde_json::Value;
use svc::network::ChainAndIndexer;
use svc_net::upstream::{BroadcastOutcome, NodeClient};
use svc_pipeline::query_account;
use svc_wire::{
    proto::{
        cosmos::base::v1beta1::Coin,
        svc::pp::v1::{MsgStartParticipantOp, MsgStartParticipantOpResponse, ParticipantRole},
    },
    proto_registry::NodeGeneration,
    tx::{SigningContext, UnsignedTx, decode_message_responses, tx_hash},
};

use crate::e2e::{
    agent::{document::login, validation::onboarding_service::registry::Registry},
    indexer::{MARKETPLACE_SCENARIO, await_indexed, config, onboarding_reader::OnboardingReader, read_ok},
};

/// Corporations with their operators and applicants; each sends one transaction. The fourth of the scenario is slashed.
const CORPORATIONS: [(&str, &str, usize); 3] =
    [("registry", "operator", 20), ("issuer", "issuer_operator", 10), ("verifier", "verifier_operator", 10)];
const APPLICANTS: usize = 40;
const PAGE: usize = 10;
const GAS: u64 = 20_000_000;

/// Broadcasts a transaction in which applicants of a corporation start.
async fn start_applicants(grounds: &ChainAndIndexer, place: usize, applicants: usize) {
    let (devnet, (corporation, operator, _)) = (&grounds.devnet, CORPORATIONS[place]);
    let account = &devnet.accounts[operator];
    let messages = (0..applicants).map(|number| {
        let start = MsgStartParticipantOp {
            corporation: devnet.address(corporation).to_owned(),
            operator: account.address.to_string(),
            role: ParticipantRole::Holder.into(),
            validator_participant_id: devnet.address("diploma_issuer").parse().expect("an id"),
            did: format!("did:web:{corporation}-{applicants}-{number}.example"),
            // Its record is a second event of the message.
            vs_operator: login::account(100 + u8::try_from(place).expect("small")),
            vs_operator_authz_msg_types: vec![devnet.namespace.type_url("pp", "MsgTriggerResolver")],
            ..MsgStartParticipantOp::default()
        };
        Any { type_url: devnet.namespace.type_url("pp", "MsgStartParticipantOP"), value: start.encode_to_vec() }
    });
    let node = NodeClient::new(devnet.node.origin()).expect("a client");
    let state = query_account(&node, account.address.as_str()).await.expect("answered").expect("an account");
    let unsigned = UnsignedTx {
        messages: messages.collect(),
        sequence: state.sequence,
        fee: vec![Coin { denom: devnet.denom.clone(), amount: (GAS / 40).to_string() }],
        gas_limit: GAS,
        fee_granter: Some(devnet.address(corporation).to_owned()),
        timeout_height: 0,
    };
    let context = SigningContext { chain_id: devnet.chain_id.clone(), account_number: state.number };
    let signed = unsigned.sign(&account.key, &context).expect("signed");
    assert_eq!(node.broadcast(&signed.bytes).await, Ok(BroadcastOutcome::Accepted));
}

/// Makes a block of the broadcast transactions; its height, and the participant that each message has made.
async fn make_block(grounds: &ChainAndIndexer) -> (u64, BTreeMap<(String, u64), u64>) {
    let block = grounds.devnet.node.produce_block().expect("a block");
    let mut made = BTreeMap::new();
    for (bytes, outcome) in block.txs.iter().zip(&block.tx_outcomes) {
        assert_eq!(outcome.code, 0, "{}", outcome.log);
        for (index, response) in (0..).zip(decode_message_responses(&outcome.data)) {
            let response = MsgStartParticipantOpResponse::decode(response.value.as_slice()).expect("a response");
            made.insert((tx_hash(bytes), index), response.participant_id);
        }
    }
    await_indexed(&grounds.indexer_origin(), block.height).await;
    (block.height, made)
}

/// The participants of the starts among events, by their messages.
fn started(events: &[Value]) -> BTreeMap<(String, u64), u64> {
    let starts = events.iter().filter(|event| event["event_type"] == "StartParticipantOP");
    let id = |event: &Value| event["payload"]["entity_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
    starts.map(|event| (OnboardingReader::message_of(event), id(event))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn forty_applicants_of_one_block_are_read_by_pages_of_ten_and_none_is_lost() {
    let mut config = config(MARKETPLACE_SCENARIO, None);
    // Older nodes refuse a second start of a corporation under the same validator.
    config.devnet.generation = NodeGeneration::N3;
    let grounds = ChainAndIndexer::launch(&config).await.expect("chain and indexer start");
    let origin = grounds.indexer_origin();
    let (before, none) = make_block(&grounds).await;
    assert!(none.is_empty());
    let filter = format!("&corporation_id={}", grounds.devnet.address("issuer_id"));
    let mut reader = OnboardingReader::new(&origin, &filter, PAGE).after(before);
    assert!(reader.read().await.is_empty());

    for (place, (_, _, applicants)) in CORPORATIONS.iter().enumerate() {
        start_applicants(&grounds, place, *applicants).await;
    }
    let (height, made) = make_block(&grounds).await;
    assert_eq!((made.len(), height), (APPLICANTS, before + 1));
    let page = read_ok(&origin, &format!("/v4/indexer/events?limit={PAGE}&after_block_height={before}{filter}")).await;
    assert!(page["count"].as_u64() >= Some(made.len() as u64), "the page ends with the block: {}", page["count"]);
    let read = reader.read().await;
    assert!(read.iter().all(|event| event["block_height"] == height));
    assert_eq!(started(&read), made, "every start, with the id of its participant");
    // The state of the registry agrees: each waits for the validator, under the DID of its event.
    let registry = Registry { origin: origin.clone() };
    let validator = grounds.devnet.address("diploma_issuer").parse().expect("an id");
    let waiting = registry.applicants_of(validator).await;
    assert!(waiting.is_superset(&made.values().copied().collect::<BTreeSet<_>>()), "{waiting:?}");
    for event in read.iter().filter(|event| event["event_type"] == "StartParticipantOP") {
        let id = event["payload"]["entity_id"].as_str().and_then(|id| id.parse().ok()).expect("an id");
        assert_eq!(registry.participant(id).await["did"], event["did"]);
    }

    // Nothing comes twice, and the next block comes alone.
    assert!(reader.read().await.is_empty());
    start_applicants(&grounds, 0, 1).await;
    let (_, made) = make_block(&grounds).await;
    assert_eq!((made.len(), started(&reader.read().await)), (1, made));
}
