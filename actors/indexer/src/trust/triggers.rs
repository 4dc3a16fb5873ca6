//! What a block triggers: whom to judge, and what of the registry's side of a DID it changed. Pure.

use std::collections::{BTreeMap, BTreeSet};

use svc_trust::Need;
use svc_wire::trust::{Counts, ListChange};

/// Something a block did, with the DID it is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Touch {
    Corporation {
        did: String,
    },
    Ecosystem {
        did: String,
        schemas: Vec<u64>,
    },
    Participant {
        did: String,
    },
    Schema {
        id: u64,
        ecosystem: Option<String>,
    },
    Digest {
        digest: String,
    },
    /// Money behind a corporation.
    Deposit {
        corporation: String,
    },
    /// Somebody asks that the DID's material is fetched again.
    Asked {
        did: String,
    },
    /// Figures of a participant of the DID.
    ParticipantFigures {
        did: String,
        counts: Counts,
    },
    /// Figures of an ecosystem of the DID, or of one of its schemas.
    EcosystemFigures {
        did: String,
        counts: Counts,
    },
}

/// What the registry says of a DID and a block changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegistryChange {
    pub corporation: bool,
    pub participations: ListChange,
    pub ecosystems: ListChange,
}

/// What a block triggers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Triggered {
    /// Whom to judge, and whether with new material.
    pub judge: BTreeMap<String, bool>,
    /// Whoever depends on one of these is to be judged too.
    pub needs: BTreeSet<Need>,
    pub registry: BTreeMap<String, RegistryChange>,
}

/// Longest DID that is judged: longer ones are no web host's.
const LONGEST_DID: usize = 2_048;

impl Triggered {
    /// From what a block did.
    pub fn by(touches: impl IntoIterator<Item = Touch>) -> Self {
        let mut triggered = Self::default();
        for touch in touches {
            triggered.take(touch);
        }
        triggered
    }

    fn take(&mut self, touch: Touch) {
        match touch {
            Touch::Corporation { did } => {
                self.registry(&did, |change| change.corporation = true);
                self.judge(did, false);
            }
            Touch::Ecosystem { did, schemas } => {
                self.registry(&did, |change| change.ecosystems.structure = true);
                self.needs.extend(schemas.into_iter().map(Need::Schema));
                self.judge(did, false);
            }
            Touch::Participant { did } => {
                self.registry(&did, |change| change.participations.structure = true);
                self.needs.insert(Need::Participants(did.clone()));
                self.judge(did, false);
            }
            Touch::Schema { id, ecosystem } => {
                if let Some(did) = ecosystem {
                    self.registry(&did, |change| change.ecosystems.structure = true);
                }
                self.needs.insert(Need::Schema(id));
            }
            Touch::Digest { digest } => {
                self.needs.insert(Need::Digest(digest));
            }
            Touch::Deposit { corporation } => self.registry(&corporation, |change| change.corporation = true),
            Touch::Asked { did } => self.judge(did, true),
            Touch::ParticipantFigures { did, counts } => {
                self.registry(&did, |change| join(&mut change.participations.counts, counts));
            }
            Touch::EcosystemFigures { did, counts } => {
                self.registry(&did, |change| join(&mut change.ecosystems.counts, counts));
            }
        }
    }

    fn judge(&mut self, did: String, is_fresh: bool) {
        if is_judged(&did) {
            *self.judge.entry(did).or_default() |= is_fresh;
        }
    }

    fn registry(&mut self, did: &str, change: impl FnOnce(&mut RegistryChange)) {
        if is_judged(did) {
            change(self.registry.entry(did.to_owned()).or_default());
        }
    }
}

/// Whether a text on the chain is a DID that can be judged at all.
fn is_judged(did: &str) -> bool {
    did.starts_with("did:") && did.len() <= LONGEST_DID && !did.contains(char::is_control)
}

fn join(counts: &mut Counts, more: Counts) {
    counts.participants |= more.participants;
    counts.issued_credentials |= more.issued_credentials;
    counts.verified_credentials |= more.verified_credentials;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_deed_triggers_what_depends_on_it() {
        let a = || "did:web:a".to_owned();
        let issued = Counts { issued_credentials: true, ..Counts::default() };
        let judged = |is_fresh| BTreeMap::from([(a(), is_fresh)]);
        let structure = ListChange { structure: true, ..ListChange::default() };
        let figures = ListChange { counts: issued, ..ListChange::default() };
        let about = |change: RegistryChange| BTreeMap::from([(a(), change)]);
        for (touch, judge, needs, registry) in [
            (
                Touch::Corporation { did: a() },
                judged(false),
                vec![],
                about(RegistryChange { corporation: true, ..RegistryChange::default() }),
            ),
            (
                Touch::Ecosystem { did: a(), schemas: vec![3, 4] },
                judged(false),
                vec![Need::Schema(3), Need::Schema(4)],
                about(RegistryChange { ecosystems: structure, ..RegistryChange::default() }),
            ),
            (
                Touch::Participant { did: a() },
                judged(false),
                vec![Need::Participants(a())],
                about(RegistryChange { participations: structure, ..RegistryChange::default() }),
            ),
            (
                Touch::Schema { id: 3, ecosystem: Some(a()) },
                BTreeMap::new(),
                vec![Need::Schema(3)],
                about(RegistryChange { ecosystems: structure, ..RegistryChange::default() }),
            ),
            (Touch::Digest { digest: "x".into() }, BTreeMap::new(), vec![Need::Digest("x".into())], BTreeMap::new()),
            (Touch::Asked { did: a() }, judged(true), vec![], BTreeMap::new()),
            (
                Touch::Deposit { corporation: a() },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { corporation: true, ..RegistryChange::default() }),
            ),
            (
                Touch::ParticipantFigures { did: a(), counts: issued },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { participations: figures, ..RegistryChange::default() }),
            ),
            (
                Touch::EcosystemFigures { did: a(), counts: issued },
                BTreeMap::new(),
                vec![],
                about(RegistryChange { ecosystems: figures, ..RegistryChange::default() }),
            ),
        ] {
            let expected = Triggered { judge, needs: needs.into_iter().collect(), registry };
            assert_eq!(Triggered::by([touch.clone()]), expected, "{touch:?}");
        }
    }

    #[test]
    fn a_wish_for_new_material_outlasts_other_deeds_and_texts_that_are_no_did_are_left_alone() {
        let a = || "did:web:a".to_owned();
        let touches = [Touch::Asked { did: a() }, Touch::Participant { did: a() }];
        assert_eq!(Triggered::by(touches).judge, [(a(), true)].into());
        for text in ["", "https://a", "did:web:a\u{0}", &format!("did:web:{}", "a".repeat(3_000))] {
            let triggered = Triggered::by([Touch::Corporation { did: text.to_owned() }]);
            assert!(triggered.judge.is_empty() && triggered.registry.is_empty(), "{text:?}");
        }
    }
}
