//! Refused writes of the account, and the reasons that block them.

use svc_pipeline::{SubmittedTx, TxRefusal};
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
