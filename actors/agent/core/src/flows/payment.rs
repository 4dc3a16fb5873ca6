//! Whether a credential is paid: the session at the node beside the record. Pure.

use svc_didcomm::flow::FlowRecord;
use svc_wire::proto::svc::pp::v1::ParticipantSession;

use crate::grant::AgentAccount;

/// A session of the registry, as the issuer of a credential sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionPayment {
    /// As many records of the issuer as the flow knows: the next one is unpaid.
    AsKnown,
    /// One more: a credential that was sent and whose outcome was not heard of is paid.
    OneMore,
    /// Several more: another copy of the store has issued.
    SeveralMore,
    /// The session is that of another corporation or account.
    Foreign,
}

/// The records of an issuer in a session at the node that a flow does not know.
pub fn unknown_records(
    record: &FlowRecord,
    session_id: &str,
    found: Option<&ParticipantSession>,
    issuer_participant_id: u64,
) -> usize {
    let Some(session) = found else { return 0 };
    let of_issuer = session.session_records.iter().filter(|one| one.issuer_participant_id == issuer_participant_id);
    of_issuer.count().saturating_sub(record.paid_under(session_id))
}

/// Whether a session is that of our corporation and account.
pub fn is_own_session(session: &ParticipantSession, own: &AgentAccount) -> bool {
    session.corporation_id == own.corporation_id && session.vs_operator == own.address
}

/// Compares a session at the node with a record.
pub fn session_payment(
    record: &FlowRecord,
    session_id: &str,
    found: Option<&ParticipantSession>,
    own: &AgentAccount,
    issuer_participant_id: u64,
) -> SessionPayment {
    let Some(session) = found else { return SessionPayment::AsKnown };
    if !is_own_session(session, own) {
        return SessionPayment::Foreign;
    }
    match unknown_records(record, session_id, found, issuer_participant_id) {
        0 => SessionPayment::AsKnown,
        1 => SessionPayment::OneMore,
        _ => SessionPayment::SeveralMore,
    }
}

/// The next step with a credential, by its session at the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PaymentStep {
    /// It may be signed, or its transaction sent.
    GoOn,
    /// It is paid: its digest is looked for, and nothing is sent.
    FindDigest,
    /// The flow waits for the operator, with this reason.
    Block(&'static str),
}

impl SessionPayment {
    /// Before a credential is signed: none of this round can be on its way.
    pub fn before_signing(self) -> PaymentStep {
        match self {
            Self::AsKnown => PaymentStep::GoOn,
            Self::OneMore | Self::SeveralMore => PaymentStep::Block(svc_didcomm::flow::ALREADY_ISSUED),
            Self::Foreign => PaymentStep::Block("SESSION_FOREIGN"),
        }
    }

    /// Before the transaction of a signed credential is sent, which an earlier attempt may have done.
    pub fn before_sending(self) -> PaymentStep {
        match self {
            Self::AsKnown => PaymentStep::GoOn,
            Self::OneMore => PaymentStep::FindDigest,
            Self::SeveralMore => PaymentStep::Block(svc_didcomm::flow::ALREADY_ISSUED),
            Self::Foreign => PaymentStep::Block("SESSION_FOREIGN"),
        }
    }
}

#[cfg(test)]
mod tests {
    use svc_didcomm::flow::{CredentialStage, FlowCredential, FlowTx, PastRound, TxStatus};
    use svc_wire::proto::svc::pp::v1::ParticipantSessionRecord;

    use super::{super::testing::direct_validation, *};

    fn own() -> AgentAccount {
        AgentAccount { did: "did:web:v".to_owned(), corporation_id: 7, address: "svc1own".to_owned() }
    }

    fn session(issuers: &[u64]) -> ParticipantSession {
        let record = |issuer: &u64| ParticipantSessionRecord {
            issuer_participant_id: *issuer,
            ..ParticipantSessionRecord::default()
        };
        ParticipantSession {
            id: "s".to_owned(),
            corporation_id: 7,
            vs_operator: "svc1own".to_owned(),
            session_records: issuers.iter().map(record).collect(),
            ..ParticipantSession::default()
        }
    }

    fn credential(stage: CredentialStage) -> FlowCredential {
        FlowCredential {
            round: 1,
            session_id: "s".to_owned(),
            round_changed_at: None,
            paid_before: 0,
            validated_until: None,
            stage,
            id: None,
            digest: None,
            tx: None,
        }
    }

    /// A flow with the credential of an earlier round, and one of this round.
    fn flow(earlier: Option<CredentialStage>, present: Option<CredentialStage>) -> FlowRecord {
        let past = |stage| PastRound {
            number: 1,
            validation: None,
            exchange: None,
            credential: Some(credential(stage)),
            told_to_present: None,
        };
        FlowRecord {
            past: earlier.map(past).into_iter().collect(),
            credential: present.map(credential),
            ..direct_validation(1)
        }
    }

    #[test]
    fn a_credential_is_paid_once_whatever_the_store_has_heard() {
        use CredentialStage as Stage;
        use PaymentStep as Step;
        let block = Step::Block("ALREADY_ISSUED");
        for (earlier, present, issuers, signing, sending) in [
            (None, None, &[][..], Step::GoOn, Step::GoOn),
            (None, None, &[9], Step::GoOn, Step::GoOn),
            (None, None, &[3], block, Step::FindDigest),
            (None, Some(Stage::Signed), &[], Step::GoOn, Step::GoOn),
            (None, Some(Stage::Signed), &[3], block, Step::FindDigest),
            (None, Some(Stage::Signed), &[3, 3], block, block),
            (None, Some(Stage::Anchored), &[3], Step::GoOn, Step::GoOn),
            (Some(Stage::Held), None, &[3], Step::GoOn, Step::GoOn),
            (Some(Stage::Revoked), Some(Stage::Signed), &[3, 9, 3], block, Step::FindDigest),
            // A node that lags shows fewer than were paid.
            (Some(Stage::Held), Some(Stage::Delivered), &[3], Step::GoOn, Step::GoOn),
        ] {
            let record = flow(earlier, present);
            let found = session_payment(&record, "s", Some(&session(issuers)), &own(), 3);
            let steps = (found.before_signing(), found.before_sending());
            assert_eq!(steps, (signing, sending), "{earlier:?} {present:?} {issuers:?}");
        }
        let record = flow(None, None);
        let absent = session_payment(&record, "s", None, &own(), 3);
        assert_eq!((absent.before_signing(), absent.before_sending()), (Step::GoOn, Step::GoOn));
        let others = [
            ParticipantSession { corporation_id: 8, ..session(&[]) },
            ParticipantSession { vs_operator: "svc1other".into(), ..session(&[]) },
        ];
        for foreign in others {
            let found = session_payment(&record, "s", Some(&foreign), &own(), 3);
            assert_eq!(found.before_signing(), Step::Block("SESSION_FOREIGN"));
            assert_eq!(found.before_sending(), Step::Block("SESSION_FOREIGN"));
        }
    }

    #[test]
    fn a_payment_in_a_lost_block_counts_once_the_node_shows_it_again() {
        let tx = FlowTx {
            status: TxStatus::Succeeded,
            hash: Some("LOST".to_owned()),
            height: None,
            reason: None,
            error: None,
        };
        let held = FlowCredential { tx: Some(tx), ..credential(CredentialStage::Held) };
        let mut record = FlowRecord { credential: Some(held), ..flow(None, None) };
        let before_sending = |record: &FlowRecord, issuers: &[u64]| {
            session_payment(record, "s", Some(&session(issuers)), &own(), 3).before_sending()
        };
        assert_eq!(before_sending(&record, &[3]), PaymentStep::GoOn, "it is known");
        assert!(record.look_again(5, |hash| hash == Some("LOST")));
        for (issuers, expected) in [
            (&[][..], PaymentStep::GoOn),
            (&[3], PaymentStep::FindDigest),
            (&[3, 3], PaymentStep::Block("ALREADY_ISSUED")),
        ] {
            assert_eq!(before_sending(&record, issuers), expected, "{issuers:?}");
        }
    }
}
