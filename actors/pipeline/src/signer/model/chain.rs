//! The chain of the model: blocks, mempools, and transactions under way. A hash contains all that the model needs of a transaction.

use std::collections::BTreeSet;

use svc_net::upstream::BroadcastOutcome;
use svc_wire::{
    chain_error::ChainError,
    comet_rpc::{AbciEvent, EventAttribute, ExecTxResult},
};

/// Sequence at the beginning.
const FIRST_SEQUENCE: u64 = 5;
/// Submissions of one call are numbered from this many times the call's number.
const SUBMISSIONS_PER_CALL: u64 = 100;
const FOREIGN_TX: &str = "foreign";

/// Submission, sequence, timeout height, and the number of the signature in a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HashParts {
    pub submission: u64,
    pub sequence: u64,
    pub timeout_height: u64,
    pub number: u64,
}

impl HashParts {
    pub fn hash(self) -> String {
        format!("{}/{}/{}/{}", self.submission, self.sequence, self.timeout_height, self.number)
    }

    pub fn of(hash: &str) -> Self {
        let mut numbers = hash.split('/').map(|part| part.parse().unwrap_or(0));
        let mut next = || numbers.next().unwrap_or(0);
        Self { submission: next(), sequence: next(), timeout_height: next(), number: next() }
    }

    /// The call, from 1.
    pub fn call(self) -> u64 {
        self.submission / SUBMISSIONS_PER_CALL
    }
}

/// Number of a submission of a call.
pub fn submission_number(call: u64, attempt: usize) -> u64 {
    call * SUBMISSIONS_PER_CALL + attempt as u64
}

/// A transaction in a block.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct BlockTx {
    hash: String,
    result: TxResult,
}

/// The result of a transaction in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TxResult {
    Executed,
    /// It used its sequence and had no effect.
    OutOfGas,
    /// The ante handler refused it with this code, and no sequence was used.
    AnteFailure(u32),
}

impl BlockTx {
    fn uses_sequence(&self) -> bool {
        !matches!(self.result, TxResult::AnteFailure(_))
    }
}

/// How a block takes the transactions that wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockContent {
    Empty,
    /// Of two transactions with one sequence, the one that was signed first or last.
    Full {
        prefers_last: bool,
    },
    /// The first one has this result. The bytes of one that the ante handler refuses may come back.
    First(TxResult),
    /// A foreign transaction uses the next sequence.
    Foreign,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ModelChain {
    blocks: Vec<Vec<BlockTx>>,
    /// In the mempool of the node in use, in order.
    pub mempool: Vec<String>,
    /// In the mempools of others.
    pub other_mempools: BTreeSet<String>,
    /// Under way without an answer; they may arrive yet.
    pub delayed: BTreeSet<String>,
}

pub fn refused(code: u32, raw_log: String) -> BroadcastOutcome {
    BroadcastOutcome::Refused(ChainError { codespace: "sdk".into(), code, raw_log })
}

pub fn wrong_sequence(expected: u64, sequence: u64) -> String {
    format!("account sequence mismatch, expected {expected}, got {sequence}: incorrect account sequence")
}

impl ModelChain {
    pub fn new() -> Self {
        Self {
            blocks: vec![Vec::new()],
            mempool: Vec::new(),
            other_mempools: BTreeSet::new(),
            delayed: BTreeSet::new(),
        }
    }

    pub fn height(&self) -> u64 {
        self.blocks.len() as u64
    }

    fn blocks_up_to(&self, height: u64) -> impl Iterator<Item = (u64, &Vec<BlockTx>)> {
        (1..).zip(&self.blocks).take(usize::try_from(height).unwrap_or(0))
    }

    pub fn sequence_at(&self, height: u64) -> u64 {
        let used = self.blocks_up_to(height).flat_map(|(_, block)| block).filter(|tx| tx.uses_sequence());
        FIRST_SEQUENCE + used.count() as u64
    }

    /// The sequence that the check state of a node expects that is `lag` blocks behind.
    pub fn expected_sequence(&self, lag: u64) -> u64 {
        let waiting = if lag == 0 { self.mempool.len() as u64 } else { 0 };
        self.sequence_at(self.height().saturating_sub(lag)) + waiting
    }

    /// Results of a transaction in the blocks of these heights.
    pub fn results_in(&self, hash: &str, first: u64, last: u64) -> Vec<(u64, Box<ExecTxResult>)> {
        let mut results = Vec::new();
        for (height, block) in self.blocks_up_to(last).skip_while(|(height, _)| *height < first) {
            for tx in block.iter().filter(|tx| tx.hash == hash) {
                results.push((height, Box::new(result_of(tx))));
            }
        }
        results
    }

    /// Height of the block of these heights in which another transaction has used the sequence.
    pub fn displaced_at(&self, hash: &str, first: u64, last: u64) -> Option<u64> {
        let (wanted, mut sequence) = (HashParts::of(hash).sequence, FIRST_SEQUENCE);
        for (height, block) in self.blocks_up_to(last) {
            for tx in block.iter().filter(|tx| tx.uses_sequence()) {
                if sequence == wanted && tx.hash != hash && height >= first {
                    return Some(height);
                }
                sequence += 1;
            }
        }
        None
    }

    /// Hashes of ours that a block has executed.
    pub fn executed(&self) -> impl Iterator<Item = HashParts> {
        let is_own = |tx: &&BlockTx| tx.result == TxResult::Executed && tx.hash != FOREIGN_TX;
        let executed = self.blocks.iter().flatten().filter(is_own);
        executed.map(|tx| HashParts::of(&tx.hash))
    }

    /// CheckTx of a node that is `lag` blocks behind.
    pub fn check_tx(&mut self, hash: &str, lag: u64) -> BroadcastOutcome {
        let HashParts { sequence, timeout_height, .. } = HashParts::of(hash);
        if lag == 0 && self.mempool.iter().any(|known| known == hash) {
            return BroadcastOutcome::Accepted;
        }
        if self.height().saturating_sub(lag) > timeout_height {
            return refused(30, String::new());
        }
        let expected = self.expected_sequence(lag);
        if sequence != expected {
            return refused(32, wrong_sequence(expected, sequence));
        }
        if lag == 0 {
            self.mempool.push(hash.to_owned());
        } else {
            self.other_mempools.insert(hash.to_owned());
        }
        BroadcastOutcome::Accepted
    }

    /// Transactions that wait, and that a block at the next height may execute at the next sequence.
    fn executable(&self, sequence: u64) -> Vec<String> {
        let waiting: BTreeSet<&String> = self.mempool.iter().chain(&self.other_mempools).collect();
        let is_due = |hash: &&&String| {
            let parts = HashParts::of(hash);
            parts.sequence == sequence && self.height() < parts.timeout_height
        };
        let mut due: Vec<String> = waiting.iter().filter(is_due).map(|hash| (*hash).clone()).collect();
        due.sort_by_key(|hash| HashParts::of(hash).number);
        due
    }

    /// Whether a transaction waits that the next block can execute, and whether two have one sequence.
    pub fn waiting(&self) -> (bool, bool) {
        let due = self.executable(self.sequence_at(self.height())).len();
        (due > 0, due > 1)
    }

    pub fn append_block(&mut self, content: BlockContent) {
        let mut next = self.sequence_at(self.height());
        let mut block = Vec::new();
        match content {
            BlockContent::Empty => {}
            BlockContent::Foreign => block.push(BlockTx { hash: FOREIGN_TX.to_owned(), result: TxResult::Executed }),
            BlockContent::First(result) => {
                block.extend(self.executable(next).into_iter().take(1).map(|hash| BlockTx { hash, result }));
            }
            BlockContent::Full { prefers_last } => loop {
                let mut due = self.executable(next);
                let Some(hash) = (if prefers_last { due.pop() } else { due.into_iter().next() }) else { break };
                block.push(BlockTx { hash, result: TxResult::Executed });
                next += 1;
            },
        }
        for tx in block.iter().filter(|tx| !tx.uses_sequence()) {
            // The mempools drop it. A peer that lags may bring the bytes back.
            self.mempool.retain(|hash| *hash != tx.hash);
            self.other_mempools.remove(&tx.hash);
            self.delayed.insert(tx.hash.clone());
        }
        self.blocks.push(block);
        // The recheck removes the transactions that no longer pass, in order.
        let (mut next, height) = (self.sequence_at(self.height()), self.height());
        self.mempool.retain(|hash| {
            let parts = HashParts::of(hash);
            let passes = parts.sequence == next && height < parts.timeout_height;
            next += u64::from(passes);
            passes
        });
        // Bytes that can never execute any more make no difference.
        let (used, height) = (self.sequence_at(height), height);
        let may_execute = |hash: &String| {
            let parts = HashParts::of(hash);
            parts.sequence >= used && height < parts.timeout_height
        };
        self.other_mempools.retain(may_execute);
        self.delayed.retain(may_execute);
    }
}

fn result_of(tx: &BlockTx) -> ExecTxResult {
    let code = match tx.result {
        TxResult::Executed => 0,
        TxResult::OutOfGas => 11,
        TxResult::AnteFailure(code) => {
            return ExecTxResult { code, codespace: "sdk".to_owned(), ..ExecTxResult::default() };
        }
    };
    let value = format!("a/{}", HashParts::of(&tx.hash).sequence);
    let attribute = EventAttribute { key: "acc_seq".to_owned(), value, index: true };
    let event = AbciEvent { event_type: "tx".to_owned(), attributes: vec![attribute] };
    ExecTxResult { code, codespace: "sdk".to_owned(), events: vec![event], ..ExecTxResult::default() }
}
