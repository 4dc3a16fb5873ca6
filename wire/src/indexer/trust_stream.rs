//! JSON of the trust stream `/v4/verifiable-trust/subscribe` and of the REST read `/v4/verifiable-trust/changes`.
//!
//! A change is stored as a [`RecordedDidChange`], with more details than any subscriber gets. [`RecordedDidChange::filter_for`]
//! makes the [`DidChange`] for the channels of one subscriber.

use serde::{Deserialize, Serialize};

pub use super::trust_channels::{MeasureFlags, TrustChannels};
use crate::event_stream::StreamMessage;

/// Message of the trust stream: that of the block subscription with trust blocks.
pub type TrustMessage = StreamMessage<TrustBlock>;

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

/// Changes of a DID in one block: the new verdict, and a flag for each part that the subscriber has to read again. An absent
/// flag is false.
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
    /// Earliest end of a credential or participant that the verdict rests on; null when none ends.
    pub expires_at_time: Option<String>,
    /// The corporation behind the DID.
    pub corporation_id: u64,
}

/// Change of a list of entities with measures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ListChange {
    /// An entity was added, removed or changed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub structure: bool,
    /// Measures that changed.
    #[serde(flatten)]
    pub measures: MeasureFlags,
}

impl ListChange {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the change matters to a subscriber of the list with these measures. A change of other measures does not.
    fn matches_request(&self, requested: Option<MeasureFlags>) -> bool {
        requested.is_some_and(|measures| self.structure || self.measures.overlaps(measures))
    }
}

/// All changes of a DID in one block, in the stored form.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedDidChange {
    /// Subject.
    pub did: String,
    /// The corporation of its verdict, changed or not. The corporation filter matches it.
    pub corporation_id: u64,
    /// The corporation before the block, if it is another one. The corporation filter matches it too.
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
    /// The corporation behind it, apart from its deposit.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub corporation: bool,
    /// The deposit of the corporation behind it.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub deposit: bool,
    /// Its participants.
    #[serde(skip_serializing_if = "ListChange::is_empty", default)]
    pub participations: ListChange,
    /// Its ecosystems.
    #[serde(skip_serializing_if = "ListChange::is_empty", default)]
    pub ecosystems: ListChange,
}

impl RecordedDidChange {
    /// The part of the change that a subscriber of these channels gets; none when no channel has a change.
    pub fn filter_for(&self, channels: &TrustChannels) -> Option<DidChange> {
        let shown = DidChange {
            did: String::new(),
            trust: self.trust.as_ref().filter(|_| channels.trust).cloned(),
            ecs_credentials: self.ecs_credentials && channels.ecs_credentials,
            presentations: self.presentations && channels.presentations,
            services: self.services && channels.services,
            corporation: channels
                .corporation
                .is_some_and(|measures| self.corporation || (self.deposit && measures.deposits)),
            participations: self.participations.matches_request(channels.participations),
            ecosystems: self.ecosystems.matches_request(channels.ecosystems),
        };
        (shown != DidChange::default()).then(|| DidChange { did: self.did.clone(), ..shown })
    }
}

/// All changes of one block, in the stored form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedTrustBlock {
    /// Height.
    pub block: u64,
    /// ISO-8601 UTC with milliseconds.
    pub block_time: String,
    /// Changes, one for each DID.
    pub changes: Vec<RecordedDidChange>,
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

    /// The recorded change with these parts.
    fn recorded(parts: Value) -> RecordedDidChange {
        let mut stored = json!({"did": "did:web:a", "corporationId": 11});
        stored.as_object_mut().expect("an object").extend(parts.as_object().expect("an object").clone());
        let change: RecordedDidChange = serde_json::from_value(stored.clone()).expect("parses");
        assert_eq!(serde_json::to_value(&change).expect("serialises"), stored, "the stored form round-trips");
        change
    }

    fn channels(named: &[&str], flags: &[&str]) -> TrustChannels {
        let (mut channels, mut measures) = (TrustChannels::default(), MeasureFlags::default());
        for flag in flags {
            assert!(measures.enable(flag), "{flag}");
        }
        for name in named {
            assert!(channels.enable(name, measures), "{name}");
        }
        channels
    }

    #[test]
    fn a_subscriber_gets_the_parts_of_a_change_on_its_channels() {
        let [participants, issued, verified] = MeasureFlags::COUNT_NAMES;
        let (weights, deposits) = ("includeWeightChanges", "includeDepositChanges");
        let all_flags = [participants, issued, verified, weights, deposits];
        let money = json!({"deposit": true, "participations": {"weights": true}});
        let slash = json!({"corporation": true, "deposit": true});
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
            (&trust, &TrustChannels::NAMES[1..], &all_flags[..], Value::Null),
            (&figures, &TrustChannels::NAMES, &[], Value::Null),
            (&figures, &TrustChannels::NAMES, &[verified], Value::Null),
            (&figures, &TrustChannels::NAMES, &[participants], json!({"participations": true})),
            (&figures, &TrustChannels::NAMES, &[issued], json!({"ecosystems": true})),
            (&figures, &TrustChannels::NAMES, &all_flags, json!({"participations": true, "ecosystems": true})),
            (&figures, &["ecosystems"], &[participants, verified], Value::Null),
            (&used, &["participations"], &[verified], json!({"participations": true})),
            (&used, &["participations"], &[participants, issued], Value::Null),
            (&used, &["ecosystems"], &all_flags, Value::Null),
            (&money, &TrustChannels::NAMES, &[], Value::Null),
            (&money, &TrustChannels::NAMES, &MeasureFlags::COUNT_NAMES, Value::Null),
            (&money, &TrustChannels::NAMES, &[deposits], json!({"corporation": true})),
            (&money, &TrustChannels::NAMES, &[weights], json!({"participations": true})),
            (&money, &["participations"], &[deposits], Value::Null),
            (&money, &["corporation", "ecosystems"], &[weights], Value::Null),
            (&slash, &["corporation"], &[], json!({"corporation": true})),
            (&json!({}), &TrustChannels::NAMES, &all_flags, Value::Null),
        ] {
            let shown = recorded(change.clone()).filter_for(&channels(named, flags));
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
    fn channel_and_flag_names_equal_those_of_the_table_of_reads() {
        let params = &crate::indexer_reads::find_endpoint("vt.listChanges").expect("a read").params;
        let named = params.iter().find(|param| param.name == "channels").expect("a parameter");
        assert_eq!(named.allowed, TrustChannels::NAMES);
        for flag in MeasureFlags::COUNT_NAMES {
            assert!(params.iter().any(|param| param.name == flag), "{flag}");
        }
        let measures = MeasureFlags { participants: true, ..MeasureFlags::default() };
        assert_eq!(TrustChannels::all(measures), channels(&TrustChannels::NAMES, &[MeasureFlags::COUNT_NAMES[0]]));
        assert!(channels(&[], &[]).is_empty() && !TrustChannels::all(measures).is_empty());
        assert!(!TrustChannels::default().enable("weather", measures));
        assert!(!MeasureFlags::default().enable("includeWeather"));
        for name in TrustChannels::NAMES {
            let names = MeasureFlags::names_for(name);
            assert!(names.iter().all(|flag| MeasureFlags::default().enable(flag)), "{name}");
            assert_eq!(names.is_empty(), !matches!(name, "corporation" | "participations" | "ecosystems"), "{name}");
        }
    }

    #[test]
    fn a_block_has_a_type_member_in_the_stream_only() {
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
