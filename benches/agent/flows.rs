//! Flows: credentials without an onboarding between two agents, from the opening message to the acknowledgement, beside bare sessions of the
//! same account.

use std::time::{Duration, Instant};

use futures::StreamExt;
use serde_json::json;
use svc::network::{LocalAgentConfig, LocalNetwork, LocalNetworkConfig};
use svc_agent::{Agent, FlowRequest, FlowSettings, FlowStateChange, PeerSettings, PublishedSchemas, ValidationTerms};
use svc_devnet::DevnetConfig;
use svc_didcomm::flow::FlowState;
use tempfile::TempDir;
use tokio::sync::broadcast;

use super::{
    credentials::measure_bare_writes,
    flow_history::{self, SampleFlow},
};
use crate::{BenchRow, median};

/// Blocks so quick that the cores are the bound, and the quickest blocks at which a real node was measured. Its default is 5 seconds.
const BLOCK_TIMES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
const AT_ONCE: usize = 50;
const FLOWS: usize = 200;
const ROUNDS: usize = 3;
/// Longest wait for a state of a flow.
const LONGEST: Duration = Duration::from_secs(60);
/// Pause between two attempts at something that is refused for the moment.
const LOOK: Duration = Duration::from_millis(50);

/// The changes of the validator, and those of the applicant.
type Changes = [broadcast::Receiver<FlowStateChange>; 2];

struct FlowBench {
    network: LocalNetwork,
    schema_id: u64,
    issuer_participant: u64,
    home: TempDir,
}

impl FlowBench {
    async fn start(block_time: Duration) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let devnet = DevnetConfig { block_time: Some(block_time), scenario: "peers".into(), ..DevnetConfig::default() };
        let agent = LocalAgentConfig {
            home: Some(home.path().to_owned()),
            // Credentials are kept and not presented, as usual for those of many schemas. No schema has this id.
            flows: FlowSettings {
                per_peer: 1_000_000,
                published_schemas: PublishedSchemas::These([u64::MAX].into()),
                ..FlowSettings::default()
            },
            peers: PeerSettings { rate_per_peer: 10_000, outbox_per_peer: 100_000, ..PeerSettings::default() },
            ..LocalAgentConfig::default()
        };
        let network = LocalNetwork::launch(LocalNetworkConfig { devnet, agent, ..LocalNetworkConfig::default() }).await;
        let network = network.expect("starts");
        let id = |name: &str| network.devnet.address(name).parse().expect("a number");
        let (schema_id, issuer_participant) = (id("flows.badge.schema"), id("flows.badge.issuer"));
        let bench = Self { network, schema_id, issuer_participant, home };
        for agent in bench.network.agents.iter().take(2) {
            bench.await_trust(&agent.server.did()).await;
        }
        // The documents are there once a first flow has ended.
        assert!(bench.complete(0).await, "a first flow completes");
        bench
    }

    /// A peer that the index does not call trusted yet is answered once a minute.
    async fn await_trust(&self, did: &str) {
        let url = format!("{}/v4/verifiable-trust/resolve", self.network.indexer_origin());
        let begun = Instant::now();
        loop {
            let asked = reqwest::Client::new().post(&url).json(&json!({"did": did})).send().await.expect("an answer");
            let verdict: serde_json::Value = asked.json().await.expect("JSON");
            if verdict["trusted"] == true {
                return;
            }
            assert!(begun.elapsed() < LONGEST, "the verdict is {verdict:#}");
            tokio::time::sleep(LOOK).await;
        }
    }

    fn agent(&self, place: usize) -> &Agent {
        &self.network.agents[place].server.agent
    }

    /// Waits for a state of the validator's flow. False when the applicant's has ended otherwise.
    async fn await_state(&self, [own, theirs]: &mut Changes, session: &str, state: FlowState) -> bool {
        let reached = async {
            loop {
                let (change, is_own) = tokio::select! {
                    change = own.recv() => (change, true),
                    change = theirs.recv() => (change, false),
                };
                let change = change.expect("no change is missed");
                if change.session_id == session && is_own && change.state == state {
                    return true;
                }
                if change.session_id == session && !is_own && change.state == FlowState::Error {
                    return false;
                }
            }
        };
        tokio::time::timeout(LONGEST, reached).await.unwrap_or_else(|_| panic!("{session} is not {state:?} in time"))
    }

    /// One flow, from its opening message to the acknowledgement. False when it has ended before.
    async fn complete(&self, number: usize) -> bool {
        let mut changes = [0, 1].map(|place| self.agent(place).flows().state_changes());
        let claims = json!({"grade": format!("Grade {number}")});
        let request = FlowRequest {
            did: Some(self.network.agents[0].server.did()),
            schema_id: Some(self.schema_id),
            claims: claims.as_object().cloned(),
            ..FlowRequest::default()
        };
        let opened = loop {
            match self.agent(1).flows().open(request.clone()).await {
                Ok(opened) => break opened.record,
                Err(refusal) => assert!(refusal.retry_after.is_some(), "{refusal:?}"),
            }
            tokio::time::sleep(LOOK).await;
        };
        let session = opened["participantSessionId"].as_str().expect("a session").to_owned();
        if !self.await_state(&mut changes, &session, FlowState::Validating).await {
            return false;
        }
        while let Err(refusal) = self.agent(0).flows().validate(&session, &ValidationTerms::default()).await {
            assert!(refusal.retry_after.is_some(), "{refusal:?}");
            tokio::time::sleep(LOOK).await;
        }
        self.await_state(&mut changes, &session, FlowState::Completed).await
    }

    /// Flows completed a second.
    async fn measure(&self) -> f64 {
        let begun = Instant::now();
        let flows = (0..FLOWS).map(|number| self.complete(number));
        let ended: Vec<bool> = futures::stream::iter(flows).buffer_unordered(AT_ONCE).collect().await;
        assert!(ended.iter().all(|is_completed| *is_completed), "a flow has failed");
        FLOWS as f64 / begun.elapsed().as_secs_f64()
    }
}

/// Flows beside bare sessions at a block time, and a flow as it is kept.
async fn measure_at(block_time: Duration) -> (BenchRow, SampleFlow) {
    let bench = FlowBench::start(block_time).await;
    let (mut flows, mut bare) = (Vec::new(), Vec::new());
    // In alternation, so that a busy moment of the machine meets both.
    for _ in 0..ROUNDS {
        flows.push(bench.measure().await);
        let places = (bench.schema_id, bench.issuer_participant);
        bare.push(measure_bare_writes(&bench.network, places, (FLOWS, AT_ONCE)).await);
    }
    bench.network.shutdown(Duration::from_secs(1)).await;
    let sample = SampleFlow::read(&bench.home.path().join("agent.db")).await;
    let (flows, bare) = (median(flows), median(bare));
    let row = BenchRow::new(
        format!("credentials by flows, {AT_ONCE} at once, {} ms blocks", block_time.as_millis()),
        format!("{flows:.0}/s"),
        format!("{bare:.0}/s, bare sessions of the same account"),
        flows / bare,
    );
    (row, sample)
}

pub async fn rows() -> Vec<BenchRow> {
    let mut rows = Vec::new();
    let mut sample = None;
    for block_time in BLOCK_TIMES {
        let (row, flow) = measure_at(block_time).await;
        rows.push(row);
        sample = Some(flow);
    }
    if let Some(sample) = sample {
        rows.extend(flow_history::rows(&sample).await);
    }
    rows
}
