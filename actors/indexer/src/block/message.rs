//! What the messages of a block say beyond the chain's events: votes, changes of groups, and messages nobody here knows.

use std::collections::HashSet;

use prost::Message;
use prost_types::Any;
use svc_wire::{
    comet::{AbciEvent, Attribute},
    proto::cosmos::group::v1::{Exec, MsgSubmitProposal, MsgVote, VoteOption},
    schema::{Namespace, Registry, SchemaError},
};

use super::{BlockFacts, Position, RawEvent, number, spelling};

/// The registry's messages that this version knows.
#[derive(Debug, Clone)]
pub struct Knowledge {
    namespace: Namespace,
    known: HashSet<String>,
}

impl Knowledge {
    /// Of the messages this version was built with, in a chain's namespace.
    pub fn of(namespace: &Namespace) -> Result<Self, SchemaError> {
        let known = Registry::compiled(namespace)?.transaction_messages().into_iter().collect();
        Ok(Self { namespace: namespace.clone(), known })
    }

    /// Module and name of a registry message this version does not know.
    fn unknown<'a>(&self, type_url: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = type_url.strip_prefix('/')?.strip_prefix(self.namespace.as_str())?.strip_prefix('.')?;
        let (module, _) = rest.split_once('.')?;
        let (_, name) = rest.rsplit_once('.')?;
        (!self.known.contains(type_url)).then_some((module, name))
    }
}

/// A vote as its message tells it; the node forgets votes when a proposal is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteFact {
    pub proposal: u64,
    pub voter: String,
    /// `YES`, `NO`, `ABSTAIN`, `NO_WITH_VETO`.
    pub option: String,
    pub metadata: String,
}

fn option(option: VoteOption) -> String {
    option.as_str_name().trim_start_matches("VOTE_OPTION_").to_owned()
}

impl BlockFacts {
    /// Notes a proposal's content and, if it is to be tried at once, the votes of its proposers.
    pub(super) fn take_submission(&mut self, message: &Any, message_index: u32, events: &[AbciEvent]) {
        if message.type_url != "/cosmos.group.v1.MsgSubmitProposal" {
            return;
        }
        let Ok(submitted) = MsgSubmitProposal::decode(message.value.as_slice()) else { return };
        let id = events
            .iter()
            .filter(|event| event.kind == "cosmos.group.v1.EventSubmitProposal")
            .filter(|event| event.message_index() == Some(message_index))
            .find_map(|event| number(event, "proposal_id"));
        let Some(proposal) = id else { return };
        if submitted.exec() == Exec::Try {
            for voter in &submitted.proposers {
                let (voter, option) = (voter.clone(), option(VoteOption::Yes));
                self.votes.push(VoteFact { proposal, voter, option, metadata: String::new() });
            }
        }
        self.submitted.insert(proposal, submitted);
    }

    /// Notes what a message that was executed says; inside a proposal as well as by itself.
    pub fn take_message(&mut self, message: &Any, at: &Position, knowledge: &Knowledge) {
        if message.type_url == "/cosmos.group.v1.MsgVote" {
            if let Ok(vote) = MsgVote::decode(message.value.as_slice()) {
                let option = option(vote.option());
                let (proposal, voter, metadata) = (vote.proposal_id, vote.voter, vote.metadata);
                self.votes.push(VoteFact { proposal, voter, option, metadata });
            }
            return;
        }
        let (spelling, attributes) = if let Some(spelling) = spelling::of_group_message(&message.type_url) {
            (spelling, group_attributes(message))
        } else if let Some((module, name)) = knowledge.unknown(&message.type_url) {
            (spelling::of_unknown(module, name), Vec::new())
        } else {
            return;
        };
        let attributes = AbciEvent { kind: message.type_url.clone(), attributes };
        self.events.push(RawEvent { spelling, at: at.clone(), attributes });
    }
}

/// Group id or policy address of a group message: field 2 of each of them.
fn group_attributes(message: &Any) -> Vec<Attribute> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct ById {
        #[prost(uint64, tag = "2")]
        group_id: u64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct ByAddress {
        #[prost(string, tag = "2")]
        address: String,
    }
    let attribute = |key: &str, value: String| vec![Attribute { key: key.to_owned(), value, index: false }];
    if let Ok(ById { group_id }) = ById::decode(message.value.as_slice()) {
        return attribute("group_id", group_id.to_string());
    }
    ByAddress::decode(message.value.as_slice()).map(|by| attribute("address", by.address)).unwrap_or_default()
}
