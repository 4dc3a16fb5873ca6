//! The parts of a round: its heights, its effects, and the verdicts in it.

use std::collections::BTreeSet;

/// An effect that the actor performs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EvaluationEffect {
    /// Loads the triggers of the blocks of a round.
    LoadTriggers(HeightRange),
    /// Evaluates a DID as of a height; `is_fresh` fetches all evidence again.
    EvaluateDid { did: String, height: u64, is_fresh: bool },
    /// Starts the timer that ends the wait for web servers.
    StartTimer(u64),
    /// Writes a round, with the DIDs that are still to be evaluated.
    WriteRound(HeightRange),
}

/// The heights of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeightRange {
    pub first: u64,
    pub last: u64,
}

/// The consequences of a verdict for other DIDs.
#[derive(Debug, Clone, Default)]
pub struct VerdictImpact {
    /// Whether the verdict differs from the one before, or depends on new evidence.
    pub is_new: bool,
    /// DIDs whose written verdicts depend on this one.
    pub dependents: Vec<String>,
    /// DIDs on whose verdicts this one depends.
    pub parents: Vec<String>,
}

/// The phase of the current round.
#[derive(Debug)]
pub(super) enum RoundPhase {
    /// There is no round.
    Idle,
    /// The triggers are being loaded.
    Opening,
    /// The DIDs are being evaluated.
    Evaluating(ActiveRound),
    /// The round is being written.
    Closing,
    /// The write of the round failed.
    CloseFailed,
}

/// A round in evaluation.
#[derive(Debug, Default)]
pub(super) struct ActiveRound {
    /// DIDs that the round waits for.
    pub awaited_dids: BTreeSet<String>,
    /// Cascades that were started. Each DID starts one for a final verdict and one for a provisional one, so that
    /// services in a circle do not trigger each other without end.
    pub completed_cascades: BTreeSet<Cascade>,
    /// DIDs with a failed evaluation because of the indexer itself.
    pub failed_dids: BTreeSet<String>,
}

/// The evaluation of all dependents of a verdict.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Cascade {
    pub did: String,
    /// Whether the verdict is final.
    pub is_final: bool,
}

/// A DID that is about to be evaluated.
pub(super) struct EvaluationStart {
    pub did: String,
    /// Whether all evidence is fetched again.
    pub is_fresh: bool,
    /// Whether the web server of the DID was too slow before.
    pub is_slow: bool,
}

/// A running evaluation.
#[derive(Debug)]
pub(super) struct RunningEvaluation {
    pub height: u64,
    /// Whether all evidence is fetched again.
    pub is_refresh: bool,
    /// Whether the web server of the DID was too slow before.
    pub is_slow: bool,
    pub host: String,
    /// Reading of the logical clock at the start.
    pub started_at: u64,
    /// Steps from a block trigger.
    pub hops: u8,
}

/// A verdict that is not final: it came too late for its height, or it must be evaluated again.
#[derive(Debug)]
pub(super) struct UnsettledVerdict<V> {
    pub height: u64,
    /// Whether a verdict that it depends on changed after its evaluation began.
    pub is_outdated: bool,
    pub verdict: V,
    pub impact: VerdictImpact,
    pub hops: u8,
    pub is_published: bool,
}

/// Returns the host in a DID of a web method, and the whole DID of any other method.
pub(super) fn host_of(did: &str) -> &str {
    let mut parts = did.splitn(5, ':');
    let (method, first, second) = (parts.nth(1), parts.next(), parts.next());
    match (method, first, second) {
        (Some("web"), Some(host), _) | (Some("webvh"), _, Some(host)) => host,
        _ => did,
    }
}
