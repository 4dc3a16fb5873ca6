//! Statistics: the measures of each scope, which are counts, weights, credentials and slashes. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The scope of a measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StatsScope {
    Global,
    Ecosystem(u64),
    Schema(u64),
    /// The sub-tree below a participant.
    Participant(u64),
    /// The participants and ecosystems of a corporation.
    Corporation(u64),
}

impl StatsScope {
    /// Returns the number of the kind, which is the `entity_kind` of `stats.countParticipants`, and the id; 0 for the
    /// global scope.
    pub fn key(self) -> (i64, u64) {
        match self {
            Self::Global => (0, 0),
            Self::Ecosystem(id) => (1, id),
            Self::Schema(id) => (2, id),
            Self::Participant(id) => (3, id),
            Self::Corporation(id) => (4, id),
        }
    }

    /// Returns the scope with a kind number and an id; `None` for an unknown kind.
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

/// The metric of a measure; the discriminant is its index in a stored row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsMetric {
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

use StatsMetric as M;

impl StatsMetric {
    /// All metrics, in the order of a stored row.
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

    /// The seven counts of participants: all roles, then each role.
    pub const PARTICIPANT_COUNTS: &'static [Self] = Self::ALL.split_at(7).0;

    /// The totals that ecosystems, schemas and participants show beside their counts.
    pub const CREDENTIAL_AND_SLASH_TOTALS: &'static [Self] = Self::ALL.split_at(11).1;

    /// Returns the name on the wire.
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

    /// Returns the count of participants with a role; `None` for an unknown role.
    pub fn for_role(role: &str) -> Option<Self> {
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

/// Measures of one scope, or changes of them, by metric.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatsMeasures([i128; StatsMetric::ALL.len()]);

impl StatsMeasures {
    pub fn get(&self, metric: StatsMetric) -> i128 {
        self.0[metric as usize]
    }

    pub fn add(&mut self, metric: StatsMetric, change: i128) {
        self.0[metric as usize] += change;
    }

    pub fn plus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] + other.0[index]))
    }

    pub fn minus(&self, other: &Self) -> Self {
        Self(std::array::from_fn(|index| self.0[index] - other.0[index]))
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|measure| *measure == 0)
    }

    /// Returns the stored form: comma-separated numbers.
    pub fn to_text(&self) -> String {
        let numbers: Vec<String> = self.0.iter().map(i128::to_string).collect();
        numbers.join(",")
    }

    /// Parses the stored form; `None` for an invalid one. A row of an older version is shorter: its missing measures
    /// are 0.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut measures = Self::default();
        for (measure, part) in measures.0.iter_mut().zip(text.split(',')) {
            *measure = part.parse().ok()?;
        }
        Some(measures)
    }

    /// Inserts measures into an object, each under its name with a prefix.
    pub fn insert_into(&self, object: &mut Map<String, Value>, prefix: &str, metrics: &[StatsMetric]) {
        for metric in metrics {
            object.insert(format!("{prefix}{}", metric.name()), exact_number(self.get(*metric)));
        }
    }
}

/// Returns an exact JSON number, or a text when the value exceeds 64 bits.
pub fn exact_number(value: i128) -> Value {
    match (u64::try_from(value), i64::try_from(value)) {
        (Ok(value), _) => value.into(),
        (_, Ok(value)) => value.into(),
        _ => value.to_string().into(),
    }
}

/// Changes of measures by a block, by scope.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StatsDeltas(BTreeMap<StatsScope, StatsMeasures>);

impl StatsDeltas {
    pub fn add(&mut self, scope: StatsScope, metric: StatsMetric, change: i128) {
        if change != 0 {
            self.0.entry(scope).or_default().add(metric, change);
        }
    }

    /// Iterates over the scopes whose changes do not cancel out.
    pub fn changes(&self) -> impl Iterator<Item = (StatsScope, &StatsMeasures)> {
        self.0.iter().filter(|(_, measures)| !measures.is_zero()).map(|(scope, measures)| (*scope, measures))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_survive_their_stored_form_and_changes_cancel_out() {
        let mut measures = StatsMeasures::default();
        measures.add(M::Weight, i128::from(u64::MAX) * 3);
        measures.add(M::NetworkSlashedAmountRepaid, -7);
        assert_eq!(StatsMeasures::from_text(&measures.to_text()), Some(measures.clone()));
        assert_eq!(StatsMeasures::from_text("1,x"), None);
        assert_eq!(exact_number(measures.get(M::Weight)), "55340232221128654845");
        assert!(StatsMetric::ALL.iter().enumerate().all(|(index, metric)| *metric as usize == index));

        let mut deltas = StatsDeltas::default();
        deltas.add(StatsScope::Global, M::Issued, 2);
        deltas.add(StatsScope::Schema(1), M::Issued, 2);
        deltas.add(StatsScope::Schema(1), M::Issued, -2);
        assert_eq!(deltas.changes().count(), 1, "changes that cancel out leave no row");
    }
}
