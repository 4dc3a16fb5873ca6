//! Refused writes of the account, and the reasons that block them.

use svc_net::upstream::NodeClient;
use svc_pipeline::{Ceiling, CeilingExceeded, ChainChange, SubmittedTx, TxRefusal};
use svc_wire::chain_error::ChainError;

use super::*;

#[test]
fn a_broadcast_that_is_refused_for_its_fee_waits_for_the_refill() {
    let tx = SubmittedTx { hash: "A".to_owned(), timeout_height: 9, sequence: 1, has_granter: true };
    let refused = |code: u32| {
        let error = ChainError { codespace: "sdk".to_owned(), code, raw_log: "got: 1usvc required: 2usvc".to_owned() };
        let refusal = Box::new(TxRefusal { error, block_height: None });
        WriteFailure { last_tx: None, may_execute: false, error: WriteError::Rejected { tx: tx.clone(), refusal } }
    };
    for refills_at in [None, Some(Timestamp { seconds: 77, nanos: 0 })] {
        let expected = Block { reason: BlockedReason::NoFees, refills_at };
        assert_eq!(conclude(Err(refused(13)), refills_at), Err(WriteStop::Blocked(expected)));
        assert!(matches!(conclude(Err(refused(11)), refills_at), Err(WriteStop::Failed(_))));
    }
}

#[test]
fn a_refused_simulation_says_what_is_missing() {
    use BlockedReason::{NoFunds, NoGrant, NoParticipant};
    // A simulation has the code of the query and the registered text of the error.
    let wrapped = "VS operator authorization check failed: participant 7: ";
    for (codespace, code, text, expected) in [
        ("sdk", 18, "participant is not an active participant", Some(NoParticipant)),
        ("de", 1116, "participant is not an active participant", Some(NoParticipant)),
        ("sdk", 18, "operator authorization has expired", Some(NoGrant)),
        ("de", 1106, "operator authorization has expired", Some(NoGrant)),
        ("sdk", 5, "insufficient funds", Some(NoFunds)),
        ("sdk", 18, "spendable balance 1usvc is smaller than 9usvc: insufficient funds", Some(NoFunds)),
        ("sdk", 6, "operator authorization spend limit exceeded", Some(NoFunds)),
        ("sdk", 18, "fee_spend_limit must be set and strictly positive iff with_feegrant is true", None),
        ("undefined", 1, "participant 7 is not active: participant is expired", None),
    ] {
        let (codespace, raw_log) = (codespace.to_owned(), format!("{wrapped}{text}: invalid request"));
        let stop = WriteStop::from(SubmitError::Simulation(ChainError { codespace, code, raw_log }));
        match expected {
            Some(reason) => assert_eq!(stop, WriteStop::from(reason), "{text}"),
            None => assert!(matches!(&stop, WriteStop::Failed(reason) if reason.contains(text)), "{stop:?}"),
        }
    }
}

/// The kind of a stop, without its text.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Blocked(&'static str),
    Failed,
    Unanswered,
}

fn kind_of(stop: &WriteStop) -> Kind {
    match stop {
        WriteStop::Blocked(block) => Kind::Blocked(block.reason.as_str()),
        WriteStop::Failed(_) => Kind::Failed,
        WriteStop::Unanswered(_) => Kind::Unanswered,
    }
}

#[test]
fn each_refusal_of_the_signer_has_its_kind() {
    use Kind::{Blocked, Failed, Unanswered};
    let chain = |raw_log: &str| ChainError { codespace: "sdk".to_owned(), code: 18, raw_log: raw_log.to_owned() };
    let node = NodeClient::new("http://localhost:1").expect("a client").unsent_error("it is gone");
    let ceiling = CeilingExceeded { ceiling: Ceiling::Fee, needed: 2, limit: 1 };
    for (error, expected) in [
        (SubmitError::Node(node), Unanswered),
        (SubmitError::NoAccount { address: "svc1".to_owned() }, Blocked("NO_FEES")),
        (SubmitError::Simulation(chain("invalid request")), Failed),
        (SubmitError::Sequence(chain("account sequence mismatch")), Unanswered),
        (SubmitError::SequenceMoved { required: 1, expected: 2 }, Unanswered),
        (SubmitError::NodeBehind { expected_sequence: 1, used_below: 2 }, Unanswered),
        (SubmitError::AboveCeiling(ceiling), Blocked("FEE_ABOVE_CEILING")),
        (SubmitError::Journal(String::new()), Unanswered),
        (SubmitError::Unrecorded(String::new()), Unanswered),
        (SubmitError::Restored { hash: "A".to_owned(), height: 1 }, Unanswered),
        (SubmitError::Overloaded { limit: 1 }, Unanswered),
        (not_taken(), Blocked("SIGNED_FIELD_DIFFERS")),
        (chain_changed(), Blocked("CHAIN_CHANGED")),
        (SubmitError::SigningFailed, Unanswered),
    ] {
        let text = format!("{error:?}");
        assert_eq!(kind_of(&WriteStop::from(error.clone())), expected, "{text}");
        // The end of a write that was refused before it was sent is the same.
        let failure = WriteFailure { last_tx: None, may_execute: false, error: WriteError::Submit(error) };
        assert_eq!(conclude(Err(failure), None).as_ref().map_err(kind_of), Err(expected), "{text}");
    }
}

fn chain_changed() -> SubmitError {
    let (pinned, found) = (Some("A".to_owned()), "B".to_owned());
    let change = ChainChange { height: 7, pinned, missing_tx: None, found, agreed: Some(6) };
    SubmitError::ChainChanged(Box::new(change))
}

fn not_taken() -> SubmitError {
    let reason = "pp.v1.MsgTriggerResolver.id is id = 3: Uint64 here and missing at the node".to_owned();
    SubmitError::NotTaken { msg_type: "/svc.pp.v1.MsgTriggerResolver".to_owned(), reason }
}

#[test]
fn a_message_that_the_node_reads_otherwise_is_named_with_its_field_and_is_not_the_chain_s_refusal() {
    let stop = WriteStop::from(not_taken());
    for named in ["SIGNED_FIELD_DIFFERS", "/svc.pp.v1.MsgTriggerResolver", "pp.v1.MsgTriggerResolver.id"] {
        assert!(stop.reason().contains(named), "{named} in {}", stop.reason());
    }
    for (stop, is_of_node) in [
        (stop, true),
        (chain_changed().into(), true),
        (WriteStop::Unanswered(String::new()), true),
        (BlockedReason::NoGrant.into(), false),
        (WriteStop::Failed(String::new()), false),
    ] {
        assert_eq!(stop.is_of_node(), is_of_node, "{stop:?}");
    }
}
