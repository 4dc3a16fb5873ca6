//! The trust stream: what blocks changed about DIDs, by channels.

use std::collections::BTreeSet;

use futures::future::BoxFuture;
use serde_json::{Map, Value};
use svc_otel::metrics::Stream;
use svc_wire::{
    syntax::plain,
    trust::{Channels, Counts, RecordedBlock, RecordedChange},
};

use super::{
    core::text,
    topic::{Topic, View},
};
use crate::store::{Checkpoint, Route, StoreError};

/// Where evaluated blocks are kept. A block is there before the hub is told of it, and between the first one and the
/// checkpoint none is missing, also when it changed nothing.
pub trait TrustSource: Send + Sync + 'static {
    /// Newest evaluated block.
    fn checkpoint(&self) -> BoxFuture<'_, Result<Checkpoint, StoreError>>;

    /// Evaluated blocks from one height to another, in order, as far as they are there.
    fn blocks(&self, first: u64, last: u64) -> BoxFuture<'_, Result<Vec<RecordedBlock>, StoreError>>;
}

/// Blocks with what they changed about trust.
pub struct TrustTopic(Box<dyn TrustSource>);

impl TrustTopic {
    /// Of what a source holds.
    pub fn new(source: impl TrustSource) -> Self {
        Self(Box::new(source))
    }
}

impl Topic for TrustTopic {
    const KIND: &'static str = "trust_hub";
    const STREAM: Stream = Stream::Trust;
    const ITEMS: &'static str = "changes";
    type Block = RecordedBlock;
    type Item = RecordedChange;
    type View = Channels;

    fn height(block: &RecordedBlock) -> u64 {
        block.block
    }

    fn time(block: &RecordedBlock) -> &str {
        &block.block_time
    }

    fn items(block: &RecordedBlock) -> &[RecordedChange] {
        &block.changes
    }

    fn routes(change: &RecordedChange) -> BTreeSet<Route> {
        let corporations = [change.corporation_id].into_iter().chain(change.former_corporation_id);
        corporations.map(Route::Corporation).chain([Route::Did(change.did.clone())]).collect()
    }

    fn write(change: &RecordedChange, channels: &Channels) -> Option<String> {
        change.shown(channels).as_ref().map(text)
    }

    async fn checkpoint(&self) -> Result<Checkpoint, StoreError> {
        self.0.checkpoint().await
    }

    async fn blocks(&self, first: u64, last: u64) -> Result<Vec<RecordedBlock>, StoreError> {
        self.0.blocks(first, last).await
    }
}

impl View for Channels {
    fn read(members: &Map<String, Value>) -> Result<Self, String> {
        let none = Map::new();
        let given = match members.get("channels") {
            None | Some(Value::Null) => &none,
            Some(Value::Object(given)) => given,
            Some(other) => return Err(format!("'channels' must be an object; got {}", plain(other))),
        };
        let mut channels = Self::default();
        for (name, value) in given {
            if !Self::NAMES.contains(&name.as_str()) {
                return Err(format!("Unknown channel '{name}'; known: {}", Self::NAMES.join(", ")));
            }
            if let Some(counts) = wanted(name, value)? {
                channels.enable(name, counts);
            }
        }
        if channels.is_empty() { Err("'channels' must enable at least one channel".to_owned()) } else { Ok(channels) }
    }
}

/// Whether a channel is wanted, and with which figures.
fn wanted(name: &str, value: &Value) -> Result<Option<Counts>, String> {
    let has_counts = matches!(name, "participations" | "ecosystems");
    match value {
        Value::Null | Value::Bool(false) => Ok(None),
        Value::Bool(true) => Ok(Some(Counts::default())),
        Value::Object(flags) if has_counts => counts(name, flags).map(Some),
        other => {
            let allowed = if has_counts { "true, false or an object" } else { "true or false" };
            Err(format!("'channels.{name}' must be {allowed}; got {}", plain(other)))
        }
    }
}

fn counts(channel: &str, flags: &Map<String, Value>) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for (name, value) in flags {
        match value {
            _ if !Counts::NAMES.contains(&name.as_str()) => {
                return Err(format!("Unknown '{name}' in '{channel}'; known: {}", Counts::NAMES.join(", ")));
            }
            Value::Null | Value::Bool(false) => {}
            Value::Bool(true) => {
                counts.include(name);
            }
            other => return Err(format!("'channels.{channel}.{name}' must be true or false; got {}", plain(other))),
        }
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;
    use svc_wire::trust::{DidChange, ListChange, TrustBlock, TrustMessage, TrustState};

    use super::{
        super::{Control, Filter, core::Subscriptions},
        *,
    };

    fn change(did: &str, corporation_id: u64, change: RecordedChange) -> RecordedChange {
        RecordedChange { did: did.to_owned(), corporation_id, ..change }
    }

    fn filter(dids: &[&str], corporation_id: Option<u64>, view: Channels) -> Filter<Channels> {
        Filter { dids: dids.iter().map(|did| (*did).to_owned()).collect(), corporation_id, view }
    }

    /// Changes each connection gets, and how many answers there were.
    fn told(
        subscriptions: &Subscriptions<TrustTopic>,
        changes: Vec<RecordedChange>,
    ) -> (HashMap<u64, Vec<DidChange>>, usize) {
        let block = RecordedBlock { block: 7, block_time: "t\"".into(), changes };
        let answers = subscriptions.answers(&block);
        let (mut told, count) = (HashMap::new(), answers.len());
        for answer in answers {
            let message: TrustMessage = serde_json::from_str(&answer.text).expect("JSON");
            assert_eq!(answer.text, text(&message), "to the byte what serde would write");
            let TrustMessage::Block(TrustBlock { changes, .. }) = message else { panic!("a block") };
            for member in answer.members {
                assert!(told.insert(member, changes.clone()).is_none(), "told once");
            }
        }
        (told, count)
    }

    #[test]
    fn equal_choices_of_changes_and_channels_are_one_answer() {
        let services = Channels { services: true, ..Channels::default() };
        let figures = Counts { participants: true, ..Counts::default() };
        let participations = Channels { participations: Some(figures), ..Channels::default() };
        let both = Channels { services: true, ..participations };
        let mut subscriptions = Subscriptions::<TrustTopic>::default();
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
                    Channels { participations: Some(Counts::default()), ..Channels::default() },
                ),
            ),
            (7, filter(&["did:web:b"], None, both)),
            (8, filter(&[], None, both)),
            (9, filter(&["did:web:c"], None, both)),
        ] {
            subscriptions.set(id, filter);
        }
        let counts = ListChange { counts: figures, ..ListChange::default() };
        let changes = vec![
            change("did:web:a", 1, RecordedChange { services: true, ..RecordedChange::default() }),
            change("did:web:b", 2, RecordedChange { participations: counts, ..RecordedChange::default() }),
        ];
        let (told, answers) = told(&subscriptions, changes);
        assert_eq!([1, 2, 3, 4, 5, 6, 7, 8, 9].map(|id| told[&id].len()), [1, 1, 1, 0, 1, 0, 1, 2, 0]);
        assert_eq!((&told[&1][0].did, told[&1][0].services), (&"did:web:a".to_owned(), true));
        assert_eq!((&told[&5][0].did, told[&5][0].participations), (&"did:web:b".to_owned(), true));
        // 1, 2 and 3 share one; 5; 7; 8; and nothing is the same nothing in every view.
        assert_eq!(answers, 5);
        for id in 1..=9 {
            subscriptions.remove(id);
        }
        assert_eq!((subscriptions.len(), subscriptions.filters()), (0, 0));
    }

    #[test]
    fn control_messages_name_channels() {
        let channels = |view: Channels| Ok(Control::Subscribe(filter(&[], None, view)));
        let figures = Counts { issued_credentials: true, ..Counts::default() };
        for (given, expected) in [
            (r#"{"trust":true}"#, channels(Channels { trust: true, ..Channels::default() })),
            (
                r#"{"trust":false,"services":true,"corporation":null}"#,
                channels(Channels { services: true, ..Channels::default() }),
            ),
            (
                r#"{"participations":true,"ecosystems":{"includeIssuedCredentials":true,"includeParticipantCounts":false}}"#,
                channels(Channels {
                    participations: Some(Counts::default()),
                    ecosystems: Some(figures),
                    ..Channels::default()
                }),
            ),
            (r#"{"ecosystems":{}}"#, channels(Channels { ecosystems: Some(Counts::default()), ..Channels::default() })),
        ] {
            assert_eq!(Control::parse(&format!(r#"{{"action":"subscribe","channels":{given}}}"#)), expected, "{given}");
        }
        assert_eq!(
            Control::parse(
                r#"{"action":"subscribe","dids":["did:web:a"],"corporationId":2,"channels":{"presentations":true}}"#
            ),
            Ok(Control::Subscribe(filter(
                &["did:web:a"],
                Some(2),
                Channels { presentations: true, ..Channels::default() }
            )))
        );
        assert_eq!(Control::<Channels>::parse(r#"{"action":"unsubscribe"}"#), Ok(Control::Unsubscribe));
    }

    #[test]
    fn bad_channels_close_with_their_reason() {
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
                r#""channels":{"ecosystems":{"x":true}}"#,
                "Unknown 'x' in 'ecosystems'; known: includeParticipantCounts, includeIssuedCredentials, includeVerifiedCredentials",
            ),
            (
                r#""channels":{"participations":{"includeVerifiedCredentials":"1"}}"#,
                "'channels.participations.includeVerifiedCredentials' must be true or false; got 1",
            ),
            (r#""dids":1,"channels":{}"#, "'dids' must be an array of DID strings"),
            (r#""corporationId":0,"dids":1"#, "'corporationId' must be a positive integer; got 0"),
        ] {
            let parsed = Control::<Channels>::parse(&format!(r#"{{"action":"subscribe",{given}}}"#));
            assert_eq!(parsed, Err(reason.to_owned()), "{given}");
        }
    }

    /// Channels and figures, each from a bit.
    fn channels(bits: u16) -> Channels {
        let is = |bit: u16| bits & (1 << bit) != 0;
        let counts =
            |bit| Counts { participants: is(bit), issued_credentials: is(bit + 1), verified_credentials: is(bit + 2) };
        Channels {
            trust: is(0),
            ecs_credentials: is(1),
            presentations: is(2),
            services: is(3),
            corporation: is(4),
            participations: is(5).then_some(counts(6)),
            ecosystems: is(9).then_some(counts(10)),
        }
    }

    /// Changes of what the same bits name.
    fn changed(did: &str, corporation_id: u64, bits: u16) -> RecordedChange {
        let of = channels(bits);
        let list = |counts: Option<Counts>, structure| ListChange { structure, counts: counts.unwrap_or_default() };
        RecordedChange {
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
            corporation: of.corporation,
            participations: list(of.participations, bits & (1 << 13) != 0),
            ecosystems: list(of.ecosystems, bits & (1 << 14) != 0),
        }
    }

    proptest! {
        /// Found by index and written once is what would be shown by looking at every filter and every change.
        #[test]
        fn everybody_gets_what_the_filter_admits_and_the_channels_show(
            filters in prop::collection::vec(
                (prop::collection::btree_set("[a-d]", 0..3), prop::option::of(1u64..4), prop::sample::select(vec![0x1u16, 0x20, 0x60, 0x2a, 0x1fff])),
                0..12,
            ),
            changes in prop::collection::vec(("[a-d]", 1u64..4, any::<u16>()), 0..8),
        ) {
            let mut subscriptions = Subscriptions::<TrustTopic>::default();
            let filters: Vec<_> = filters
                .into_iter()
                .map(|(dids, corporation_id, bits)| Filter { dids, corporation_id, view: channels(bits) })
                .collect();
            for (id, filter) in (0u64..).zip(&filters) {
                subscriptions.set(id, filter.clone());
            }
            let changes: Vec<_> = changes.iter().map(|(did, corporation, bits)| changed(did, *corporation, *bits)).collect();
            let (told, _) = told(&subscriptions, changes.clone());
            for (id, filter) in (0u64..).zip(&filters) {
                let admitted = changes.iter().filter(|change| {
                    (filter.dids.is_empty() || filter.dids.contains(&change.did))
                        && filter.corporation_id.is_none_or(|id| {
                            id == change.corporation_id || change.former_corporation_id == Some(id)
                        })
                });
                let expected: Vec<DidChange> = admitted.filter_map(|change| change.shown(&filter.view)).collect();
                prop_assert_eq!(&told[&id], &expected);
            }
        }
    }
}
