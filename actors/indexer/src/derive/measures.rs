//! The figures that are kept of every scope: counts, weights, credentials and slashes. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What a figure is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    Global,
    Ecosystem(u64),
    Schema(u64),
    /// The sub-tree below a participant.
    Participant(u64),
    /// What a corporation owns.
    Corporation(u64),
}

impl Scope {
    /// Number of the kind, as `stats.countParticipants` spells it, and the id; 0 for the globe.
    pub fn key(self) -> (i64, u64) {
        match self {
            Self::Global => (0, 0),
            Self::Ecosystem(id) => (1, id),
            Self::Schema(id) => (2, id),
            Self::Participant(id) => (3, id),
            Self::Corporation(id) => (4, id),
        }
    }

    /// From the number of its kind.
    pub fn from_key(kind: u64, id: u64) -> Option<Self> {
        Some(match kind {
            0 => Self::Global,
            1 => Self::Ecosystem(id),
            2 => Self::Schema(id),
            3 => Self::Participant(id),
            4 => Self::Corporation(id),
            _ => return None,
        })
    }
}

/// One figure; the discriminant is its place in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    Participants,
    ParticipantsEcosystem,
    ParticipantsIssuerGrantor,
    ParticipantsIssuer,
    ParticipantsVerifierGrantor,
    ParticipantsVerifier,
    ParticipantsHolder,
    ActiveEcosystems,
    ArchivedEcosystems,
    ActiveSchemas,
    ArchivedSchemas,
    Weight,
    Issued,
    Verified,
    EcosystemSlashEvents,
    EcosystemSlashedAmount,
    EcosystemSlashedAmountRepaid,
    NetworkSlashEvents,
    NetworkSlashedAmount,
    NetworkSlashedAmountRepaid,
}

use Metric as M;

impl Metric {
    /// All of them, in the order of a row.
    pub const ALL: &'static [Self] = &[
        M::Participants,
        M::ParticipantsEcosystem,
        M::ParticipantsIssuerGrantor,
        M::ParticipantsIssuer,
        M::ParticipantsVerifierGrantor,
        M::ParticipantsVerifier,
        M::ParticipantsHolder,
        M::ActiveEcosystems,
        M::ArchivedEcosystems,
        M::ActiveSchemas,
        M::ArchivedSchemas,
        M::Weight,
        M::Issued,
        M::Verified,
        M::EcosystemSlashEvents,
        M::EcosystemSlashedAmount,
        M::EcosystemSlashedAmountRepaid,
        M::NetworkSlashEvents,
        M::NetworkSlashedAmount,
        M::NetworkSlashedAmountRepaid,
    ];

    /// The seven counts of participants: any role, then each.
    pub const COUNTS: &'static [Self] = Self::ALL.split_at(7).0;

    /// What an ecosystem, a schema or a participant adds to its counts.
    pub const AGGREGATES: &'static [Self] = Self::ALL.split_at(11).1;

    /// Name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            M::Participants => "participants",
            M::ParticipantsEcosystem => "participants_ecosystem",
            M::ParticipantsIssuerGrantor => "participants_issuer_grantor",
            M::ParticipantsIssuer => "participants_issuer",
            M::ParticipantsVerifierGrantor => "participants_verifier_grantor",
            M::ParticipantsVerifier => "participants_verifier",
            M::ParticipantsHolder => "participants_holder",
            M::ActiveEcosystems => "active_ecosystems",
            M::ArchivedEcosystems => "archived_ecosystems",
            M::ActiveSchemas => "active_schemas",
            M::ArchivedSchemas => "archived_schemas",
            M::Weight => "weight",
            M::Issued => "issued",
            M::Verified => "verified",
            M::EcosystemSlashEvents => "ecosystem_slash_events",
            M::EcosystemSlashedAmount => "ecosystem_slashed_amount",
            M::EcosystemSlashedAmountRepaid => "ecosystem_slashed_amount_repaid",
            M::NetworkSlashEvents => "network_slash_events",
            M::NetworkSlashedAmount => "network_slashed_amount",
            M::NetworkSlashedAmountRepaid => "network_slashed_amount_repaid",
        }
    }

    /// The count of participants with a role.
    pub fn of_role(role: &str) -> Option<Self> {
        Some(match role {
            "ECOSYSTEM" => M::ParticipantsEcosystem,
            "ISSUER_GRANTOR" => M::ParticipantsIssuerGrantor,
            "ISSUER" => M::ParticipantsIssuer,
            "VERIFIER_GRANTOR" => M::ParticipantsVerifierGrantor,
            "VERIFIER" => M::ParticipantsVerifier,
            "HOLDER" => M::ParticipantsHolder,
            _ => return None,
        })
    }
}

/// Figures of one scope, or their changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measures([i128; Metric::ALL.len()]);

impl Measures {
    pub fn get(&self, metric: Metric) -> i128 {
        self.0[metric as usize]
    }

    pub fn add(&mut self, metric: Metric, change: i128) {
        self.0[metric as usize] += change;
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] + other.0[index]))
    }

    pub fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] - other.0[index]))
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|figure| *figure == 0)
    }

    /// As it is stored.
    pub fn to_text(&self) -> String {
        let figures: Vec<String> = self.0.iter().map(i128::to_string).collect();
        figures.join(",")
    }

    /// From its stored form. A row of an older version is shorter; what it lacks is 0.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut figures = Self::default();
        for (place, part) in figures.0.iter_mut().zip(text.split(',')) {
            *place = part.parse().ok()?;
        }
        Some(figures)
    }

    /// Puts figures into an object, each under its name behind a prefix.
    pub fn put(&self, object: &mut Map<String, Value>, prefix: &str, metrics: &[Metric]) {
        for metric in metrics {
            object.insert(format!("{prefix}{}", metric.name()), number(self.get(*metric)));
        }
    }
}

/// A number as it travels: exact, and a text where no integer of JSON's readers would hold it.
pub fn number(value: i128) -> Value {
    match (u64::try_from(value), i64::try_from(value)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value.into(),
        _ => value.to_string().into(),
    }
}

/// Changes of a block, by scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Deltas(BTreeMap<Scope, Measures>);

impl Deltas {
    pub fn add(&mut self, scope: Scope, metric: Metric, change: i128) {
        if change != 0 {
            self.0.entry(scope).or_default().add(metric, change);
        }
    }

    /// What is left after everything that cancels out.
    pub fn changes(&self) -> impl Iterator<Item = (Scope, &Measures)> {
        self.0.iter().filter(|(_, measures)| !measures.is_zero()).map(|(scope, measures)| (*scope, measures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_survive_the_store_and_cancel_out() {
        let mut figures = Measures::default();
        figures.add(M::Weight, i128::from(u64::MAX) * 3);
        figures.add(M::NetworkSlashedAmountRepaid, -7);
        assert_eq!(Measures::from_text(&figures.to_text()), Some(figures.clone()));
        assert_eq!(Measures::from_text("1,x"), None);
        assert_eq!(number(figures.get(M::Weight)), "55340232221128654845");
        assert!(Metric::ALL.iter().enumerate().all(|(place, metric)| *metric as usize == place));

        let mut deltas = Deltas::default();
        deltas.add(Scope::Global, M::Issued, 2);
        deltas.add(Scope::Schema(1), M::Issued, 2);
        deltas.add(Scope::Schema(1), M::Issued, -2);
        assert_eq!(deltas.changes().count(), 1, "what cancels out leaves no row");
    }
}
