//! What was answered against what is so: the blocks themselves, and the audit.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use prost::Message;
use serde_json::Value;
use svc_devnet::node::Node;
use svc_wire::{proto::svc::ec::v1::MsgCreateEcosystem, tx};

use crate::{answers::End, writers::Write};

/// A transaction of a block.
#[derive(Debug, Clone)]
struct Executed {
    hash: String,
    height: u64,
    code: u32,
    /// Its sequence was its turn: one that fails before leaves no events, and its bytes may still execute.
    had_turn: bool,
}

/// The comparison.
#[derive(Debug, Default)]
pub struct Verdict {
    /// Answered as made, and not on chain.
    pub lost: usize,
    /// More than once on chain.
    pub doubled: usize,
    /// Answered as never made, and on chain.
    pub ghost: usize,
    /// Never answered for good.
    pub undecided: usize,
    /// Answered with a block, a hash or an end that is not so, or answered in two ways.
    pub untrue: usize,
    /// Audit records without an end.
    pub open_records: usize,
    /// Journal rows without an end; `None` when nobody told.
    pub open_rows: Option<u64>,
    /// Everything that is wrong, in words.
    pub faults: Vec<String>,
}

/// Executed creations by DID, and every transaction by hash.
fn executed(node: &Node) -> (BTreeMap<String, Vec<Executed>>, BTreeMap<String, Executed>) {
    let (mut by_did, mut by_hash) = (BTreeMap::<String, Vec<Executed>>::new(), BTreeMap::new());
    node.inspect(|core| {
        let url = core.chain.namespace().type_url("ec", "MsgCreateEcosystem");
        for block in core.blocks() {
            for (bytes, outcome) in block.txs.iter().zip(&block.outcomes) {
                let had_turn = outcome.events.iter().any(|event| event.kind == "tx");
                let one = Executed { hash: tx::hash(bytes), height: block.height, code: outcome.code, had_turn };
                let messages = tx::decode_body(bytes).map(|body| body.messages).unwrap_or_default();
                for message in messages.iter().filter(|message| message.type_url == url) {
                    let message = MsgCreateEcosystem::decode(message.value.as_slice()).expect("decodes");
                    by_did.entry(message.did).or_default().push(one.clone());
                }
                // The same bytes may stand in several blocks, and have their turn in one.
                let is_first = by_hash.get(&one.hash).is_none_or(|known: &Executed| !known.had_turn);
                if is_first {
                    by_hash.insert(one.hash.clone(), one);
                }
            }
        }
    });
    (by_did, by_hash)
}

impl Verdict {
    pub fn of(node: &Node, writes: &[Write], repeated: &[String], audit: &Path, open_rows: Option<u64>) -> Self {
        let (by_did, by_hash) = executed(node);
        let mut verdict = Self { open_rows, ..Self::default() };
        for write in writes {
            let all = by_did.get(&write.did()).map_or(&[][..], Vec::as_slice);
            verdict.compare(write, all, &by_hash);
        }
        verdict.untrue += repeated.len();
        verdict.faults.extend(repeated.iter().map(|changed| format!("answered otherwise when asked again: {changed}")));
        verdict.read_audit(audit, &by_hash);
        if open_rows != Some(0) {
            verdict.faults.push(format!("open rows in the journal: {open_rows:?}"));
        }
        verdict
    }

    fn compare(&mut self, write: &Write, all: &[Executed], by_hash: &BTreeMap<String, Executed>) {
        let made: Vec<&Executed> = all.iter().filter(|one| one.code == 0).collect();
        let mut problems = Vec::new();
        if made.len() > 1 {
            self.doubled += 1;
            problems.push("doubled");
        }
        match &write.end {
            None => {
                self.undecided += 1;
                problems.push("undecided");
            }
            Some(End::Made { .. }) if made.is_empty() => {
                self.lost += 1;
                problems.push("lost");
            }
            Some(End::Made { hash, height }) => {
                if !made.iter().any(|one| one.hash == *hash && one.height == *height) {
                    self.untrue += 1;
                    problems.push("made by another transaction, or in another block");
                }
            }
            Some(_) if !made.is_empty() => {
                self.ghost += 1;
                problems.push("ghost");
            }
            Some(End::Never { hash, .. }) => {
                if by_hash.get(hash).is_some_and(|one| one.had_turn) {
                    self.untrue += 1;
                    problems.push("said never to execute, and in a block");
                }
            }
            Some(End::Failed { hash, height, .. }) => {
                if !all.iter().any(|one| one.hash == *hash && one.height == *height && one.code != 0) {
                    self.untrue += 1;
                    problems.push("said to have failed in a block, and has not");
                }
            }
            Some(End::Refused { .. }) => {}
        }
        if write.is_contradicted {
            self.untrue += 1;
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

    /// Every record has one end, and it is what the chain says of its transaction.
    fn read_audit(&mut self, audit: &Path, by_hash: &BTreeMap<String, Executed>) {
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
                "included" => found.is_some_and(|one| one.code == 0),
                "failed" => found.is_some_and(|one| one.code != 0),
                _ => found.is_none_or(|one| !one.had_turn),
            };
            if !is_so {
                self.untrue += 1;
                self.faults.push(format!("the audit says what is not so: {line}; on chain: {found:?}"));
            }
            ends.entry(id).or_default().insert(outcome.to_owned());
        }
        for id in begun.iter().filter(|id| !ends.contains_key(*id)) {
            self.open_records += 1;
            self.faults.push(format!("open record in the audit: {id}"));
        }
        for (id, ends) in ends.iter().filter(|(_, ends)| ends.len() > 1) {
            self.untrue += 1;
            self.faults.push(format!("record {id} of the audit has several ends: {ends:?}"));
        }
    }

    pub fn is_clean(&self) -> bool {
        self.faults.is_empty()
    }
}
