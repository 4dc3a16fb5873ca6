//! Decoding of a block: the entities that it changed, the causes, and its events. Pure.

mod entity_ref;
mod event_catalog;
mod event_order;
mod event_type_rows;
mod message;
pub mod nested;

use std::collections::BTreeMap;

use heck::ToUpperCamelCase;
use svc_wire::{
    comet_rpc::{AbciEvent, BlockResults, CommittedBlock},
    proto::cosmos::group::v1::MsgSubmitProposal,
    timestamp, tx,
};

pub use entity_ref::{EntityRef, PARAMETER_MODULES, UnresolvedRef, named_entities, parameters_id};
pub use event_catalog::{EventSubject, EventType, is_known_event_type};
pub use message::{KnownMessages, VoteRecord};

/// The place of an event in its block, and the signer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPosition {
    /// Hash of the transaction; hash of the block for an event of the block itself.
    pub tx_hash: String,
    /// Position in the block; events of the block itself come after all transactions.
    pub tx_index: u32,
    /// Position in the transaction, or among the events of the block itself. Events of messages inside another message have numbers of their own
    /// after those of the transaction's messages.
    pub message_index: u32,
    /// Position in each MsgExec of x/authz that holds the message, outermost first; empty for a message of the transaction itself.
    pub nested_at: Vec<u32>,
    /// First signer of the top-level message.
    pub sender: String,
    /// Whether a transaction emitted the event.
    pub is_transaction: bool,
}

/// The cause of a change of an entity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangeCause {
    /// Name of the message in activity logs.
    pub message: String,
    /// Signer of the transaction; `None` for a change by the block itself.
    pub account: Option<String>,
}

/// A registry event with the data that the block alone contains.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawEvent {
    pub event_type: EventType,
    pub position: EventPosition,
    /// Attributes of the chain's event.
    pub chain_event: AbciEvent,
}

impl RawEvent {
    /// Returns an attribute without the quotes of typed events; an empty one counts as absent.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.chain_event.get(key).map(strip_quotes).filter(|text| !text.is_empty())
    }

    /// Returns an id; 0 counts as absent.
    pub fn id(&self, key: &str) -> Option<u64> {
        parse_id(&self.chain_event, key)
    }
}

/// A proposal that was executed with success. Its messages may stand in an earlier block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecutedProposal {
    pub proposal: u64,
    pub position: EventPosition,
}

/// The last state of a proposal that the node has deleted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrunedProposal {
    pub status: String,
    /// JSON of the final tally.
    pub tally: String,
}

/// A change of entities that only the store can resolve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnresolvedChange {
    pub entity: UnresolvedRef,
    pub cause: ChangeCause,
}

/// A fee allowance that a block granted: its limit starts again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewAllowance {
    pub corporation_id: u64,
    pub grantee: String,
}

/// The content of a block, decoded.
#[derive(Debug, Clone)]
pub struct BlockFacts {
    pub height: u64,
    /// Time of the header, nanoseconds since the epoch.
    pub time: i128,
    /// Hash of the block, upper-case hex.
    pub hash: String,
    /// Hash of the block before; empty in the first block.
    pub last_hash: String,
    /// Entities to read, each with its causes in order.
    pub entities: BTreeMap<EntityRef, Vec<ChangeCause>>,
    /// Changes of entities that only the store can resolve.
    pub unresolved: Vec<UnresolvedChange>,
    pub new_allowances: Vec<NewAllowance>,
    /// Events in order.
    pub events: Vec<RawEvent>,
    /// Number of messages of each transaction.
    pub message_counts: Vec<u32>,
    /// Proposals of this block, by id.
    pub submitted_proposals: BTreeMap<u64, MsgSubmitProposal>,
    pub executed_proposals: Vec<ExecutedProposal>,
    /// Result of each execution attempt, by proposal.
    pub execution_results: BTreeMap<u64, String>,
    pub pruned_proposals: BTreeMap<u64, PrunedProposal>,
    pub votes: Vec<VoteRecord>,
}

impl BlockFacts {
    /// Whether the block names no entity and has no event.
    pub fn is_empty(&self) -> bool {
        self.entities.is_empty()
            && self.unresolved.is_empty()
            && self.events.is_empty()
            && self.votes.is_empty()
            && self.executed_proposals.is_empty()
    }
}

impl BlockFacts {
    /// Returns the facts for entities and votes of the state after the block, those of earlier blocks too. An entity that the block itself
    /// has changed keeps its causes; a vote of the block comes with its message.
    pub fn of_state(&self, entities: impl IntoIterator<Item = EntityRef>, votes: Vec<VoteRecord>, cause: &str) -> Self {
        let earlier = || vec![ChangeCause { message: cause.to_owned(), account: None }];
        let with_causes = |entity: EntityRef| {
            let causes = self.entities.get(&entity).cloned().unwrap_or_else(earlier);
            (entity, causes)
        };
        let is_known =
            |vote: &VoteRecord| self.votes.iter().any(|own| own.proposal == vote.proposal && own.voter == vote.voter);
        Self {
            entities: entities.into_iter().map(with_causes).collect(),
            votes: votes.into_iter().filter(|vote| !is_known(vote)).collect(),
            unresolved: Vec::new(),
            executed_proposals: Vec::new(),
            ..self.clone()
        }
    }
}

/// Removes the quotes of a typed attribute, which is JSON: `"7"` with its quotes.
fn strip_quotes(value: &str) -> &str {
    value.trim_matches('"')
}

fn parse_id(event: &AbciEvent, key: &str) -> Option<u64> {
    strip_quotes(event.get(key)?).parse().ok().filter(|number| *number > 0)
}

/// Decodes a block; `None` when its header has no valid time.
pub fn decode_block(
    block: &CommittedBlock,
    results: &BlockResults,
    known_messages: &KnownMessages,
) -> Option<BlockFacts> {
    let header = &block.block.header;
    let mut facts = BlockFacts {
        height: header.height,
        time: timestamp::unix_nanos(&timestamp::parse_rfc3339(&header.time)?),
        hash: block.block_id.hash.clone(),
        last_hash: header.last_block_id.hash.clone(),
        entities: BTreeMap::new(),
        unresolved: Vec::new(),
        new_allowances: Vec::new(),
        events: Vec::new(),
        message_counts: Vec::new(),
        submitted_proposals: BTreeMap::new(),
        executed_proposals: Vec::new(),
        execution_results: BTreeMap::new(),
        pruned_proposals: BTreeMap::new(),
        votes: Vec::new(),
    };
    let txs = block.block.data.decode_txs();
    for (index, (bytes, result)) in txs.iter().zip(&results.txs_results).enumerate() {
        let (tx_hash, tx_index) = (tx::tx_hash(bytes), u32::try_from(index).unwrap_or(u32::MAX));
        let position = |message_index: u32| EventPosition {
            tx_hash: tx_hash.clone(),
            tx_index,
            message_index,
            nested_at: Vec::new(),
            sender: find_sender(&result.events, message_index),
            is_transaction: true,
        };
        // A failed transaction still has the events of its fee payment.
        for event in &result.events {
            let at = event.message_index().map(&position);
            let at = at.map(|at| EventPosition { nested_at: nested::nested_at(event), ..at });
            let message = at.as_ref().and_then(|at| find_message_name(&result.events, at.message_index));
            facts.record_event(event, at, message);
        }
        let body = tx::decode_tx_body(bytes).unwrap_or_default();
        facts.message_counts.push(u32::try_from(body.messages.len()).unwrap_or(u32::MAX));
        if result.code == 0 {
            for (message, message_index) in body.messages.into_iter().zip(0u32..) {
                for (message, at) in nested::flatten(message, position(message_index)) {
                    facts.record_submission(&message, &at, &result.events);
                    facts.record_message(&message, &at, known_messages);
                }
            }
        }
    }
    let tx_index = u32::try_from(txs.len()).unwrap_or(u32::MAX);
    for (event, message_index) in results.finalize_block_events.iter().zip(0u32..) {
        let sender = event.get("authority").unwrap_or_default().to_owned();
        let tx_hash = block.block_id.hash.clone();
        facts.record_event(
            event,
            Some(EventPosition {
                tx_hash,
                tx_index,
                message_index,
                nested_at: Vec::new(),
                sender,
                is_transaction: false,
            }),
            None,
        );
    }
    facts.order_events();
    Some(facts)
}

/// Returns the event with which the SDK announces a message.
fn find_message_event(events: &[AbciEvent], message_index: u32) -> Option<&AbciEvent> {
    events.iter().find(|event| {
        event.event_type == "message" && event.get("action").is_some() && event.message_index() == Some(message_index)
    })
}

fn find_sender(events: &[AbciEvent], message_index: u32) -> String {
    find_message_event(events, message_index).and_then(|event| event.get("sender")).unwrap_or_default().to_owned()
}

/// Returns the name of a message without package and `Msg`.
fn find_message_name(events: &[AbciEvent], message_index: u32) -> Option<String> {
    let name = find_message_event(events, message_index)?.get("action")?.rsplit('.').next()?;
    Some(name.trim_start_matches("Msg").to_owned())
}

impl BlockFacts {
    /// Records an event of the chain; `message` is the name of the message that emitted it.
    fn record_event(&mut self, event: &AbciEvent, at: Option<EventPosition>, message: Option<String>) {
        let event_type = at.as_ref().and_then(|_| event_catalog::find_event_type(event));
        let account = at.as_ref().filter(|at| at.is_transaction).map(|at| at.sender.clone());
        let message = match &event_type {
            Some(event_type) => event_type.activity_name(),
            None => message.unwrap_or_else(|| event.event_type.to_upper_camel_case()),
        };
        self.record_event_entities(event, &ChangeCause { message, account });
        let Some(at) = at else { return };
        match event.event_type.as_str() {
            "cosmos.group.v1.EventExec" => {
                if let (Some(proposal), Some(result)) = (parse_id(event, "proposal_id"), event.get("result")) {
                    let result = strip_quotes(result).trim_start_matches("PROPOSAL_EXECUTOR_RESULT_").to_owned();
                    if result == "SUCCESS" {
                        self.executed_proposals.push(ExecutedProposal { proposal, position: at.clone() });
                    }
                    self.execution_results.insert(proposal, result);
                }
            }
            "cosmos.group.v1.EventProposalPruned" => {
                if let Some(id) = parse_id(event, "proposal_id") {
                    let status = event.get("status").map(strip_quotes).unwrap_or_default();
                    let status = status.trim_start_matches("PROPOSAL_STATUS_").to_owned();
                    let tally = event.get("tally_result").unwrap_or_default().to_owned();
                    self.pruned_proposals.insert(id, PrunedProposal { status, tally });
                }
            }
            _ => {}
        }
        if let Some(event_type) = event_type {
            self.events.push(RawEvent { event_type, position: at, chain_event: event.clone() });
        }
    }
}

#[cfg(test)]
mod tests;
