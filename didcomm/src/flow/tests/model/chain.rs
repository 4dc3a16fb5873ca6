//! The chain of the model: one participant, its validator, and the sessions that were paid.

use std::collections::BTreeMap;

use crate::flow::{OnboardingState, ParticipantRead};

/// The read of an agent at one height.
#[derive(Debug, Clone, Copy)]
pub(super) struct NodeRead {
    pub participant: Option<ParticipantRead>,
    pub is_validator_revoked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tx {
    Validate { attempt: String },
    Pay { session: String, round: u32 },
}

#[derive(Debug, Default)]
pub(super) struct Chain {
    height: u64,
    participant: Option<ParticipantRead>,
    is_validator_revoked: bool,
    /// States of before, by height.
    history: Vec<NodeRead>,
    /// Transactions that are in no block yet.
    pool: Vec<Tx>,
    /// Transactions that are in a block, with whether they have succeeded.
    included: Vec<(Tx, bool)>,
    sessions: BTreeMap<String, Vec<u32>>,
    /// Validations that have succeeded.
    validations: u64,
}

impl Chain {
    pub fn newest(&self) -> NodeRead {
        self.read(0)
    }

    pub fn read(&self, lag: u64) -> NodeRead {
        let at = self.history.len().saturating_sub(1 + lag as usize);
        self.history.get(at).copied().unwrap_or(NodeRead { participant: None, is_validator_revoked: false })
    }

    pub fn submit(&mut self, tx: Tx) {
        self.pool.push(tx);
    }

    /// Whether a transaction is in a block, and has succeeded. Absence is proven when the model asks: the pool has not got it.
    pub fn outcome(&self, tx: &Tx) -> Option<bool> {
        let found = self.included.iter().find(|(one, _)| one == tx).map(|(_, is_good)| *is_good);
        found.or_else(|| (!self.pool.contains(tx)).then_some(false))
    }

    pub fn records(&self, session: &str) -> usize {
        self.sessions.get(session).map_or(0, Vec::len)
    }

    pub fn has_paid(&self, session: &str, round: u32) -> bool {
        self.sessions.get(session).is_some_and(|rounds| rounds.contains(&round))
    }

    pub fn paid(&self) -> u64 {
        self.sessions.values().map(|rounds| rounds.len() as u64).sum()
    }

    /// A block.
    pub fn include(&mut self) {
        self.height += 1;
        for tx in std::mem::take(&mut self.pool) {
            let is_good = match &tx {
                Tx::Validate { .. } => self.validate(),
                Tx::Pay { session, round } => {
                    self.sessions.entry(session.clone()).or_default().push(*round);
                    true
                }
            };
            self.included.push((tx, is_good));
        }
        self.note();
    }

    fn note(&mut self) {
        let height = self.height;
        if let Some(participant) = &mut self.participant {
            participant.height = height;
        }
        self.history.push(NodeRead { participant: self.participant, is_validator_revoked: self.is_validator_revoked });
    }

    /// The validation of a pending participant, by the validator's agent or its operator.
    pub fn validate(&mut self) -> bool {
        let at = i128::from(self.height);
        let Some(participant) = self.participant.as_mut().filter(|one| one.state == OnboardingState::Pending) else {
            return false;
        };
        if participant.is_revoked || participant.is_slashed || self.is_validator_revoked {
            return false;
        }
        participant.state = OnboardingState::Validated;
        participant.changed_at = Some(at);
        participant.expires_at = Some(at + 1_000);
        self.validations += 1;
        true
    }

    /// Something that people do on the chain.
    pub fn act(&mut self, choice: u64) {
        self.height += 1;
        let at = i128::from(self.height);
        let begun = ParticipantRead {
            height: self.height,
            state: OnboardingState::Pending,
            changed_at: Some(at),
            expires_at: None,
            is_revoked: false,
            is_slashed: false,
        };
        match (self.participant.as_mut(), choice) {
            (None, _) => self.participant = Some(begun),
            (Some(one), _) if one.is_revoked || one.is_slashed => {}
            (Some(one), 0..3 | 20..26) if one.state == OnboardingState::Validated => {
                (one.state, one.changed_at) = (OnboardingState::Pending, Some(at));
            }
            (Some(one), 3) if one.state == OnboardingState::Pending => {
                one.state =
                    if one.expires_at.is_some() { OnboardingState::Validated } else { OnboardingState::Terminated };
                one.changed_at = Some(at);
            }
            (Some(one), 4) => one.is_revoked = true,
            (Some(one), 5) => one.is_slashed = true,
            (Some(_), 6) => self.is_validator_revoked = true,
            (Some(_), 7..16) => {
                self.validate();
            }
            _ => {}
        }
        self.note();
    }

    /// A round of a session is paid once, and the payments are no more than the validations and the orders of the validator's operator,
    /// for which the record has shown another paid session.
    pub fn check(&self, ordered: u64) {
        let validations = self.validations;
        assert!(self.paid() <= validations + ordered, "{validations} validated, paid: {:?}", self.sessions);
        for (session, rounds) in &self.sessions {
            let mut once = rounds.clone();
            once.sort_unstable();
            once.dedup();
            assert_eq!(&once.len(), &rounds.len(), "{session} was paid twice in a round");
        }
    }
}
