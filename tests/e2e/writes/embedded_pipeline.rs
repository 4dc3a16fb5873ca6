//! The write pipeline alone, without operator and indexer, embedded in a platform whose supervisor is no actor of this project.

use std::{sync::Arc, time::Duration};

use futures::{StreamExt, future::BoxFuture};
use prost_types::Any;
use ractor::{Actor, ActorCell, ActorProcessingErr, ActorRef, SupervisionEvent};
use serde_json::json;
use svc_devnet::{Devnet, DevnetConfig, scenario::GAS_PRICE_MICROS};
use svc_net::upstream::NodeClient;
use svc_pipeline::{
    ChainParams, DEFAULT_PRINCIPAL, DecidedWrite, EncodedMessage, FeePolicy, JournalPlace, Pipeline, PipelineConfig,
    WriteError, WriteOrigin, WriteOutcome, query_account,
};
use svc_wire::{
    account_key::AccountKey,
    proto::cosmos::bank::v1beta1::{QueryBalanceRequest, QueryBalanceResponse},
};
use tokio::sync::watch;

use crate::e2e::harness::TEST_TIMEOUT;

/// Sends of each account.
const SENDS: u64 = 100;
/// Sends of one account that wait for their outcome at once.
const CONCURRENT_SENDS: usize = 10;

/// Starts a pipeline under a parent.
type StartPipeline = Arc<dyn Fn(ActorCell) -> BoxFuture<'static, Pipeline> + Send + Sync>;

/// The supervisor of a foreign platform: a plain ractor actor that starts its child again whenever it ends.
struct Platform;

enum PlatformMsg {
    /// Kill the child, as a crash would.
    Kill,
}

struct PlatformState {
    start: StartPipeline,
    running: watch::Sender<RunningPipeline>,
}

/// The pipeline of an account, while there is one.
#[derive(Clone, Default)]
struct RunningPipeline {
    /// Number of starts.
    generation: u64,
    pipeline: Option<Pipeline>,
}

impl PlatformState {
    async fn start_pipeline(&self, parent: ActorCell) {
        let pipeline = (self.start)(parent).await;
        self.running.send_modify(|running| {
            running.generation += 1;
            running.pipeline = Some(pipeline);
        });
    }
}

impl Actor for Platform {
    type Msg = PlatformMsg;
    type State = PlatformState;
    type Arguments = PlatformState;

    async fn pre_start(
        &self,
        myself: ActorRef<PlatformMsg>,
        state: PlatformState,
    ) -> Result<PlatformState, ActorProcessingErr> {
        state.start_pipeline(myself.get_cell()).await;
        Ok(state)
    }

    async fn handle(
        &self,
        myself: ActorRef<PlatformMsg>,
        PlatformMsg::Kill: PlatformMsg,
        _: &mut PlatformState,
    ) -> Result<(), ActorProcessingErr> {
        myself.get_children().into_iter().for_each(|child| child.kill());
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        myself: ActorRef<PlatformMsg>,
        event: SupervisionEvent,
        state: &mut PlatformState,
    ) -> Result<(), ActorProcessingErr> {
        if let SupervisionEvent::ActorFailed(..) | SupervisionEvent::ActorTerminated(..) = event {
            // The journal has one owner at a time: the dead pipeline frees it with its last handle and with its state, which the
            // event carries.
            drop(event);
            state.running.send_modify(|running| running.pipeline = None);
            state.start_pipeline(myself.get_cell()).await;
        }
        Ok(())
    }
}

/// One account on the platform.
struct Account {
    address: String,
    running: watch::Receiver<RunningPipeline>,
    platform: ActorRef<PlatformMsg>,
}

impl Account {
    async fn start(devnet: &Devnet, name: &str, chain: &ChainParams, journal: String) -> Self {
        let mnemonic = devnet.accounts[name].mnemonic.clone();
        let (origin, chain) = (devnet.node.origin(), chain.clone());
        let start: StartPipeline = Arc::new(move |parent| {
            let (mnemonic, origin, chain, journal) = (mnemonic.clone(), origin.clone(), chain.clone(), journal.clone());
            Box::pin(async move {
                let config = PipelineConfig {
                    journal: JournalPlace { file: Some(journal), min_free_space: 0.into() },
                    ..PipelineConfig::new(chain)
                };
                loop {
                    let key = AccountKey::from_mnemonic(&mnemonic).expect("a key");
                    let node = NodeClient::new(origin.clone()).expect("a node");
                    match Pipeline::start_linked(config.clone(), key, node, parent.clone()).await {
                        Ok(pipeline) => return pipeline,
                        // The tasks of the dead pipeline end one after the other, and the last one frees the journal.
                        Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
                    }
                }
            })
        });
        let (running, watched) = watch::channel(RunningPipeline::default());
        let (platform, _) = Actor::spawn(None, Platform, PlatformState { start, running }).await.expect("starts");
        Self { address: devnet.address(name).to_owned(), running: watched, platform }
    }

    /// Waits for a running pipeline after that of a generation.
    async fn pipeline_after(&self, generation: u64) -> (u64, Pipeline) {
        let mut running = self.running.clone();
        let is_next = |running: &RunningPipeline| running.generation > generation && running.pipeline.is_some();
        let running = running.wait_for(is_next).await.expect("the platform lives").clone();
        (running.generation, running.pipeline.expect("running"))
    }

    /// Sends coins until a block contains the transaction. A write that lost its pipeline is looked up before it is repeated.
    async fn send(&self, message: EncodedMessage, key: &str) {
        loop {
            let (generation, pipeline) = self.pipeline_after(0).await;
            let origin = WriteOrigin::embedder("platform");
            let write = pipeline.execute(message.clone(), origin, Some(key.to_owned())).expect("admitted");
            drop(pipeline);
            let failure = match write.answer().await {
                Ok(Ok(DecidedWrite { outcome: WriteOutcome::Included { result, .. }, .. })) => {
                    assert_eq!(result.code, 0, "{}", result.log);
                    return;
                }
                Ok(Ok(decided)) => panic!("not included: {:?}", decided.outcome),
                Ok(Err(failure)) => failure,
                Err(stopped) => panic!("a write ends with an answer: {stopped}"),
            };
            match &failure.error {
                WriteError::Rejected { .. } => panic!("refused: {}", failure.error),
                _ if failure.may_execute => {
                    if self.was_included(key, generation).await {
                        return;
                    }
                }
                WriteError::Undecided { .. } | WriteError::SignerUnavailable(_) => {
                    if self.was_included(key, generation).await {
                        return;
                    }
                }
                WriteError::Submit(_) | WriteError::Withdrawn(_) => tokio::task::yield_now().await,
                WriteError::Refused(never) => match *never {},
            }
        }
    }

    /// Whether a block contains the transaction of a write that lost the pipeline of `generation`, as the next one decides.
    async fn was_included(&self, key: &str, generation: u64) -> bool {
        loop {
            let (_, next) = self.pipeline_after(generation).await;
            match next
                .journal()
                .find_by_key(DEFAULT_PRINCIPAL, key)
                .await
                .map(|record| record.map(|record| record.state))
            {
                // The next pipeline owns the journal, so the dead one neither records nor sends any more.
                Ok(None) => return false,
                Ok(Some(state)) if state == "included" => return true,
                Ok(Some(state)) if !state.starts_with("open") => return false,
                Ok(Some(_)) | Err(_) => drop(next),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Two funded accounts. There is no corporation, hence no operator.
const SCENARIO: &str = r#"
description = "two funded accounts"

[[account]]
name = "first"
mnemonic = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about"
coins = { FEE = 1_000_000_000_000_000 }
bonded = 1_000_000_000

[[account]]
name = "second"
mnemonic = "legal winner thank year wave sausage worth useful legal winner thank yellow"
coins = { FEE = 1_000_000_000_000_000 }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn two_accounts_send_through_pipelines_of_their_own_and_one_is_killed_in_the_middle() {
    let block_time = Some(Duration::from_millis(100));
    let directory = tempfile::tempdir().expect("a directory");
    let scenario = directory.path().join("accounts.toml");
    std::fs::write(&scenario, SCENARIO).expect("written");
    let scenario = scenario.to_string_lossy().into_owned();
    let devnet =
        Devnet::launch(DevnetConfig { scenario, block_time, ..DevnetConfig::default() }).await.expect("starts");
    let node = NodeClient::new(devnet.node.origin()).expect("a node");
    let chain = ChainParams::discover(&node, FeePolicy::at_price(GAS_PRICE_MICROS)).await.expect("a chain");
    let journal = |name: &str| directory.path().join(name).to_string_lossy().into_owned();
    let first = Account::start(&devnet, "first", &chain, journal("first.db")).await;
    let second = Account::start(&devnet, "second", &chain, journal("second.db")).await;
    let mut sequences = Vec::new();
    for account in [&first, &second] {
        sequences.push(query_account(&node, &account.address).await.expect("answers").expect("exists").sequence);
    }

    // Each account sends to an account of its own that holds nothing else, and each send has an amount of its own.
    let recipients: Vec<String> = [[21u8; 32], [22u8; 32]]
        .iter()
        .map(|bytes| {
            AccountKey::from_bytes(bytes)
                .expect("a key")
                .public_key()
                .address(&chain.prefix)
                .expect("valid")
                .to_string()
        })
        .collect();
    let (done, mut progress) = watch::channel(0u64);
    let send_all = async |account: &Account, recipient: &str| {
        let messages = (0..SENDS).map(|number| {
            let coins = json!([{"denom": chain.denom, "amount": (1_000 + number).to_string()}]);
            let send = json!({"from_address": account.address, "to_address": recipient, "amount": coins});
            let url = "/cosmos.bank.v1beta1.MsgSend".to_owned();
            let value = devnet.node.read_core(|core| core.chain.registry.encode(&url, &send)).expect("encodes");
            (number, EncodedMessage { message: Any { type_url: url, value }, needs_grant: false })
        });
        let sends = messages.map(async |(number, message)| {
            account.send(message, &format!("send-{number}")).await;
            done.send_modify(|count| *count += 1);
        });
        futures::stream::iter(sends).buffer_unordered(CONCURRENT_SENDS).collect::<()>().await;
    };
    let kill = async {
        progress.wait_for(|count| *count >= SENDS / 2).await.expect("sends end");
        first.platform.cast(PlatformMsg::Kill).expect("the platform lives");
    };
    let all = async { tokio::join!(send_all(&first, &recipients[0]), send_all(&second, &recipients[1]), kill) };
    tokio::time::timeout(TEST_TIMEOUT * 2, all).await.expect("every send ends");

    let total: u64 = (0..SENDS).map(|number| 1_000 + number).sum();
    for (position, account) in [&first, &second].into_iter().enumerate() {
        let request = QueryBalanceRequest { address: recipients[position].clone(), denom: chain.denom.clone() };
        let path = "/cosmos.bank.v1beta1.Query/Balance";
        let reply: QueryBalanceResponse = node.query(path, &request, 0).await.expect("answers");
        assert_eq!(reply.balance.expect("a balance").amount, total.to_string(), "each send happened once");
        let state = query_account(&node, &account.address).await.expect("answers").expect("exists");
        assert_eq!(state.sequence - sequences[position], SENDS, "no transaction more than the sends");
    }
}
