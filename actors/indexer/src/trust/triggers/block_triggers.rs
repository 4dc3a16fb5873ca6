//! The triggers of a block: the DIDs to evaluate, and the registry changes by DID. Pure.

use std::collections::{BTreeMap, BTreeSet};

use svc_trust::EvidenceRequest;
use svc_wire::trust_stream::{ListChange, MeasureFlags};

/// A change by a block that can affect verdicts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrustTrigger {
    Corporation {
        did: String,
    },
    Ecosystem {
        did: String,
        schemas: Vec<u64>,
    },
    Participant {
        did: String,
        /// DID of the ecosystem above the participant.
        ecosystem_did: Option<String>,
        /// Whether more than its deposit changed.
        is_structural: bool,
    },
    Schema {
        id: u64,
        /// DID of the ecosystem of the schema.
        ecosystem_did: Option<String>,
    },
    Digest {
        digest: String,
    },
    /// The trust deposit of the corporation with a DID.
    TrustDeposit {
        corporation_did: String,
        /// Whether more than the amount changed: a slash or its repayment.
        is_structural: bool,
    },
    /// A message requests fresh evidence for a DID.
    RefreshRequest {
        did: String,
    },
    /// Measures of a participant with the DID.
    ParticipantMeasures {
        did: String,
        measures: MeasureFlags,
    },
    /// Measures of an ecosystem with the DID, or of one of its schemas.
    EcosystemMeasures {
        did: String,
        measures: MeasureFlags,
    },
}

/// The parts of the registry state of a DID that a block changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryChange {
    pub corporation: bool,
    pub deposit: bool,
    pub participations: ListChange,
    pub ecosystems: ListChange,
}

/// The triggers of a block.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockTriggers {
    /// DIDs to evaluate, each with whether its evidence must be fetched again.
    pub dids: BTreeMap<String, bool>,
    /// Every DID whose verdict depends on one of these is evaluated too.
    pub evidence_requests: BTreeSet<EvidenceRequest>,
    pub registry_changes: BTreeMap<String, RegistryChange>,
}

/// Longest DID that is evaluated, in bytes: no web host has a longer one.
const MAX_DID_BYTES: usize = 2_048;

impl Extend<TrustTrigger> for BlockTriggers {
    fn extend<T: IntoIterator<Item = TrustTrigger>>(&mut self, triggers: T) {
        for trigger in triggers {
            self.apply(trigger);
        }
    }
}

impl BlockTriggers {
    fn apply(&mut self, trigger: TrustTrigger) {
        match trigger {
            TrustTrigger::Corporation { did } => {
                self.change_registry(&did, |change| change.corporation = true);
                self.add_did(did, false);
            }
            TrustTrigger::Ecosystem { did, schemas } => {
                self.change_registry(&did, |change| change.ecosystems.structure = true);
                self.evidence_requests.extend(schemas.into_iter().map(EvidenceRequest::Schema));
                self.add_did(did, false);
            }
            TrustTrigger::Participant { did, ecosystem_did, is_structural } => {
                // The measures of the participant name a change of its deposit, which is its weight.
                if is_structural {
                    self.change_registry(&did, |change| change.participations.structure = true);
                    if let Some(did) = ecosystem_did {
                        // A mirror of the ecosystem shows the participants below it by role and state.
                        self.change_registry(&did, |change| change.ecosystems.measures.participants = true);
                    }
                }
                self.evidence_requests.insert(EvidenceRequest::Participants(did.clone()));
                self.add_did(did, false);
            }
            TrustTrigger::Schema { id, ecosystem_did } => {
                if let Some(did) = ecosystem_did {
                    self.change_registry(&did, |change| change.ecosystems.structure = true);
                }
                self.evidence_requests.insert(EvidenceRequest::Schema(id));
            }
            TrustTrigger::Digest { digest } => {
                self.evidence_requests.insert(EvidenceRequest::Digest(digest));
            }
            TrustTrigger::TrustDeposit { corporation_did, is_structural } => {
                self.change_registry(&corporation_did, |change| {
                    change.deposit = true;
                    change.corporation |= is_structural;
                });
            }
            TrustTrigger::RefreshRequest { did } => self.add_did(did, true),
            TrustTrigger::ParticipantMeasures { did, measures } => {
                self.change_registry(&did, |change| merge_measures(&mut change.participations.measures, measures));
            }
            TrustTrigger::EcosystemMeasures { did, measures } => {
                self.change_registry(&did, |change| merge_measures(&mut change.ecosystems.measures, measures));
            }
        }
    }

    fn add_did(&mut self, did: String, is_fresh: bool) {
        if is_evaluable(&did) {
            *self.dids.entry(did).or_default() |= is_fresh;
        }
    }

    fn change_registry(&mut self, did: &str, change: impl FnOnce(&mut RegistryChange)) {
        if is_evaluable(did) {
            change(self.registry_changes.entry(did.to_owned()).or_default());
        }
    }
}

/// Whether a text on the chain is a DID that can be evaluated.
fn is_evaluable(did: &str) -> bool {
    did.starts_with("did:") && did.len() <= MAX_DID_BYTES && !did.contains(char::is_control)
}

fn merge_measures(measures: &mut MeasureFlags, more: MeasureFlags) {
    measures.participants |= more.participants;
    measures.issued_credentials |= more.issued_credentials;
    measures.verified_credentials |= more.verified_credentials;
    measures.weights |= more.weights;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collect(triggers: impl IntoIterator<Item = TrustTrigger>) -> BlockTriggers {
        let mut collected = BlockTriggers::default();
        collected.extend(triggers);
        collected
    }

    #[test]
    fn each_change_triggers_its_dependents() {
        let a = || "did:web:a".to_owned();
        let issued = MeasureFlags { issued_credentials: true, weights: true, ..MeasureFlags::default() };
        let judged = |is_fresh| BTreeMap::from([(a(), is_fresh)]);
        let structure = ListChange { structure: true, ..ListChange::default() };
        let figures = ListChange { measures: issued, ..ListChange::default() };
        let measures = MeasureFlags { participants: true, ..MeasureFlags::default() };
        let participants = ListChange { measures, ..ListChange::default() };
        let about = |change: RegistryChange| BTreeMap::from([(a(), change)]);
        for (touch, judge, needs, registry) in [
            (
                TrustTrigger::Corporation { did: a() },
                judged(false),
                vec![],
                about(RegistryChange { corporation: true, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::Ecosystem { did: a(), schemas: vec![3, 4] },
                judged(false),
                vec![EvidenceRequest::Schema(3), EvidenceRequest::Schema(4)],
                about(RegistryChange { ecosystems: structure, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::Participant { did: a(), ecosystem_did: None, is_structural: true },
                judged(false),
                vec![EvidenceRequest::Participants(a())],
                about(RegistryChange { participations: structure, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::Participant {
                    did: a(),
                    ecosystem_did: Some("did:web:above".into()),
                    is_structural: false,
                },
                judged(false),
                vec![EvidenceRequest::Participants(a())],
                BTreeMap::new(),
            ),
            (
                TrustTrigger::Participant {
                    did: a(),
                    ecosystem_did: Some("did:web:above".into()),
                    is_structural: true,
                },
                judged(false),
                vec![EvidenceRequest::Participants(a())],
                BTreeMap::from([
                    (a(), RegistryChange { participations: structure, ..RegistryChange::default() }),
                    ("did:web:above".into(), RegistryChange { ecosystems: participants, ..RegistryChange::default() }),
                ]),
            ),
            (
                TrustTrigger::Schema { id: 3, ecosystem_did: Some(a()) },
                BTreeMap::new(),
                vec![EvidenceRequest::Schema(3)],
                about(RegistryChange { ecosystems: structure, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::Digest { digest: "x".into() },
                BTreeMap::new(),
                vec![EvidenceRequest::Digest("x".into())],
                BTreeMap::new(),
            ),
            (TrustTrigger::RefreshRequest { did: a() }, judged(true), vec![], BTreeMap::new()),
            (
                TrustTrigger::TrustDeposit { corporation_did: a(), is_structural: false },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { deposit: true, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::TrustDeposit { corporation_did: a(), is_structural: true },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { corporation: true, deposit: true, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::ParticipantMeasures { did: a(), measures: issued },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { participations: figures, ..RegistryChange::default() }),
            ),
            (
                TrustTrigger::EcosystemMeasures { did: a(), measures: issued },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { ecosystems: figures, ..RegistryChange::default() }),
            ),
        ] {
            let expected = BlockTriggers {
                dids: judge,
                evidence_requests: needs.into_iter().collect(),
                registry_changes: registry,
            };
            assert_eq!(collect([touch.clone()]), expected, "{touch:?}");
        }
    }

    #[test]
    fn a_refresh_request_survives_other_triggers_and_invalid_dids_are_ignored() {
        let a = || "did:web:a".to_owned();
        let participant = TrustTrigger::Participant { did: a(), ecosystem_did: None, is_structural: true };
        let touches = [TrustTrigger::RefreshRequest { did: a() }, participant];
        assert_eq!(collect(touches).dids, [(a(), true)].into());
        for text in ["", "https://a", "did:web:a\u{0}", &format!("did:web:{}", "a".repeat(3_000))] {
            let triggered = collect([TrustTrigger::Corporation { did: text.to_owned() }]);
            assert!(triggered.dids.is_empty() && triggered.registry_changes.is_empty(), "{text:?}");
        }
    }
}
