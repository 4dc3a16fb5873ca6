//! A seeded generator chooses a fault every few hundred milliseconds.

use std::{collections::BTreeMap, ops::Range, path::PathBuf, sync::Arc, time::Duration};

use prost::Message;
use rustix::process::Signal;
use serde_json::json;
use svc_devnet::{
    Devnet,
    node::{CheckTxRefusal, GarbleFault, GarbleKind, Node, NodeFaults, NodeLies},
    scenario::GAS_PRICE_MICROS,
};
use svc_ledger::query;
use svc_net::upstream::{BroadcastOutcome, NodeClient};
use svc_test_support::small_disk;
use svc_wire::{
    account_key::AccountKey,
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        base::v1beta1::Coin,
    },
    tx::{SigningContext, UnsignedTx},
};
use tokio::{task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use crate::{SoakPlan, server_processes::ServerProcess, writer_pool::WriterPool};

/// Between two strikes, times the calm that is asked for.
const PAUSE_MS: Range<u64> = 100..700;
const GAS_LIMIT: u64 = 200_000;
/// More than a transaction lives: some of those that wait expire.
const EXPIRY_BLOCKS: u32 = 32;
const METHODS: [&str; 5] = ["broadcast_tx_sync", "", "tx", "abci_query", "status"];

type FaultAction = fn(&mut FaultInjector);

/// A kind of faults, with its weight.
pub type FaultKind = (&'static str, u32, FaultAction);

const FAULT_KINDS: &[FaultKind] = &[
    ("dropped after CheckTx", 8, |chaos| {
        let count = chaos.rng.u32(1..=3);
        chaos.random_node().update_faults(|faults| faults.drop_after_check += count);
    }),
    ("dropped on recheck", 6, |chaos| {
        let count = chaos.rng.u32(1..=3);
        chaos.random_node().update_faults(|faults| faults.drop_on_recheck += count);
        chaos.targets.nodes[0].update_faults(|faults| faults.hold_blocks += 1);
    }),
    ("blocks held empty", 6, |chaos| {
        let count = chaos.rng.u32(1..=6);
        chaos.targets.nodes[0].update_faults(|faults| faults.hold_blocks += count);
    }),
    ("held past the timeout height", 1, |chaos| {
        chaos.targets.nodes[0].update_faults(|faults| faults.hold_blocks += EXPIRY_BLOCKS)
    }),
    ("block in reverse", 6, |chaos| {
        let count = chaos.rng.u32(1..=2);
        chaos.targets.nodes[0].update_faults(|faults| faults.reorder_blocks += count);
    }),
    ("refused by CheckTx", 5, FaultInjector::refuse_broadcasts),
    ("mempool full", 4, |chaos| {
        chaos.apply_for(300..2_000, |faults, _| faults.mempool_full = true, |faults| faults.mempool_full = false);
    }),
    ("simulations fail", 2, |chaos| {
        let text = "failed to execute message; message index: 0: out of order with gas used: '1'".to_owned();
        let count = chaos.rng.u32(1..=3);
        chaos.random_node().update_faults(|faults| faults.fail_simulations = Some((count, text)));
    }),
    ("simulations understate", 4, |chaos| {
        let on = |faults: &mut NodeFaults, rng: &mut fastrand::Rng| faults.understate_gas_percent = rng.u64(30..75);
        chaos.apply_for(300..1_500, on, |faults| faults.understate_gas_percent = 0);
    }),
    ("events lost", 5, |chaos| {
        let count = chaos.rng.u32(1..=5);
        chaos.random_node().update_faults(|faults| faults.lose_events += count);
    }),
    ("WebSockets stalled", 5, |chaos| {
        chaos.apply_for(
            300..4_000,
            |faults, _| faults.stall_websockets = true,
            |faults| faults.stall_websockets = false,
        );
    }),
    ("WebSockets cut", 6, |chaos| chaos.random_node().cut_websockets()),
    ("answers delayed", 5, |chaos| {
        let on = |faults: &mut NodeFaults, rng: &mut fastrand::Rng| {
            faults.delay_ms = rng.u64(100..6_000);
            faults.delay_method = METHODS[rng.usize(..METHODS.len())].to_owned();
        };
        chaos.apply_for(300..2_500, on, |faults| faults.delay_ms = 0);
    }),
    ("answers garbled", 9, FaultInjector::garble_answers),
    ("replica behind", 4, |chaos| {
        let lag = chaos.rng.u64(1..12);
        let replica = chaos.targets.nodes[1].clone();
        replica.update_faults(|faults| faults.lag_blocks = lag);
        chaos.schedule_repair(500..6_000, async move { replica.update_faults(|faults| faults.lag_blocks = 0) });
    }),
    ("no gossip", 4, |chaos| {
        chaos.apply_for(500..4_000, |faults, _| faults.no_gossip = true, |faults| faults.no_gossip = false);
    }),
    ("node down", 4, |chaos| {
        let node = chaos.random_node();
        // A node that dies between commit and indexing never indexes the block.
        node.update_faults(|faults| {
            (faults.unindexed_blocks, faults.starts_like_a_node) = (faults.unindexed_blocks + 1, true)
        });
        node.stop();
        chaos.schedule_repair(50..2_000, async move { start_node(&node).await });
    }),
    ("node has just started", 3, |chaos| {
        chaos.random_node().update_faults(|faults| faults.has_just_started = true);
    }),
    ("results come late", 3, |chaos| {
        let on = |faults: &mut NodeFaults, rng: &mut fastrand::Rng| faults.late_results_ms = rng.u64(20..400);
        chaos.apply_for(300..4_000, on, |faults| faults.late_results_ms = 0);
    }),
    ("block missing in the index", 4, |chaos| {
        let count = chaos.rng.u32(1..=2);
        chaos.random_node().update_faults(|faults| (faults.unindexed_blocks, faults.lose_events) = (count, count));
    }),
    ("lies about height, time and sequence", 5, |chaos| {
        let on = |faults: &mut NodeFaults, rng: &mut fastrand::Rng| match rng.u8(..3) {
            0 => faults.lies.height_ahead = rng.u64(1..100_000),
            1 => faults.lies.seconds_ahead = rng.u32(1..100_000),
            _ => faults.lies.sequence_ahead = rng.u64(1..20),
        };
        chaos.apply_for(300..4_000, on, |faults| faults.lies = NodeLies::default());
    }),
    ("foreign use of the key", 8, FaultInjector::use_key_elsewhere),
    ("disk of the records full", 3, |chaos| chaos.fill_disk(&Arc::clone(&chaos.targets.tools))),
    ("disk of the index full", 2, |chaos| chaos.fill_disk(&Arc::clone(&chaos.targets.indexer))),
    ("files of the journal vanish", 1, FaultInjector::remove_journal),
    ("tool server: SIGKILL", 3, |chaos| chaos.end_tool_server(Signal::KILL)),
    ("tool server: SIGTERM", 2, |chaos| chaos.end_tool_server(Signal::TERM)),
    ("indexer: SIGKILL", 2, |chaos| {
        let (server, down) = (Arc::clone(&chaos.targets.indexer), Duration::from_millis(chaos.rng.u64(..4_000)));
        chaos.count_if("indexer: SIGKILL", async move { server.restart(Signal::KILL, down).await });
    }),
];

/// Kinds that count only when they have come about.
const CONDITIONAL_KINDS: [&str; 5] = [
    "foreign use of the key",
    "files of the journal vanish",
    "tool server: SIGKILL",
    "tool server: SIGTERM",
    "indexer: SIGKILL",
];

/// How often each kind was struck.
pub type FaultCounts = BTreeMap<&'static str, u64>;

/// Everything that can break.
pub struct FaultTargets {
    /// The first makes the blocks, the second follows it.
    pub nodes: [Node; 2],
    pub tools: Arc<ServerProcess>,
    pub indexer: Arc<ServerProcess>,
    pub writers: Arc<WriterPool>,
    /// Directory of the journal.
    pub records: PathBuf,
}

/// Causes faults in the nodes and the servers.
pub struct FaultInjector {
    targets: FaultTargets,
    key: AccountKey,
    address: String,
    rng: fastrand::Rng,
    tasks: JoinSet<Option<&'static str>>,
    fault_counts: FaultCounts,
    pause_factor: u64,
    /// The kinds that may be chosen.
    kinds: Vec<&'static FaultKind>,
}

/// The kinds whose names are listed, separated by commas; all without a list.
///
/// # Panics
/// When a name is none of a kind.
pub fn fault_kinds(names: Option<&str>) -> Vec<&'static FaultKind> {
    let Some(names) = names else { return FAULT_KINDS.iter().collect() };
    let kind_of = |name: &str| {
        let found = FAULT_KINDS.iter().find(|(kind, ..)| *kind == name.trim());
        let known: Vec<&str> = FAULT_KINDS.iter().map(|(kind, ..)| *kind).collect();
        found.unwrap_or_else(|| panic!("SOAK_FAULTS: {name:?} is none of {}", known.join(", ")))
    };
    names.split(',').map(kind_of).collect()
}

/// The port may still be in use for a moment.
pub async fn start_node(node: &Node) {
    while node.start().is_err() {
        sleep(Duration::from_millis(50)).await;
    }
}

impl FaultInjector {
    pub fn new(devnet: &Devnet, targets: FaultTargets, rng: fastrand::Rng, plan: &SoakPlan) -> Self {
        let (pause_factor, kinds) = (plan.pause_factor, plan.kinds.clone());
        let seat = devnet.operator_slot.as_ref().expect("a seat");
        let key = AccountKey::from_mnemonic(&devnet.accounts[&seat.operator_name].mnemonic).expect("a key");
        let address = seat.operator_address.clone();
        Self {
            targets,
            key,
            address,
            rng,
            tasks: JoinSet::new(),
            fault_counts: FaultCounts::new(),
            pause_factor,
            kinds,
        }
    }

    /// Nothing can be written to the disk of a server for a while.
    fn fill_disk(&mut self, server: &ServerProcess) {
        let Some(disk) = server.disk() else { return };
        let filler = small_disk::fill(&disk.outside());
        self.schedule_repair(200..5_000, async move { drop(std::fs::remove_file(filler)) });
    }

    /// The journal's files are removed under a running server, which is restarted a little later.
    fn remove_journal(&mut self) {
        let FaultTargets { tools, writers, records, .. } = &self.targets;
        let (server, writers, records) = (Arc::clone(tools), Arc::clone(writers), records.clone());
        let until_restart = Duration::from_millis(self.rng.u64(..2_500));
        let signal = if self.rng.bool() { Signal::KILL } else { Signal::TERM };
        self.count_if("files of the journal vanish", async move {
            if !writers.begin_loss() {
                return false;
            }
            for name in ["journal.db", "journal.db-wal", "journal.db-shm"] {
                // A server that is down has no log.
                let _ = std::fs::remove_file(records.join(name));
            }
            writers.note_loss();
            sleep(until_restart).await;
            while !server.restart(signal, Duration::ZERO).await {
                sleep(Duration::from_millis(100)).await;
            }
            writers.end_loss();
            true
        });
    }

    /// Causes faults until `calm` is cancelled, then repairs everything.
    pub async fn run(mut self, calm: CancellationToken) -> FaultCounts {
        let weights: u32 = self.kinds.iter().map(|(_, weight, _)| weight).sum();
        loop {
            let pause = Duration::from_millis(self.pause_factor * self.rng.u64(PAUSE_MS));
            tokio::select! {
                () = calm.cancelled() => break,
                () = sleep(pause) => {}
            }
            let mut drawn = self.rng.u32(..weights);
            let chosen = self.kinds.iter().find(|(_, weight, _)| {
                let is_it = drawn < *weight;
                drawn = drawn.saturating_sub(*weight);
                is_it
            });
            let Some((name, _, strike)) = chosen.copied() else { continue };
            strike(&mut self);
            if !CONDITIONAL_KINDS.contains(name) {
                *self.fault_counts.entry(name).or_default() += 1;
            }
            while let Some(ended) = self.tasks.try_join_next() {
                self.count(ended.expect("a fault ends well"));
            }
        }
        while let Some(ended) = self.tasks.join_next().await {
            self.count(ended.expect("a fault ends well"));
        }
        for node in &self.targets.nodes {
            start_node(node).await;
            node.update_faults(|faults| *faults = NodeFaults::default());
        }
        self.fault_counts
    }

    fn count(&mut self, struck: Option<&'static str>) {
        if let Some(name) = struck {
            *self.fault_counts.entry(name).or_default() += 1;
        }
    }

    fn random_node(&mut self) -> Node {
        // The tool server prefers the first.
        self.targets.nodes[usize::from(self.rng.u8(..3) == 0)].clone()
    }

    fn schedule_repair(&mut self, millis: Range<u64>, then: impl Future<Output = ()> + Send + 'static) {
        let span = Duration::from_millis(self.rng.u64(millis));
        self.tasks.spawn(async move {
            sleep(span).await;
            then.await;
            None
        });
    }

    fn apply_for(
        &mut self,
        millis: Range<u64>,
        on: impl FnOnce(&mut NodeFaults, &mut fastrand::Rng),
        off: fn(&mut NodeFaults),
    ) {
        let node = self.random_node();
        node.update_faults(|faults| on(faults, &mut self.rng));
        self.schedule_repair(millis, async move { node.update_faults(off) });
    }

    fn count_if(&mut self, name: &'static str, strike: impl Future<Output = bool> + Send + 'static) {
        self.tasks.spawn(async move { strike.await.then_some(name) });
    }

    fn refuse_broadcasts(&mut self) {
        // A node refuses for reasons of its own: its mempool, its cache, its minimum of fees, a sequence that it does not name, a grant.
        let (code, log) = match self.rng.u8(..6) {
            0 => (19, "tx already in mempool"),
            1 => (13, "insufficient fees; got: 1usvc required: 2usvc: insufficient fee"),
            2 => (32, "incorrect account sequence"),
            3 => (38, "fee-grant not found: not found"),
            4 => (4, "signature verification failed: unauthorized"),
            _ => (20, "mempool is full"),
        };
        let times = self.rng.u32(1..=3);
        let refusal = CheckTxRefusal::sdk(times, code, log);
        // A node that lies refuses the bytes and passes them on.
        let refusal = if self.rng.bool() { refusal.relayed() } else { refusal };
        self.random_node().update_faults(|faults| faults.refuse = Some(refusal));
    }

    fn garble_answers(&mut self) {
        let how = match self.rng.u8(..5) {
            0 => GarbleKind::Malformed,
            1 => GarbleKind::WrongId,
            2 => GarbleKind::Html,
            3 => GarbleKind::Empty,
            _ => GarbleKind::Cut,
        };
        let (times, method) = (self.rng.u32(1..=4), METHODS[self.rng.usize(..METHODS.len())].to_owned());
        self.random_node().update_faults(|faults| faults.garble = Some(GarbleFault { times, method, how }));
    }

    fn end_tool_server(&mut self, signal: Signal) {
        let (server, down) = (Arc::clone(&self.targets.tools), Duration::from_millis(self.rng.u64(..800)));
        let name = if signal == Signal::KILL { "tool server: SIGKILL" } else { "tool server: SIGTERM" };
        self.count_if(name, async move { server.restart(signal, down).await });
    }

    /// A second program sends coins of the operator to itself, at the sequence that is next as far as the node knows.
    fn use_key_elsewhere(&mut self) {
        let node = self.random_node();
        let request = QueryAccountInfoRequest { address: self.address.clone() };
        let (info, waiting, chain) = node.read_core(|core| {
            let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
            let bytes = query(core.state(), &core.chain, core.block_context(), path, &request.encode_to_vec());
            let reply = QueryAccountInfoResponse::decode(bytes.expect("queried").as_slice()).expect("decodes");
            (reply.info.unwrap_or_default(), core.mempool_txs().len() as u64, core.chain.clone())
        });
        let coins = json!([{"denom": chain.denom, "amount": "1"}]);
        let send = json!({"from_address": self.address, "to_address": self.address, "amount": coins});
        let url = "/cosmos.bank.v1beta1.MsgSend";
        let value = chain.registry.encode(url, &send).expect("encodes");
        let unsigned = UnsignedTx {
            messages: vec![prost_types::Any { type_url: url.to_owned(), value }],
            sequence: info.sequence + waiting,
            fee: vec![Coin { denom: chain.denom, amount: (GAS_LIMIT * GAS_PRICE_MICROS / 1_000_000).to_string() }],
            gas_limit: GAS_LIMIT,
            fee_granter: None,
            timeout_height: 0,
        };
        let context = SigningContext { chain_id: chain.chain_id, account_number: info.account_number };
        let signed = unsigned.sign(&self.key, &context).expect("signs");
        let client = NodeClient::new(node.origin()).expect("a client");
        self.count_if("foreign use of the key", async move {
            matches!(client.broadcast(&signed.bytes).await, Ok(BroadcastOutcome::Accepted))
        });
    }
}
