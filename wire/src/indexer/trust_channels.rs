//! Channels of the trust stream, and the measures that a subscriber of a channel may include.

use serde::{Deserialize, Serialize};

/// Measures beside the entities that they belong to: a subscriber includes them, or a block changed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MeasureFlags {
    /// Number of participants.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub participants: bool,
    /// Number of issued credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub issued_credentials: bool,
    /// Number of verified credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verified_credentials: bool,
    /// Weight of a participant.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub weights: bool,
    /// Trust deposit of a corporation.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deposits: bool,
}

impl MeasureFlags {
    /// Names of the request flags for counts, in the order of the fields.
    pub const COUNT_NAMES: [&str; 3] =
        ["includeParticipantCounts", "includeIssuedCredentials", "includeVerifiedCredentials"];

    /// Returns the names of the request flags of a channel; none for a channel without measures.
    pub fn names_for(channel: &str) -> &'static [&'static str] {
        match channel {
            "corporation" => &["includeDepositChanges"],
            "participations" => &[
                "includeWeightChanges",
                "includeParticipantCounts",
                "includeIssuedCredentials",
                "includeVerifiedCredentials",
            ],
            "ecosystems" => &Self::COUNT_NAMES,
            _ => &[],
        }
    }

    /// Sets the measure of a request flag. Returns false for an unknown name.
    pub fn enable(&mut self, name: &str) -> bool {
        match name {
            "includeParticipantCounts" => self.participants = true,
            "includeIssuedCredentials" => self.issued_credentials = true,
            "includeVerifiedCredentials" => self.verified_credentials = true,
            "includeWeightChanges" => self.weights = true,
            "includeDepositChanges" => self.deposits = true,
            _ => return false,
        }
        true
    }

    /// Whether both have a measure.
    pub(super) fn overlaps(self, other: Self) -> bool {
        (self.participants && other.participants)
            || (self.issued_credentials && other.issued_credentials)
            || (self.verified_credentials && other.verified_credentials)
            || (self.weights && other.weights)
            || (self.deposits && other.deposits)
    }
}

/// Channels of a subscriber: the kinds of change that it gets. The default is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct TrustChannels {
    /// Verdicts.
    pub trust: bool,
    /// Essential credentials.
    pub ecs_credentials: bool,
    /// Linked presentations.
    pub presentations: bool,
    /// Services of the DID Document.
    pub services: bool,
    /// The corporation, with the measures whose change is a change of it.
    pub corporation: Option<MeasureFlags>,
    /// Participants, with the measures whose change is a change of the list.
    pub participations: Option<MeasureFlags>,
    /// Ecosystems, with the measures whose change is a change of the list.
    pub ecosystems: Option<MeasureFlags>,
}

impl TrustChannels {
    /// Names of the channels.
    pub const NAMES: [&str; 7] =
        ["trust", "ecsCredentials", "presentations", "services", "corporation", "participations", "ecosystems"];

    /// Every channel.
    pub fn all(measures: MeasureFlags) -> Self {
        let mut all = Self::default();
        for name in Self::NAMES {
            all.enable(name, measures);
        }
        all
    }

    /// Enables a channel by its name; `measures` applies to the channels with measures. Returns false for an unknown name.
    pub fn enable(&mut self, name: &str, measures: MeasureFlags) -> bool {
        match name {
            "trust" => self.trust = true,
            "ecsCredentials" => self.ecs_credentials = true,
            "presentations" => self.presentations = true,
            "services" => self.services = true,
            "corporation" => self.corporation = Some(measures),
            "participations" => self.participations = Some(measures),
            "ecosystems" => self.ecosystems = Some(measures),
            _ => return false,
        }
        true
    }

    /// Whether no channel is enabled.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}
