//! What breaks, and when: drawn from a seeded generator, struck every few hundred milliseconds.

use std::{collections::BTreeMap, ops::Range, sync::Arc, time::Duration};

use prost::Message;
use rustix::process::Signal;
use serde_json::json;
use svc_devnet::{
    Devnet, GAS_PRICE_MICROS,
    ledger::query,
    node::{Faults, Garble, GarbleKind, Node, Refusal},
};
use svc_kit::upstream::{BroadcastOutcome, NodeClient};
use svc_wire::{
    key::AccountKey,
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        base::v1beta1::Coin,
    },
    tx::{SignContext, Unsigned},
};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::servers::Server;

/// Between two strikes, times the calm that is asked for.
const EVERY_MS: Range<u64> = 100..700;
const GAS_LIMIT: u64 = 200_000;
/// More than a transaction lives: some of those that wait expire.
const LONG_HOLD: u32 = 32;
const METHODS: [&str; 5] = ["broadcast_tx_sync", "", "tx", "abci_query", "status"];

type Strike = fn(&mut Chaos);

/// Each with its weight.
const KINDS: &[(&str, u32, Strike)] = &[
    ("dropped after CheckTx", 8, |chaos| {
        let count = chaos.rng.u32(1..=3);
        chaos.any().faults(|faults| faults.drop_after_check += count);
    }),
    ("dropped on recheck", 6, |chaos| {
        let count = chaos.rng.u32(1..=3);
        chaos.any().faults(|faults| faults.drop_on_recheck += count);
        chaos.nodes[0].faults(|faults| faults.hold_blocks += 1);
    }),
    ("blocks held empty", 6, |chaos| {
        let count = chaos.rng.u32(1..=6);
        chaos.nodes[0].faults(|faults| faults.hold_blocks += count);
    }),
    ("held past the timeout height", 1, |chaos| chaos.nodes[0].faults(|faults| faults.hold_blocks += LONG_HOLD)),
    ("block in reverse", 6, |chaos| {
        let count = chaos.rng.u32(1..=2);
        chaos.nodes[0].faults(|faults| faults.reorder_blocks += count);
    }),
    ("refused by CheckTx", 5, Chaos::refuse),
    ("mempool full", 4, |chaos| {
        chaos.during(300..2_000, |faults, _| faults.mempool_full = true, |faults| faults.mempool_full = false);
    }),
    ("simulations fail", 2, |chaos| {
        let text = "failed to execute message; message index: 0: out of order with gas used: '1'".to_owned();
        let count = chaos.rng.u32(1..=3);
        chaos.any().faults(|faults| faults.fail_simulations = Some((count, text)));
    }),
    ("simulations understate", 4, |chaos| {
        let on = |faults: &mut Faults, rng: &mut fastrand::Rng| faults.understate_gas_percent = rng.u64(30..75);
        chaos.during(300..1_500, on, |faults| faults.understate_gas_percent = 0);
    }),
    ("events lost", 5, |chaos| {
        let count = chaos.rng.u32(1..=5);
        chaos.any().faults(|faults| faults.lose_events += count);
    }),
    ("WebSockets stalled", 5, |chaos| {
        chaos.during(300..4_000, |faults, _| faults.stall_websockets = true, |faults| faults.stall_websockets = false);
    }),
    ("WebSockets cut", 6, |chaos| chaos.any().cut_websockets()),
    ("answers delayed", 5, |chaos| {
        let on = |faults: &mut Faults, rng: &mut fastrand::Rng| {
            faults.delay_ms = rng.u64(100..6_000);
            faults.delay_method = METHODS[rng.usize(..METHODS.len())].to_owned();
        };
        chaos.during(300..2_500, on, |faults| faults.delay_ms = 0);
    }),
    ("answers garbled", 9, Chaos::garble),
    ("replica behind", 4, |chaos| {
        let lag = chaos.rng.u64(1..12);
        let replica = chaos.nodes[1].clone();
        replica.faults(|faults| faults.lag_blocks = lag);
        chaos.later(500..6_000, async move { replica.faults(|faults| faults.lag_blocks = 0) });
    }),
    ("no gossip", 4, |chaos| {
        chaos.during(500..4_000, |faults, _| faults.no_gossip = true, |faults| faults.no_gossip = false);
    }),
    ("node down", 4, |chaos| {
        let node = chaos.any();
        node.stop();
        chaos.later(50..2_000, async move { start(&node).await });
    }),
    ("foreign use of the key", 8, Chaos::foreign),
    ("tool server: SIGKILL", 3, |chaos| chaos.end_tools(Signal::KILL)),
    ("tool server: SIGTERM", 2, |chaos| chaos.end_tools(Signal::TERM)),
    ("indexer: SIGKILL", 2, |chaos| {
        let (server, down) = (Arc::clone(&chaos.indexer), Duration::from_millis(chaos.rng.u64(..4_000)));
        chaos.struck_when("indexer: SIGKILL", async move { server.end(Signal::KILL, down).await });
    }),
];

/// Kinds that count only when they have come about.
const UNCERTAIN: [&str; 4] =
    ["foreign use of the key", "tool server: SIGKILL", "tool server: SIGTERM", "indexer: SIGKILL"];

/// How often each kind was struck.
pub type Struck = BTreeMap<&'static str, u64>;

/// Who breaks things.
pub struct Chaos {
    nodes: [Node; 2],
    tools: Arc<Server>,
    indexer: Arc<Server>,
    key: AccountKey,
    address: String,
    rng: fastrand::Rng,
    tasks: JoinSet<Option<&'static str>>,
    struck: Struck,
    calm: u64,
}

/// The port may still be in use for a moment.
async fn start(node: &Node) {
    while node.start().is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}

impl Chaos {
    /// The first node makes the blocks, the second follows it.
    pub fn new(
        devnet: &Devnet,
        nodes: [Node; 2],
        tools: Arc<Server>,
        indexer: Arc<Server>,
        rng: fastrand::Rng,
        calm: u64,
    ) -> Self {
        let seat = devnet.seat.as_ref().expect("a seat");
        let key = AccountKey::from_mnemonic(&devnet.accounts[&seat.operator_name].phrase).expect("a key");
        let address = seat.operator_address.clone();
        Self { nodes, tools, indexer, key, address, rng, tasks: JoinSet::new(), struck: Struck::new(), calm }
    }

    /// Strikes until told to stop, then repairs everything.
    pub async fn run(mut self, calm: CancellationToken) -> Struck {
        let weights: u32 = KINDS.iter().map(|(_, weight, _)| weight).sum();
        loop {
            let pause = Duration::from_millis(self.calm * self.rng.u64(EVERY_MS));
            tokio::select! {
                () = calm.cancelled() => break,
                () = sleep(pause) => {}
            }
            let mut drawn = self.rng.u32(..weights);
            let chosen = KINDS.iter().find(|(_, weight, _)| {
                let is_it = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                is_it
            });
            let Some((name, _, strike)) = chosen else { continue };
            strike(&mut self);
            if !UNCERTAIN.contains(name) {
                *self.struck.entry(name).or_default() += 1;
            }
            while let Some(ended) = self.tasks.try_join_next() {
                self.count(ended.expect("a fault ends well"));
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            self.count(ended.expect("a fault ends well"));
        }
        for node in &self.nodes {
            start(node).await;
            node.faults(|faults| *faults = Faults::default());
        }
        self.struck
    }

    fn count(&mut self, struck: Option<&'static str>) {
        if let Some(name) = struck {
            *self.struck.entry(name).or_default() += 1;
        }
    }

    fn any(&mut self) -> Node {
        // The tool server prefers the first.
        self.nodes[usize::from(self.rng.u8(..3) == 0)].clone()
    }

    fn later(&mut self, millis: Range<u64>, then: impl Future<Output = ()> + Send + 'static) {
        let span = Duration::from_millis(self.rng.u64(millis));
        self.tasks.spawn(async move {
            sleep(span).await;
            then.await;
            None
        });
    }

    fn during(&mut self, millis: Range<u64>, on: impl FnOnce(&mut Faults, &mut fastrand::Rng), off: fn(&mut Faults)) {
        let node = self.any();
        node.faults(|faults| on(faults, &mut self.rng));
        self.later(millis, async move { node.faults(off) });
    }

    fn struck_when(&mut self, name: &'static str, strike: impl Future<Output = bool> + Send + 'static) {
        self.tasks.spawn(async move { strike.await.then_some(name) });
    }

    fn refuse(&mut self) {
        // What a node says by itself: its mempool, its cache, its own minimum of fees, a sequence it does not name, a grant.
        let (code, log) = match self.rng.u8(..6) {
            0 => (19, "tx already in mempool"),
            1 => (13, "insufficient fees; got: 1usvc required: 2usvc: insufficient fee"),
            2 => (32, "incorrect account sequence"),
            3 => (38, "fee-grant not found: not found"),
            4 => (4, "signature verification failed: unauthorized"),
            _ => (20, "mempool is full"),
        };
        let times = self.rng.u32(1..=3);
        let refusal = Refusal { times, codespace: "sdk".to_owned(), code, log: log.to_owned() };
        self.any().faults(|faults| faults.refuse = Some(refusal));
    }

    fn garble(&mut self) {
        let how = match self.rng.u8(..5) {
            0 => GarbleKind::Malformed,
            1 => GarbleKind::WrongId,
            2 => GarbleKind::Html,
            3 => GarbleKind::Empty,
            _ => GarbleKind::Cut,
        };
        let (times, method) = (self.rng.u32(1..=4), METHODS[self.rng.usize(..METHODS.len())].to_owned());
        self.any().faults(|faults| faults.garble = Some(Garble { times, method, how }));
    }

    fn end_tools(&mut self, signal: Signal) {
        let (server, down) = (Arc::clone(&self.tools), Duration::from_millis(self.rng.u64(..800)));
        let name = if signal == Signal::KILL { "tool server: SIGKILL" } else { "tool server: SIGTERM" };
        self.struck_when(name, async move { server.end(signal, down).await });
    }

    /// A second program sends coins of the operator to itself, at the sequence that is next as far as the node knows.
    fn foreign(&mut self) {
        let node = self.any();
        let request = QueryAccountInfoRequest { address: self.address.clone() };
        let (info, waiting, chain) = node.inspect(|core| {
            let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
            let bytes = query(core.state(), &core.chain, core.context(), path, &request.encode_to_vec());
            let reply = QueryAccountInfoResponse::decode(bytes.expect("queried").as_slice()).expect("decodes");
            (reply.info.unwrap_or_default(), core.waiting().len() as u64, core.chain.clone())
        });
        let coins = json!([{"denom": chain.denom, "amount": "1"}]);
        let send = json!({"from_address": self.address, "to_address": self.address, "amount": coins});
        let url = "/cosmos.bank.v1beta1.MsgSend";
        let value = chain.registry.encode(url, &send).expect("encodes");
        let unsigned = Unsigned {
            messages: vec![prost_types::Any { type_url: url.to_owned(), value }],
            sequence: info.sequence + waiting,
            fee: vec![Coin { denom: chain.denom, amount: (GAS_LIMIT * GAS_PRICE_MICROS / 1_000_000).to_string() }],
            gas_limit: GAS_LIMIT,
            granter: None,
            timeout_height: 0,
        };
        let context = SignContext { chain_id: chain.chain_id, account_number: info.account_number };
        let signed = unsigned.sign(&self.key, &context).expect("signs");
        let client = NodeClient::new(node.origin()).expect("a client");
        self.struck_when("foreign use of the key", async move {
            matches!(client.broadcast(&signed.bytes).await, Ok(BroadcastOutcome::Accepted))
        });
    }
}
