//! What a block says, read without I/O: which entities it touched and why, and which events it gives.

pub mod message;
pub mod spelling;
mod touch;

use std::collections::BTreeMap;

use heck::ToUpperCamelCase;
use svc_wire::{
    comet::{AbciEvent, Block, BlockResults},
    instant,
    proto::cosmos::group::v1::MsgSubmitProposal,
    tx,
};

pub use message::{Knowledge, VoteFact};
pub use spelling::{Spelling, Subject};
pub use touch::{Loose, PARAMETERS, Touched, parameters_id};

/// Where in the block something happened, and who signed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Hash of the transaction; of the block for what the block itself did.
    pub tx_hash: String,
    /// Position in the block; behind all transactions for what the block itself did.
    pub tx_index: u32,
    /// Position in the transaction, or among the block's own events.
    pub message_index: u32,
    /// First signer of the top-level message.
    pub sender: String,
    /// Whether a transaction did it.
    pub is_transaction: bool,
}

/// Why an entity was touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// Name of the message, as activity logs spell it.
    pub msg: String,
    /// Signer, when a transaction did it.
    pub account: Option<String>,
}

/// A registry event as far as the block alone tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawEvent {
    pub spelling: Spelling,
    pub at: Position,
    /// Attributes of the chain's event.
    pub attributes: AbciEvent,
}

impl RawEvent {
    /// An attribute without the quotes of typed events; empty counts as absent.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.attributes.get(key).map(unquoted).filter(|text| !text.is_empty())
    }

    /// An id; 0 counts as absent.
    pub fn number(&self, key: &str) -> Option<u64> {
        number(&self.attributes, key)
    }
}

/// A proposal that was run with success; its messages may be known from an earlier block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    pub proposal: u64,
    pub at: Position,
}

/// What is known of a proposal that left the node's state.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Pruned {
    pub status: String,
    /// JSON of the final tally.
    pub tally: String,
}

/// Everything the rest of the indexer needs to know of a block.
#[derive(Debug, Clone)]
pub struct BlockFacts {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: i128,
    /// Entities to read, each with what touched it, in order.
    pub touched: BTreeMap<Touched, Vec<Cause>>,
    /// Entities that only what is stored can name.
    pub loose: Vec<(Loose, Cause)>,
    /// (corporation id text, grantee) of allowances granted anew: their limit starts over.
    pub granted_fees: Vec<(String, String)>,
    /// Events in order.
    pub events: Vec<RawEvent>,
    /// Proposals submitted in this block.
    pub submitted: BTreeMap<u64, MsgSubmitProposal>,
    pub executed: Vec<Executed>,
    /// Result of each execution attempt.
    pub results: BTreeMap<u64, String>,
    pub pruned: BTreeMap<u64, Pruned>,
    pub votes: Vec<VoteFact>,
}

/// Typed event attributes are JSON: `"7"` with its quotes.
pub fn unquoted(value: &str) -> &str {
    value.trim_matches('"')
}

fn number(event: &AbciEvent, key: &str) -> Option<u64> {
    unquoted(event.get(key)?).parse().ok().filter(|number| *number > 0)
}

/// Reads a block; `None` when its header has no usable time.
pub fn read(block: &Block, results: &BlockResults, knowledge: &Knowledge) -> Option<BlockFacts> {
    let header = &block.block.header;
    let mut facts = BlockFacts {
        height: header.height,
        time: instant::nanos(&instant::parse_rfc3339(&header.time)?),
        touched: BTreeMap::new(),
        loose: Vec::new(),
        granted_fees: Vec::new(),
        events: Vec::new(),
        submitted: BTreeMap::new(),
        executed: Vec::new(),
        results: BTreeMap::new(),
        pruned: BTreeMap::new(),
        votes: Vec::new(),
    };
    let txs = block.block.data.decoded();
    for (index, (bytes, result)) in txs.iter().zip(&results.txs_results).enumerate() {
        let (tx_hash, tx_index) = (tx::hash(bytes), u32::try_from(index).unwrap_or(u32::MAX));
        let position = |message_index: u32| Position {
            tx_hash: tx_hash.clone(),
            tx_index,
            message_index,
            sender: sender(&result.events, message_index),
            is_transaction: true,
        };
        // A failed transaction still has the events of its fee.
        for event in &result.events {
            let at = event.message_index().map(&position);
            let message = at.as_ref().and_then(|at| action(&result.events, at.message_index));
            facts.take(event, at, message);
        }
        if result.code == 0 {
            let body = tx::decode_body(bytes).unwrap_or_default();
            for (message, message_index) in body.messages.iter().zip(0u32..) {
                facts.take_submission(message, message_index, &result.events);
                facts.take_message(message, &position(message_index), knowledge);
            }
        }
    }
    let tx_index = u32::try_from(txs.len()).unwrap_or(u32::MAX);
    for (event, message_index) in results.finalize_block_events.iter().zip(0u32..) {
        let sender = event.get("authority").unwrap_or_default().to_owned();
        let tx_hash = block.block_id.hash.clone();
        facts.take(event, Some(Position { tx_hash, tx_index, message_index, sender, is_transaction: false }), None);
    }
    facts.settle_order();
    Some(facts)
}

/// The event by which the SDK announces a message.
fn announcement(events: &[AbciEvent], message_index: u32) -> Option<&AbciEvent> {
    events.iter().find(|event| {
        event.kind == "message" && event.get("action").is_some() && event.message_index() == Some(message_index)
    })
}

fn sender(events: &[AbciEvent], message_index: u32) -> String {
    announcement(events, message_index).and_then(|event| event.get("sender")).unwrap_or_default().to_owned()
}

/// Name of a message without package and `Msg`.
fn action(events: &[AbciEvent], message_index: u32) -> Option<String> {
    let name = announcement(events, message_index)?.get("action")?.rsplit('.').next()?;
    Some(name.trim_start_matches("Msg").to_owned())
}

impl BlockFacts {
    /// Takes an event of the chain; `message` is the name of the message that emitted it.
    fn take(&mut self, event: &AbciEvent, at: Option<Position>, message: Option<String>) {
        let spelling = at.as_ref().and_then(|_| spelling::of_event(event));
        let account = at.as_ref().filter(|at| at.is_transaction).map(|at| at.sender.clone());
        let msg = match &spelling {
            Some(spelling) => spelling.msg(),
            None => message.unwrap_or_else(|| event.kind.to_upper_camel_case()),
        };
        self.touch(event, &Cause { msg, account });
        let Some(at) = at else { return };
        match event.kind.as_str() {
            "cosmos.group.v1.EventExec" => {
                if let (Some(proposal), Some(result)) = (number(event, "proposal_id"), event.get("result")) {
                    let result = unquoted(result).trim_start_matches("PROPOSAL_EXECUTOR_RESULT_").to_owned();
                    if result == "SUCCESS" {
                        self.executed.push(Executed { proposal, at: at.clone() });
                    }
                    self.results.insert(proposal, result);
                }
            }
            "cosmos.group.v1.EventProposalPruned" => {
                if let Some(id) = number(event, "proposal_id") {
                    let status = event.get("status").map(unquoted).unwrap_or_default();
                    let status = status.trim_start_matches("PROPOSAL_STATUS_").to_owned();
                    let tally = event.get("tally_result").unwrap_or_default().to_owned();
                    self.pruned.insert(id, Pruned { status, tally });
                }
            }
            _ => {}
        }
        if let Some(spelling) = spelling {
            self.events.push(RawEvent { spelling, at, attributes: event.clone() });
        }
    }

    /// Events in the order of their place, each once: clients tell events apart by their place, type and entity.
    pub fn settle_order(&mut self) {
        self.events.sort_by_key(|event| (event.at.tx_index, event.at.message_index));
        let mut seen = std::collections::HashSet::new();
        self.events.retain(|event| {
            let at = &event.at;
            // A group is known by its own id or its policy until its corporation has been looked up.
            let names = [event.spelling.entity_id, "group_id", "address"];
            let entity = names.into_iter().find_map(|name| event.text(name)).map(str::to_owned);
            seen.insert((at.tx_index, at.message_index, event.spelling.event_type.clone(), entity))
        });
    }
}

#[cfg(test)]
mod tests;
