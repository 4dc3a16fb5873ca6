//! The messages of a block that the chain's events do not cover: votes, changes of groups, and messages that this
//! version does not know. Pure.

use std::collections::HashSet;

use prost::Message;
use prost_types::Any;
use svc_wire::{
    comet_rpc::{AbciEvent, EventAttribute},
    proto::cosmos::group::v1::{Exec, MsgSubmitProposal, MsgVote, Vote, VoteOption},
    proto_registry::{Namespace, ProtoRegistry, ProtoRegistryError},
    timestamp,
};

use super::{BlockFacts, EventPosition, RawEvent, event_catalog, nested::nested_at, parse_id};

/// The registry messages that this version knows.
#[derive(Debug, Clone)]
pub struct KnownMessages {
    namespace: Namespace,
    type_urls: HashSet<String>,
}

impl KnownMessages {
    /// Lists the messages of the compiled descriptors, in the namespace of a chain. Fails when the descriptors are not
    /// usable.
    pub fn compiled(namespace: &Namespace) -> Result<Self, ProtoRegistryError> {
        let known = ProtoRegistry::compiled(namespace)?.msg_type_urls().into_iter().collect();
        Ok(Self { namespace: namespace.clone(), type_urls: known })
    }

    /// Returns module and name of a registry message that this version does not know.
    fn parse_unknown<'a>(&self, type_url: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = type_url.strip_prefix('/')?.strip_prefix(self.namespace.as_str())?.strip_prefix('.')?;
        let (module, _) = rest.split_once('.')?;
        let (_, name) = rest.rsplit_once('.')?;
        (!self.type_urls.contains(type_url)).then_some((module, name))
    }
}

/// A vote, decoded from its message. The node deletes votes when a proposal is decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VoteRecord {
    pub proposal: u64,
    pub voter: String,
    /// `YES`, `NO`, `ABSTAIN`, `NO_WITH_VETO`.
    pub option: String,
    pub metadata: String,
    /// Time of an earlier block's vote, nanoseconds since the epoch; `None` for a vote of this block.
    pub time: Option<i128>,
}

impl VoteRecord {
    /// Creates the record of a vote of an earlier block.
    pub fn from_state(vote: &Vote) -> Self {
        Self {
            proposal: vote.proposal_id,
            voter: vote.voter.clone(),
            option: vote_option_name(vote.option()),
            metadata: vote.metadata.clone(),
            time: vote.submit_time.as_ref().map(timestamp::unix_nanos),
        }
    }
}

fn vote_option_name(option: VoteOption) -> String {
    option.as_str_name().trim_start_matches("VOTE_OPTION_").to_owned()
}

impl BlockFacts {
    /// Records the content of a proposal and, if it is to be executed at once, the votes of its proposers.
    pub(super) fn record_submission(&mut self, message: &Any, at: &EventPosition, events: &[AbciEvent]) {
        if message.type_url != "/cosmos.group.v1.MsgSubmitProposal" {
            return;
        }
        let Ok(submitted) = MsgSubmitProposal::decode(message.value.as_slice()) else { return };
        let id = events
            .iter()
            .filter(|event| event.event_type == "cosmos.group.v1.EventSubmitProposal")
            .filter(|event| event.message_index() == Some(at.message_index) && nested_at(event) == at.nested_at)
            .find_map(|event| parse_id(event, "proposal_id"));
        let Some(proposal) = id else { return };
        if submitted.exec() == Exec::Try {
            for voter in &submitted.proposers {
                let (voter, option) = (voter.clone(), vote_option_name(VoteOption::Yes));
                self.votes.push(VoteRecord { proposal, voter, option, metadata: String::new(), time: None });
            }
        }
        self.submitted_proposals.insert(proposal, submitted);
    }

    /// Records the content of an executed message, which may stand inside a proposal or a MsgExec of x/authz.
    pub fn record_message(&mut self, message: &Any, at: &EventPosition, known_messages: &KnownMessages) {
        if message.type_url == "/cosmos.group.v1.MsgVote" {
            if let Ok(vote) = MsgVote::decode(message.value.as_slice()) {
                let option = vote_option_name(vote.option());
                let (proposal, voter, metadata) = (vote.proposal_id, vote.voter, vote.metadata);
                self.votes.push(VoteRecord { proposal, voter, option, metadata, time: None });
            }
            return;
        }
        let (event_type, attributes) = if let Some(found) = event_catalog::find_group_event_type(&message.type_url) {
            (found, decode_group_attributes(message))
        } else if let Some((module, name)) = known_messages.parse_unknown(&message.type_url) {
            (event_catalog::unknown_event_type(module, name), Vec::new())
        } else {
            return;
        };
        let attributes = AbciEvent { event_type: message.type_url.clone(), attributes };
        self.events.push(RawEvent { event_type, position: at.clone(), chain_event: attributes });
    }
}

/// Decodes the group id or the policy address of a group message: field 2 in each of them.
fn decode_group_attributes(message: &Any) -> Vec<EventAttribute> {
    #[derive(Clone, PartialEq, prost::Message)]
    struct GroupIdField {
        #[prost(uint64, tag = "2")]
        group_id: u64,
    }
    #[derive(Clone, PartialEq, prost::Message)]
    struct GroupAddressField {
        #[prost(string, tag = "2")]
        address: String,
    }
    let attribute = |key: &str, value: String| vec![EventAttribute { key: key.to_owned(), value, index: false }];
    if let Ok(GroupIdField { group_id }) = GroupIdField::decode(message.value.as_slice()) {
        return attribute("group_id", group_id.to_string());
    }
    GroupAddressField::decode(message.value.as_slice()).map(|by| attribute("address", by.address)).unwrap_or_default()
}
