//! What a block says, read without I/O: which entities it touched, and which events it gives.

use std::collections::BTreeSet;

use prost::Message;
use svc_wire::{
    comet::{AbciEvent, Block, BlockResults},
    instant,
    proto::cosmos::group::v1::MsgSubmitProposal,
    tx,
};

/// An entity whose state after the block must be read from the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touched {
    /// By id.
    Corporation(u64),
    /// By id.
    Ecosystem(u64),
    /// By id.
    OperatorAuthorization(u64),
    /// By id.
    VsOperatorAuthorization(u64),
    /// By granter's policy address and grantee.
    FeeAllowance { granter: String, grantee: String },
}

/// A registry event as far as the block alone tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawEvent {
    /// What happened.
    pub kind: EventKind,
    /// Transaction hash.
    pub tx_hash: String,
    /// Position in the block.
    pub tx_index: u32,
    /// Position in the transaction.
    pub message_index: u32,
    /// First signer of the top-level message.
    pub sender: String,
    /// Attributes of the chain's event.
    pub attributes: AbciEvent,
}

/// The events of this slice of the registry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    CreateCorporation,
    UpdateCorporation,
    CreateEcosystem,
    UpdateEcosystem,
    ArchiveEcosystem,
    AddDocument,
    IncreaseVersion,
    GrantAuthorization,
    RevokeAuthorization,
    GrantVsAuthorization,
    RevokeVsAuthorization,
    UpdateVsAuthorization,
    SubmitProposal,
    Vote,
    Exec,
    WithdrawProposal,
}

/// How an event is spelled for subscribers.
pub struct Spelling {
    pub event_type: &'static str,
    pub module: &'static str,
    pub action: &'static str,
    pub message_type: &'static str,
    pub entity_type: &'static str,
    /// Attribute of the chain's event that holds the entity's id.
    pub entity_id: &'static str,
}

impl EventKind {
    /// The kind of a chain event, if it is one that subscribers hear of.
    fn of(chain_event: &AbciEvent) -> Option<Self> {
        Some(match chain_event.kind.as_str() {
            "create_corporation" => Self::CreateCorporation,
            "update_corporation" => Self::UpdateCorporation,
            "create_ecosystem" => Self::CreateEcosystem,
            "update_ecosystem" => Self::UpdateEcosystem,
            "archive_ecosystem" => Self::ArchiveEcosystem,
            // The first document of a new owner comes with the owner's own event; only a document that was added has an operator.
            "add_gf_document" if chain_event.get("operator").is_some() => Self::AddDocument,
            "increase_active_gf_version" => Self::IncreaseVersion,
            "grant_operator_authorization" => Self::GrantAuthorization,
            "revoke_operator_authorization" => Self::RevokeAuthorization,
            "grant_vs_operator_authorization" => Self::GrantVsAuthorization,
            "revoke_vs_operator_authorization" => Self::RevokeVsAuthorization,
            "update_vs_operator_authorization" => Self::UpdateVsAuthorization,
            "cosmos.group.v1.EventSubmitProposal" => Self::SubmitProposal,
            "cosmos.group.v1.EventVote" => Self::Vote,
            "cosmos.group.v1.EventExec" => Self::Exec,
            "cosmos.group.v1.EventWithdrawProposal" => Self::WithdrawProposal,
            _ => return None,
        })
    }

    /// Names of the event on the wire.
    pub fn spelling(self) -> Spelling {
        let row = |event_type, module, action, message_type, entity_type, entity_id| Spelling {
            event_type,
            module,
            action,
            message_type,
            entity_type,
            entity_id,
        };
        match self {
            Self::CreateCorporation => row(
                "CreateNewCorporation",
                "co",
                "create_new_corporation",
                "MsgCreateCorporation",
                "Corporation",
                "corporation_id",
            ),
            Self::UpdateCorporation => row(
                "UpdateCorporation",
                "co",
                "update_corporation",
                "MsgUpdateCorporation",
                "Corporation",
                "corporation_id",
            ),
            Self::CreateEcosystem => row(
                "CreateNewEcosystem",
                "ec",
                "create_new_ecosystem",
                "MsgCreateEcosystem",
                "Ecosystem",
                "ecosystem_id",
            ),
            Self::UpdateEcosystem => {
                row("UpdateEcosystem", "ec", "update_ecosystem", "MsgUpdateEcosystem", "Ecosystem", "ecosystem_id")
            }
            Self::ArchiveEcosystem => {
                row("ArchiveEcosystem", "ec", "archive_ecosystem", "MsgArchiveEcosystem", "Ecosystem", "ecosystem_id")
            }
            Self::AddDocument => row(
                "AddGovernanceFrameworkDocument",
                "co",
                "add_governance_framework_document",
                "MsgAddGovernanceFrameworkDocument",
                "GovernanceFrameworkDocument",
                "gfd_id",
            ),
            Self::IncreaseVersion => row(
                "IncreaseActiveGFVersion",
                "co",
                "increase_active_gf_version",
                "MsgIncreaseActiveGovernanceFrameworkVersion",
                "GovernanceFrameworkVersion",
                "gfv_id",
            ),
            Self::GrantAuthorization => row(
                "GrantOperatorAuthorization",
                "de",
                "grant_operator_authorization",
                "grant_operator_authorization",
                "OperatorAuthorization",
                "authz_id",
            ),
            Self::RevokeAuthorization => row(
                "RevokeOperatorAuthorization",
                "de",
                "revoke_operator_authorization",
                "revoke_operator_authorization",
                "OperatorAuthorization",
                "authz_id",
            ),
            Self::GrantVsAuthorization => row(
                "GrantVSOperatorAuthorization",
                "de",
                "grant_vs_operator_authorization",
                "grant_vs_operator_authorization",
                "VSOperatorAuthorization",
                "vsoa_id",
            ),
            Self::RevokeVsAuthorization => row(
                "RevokeVSOperatorAuthorization",
                "de",
                "revoke_vs_operator_authorization",
                "revoke_vs_operator_authorization",
                "VSOperatorAuthorization",
                "vsoa_id",
            ),
            Self::UpdateVsAuthorization => row(
                "UpdateVSOperatorAuthorization",
                "de",
                "update_vs_operator_authorization",
                "update_vs_operator_authorization",
                "VSOperatorAuthorization",
                "vsoa_id",
            ),
            Self::SubmitProposal => {
                row("SubmitProposal", "group", "submit_proposal", "MsgSubmitProposal", "GroupProposal", "proposal_id")
            }
            Self::Vote => row("Vote", "group", "vote", "MsgVote", "GroupProposal", "proposal_id"),
            Self::Exec => row("Exec", "group", "exec", "MsgExec", "GroupProposal", "proposal_id"),
            Self::WithdrawProposal => row(
                "WithdrawProposal",
                "group",
                "withdraw_proposal",
                "MsgWithdrawProposal",
                "GroupProposal",
                "proposal_id",
            ),
        }
    }
}

/// Everything the rest of the indexer needs to know of a block.
#[derive(Debug, Clone)]
pub struct BlockFacts {
    /// Height.
    pub height: u64,
    /// Header time.
    pub time: prost_types::Timestamp,
    /// Entities to read, each once.
    pub touched: BTreeSet<Touched>,
    /// (corporation address or id text, grantee) of allowances granted anew: their limit starts over.
    pub granted_fees: BTreeSet<(String, String)>,
    /// Events in order.
    pub events: Vec<RawEvent>,
    /// Proposals submitted in this block, with the group policy they belong to.
    pub proposals: Vec<(u64, String)>,
}

/// Typed event attributes are JSON: `"7"` with its quotes.
pub fn unquoted(value: &str) -> &str {
    value.trim_matches('"')
}

fn number(event: &AbciEvent, key: &str) -> Option<u64> {
    unquoted(event.get(key)?).parse().ok()
}

/// Reads a block; `None` when its header has no usable time.
pub fn read(block: &Block, results: &BlockResults) -> Option<BlockFacts> {
    let header = &block.block.header;
    let mut facts = BlockFacts {
        height: header.height,
        time: instant::parse_rfc3339(&header.time)?,
        touched: BTreeSet::new(),
        granted_fees: BTreeSet::new(),
        events: Vec::new(),
        proposals: Vec::new(),
    };
    let txs = block.block.data.decoded();
    for (position, (bytes, result)) in txs.iter().zip(&results.txs_results).enumerate() {
        let hash = tx::hash(bytes);
        // A failed transaction still has the events of its fee.
        for event in &result.events {
            facts.touch(event);
            let (Some(kind), Some(message_index)) = (EventKind::of(event), event.message_index()) else { continue };
            let sender = result.events.iter().find(|candidate| {
                candidate.kind == "message"
                    && candidate.get("action").is_some()
                    && candidate.message_index() == Some(message_index)
            });
            facts.events.push(RawEvent {
                kind,
                tx_hash: hash.clone(),
                tx_index: u32::try_from(position).unwrap_or(u32::MAX),
                message_index,
                sender: sender.and_then(|event| event.get("sender")).unwrap_or_default().to_owned(),
                attributes: event.clone(),
            });
        }
        facts.note_proposals(bytes, &result.events);
    }
    for event in &results.finalize_block_events {
        facts.touch(event);
    }
    Some(facts)
}

impl BlockFacts {
    fn touch(&mut self, event: &AbciEvent) {
        match event.kind.as_str() {
            "create_corporation" | "update_corporation" => {
                self.touched.extend(number(event, "corporation_id").map(Touched::Corporation));
            }
            "create_ecosystem" | "update_ecosystem" | "archive_ecosystem" => {
                self.touched.extend(number(event, "ecosystem_id").map(Touched::Ecosystem));
            }
            "add_gf_document" | "increase_active_gf_version" => match number(event, "ecosystem_id") {
                Some(id) if id > 0 => self.touched.extend([Touched::Ecosystem(id)]),
                // Named by id at creation; later by the policy address, which the follower resolves.
                _ => self.touched.extend(number(event, "corporation_id").map(Touched::Corporation)),
            },
            "grant_operator_authorization" | "revoke_operator_authorization" | "operator_authorization_updated" => {
                self.touched.extend(number(event, "authz_id").map(Touched::OperatorAuthorization));
            }
            "grant_vs_operator_authorization"
            | "revoke_vs_operator_authorization"
            | "update_vs_operator_authorization"
            | "vs_operator_authorization_updated" => {
                self.touched.extend(number(event, "vsoa_id").map(Touched::VsOperatorAuthorization));
            }
            "set_feegrant" | "use_feegrant" | "revoke_feegrant" => {
                if let (Some(granter), Some(grantee)) = (event.get("granter"), event.get("grantee")) {
                    let (granter, grantee) = (granter.to_owned(), grantee.to_owned());
                    self.touched.insert(Touched::FeeAllowance { granter, grantee });
                }
            }
            "grant_fee_allowance" => {
                if let (Some(corporation), Some(grantee)) = (event.get("corporation_id"), event.get("grantee")) {
                    self.granted_fees.insert((corporation.to_owned(), grantee.to_owned()));
                }
            }
            _ => {}
        }
    }

    /// Votes name only the proposal: which policy it belongs to is known from its submission.
    fn note_proposals(&mut self, bytes: &[u8], events: &[AbciEvent]) {
        let Some(body) = tx::decode_body(bytes) else { return };
        for (index, message) in body.messages.iter().enumerate() {
            if message.type_url != "/cosmos.group.v1.MsgSubmitProposal" {
                continue;
            }
            let Ok(submitted) = MsgSubmitProposal::decode(message.value.as_slice()) else { continue };
            let id = events
                .iter()
                .filter(|event| event.kind == "cosmos.group.v1.EventSubmitProposal")
                .filter(|event| event.message_index().and_then(|at| usize::try_from(at).ok()) == Some(index))
                .find_map(|event| number(event, "proposal_id"));
            self.proposals.extend(id.map(|id| (id, submitted.group_policy_address.clone())));
        }
    }

    /// Policy addresses by which framework events name their corporation.
    pub fn framework_corporations(&self) -> impl Iterator<Item = &str> {
        self.events
            .iter()
            .filter(|event| matches!(event.kind, EventKind::AddDocument | EventKind::IncreaseVersion))
            .filter(|event| event.attributes.get("ecosystem_id") == Some("0"))
            .filter_map(|event| event.attributes.get("corporation"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn block(events: serde_json::Value) -> BlockFacts {
        let block: Block = serde_json::from_value(json!({"block": {
            "header": {"chain_id": "c", "height": "5", "time": "2026-01-01T00:00:00.5Z"}, "data": {"txs": ["AQ=="]},
        }}))
        .expect("a block");
        let results =
            json!({"height": "5", "txs_results": [{"code": 0, "gas_wanted": "0", "gas_used": "0", "events": events}]});
        read(&block, &serde_json::from_value(results).expect("results")).expect("facts")
    }

    fn event(kind: &str, attributes: &[(&str, &str)]) -> serde_json::Value {
        let attributes: Vec<_> = attributes.iter().map(|(key, value)| json!({"key": key, "value": value})).collect();
        json!({"type": kind, "attributes": attributes})
    }

    #[test]
    fn a_creation_touches_the_entity_once_and_gives_one_event_with_its_sender() {
        let facts = block(json!([
            event("use_feegrant", &[("granter", "p"), ("grantee", "o")]),
            event("message", &[("action", "/svc.ec.v1.MsgCreateEcosystem"), ("sender", "o"), ("msg_index", "0")]),
            event("add_gf_document", &[("ecosystem_id", "3"), ("msg_index", "0")]),
            event("create_ecosystem", &[("ecosystem_id", "3"), ("msg_index", "0")]),
        ]));
        let allowance = Touched::FeeAllowance { granter: "p".into(), grantee: "o".into() };
        assert_eq!(facts.touched, BTreeSet::from([Touched::Ecosystem(3), allowance]));
        assert_eq!(facts.events.len(), 1);
        assert_eq!((facts.events[0].kind, facts.events[0].sender.as_str()), (EventKind::CreateEcosystem, "o"));
    }

    #[test]
    fn group_events_carry_json_values() {
        let facts = block(json!([event("cosmos.group.v1.EventVote", &[("proposal_id", "\"7\""), ("msg_index", "0")])]));
        let spelling = facts.events[0].kind.spelling();
        assert_eq!(unquoted(facts.events[0].attributes.get(spelling.entity_id).expect("an id")), "7");
    }
}
