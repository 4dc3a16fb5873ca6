//! Compares the answers with the blocks and with the audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use prost::Message;
use serde_json::Value;
use svc_devnet::node::Node;
use svc_wire::{proto::svc::ec::v1::MsgCreateEcosystem, tx};

use crate::{another_history::LostTransactions, outcomes::SoakOutcome, writer_pool::SoakWrite};

/// A transaction of a block.
#[derive(Debug, Clone)]
struct BlockTransaction {
    hash: String,
    height: u64,
    code: u32,
    /// Its sequence was its turn: one that fails before leaves no events, and its bytes may still execute.
    is_executed: bool,
}

/// The comparison.
#[derive(Debug, Default)]
pub struct SoakVerdict {
    /// Answered as made, and then lost by the chain with its block.
    pub lost_by_chain: usize,
    /// Answered as made, and not on chain.
    pub lost: usize,
    /// More than once on chain.
    pub duplicated: usize,
    /// Answered as never made, and on chain.
    pub denied_but_executed: usize,
    /// Never answered for good.
    pub undecided: usize,
    /// Answered with a block, a hash or an end that is not so, or answered in two ways.
    pub incorrect: usize,
    /// Writes under way when the journal lost its records; of these, made twice, and answered as not made although they were.
    pub record_lost: usize,
    pub record_lost_duplicated: usize,
    pub record_lost_denied: usize,
    /// Audit records without an end.
    pub open_records: usize,
    /// Journal rows without an end; `None` when the server did not answer.
    pub open_rows: Option<u64>,
    /// Everything that is wrong, in words.
    pub faults: Vec<String>,
}

/// Executed creations by DID, and every transaction by hash.
fn block_transactions(node: &Node) -> (BTreeMap<String, Vec<BlockTransaction>>, BTreeMap<String, BlockTransaction>) {
    let (mut by_did, mut by_hash) = (BTreeMap::<String, Vec<BlockTransaction>>::new(), BTreeMap::new());
    node.read_core(|core| {
        let url = core.chain.namespace().type_url("ec", "MsgCreateEcosystem");
        for block in core.blocks() {
            for (bytes, outcome) in block.txs.iter().zip(&block.tx_outcomes) {
                let had_turn = outcome.events.iter().any(|event| event.kind == "tx");
                let one = BlockTransaction {
                    hash: tx::tx_hash(bytes),
                    height: block.height,
                    code: outcome.code,
                    is_executed: had_turn,
                };
                let messages = tx::decode_tx_body(bytes).map(|body| body.messages).unwrap_or_default();
                for message in messages.iter().filter(|message| message.type_url == url) {
                    let message = MsgCreateEcosystem::decode(message.value.as_slice()).expect("decodes");
                    by_did.entry(message.did).or_default().push(one.clone());
                }
                // The same bytes may stand in several blocks, and have their turn in one.
                let is_first = by_hash.get(&one.hash).is_none_or(|known: &BlockTransaction| !known.is_executed);
                if is_first {
                    by_hash.insert(one.hash.clone(), one);
                }
            }
        }
    });
    (by_did, by_hash)
}

/// Everything that was said of the writes beside their answers.
pub struct Sayings<'a> {
    /// Transactions of the blocks that the chain has lost.
    pub lost: &'a LostTransactions,
    /// Answers that were others when the same call was repeated.
    pub repeated: &'a [String],
    /// Answers as indexed that a read of the index has contradicted.
    pub unindexed: &'a [String],
    pub audit: &'a Path,
    /// Journal rows without an end; `None` when the server did not answer.
    pub open_rows: Option<u64>,
}

impl SoakVerdict {
    pub fn of(node: &Node, writes: &[SoakWrite], said: &Sayings<'_>) -> Self {
        let (by_did, by_hash) = block_transactions(node);
        let mut verdict = Self { open_rows: said.open_rows, ..Self::default() };
        for write in writes {
            let all = by_did.get(&write.did()).map_or(&[][..], Vec::as_slice);
            verdict.compare(write, all, &by_hash, said.lost);
        }
        let changed = said.repeated.iter().map(|changed| format!("answered otherwise when asked again: {changed}"));
        let untrue: Vec<String> = changed.chain(said.unindexed.iter().cloned()).collect();
        verdict.incorrect += untrue.len();
        verdict.faults.extend(untrue);
        verdict.read_audit(said.audit, &by_hash, said.lost);
        let open_rows = said.open_rows;
        if open_rows != Some(0) {
            verdict.faults.push(format!("open rows in the journal: {open_rows:?}"));
        }
        verdict
    }

    fn compare(
        &mut self,
        write: &SoakWrite,
        all: &[BlockTransaction],
        by_hash: &BTreeMap<String, BlockTransaction>,
        lost: &LostTransactions,
    ) {
        let made: Vec<&BlockTransaction> = all.iter().filter(|one| one.code == 0).collect();
        let mut problems = Vec::new();
        self.record_lost += usize::from(write.is_record_lost);
        if made.len() > 1 && write.is_record_lost {
            self.record_lost_duplicated += 1;
        } else if made.len() > 1 {
            self.duplicated += 1;
            problems.push("doubled");
        }
        match &write.outcome {
            None => {
                self.undecided += 1;
                problems.push("undecided");
            }
            Some(SoakOutcome::Included { hash, height }) if lost.has_at(hash, *height) => self.lost_by_chain += 1,
            Some(SoakOutcome::Included { .. }) if made.is_empty() => {
                self.lost += 1;
                problems.push("lost");
            }
            Some(SoakOutcome::Included { hash, height }) => {
                if !made.iter().any(|one| one.hash == *hash && one.height == *height) {
                    self.incorrect += 1;
                    problems.push("made by another transaction, or in another block");
                }
            }
            Some(SoakOutcome::Restored { hash, height }) => {
                if !write.is_record_lost || !made.iter().any(|one| one.hash == *hash && one.height == *height) {
                    self.incorrect += 1;
                    problems.push("said to be in a block by an earlier call, and is not, or was not lost");
                }
            }
            Some(_) if !made.is_empty() && write.is_record_lost => self.record_lost_denied += 1,
            Some(_) if !made.is_empty() => {
                self.denied_but_executed += 1;
                problems.push("ghost");
            }
            Some(SoakOutcome::NotExecuted { hash, .. }) => {
                if by_hash.get(hash).is_some_and(|one| one.is_executed) {
                    self.incorrect += 1;
                    problems.push("said never to execute, and in a block");
                }
            }
            Some(SoakOutcome::Failed { hash, height, .. }) => {
                let has_failed = all.iter().any(|one| one.hash == *hash && one.height == *height && one.code != 0);
                if !has_failed && !lost.has_at(hash, *height) {
                    self.incorrect += 1;
                    problems.push("said to have failed in a block, and has not");
                }
            }
            Some(SoakOutcome::Refused { .. } | SoakOutcome::Abandoned { .. }) => {}
        }
        if write.has_conflicting_answers && !write.is_record_lost {
            self.incorrect += 1;
            problems.push("two calls at once were answered differently");
        }
        if !problems.is_empty() {
            let answers: Vec<String> = write.answers.iter().map(|(at, told)| format!("{at:.1} s {told}")).collect();
            self.faults.push(format!(
                "{} ({}), begun at {:.1} s; answers: {}; on chain: {all:?}",
                problems.join(", "),
                write.name,
                write.begun,
                answers.join(" | ")
            ));
        }
    }

    /// Every record has one end, and it is the chain's result of its transaction.
    fn read_audit(&mut self, audit: &Path, by_hash: &BTreeMap<String, BlockTransaction>, lost: &LostTransactions) {
        let text = std::fs::read_to_string(audit).expect("an audit");
        let mut begun = BTreeSet::new();
        let mut ends: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        // A line that a kill has cut is not JSON; the line behind it is whole.
        for line in text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
            let id = line["id"].as_str().unwrap_or_default().to_owned();
            if line["record"] == "begun" {
                begun.insert(id);
                continue;
            }
            let outcome = line["outcome"].as_str().unwrap_or_default();
            let found = line["tx_hash"].as_str().and_then(|hash| by_hash.get(hash));
            let is_so = match outcome {
                "included" | "failed" if line["tx_hash"].as_str().is_some_and(|hash| lost.has(hash)) => true,
                "included" => found.is_some_and(|one| one.code == 0),
                "failed" => found.is_some_and(|one| one.code != 0),
                _ => found.is_none_or(|one| !one.is_executed),
            };
            if !is_so {
                self.incorrect += 1;
                self.faults.push(format!("the audit says what is not so: {line}; on chain: {found:?}"));
            }
            ends.entry(id).or_default().insert(outcome.to_owned());
        }
        for id in begun.iter().filter(|id| !ends.contains_key(*id)) {
            self.open_records += 1;
            self.faults.push(format!("open record in the audit: {id}"));
        }
        for (id, ends) in ends.iter().filter(|(_, ends)| ends.len() > 1) {
            self.incorrect += 1;
            self.faults.push(format!("record {id} of the audit has several ends: {ends:?}"));
        }
    }

    /// A loss of records must be reported by the next boot.
    pub fn compare_losses(&mut self, losses: usize, reports: usize) {
        if reports < losses {
            self.faults.push(format!("the journal vanished {losses} times, and {reports} times a boot reported it"));
        }
    }

    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}
