//! JSON of the trust stream `/v4/verifiable-trust/subscribe` and of its REST twin `/v4/verifiable-trust/changes`, and what a
//! change must know beyond it to be shown to those who asked for some of it.

use serde::{Deserialize, Serialize};

use crate::event::ServerMessage;

/// What the trust stream sends: as the block subscription, but for the blocks.
pub type TrustMessage = ServerMessage<TrustBlock>;

/// One evaluated height with the changes that match the subscription.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustBlock {
    /// Height.
    pub block: u64,
    /// ISO-8601 UTC with milliseconds.
    #[serde(rename = "blockTime")]
    pub block_time: String,
    /// Matching changes, may be empty.
    pub changes: Vec<DidChange>,
}

/// What a block changed about a DID: the new verdict, and flags for what is to be read again. A flag that is absent is false.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DidChange {
    /// Subject.
    pub did: String,
    /// The verdict, when it changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trust: Option<TrustState>,
    /// Its essential credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub ecs_credentials: bool,
    /// Its linked presentations.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub presentations: bool,
    /// Services of its DID Document.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub services: bool,
    /// The corporation behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub corporation: bool,
    /// Its participants.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub participations: bool,
    /// Its ecosystems.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub ecosystems: bool,
}

/// A verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TrustState {
    /// Whether the DID is trusted.
    pub trusted: bool,
    /// Time of the block of the evaluation, ISO-8601 UTC with milliseconds.
    pub evaluated_at_time: String,
    /// Block of the evaluation.
    pub evaluated_at_block: u64,
    /// When the first of its grounds ends; null when none does.
    pub expires_at_time: Option<String>,
    /// The corporation behind the DID.
    pub corporation_id: u64,
}

/// Figures that can be asked for, or have changed, beside the entities they belong to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Counts {
    /// How many participants there are.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub participants: bool,
    /// How many credentials were issued.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub issued_credentials: bool,
    /// How many credentials were verified.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub verified_credentials: bool,
}

impl Counts {
    /// Names of the flags that ask for them.
    pub const NAMES: [&str; 3] = ["includeParticipantCounts", "includeIssuedCredentials", "includeVerifiedCredentials"];

    /// Asks for one by the name of its flag; false when there is none of that name.
    pub fn include(&mut self, name: &str) -> bool {
        match name {
            "includeParticipantCounts" => self.participants = true,
            "includeIssuedCredentials" => self.issued_credentials = true,
            "includeVerifiedCredentials" => self.verified_credentials = true,
            _ => return false,
        }
        true
    }

    fn meets(self, other: Self) -> bool {
        (self.participants && other.participants)
            || (self.issued_credentials && other.issued_credentials)
            || (self.verified_credentials && other.verified_credentials)
    }
}

/// Kinds of change somebody wants to hear of. None at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Channels {
    /// Verdicts.
    pub trust: bool,
    /// Essential credentials.
    pub ecs_credentials: bool,
    /// Linked presentations.
    pub presentations: bool,
    /// Services of the DID Document.
    pub services: bool,
    /// The corporation.
    pub corporation: bool,
    /// Participants, and which figures of theirs count as a change.
    pub participations: Option<Counts>,
    /// Ecosystems, and which figures of theirs count as a change.
    pub ecosystems: Option<Counts>,
}

impl Channels {
    /// Names of the channels.
    pub const NAMES: [&str; 7] =
        ["trust", "ecsCredentials", "presentations", "services", "corporation", "participations", "ecosystems"];

    /// Every channel.
    pub fn all(counts: Counts) -> Self {
        let mut all = Self::default();
        for name in Self::NAMES {
            all.enable(name, counts);
        }
        all
    }

    /// Enables a channel by its name, with these figures where it has figures; false when there is none of that name.
    pub fn enable(&mut self, name: &str, counts: Counts) -> bool {
        match name {
            "trust" => self.trust = true,
            "ecsCredentials" => self.ecs_credentials = true,
            "presentations" => self.presentations = true,
            "services" => self.services = true,
            "corporation" => self.corporation = true,
            "participations" => self.participations = Some(counts),
            "ecosystems" => self.ecosystems = Some(counts),
            _ => return false,
        }
        true
    }

    /// Whether nothing is enabled.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// What changed in a list of entities with figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListChange {
    /// The entities themselves: one came or went, or says something else.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub structure: bool,
    /// Their figures.
    #[serde(flatten)]
    pub counts: Counts,
}

impl ListChange {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether it is a change for somebody who asked for these figures; figures alone are none for those who did not.
    fn is_for(&self, asked: Option<Counts>) -> bool {
        asked.is_some_and(|counts| self.structure || self.counts.meets(counts))
    }
}

/// Everything a block changed about a DID, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedChange {
    /// Subject.
    pub did: String,
    /// The corporation of its verdict, whether that changed or not: whom the corporation filter means.
    pub corporation_id: u64,
    /// The corporation it belonged to before, if that is another: who knew it is told of it too.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub former_corporation_id: Option<u64>,
    /// The verdict, when it changed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trust: Option<TrustState>,
    /// Its essential credentials.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub ecs_credentials: bool,
    /// Its linked presentations.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub presentations: bool,
    /// Services of its DID Document.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub services: bool,
    /// The corporation behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub corporation: bool,
    /// Its participants.
    #[serde(skip_serializing_if = "ListChange::is_none", default)]
    pub participations: ListChange,
    /// Its ecosystems.
    #[serde(skip_serializing_if = "ListChange::is_none", default)]
    pub ecosystems: ListChange,
}

impl RecordedChange {
    /// What of it somebody sees who asked for these channels; none when it is nothing.
    pub fn shown(&self, channels: &Channels) -> Option<DidChange> {
        let shown = DidChange {
            did: String::new(),
            trust: self.trust.as_ref().filter(|_| channels.trust).cloned(),
            ecs_credentials: self.ecs_credentials && channels.ecs_credentials,
            presentations: self.presentations && channels.presentations,
            services: self.services && channels.services,
            corporation: self.corporation && channels.corporation,
            participations: self.participations.is_for(channels.participations),
            ecosystems: self.ecosystems.is_for(channels.ecosystems),
        };
        (shown != DidChange::default()).then(|| DidChange { did: self.did.clone(), ..shown })
    }
}

/// Everything a block changed, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedBlock {
    /// Height.
    pub block: u64,
    /// ISO-8601 UTC with milliseconds.
    pub block_time: String,
    /// Changes, one a DID.
    pub changes: Vec<RecordedChange>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn verdict() -> TrustState {
        TrustState {
            trusted: true,
            evaluated_at_time: "2026-04-03T07:45:41.000Z".into(),
            evaluated_at_block: 7,
            expires_at_time: None,
            corporation_id: 11,
        }
    }

    /// A change of everything named in a stored form.
    fn recorded(parts: Value) -> RecordedChange {
        let mut stored = json!({"did": "did:web:a", "corporationId": 11});
        stored.as_object_mut().expect("an object").extend(parts.as_object().expect("an object").clone());
        let change: RecordedChange = serde_json::from_value(stored.clone()).expect("parses");
        assert_eq!(serde_json::to_value(&change).expect("serialises"), stored, "kept as it was, and no more");
        change
    }

    fn channels(named: &[&str], flags: &[&str]) -> Channels {
        let (mut channels, mut counts) = (Channels::default(), Counts::default());
        for flag in flags {
            assert!(counts.include(flag), "{flag}");
        }
        for name in named {
            assert!(channels.enable(name, counts), "{name}");
        }
        channels
    }

    #[test]
    fn a_change_is_shown_to_those_who_asked_for_some_of_it() {
        let [participants, issued, verified] = Counts::NAMES;
        let everything = json!({
            "trust": verdict(), "ecsCredentials": true, "presentations": true, "services": true, "corporation": true,
            "participations": {"structure": true}, "ecosystems": {"structure": true, "issuedCredentials": true},
        });
        let figures = json!({"participations": {"participants": true}, "ecosystems": {"issuedCredentials": true}});
        let used = json!({"participations": {"verifiedCredentials": true}});
        let trust = json!({"trust": verdict()});
        for (change, named, flags, seen) in [
            (&everything, &["trust"][..], &[][..], json!({"trust": verdict()})),
            (&everything, &["ecsCredentials"], &[], json!({"ecsCredentials": true})),
            (&everything, &["presentations"], &[], json!({"presentations": true})),
            (&everything, &["services"], &[], json!({"services": true})),
            (&everything, &["corporation"], &[], json!({"corporation": true})),
            (&everything, &["participations"], &[], json!({"participations": true})),
            (&everything, &["ecosystems"], &[verified], json!({"ecosystems": true})),
            (&everything, &["services", "trust"], &[], json!({"trust": verdict(), "services": true})),
            (&everything, &[], &[], Value::Null),
            (&trust, &["trust"], &[], json!({"trust": verdict()})),
            (&trust, &Channels::NAMES[1..], &Counts::NAMES[..], Value::Null),
            (&figures, &Channels::NAMES, &[], Value::Null),
            (&figures, &Channels::NAMES, &[verified], Value::Null),
            (&figures, &Channels::NAMES, &[participants], json!({"participations": true})),
            (&figures, &Channels::NAMES, &[issued], json!({"ecosystems": true})),
            (&figures, &Channels::NAMES, &Counts::NAMES, json!({"participations": true, "ecosystems": true})),
            (&figures, &["ecosystems"], &[participants, verified], Value::Null),
            (&used, &["participations"], &[verified], json!({"participations": true})),
            (&used, &["participations"], &[participants, issued], Value::Null),
            (&used, &["ecosystems"], &Counts::NAMES, Value::Null),
            (&json!({}), &Channels::NAMES, &Counts::NAMES, Value::Null),
        ] {
            let shown = recorded(change.clone()).shown(&channels(named, flags));
            let mut expected = seen;
            if let Some(members) = expected.as_object_mut() {
                members.insert("did".into(), "did:web:a".into());
            }
            assert_eq!(json!(shown), expected, "{change} for {named:?} with {flags:?}");
            if let Some(shown) = shown {
                assert_eq!(serde_json::from_value::<DidChange>(expected).expect("parses"), shown);
            }
        }
    }

    #[test]
    fn names_are_those_of_the_table_of_reads() {
        let changes = crate::reads::endpoints().iter().find(|endpoint| endpoint.operation == "vt.listChanges");
        let params = &changes.expect("a read").params;
        let named = params.iter().find(|param| param.name == "channels").expect("a parameter");
        assert_eq!(named.allowed, Channels::NAMES);
        for flag in Counts::NAMES {
            assert!(params.iter().any(|param| param.name == flag), "{flag}");
        }
        let counts = Counts { participants: true, ..Counts::default() };
        assert_eq!(Channels::all(counts), channels(&Channels::NAMES, &[Counts::NAMES[0]]));
        assert!(channels(&[], &[]).is_empty() && !Channels::all(counts).is_empty());
        assert!(!Channels::default().enable("weather", counts) && !Counts::default().include("includeWeather"));
    }

    #[test]
    fn a_block_has_a_type_in_the_stream_only() {
        let change = DidChange { did: "did:web:a".into(), trust: Some(verdict()), ..DidChange::default() };
        let block = TrustBlock { block: 7, block_time: "2026-04-03T07:45:41.000Z".into(), changes: vec![change] };
        let mut expected = json!({
            "block": 7, "blockTime": "2026-04-03T07:45:41.000Z",
            "changes": [{"did": "did:web:a", "trust": {
                "trusted": true, "evaluatedAtTime": "2026-04-03T07:45:41.000Z", "evaluatedAtBlock": 7,
                "expiresAtTime": null, "corporationId": 11,
            }}],
        });
        assert_eq!(serde_json::to_value(&block).expect("serialises"), expected);
        expected["type"] = "block".into();
        let message = TrustMessage::Block(block);
        assert_eq!(serde_json::to_value(&message).expect("serialises"), expected);
        assert_eq!(serde_json::from_value::<TrustMessage>(expected).expect("parses"), message);
        let ready = r#"{"type":"ready","block":1,"blockTime":"t","blockIntervalMs":6000}"#;
        assert!(matches!(serde_json::from_str(ready), Ok(TrustMessage::Ready { block: 1, .. })));
    }
}
