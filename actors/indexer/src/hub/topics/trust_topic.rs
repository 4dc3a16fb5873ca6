//! The trust stream: blocks with the changes of verdicts, by channel.

use std::collections::BTreeSet;

use serde_json::{Map, Value};
use svc_otel::metrics::SubscriptionStream;
use svc_wire::{
    syntax::plain_text,
    trust_stream::{MeasureFlags, RecordedDidChange, RecordedTrustBlock, TrustChannels},
};

use super::{HubTopic, View};
use crate::{
    hub::message_json::encode_message,
    store::{Checkpoint, EventRoute, IndexStoreError, TrustSource},
};

/// Evaluated blocks with the changes of verdicts.
pub struct TrustTopic(Box<dyn TrustSource>);

impl TrustTopic {
    /// Creates the topic of a source.
    pub fn new(source: impl TrustSource) -> Self {
        Self(Box::new(source))
    }
}

impl HubTopic for TrustTopic {
    const KIND: &'static str = "trust_hub";
    const STREAM: SubscriptionStream = SubscriptionStream::Trust;
    const ITEMS_KEY: &'static str = "changes";
    type Block = RecordedTrustBlock;
    type Item = RecordedDidChange;
    type TopicView = TrustChannels;

    fn height(block: &RecordedTrustBlock) -> u64 {
        block.block
    }

    fn time(block: &RecordedTrustBlock) -> &str {
        &block.block_time
    }

    fn items(block: &RecordedTrustBlock) -> &[RecordedDidChange] {
        &block.changes
    }

    fn routes(change: &RecordedDidChange) -> BTreeSet<EventRoute> {
        let corporations = [change.corporation_id].into_iter().chain(change.former_corporation_id);
        corporations.map(EventRoute::Corporation).chain([EventRoute::Did(change.did.clone())]).collect()
    }

    fn encode_item(change: &RecordedDidChange, channels: &TrustChannels) -> Option<String> {
        change.filter_for(channels).as_ref().map(encode_message)
    }

    async fn checkpoint(&self) -> Result<Checkpoint, IndexStoreError> {
        self.0.checkpoint().await
    }

    async fn blocks(&self, first: u64, last: u64) -> Result<Vec<RecordedTrustBlock>, IndexStoreError> {
        self.0.blocks(first, last).await
    }
}

impl View for TrustChannels {
    fn read(members: &Map<String, Value>) -> Result<Self, String> {
        let none = Map::new();
        let requested = match members.get("channels") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(requested)) => requested,
            Some(other) => return Err(format!("'channels' must be an object; got {}", plain_text(other))),
        };
        let mut channels = Self::default();
        for (name, value) in requested {
            if !Self::NAMES.contains(&name.as_str()) {
                return Err(format!("Unknown channel '{name}'; known: {}", Self::NAMES.join(", ")));
            }
            if let Some(measures) = parse_channel(name, value)? {
                channels.enable(name, measures);
            }
        }
        if channels.is_empty() { Err("'channels' must enable at least one channel".to_owned()) } else { Ok(channels) }
    }
}

/// Returns the measures of a requested channel; `None` for a channel that is not requested.
fn parse_channel(name: &str, value: &Value) -> Result<Option<MeasureFlags>, String> {
    let known = MeasureFlags::names_for(name);
    match value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(MeasureFlags::default())),
        Value::Object(flags) if !known.is_empty() => parse_measures(name, known, flags).map(Some),
        other => {
            let allowed = if known.is_empty() { "true or false" } else { "true, false or an object" };
            Err(format!("'channels.{name}' must be {allowed}; got {}", plain_text(other)))
        }
    }
}

/// Returns the measures of a channel. An unknown flag has no effect, as at other indexers: a newer client sends flags that an older
/// server lacks.
fn parse_measures(channel: &str, known: &[&str], flags: &Map<String, Value>) -> Result<MeasureFlags, String> {
    let mut measures = MeasureFlags::default();
    for (name, value) in flags.iter().filter(|(name, _)| known.contains(&name.as_str())) {
        match value {
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => {
                measures.enable(name);
            }
            other => {
                return Err(format!("'channels.{channel}.{name}' must be true or false; got {}", plain_text(other)));
            }
        }
    }
    Ok(measures)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use svc_wire::trust_stream::{DidChange, ListChange, TrustBlock, TrustMessage, TrustState};

    use super::*;
    use crate::hub::{control_message::ControlMessage, core::SubscriptionIndex, filter::SubscriptionFilter};

    fn change(did: &str, corporation_id: u64, change: RecordedDidChange) -> RecordedDidChange {
        RecordedDidChange { did: did.to_owned(), corporation_id, ..change }
    }

    fn filter(dids: &[&str], corporation_id: Option<u64>, view: TrustChannels) -> SubscriptionFilter<TrustChannels> {
        SubscriptionFilter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id, view }
    }

    /// Returns the changes of each connection, and the number of deliveries.
    fn deliveries(
        subscriptions: &SubscriptionIndex<TrustTopic>,
        changes: Vec<RecordedDidChange>,
    ) -> (HashMap<u64, Vec<DidChange>>, usize) {
        let block = RecordedTrustBlock { block: 7, block_time: "t\"".into(), changes };
        let deliveries = subscriptions.encode_deliveries(&block);
        let (mut received, count) = (HashMap::new(), deliveries.len());
        for delivery in deliveries {
            let message: TrustMessage = serde_json::from_str(&delivery.text).expect("JSON");
            assert_eq!(delivery.text, encode_message(&message), "byte for byte as serde encodes it");
            let TrustMessage::Block(TrustBlock { changes, .. }) = message else { panic!("a block") };
            for connection in delivery.connections {
                assert!(received.insert(connection, changes.clone()).is_none(), "delivered once");
            }
        }
        (received, count)
    }

    #[test]
    fn equal_selections_of_changes_and_channels_are_one_delivery() {
        let services = TrustChannels { services: true, ..TrustChannels::default() };
        let figures = MeasureFlags { participants: true, ..MeasureFlags::default() };
        let participations = TrustChannels { participations: Some(figures), ..TrustChannels::default() };
        let both = TrustChannels { services: true, ..participations };
        let mut subscriptions = SubscriptionIndex::<TrustTopic>::default();
        for (id, filter) in [
            (1, filter(&[], None, services)),
            (2, filter(&["did:web:a"], None, services)),
            (3, filter(&[], Some(1), services)),
            (4, filter(&["did:web:a"], Some(2), services)),
            (5, filter(&["did:web:b"], None, participations)),
            (
                6,
                filter(
                    &["did:web:b"],
                    None,
                    TrustChannels { participations: Some(MeasureFlags::default()), ..TrustChannels::default() },
                ),
            ),
            (7, filter(&["did:web:b"], None, both)),
            (8, filter(&[], None, both)),
            (9, filter(&["did:web:c"], None, both)),
        ] {
            subscriptions.set(id, filter);
        }
        let counts = ListChange { measures: figures, ..ListChange::default() };
        let changes = vec![
            change("did:web:a", 1, RecordedDidChange { services: true, ..RecordedDidChange::default() }),
            change("did:web:b", 2, RecordedDidChange { participations: counts, ..RecordedDidChange::default() }),
        ];
        let (received, count) = deliveries(&subscriptions, changes);
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 9].map(|id| received[&id].len()), [1, 1, 1, 0, 1, 0, 1, 2, 0]);
        assert_eq!((&received[&1][0].did, received[&1][0].services), (&"did:web:a".to_owned(), true));
        assert_eq!((&received[&5][0].did, received[&5][0].participations), (&"did:web:b".to_owned(), true));
        // Connections 1, 2 and 3 share a delivery; 5, 7 and 8 have one each; all without changes share one.
        assert_eq!(count, 5);
        for id in 1..=9 {
            subscriptions.remove(id);
        }
        assert_eq!((subscriptions.len(), subscriptions.filter_count()), (0, 0));
    }

    #[test]
    fn control_messages_name_channels() {
        let channels = |view: TrustChannels| Ok(ControlMessage::Subscribe(filter(&[], None, view)));
        let figures = MeasureFlags { issued_credentials: true, ..MeasureFlags::default() };
        for (given, expected) in [
            (r#"{"trust":true}"#, channels(TrustChannels { trust: true, ..TrustChannels::default() })),
            (
                r#"{"trust":false,"services":true,"corporation":null}"#,
                channels(TrustChannels { services: true, ..TrustChannels::default() }),
            ),
            (
                r#"{"participations":true,"ecosystems":{"includeIssuedCredentials":true,"includeParticipantCounts":false}}"#,
                channels(TrustChannels {
                    participations: Some(MeasureFlags::default()),
                    ecosystems: Some(figures),
                    ..TrustChannels::default()
                }),
            ),
            (
                r#"{"ecosystems":{}}"#,
                channels(TrustChannels { ecosystems: Some(MeasureFlags::default()), ..TrustChannels::default() }),
            ),
            // A flag that is unknown, or belongs to another channel, has no effect.
            (
                r#"{"corporation":{"includeWeightChanges":true},"ecosystems":{"includeWeather":1,"includeDepositChanges":true}}"#,
                channels(TrustChannels {
                    corporation: Some(MeasureFlags::default()),
                    ecosystems: Some(MeasureFlags::default()),
                    ..TrustChannels::default()
                }),
            ),
            (
                r#"{"corporation":true,"participations":{"includeWeightChanges":true,"includeVerifiedCredentials":true}}"#,
                channels(TrustChannels {
                    corporation: Some(MeasureFlags::default()),
                    participations: Some(MeasureFlags {
                        weights: true,
                        verified_credentials: true,
                        ..MeasureFlags::default()
                    }),
                    ..TrustChannels::default()
                }),
            ),
        ] {
            assert_eq!(
                ControlMessage::parse(&format!(r#"{{"action":"subscribe","channels":{given}}}"#)),
                expected,
                "{given}"
            );
        }
        assert_eq!(
            ControlMessage::parse(
                r#"{"action":"subscribe","dids":["did:web:a"],"corporationId":2,"channels":{"presentations":true}}"#
            ),
            Ok(ControlMessage::Subscribe(filter(
                &["did:web:a"],
                Some(2),
                TrustChannels { presentations: true, ..TrustChannels::default() }
            )))
        );
        assert_eq!(
            ControlMessage::<TrustChannels>::parse(r#"{"action":"unsubscribe"}"#),
            Ok(ControlMessage::Unsubscribe)
        );
    }

    #[test]
    fn invalid_channels_have_a_reason() {
        let none = "'channels' must enable at least one channel";
        for (given, reason) in [
            (r#""x":1"#, none),
            (r#""channels":null"#, none),
            (r#""channels":{}"#, none),
            (r#""channels":{"trust":false,"ecosystems":false}"#, none),
            (r#""channels":["trust"]"#, r#"'channels' must be an object; got ["trust"]"#),
            (r#""channels":"trust""#, "'channels' must be an object; got trust"),
            (
                r#""channels":{"weather":true}"#,
                "Unknown channel 'weather'; known: trust, ecsCredentials, presentations, services, corporation, participations, ecosystems",
            ),
            (r#""channels":{"trust":1}"#, "'channels.trust' must be true or false; got 1"),
            (
                r#""channels":{"services":{"includeParticipantCounts":true}}"#,
                r#"'channels.services' must be true or false; got {"includeParticipantCounts":true}"#,
            ),
            (r#""channels":{"ecosystems":"yes"}"#, "'channels.ecosystems' must be true, false or an object; got yes"),
            (
                r#""channels":{"corporation":{"includeDepositChanges":1}}"#,
                "'channels.corporation.includeDepositChanges' must be true or false; got 1",
            ),
            (r#""channels":{"corporation":[]}"#, "'channels.corporation' must be true, false or an object; got []"),
            (
                r#""channels":{"participations":{"includeVerifiedCredentials":"1"}}"#,
                "'channels.participations.includeVerifiedCredentials' must be true or false; got 1",
            ),
            (r#""dids":1,"channels":{}"#, "'dids' must be an array of DID strings"),
            (r#""corporationId":0,"dids":1"#, "'corporationId' must be a positive integer; got 0"),
        ] {
            let parsed = ControlMessage::<TrustChannels>::parse(&format!(r#"{{"action":"subscribe",{given}}}"#));
            assert_eq!(parsed, Err(reason.to_owned()), "{given}");
        }
    }

    /// Returns the channels and counts of a bit set.
    fn channels(bits: u16) -> TrustChannels {
        let is = |bit: u16| bits & (1 << bit) != 0;
        let counts = |bit| MeasureFlags {
            participants: is(bit),
            issued_credentials: is(bit + 1),
            verified_credentials: is(bit + 2),
            ..MeasureFlags::default()
        };
        let deposits = MeasureFlags { deposits: is(12), ..MeasureFlags::default() };
        TrustChannels {
            trust: is(0),
            ecs_credentials: is(1),
            presentations: is(2),
            services: is(3),
            corporation: is(4).then_some(deposits),
            participations: is(5).then_some(counts(6)),
            ecosystems: is(9).then_some(counts(10)),
        }
    }

    /// Returns a change of the channels of a bit set.
    fn change_of(did: &str, corporation_id: u64, bits: u16) -> RecordedDidChange {
        let of = channels(bits);
        let list =
            |counts: Option<MeasureFlags>, structure| ListChange { structure, measures: counts.unwrap_or_default() };
        RecordedDidChange {
            did: did.to_owned(),
            corporation_id,
            former_corporation_id: (bits & 8 != 0).then_some(corporation_id + 1),
            trust: of.trust.then(|| TrustState {
                trusted: bits & 2 != 0,
                evaluated_at_time: "t".into(),
                evaluated_at_block: 7,
                expires_at_time: (bits & 4 != 0).then(|| "e".into()),
                corporation_id,
            }),
            ecs_credentials: of.ecs_credentials,
            presentations: of.presentations,
            services: of.services,
            corporation: of.corporation.is_some(),
            deposit: bits & (1 << 15) != 0,
            participations: list(of.participations, bits & (1 << 13) != 0),
            ecosystems: list(of.ecosystems, bits & (1 << 14) != 0),
        }
    }

    proptest! {
        /// The index returns the changes that each filter matches, in the view of its channels.
        #[test]
        fn every_connection_receives_the_changes_of_its_filter_and_channels(
            filters in prop::collection::vec(
                (prop::collection::btree_set("[a-d]", 0..3), prop::option::of(1u64..4), prop::sample::select(vec![0x1u16, 0x20, 0x60, 0x2a, 0x1fff])),
                0..12,
            ),
            changes in prop::collection::vec(("[a-d]", 1u64..4, any::<u16>()), 0..8),
        ) {
            let mut subscriptions = SubscriptionIndex::<TrustTopic>::default();
            let filters: Vec<_> = filters
                .into_iter()
                .map(|(dids, corporation_id, bits)| SubscriptionFilter { dids, corporation_id, view: channels(bits) })
                .collect();
            for (id, filter) in (0u64..).zip(&filters) {
                subscriptions.set(id, filter.clone());
            }
            let changes: Vec<_> = changes.iter().map(|(did, corporation, bits)| change_of(did, *corporation, *bits)).collect();
            let (received, _) = deliveries(&subscriptions, changes.clone());
            for (id, filter) in (0u64..).zip(&filters) {
                let admitted = changes.iter().filter(|change| {
                    (filter.dids.is_empty() || filter.dids.contains(&change.did))
                        && filter.corporation_id.is_none_or(|id| {
                            id == change.corporation_id || change.former_corporation_id == Some(id)
                        })
                });
                let expected: Vec<DidChange> = admitted.filter_map(|change| change.filter_for(&filter.view)).collect();
                prop_assert_eq!(&received[&id], &expected);
            }
        }
    }
}
