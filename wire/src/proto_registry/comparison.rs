//! Comparison of the descriptors that a node serves with the compiled-in ones: which of the messages that this program signs the node
//! takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::registry::ProtoRegistry;

/// A known field that the node describes otherwise, or a known value of its enum.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DescriptorDifference {
    /// `module.v1.Message.field`.
    pub path: String,
    /// The compiled-in description.
    pub compiled: String,
    /// The description that the node serves.
    pub live: String,
}

impl fmt::Display for DescriptorDifference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, compiled, live } = self;
        write!(formatter, "{path} is {compiled} here and {live} at the node")
    }
}

/// A message of transactions that cannot be sent to the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MessageProblem {
    /// The node has no such message.
    Absent,
    /// The bytes would mean something else there: fields of the message, of its answer, or of a message inside of them.
    Differs(Vec<DescriptorDifference>),
}

impl fmt::Display for MessageProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => formatter.write_str("the node's release has no such message"),
            Self::Differs(differences) => formatter.write_str(&describe_differences(differences)),
        }
    }
}

/// Differences that a text names.
const MAX_NAMED_DIFFERENCES: usize = 5;

/// Differences in one line; only the first ones are named.
pub fn describe_differences(differences: &[DescriptorDifference]) -> String {
    let mut named: Vec<String> = differences.iter().take(MAX_NAMED_DIFFERENCES).map(ToString::to_string).collect();
    if differences.len() > MAX_NAMED_DIFFERENCES {
        named.push(format!("and {} more", differences.len() - MAX_NAMED_DIFFERENCES));
    }
    named.join("; ")
}

/// Differences between the descriptors of a node and the compiled-in ones, by their consequence.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescriptorComparison {
    /// Those of the envelope that every signature covers: with them no transaction can be signed.
    pub envelope: Vec<DescriptorDifference>,
    /// The messages of transactions that cannot be sent, as `module.v1.Message`.
    pub messages: BTreeMap<String, MessageProblem>,
    /// Those of all other messages. They are read, and the node's own descriptors say how.
    pub reads: Vec<DescriptorDifference>,
    /// The queries whose answers would be misread with compiled-in types, by their paths at the node. A field that the node lacks is
    /// unset, and no reason.
    pub answers: BTreeMap<String, Vec<DescriptorDifference>>,
    /// Messages and fields of the registry's modules that are not compiled in, as `module.v1.Message.field`, sorted.
    pub unknown: Vec<String>,
}

/// The messages that every signature covers, the public key inside of them, and the message that carries the signed bytes.
const ENVELOPE: [&str; 5] = [
    "cosmos.tx.v1beta1.TxBody",
    "cosmos.tx.v1beta1.AuthInfo",
    "cosmos.tx.v1beta1.SignDoc",
    "cosmos.tx.v1beta1.TxRaw",
    "cosmos.crypto.secp256k1.PubKey",
];
/// Messages with a `google.protobuf.Any`, and the types that this program packs into it or reads from it. The envelope names its own.
const PACKED: [(&str, &[&str]); 4] = [
    ("co.v1.MsgCreateCorporation", &DECISION_POLICIES),
    ("cosmos.group.v1.GroupPolicyInfo", &DECISION_POLICIES),
    (
        "cosmos.feegrant.v1beta1.Grant",
        &[
            "cosmos.feegrant.v1beta1.BasicAllowance",
            "cosmos.feegrant.v1beta1.PeriodicAllowance",
            "cosmos.feegrant.v1beta1.AllowedMsgAllowance",
        ],
    ),
    ("cosmos.auth.v1beta1.BaseAccount", &["cosmos.crypto.secp256k1.PubKey"]),
];
const DECISION_POLICIES: [&str; 2] =
    ["cosmos.group.v1.ThresholdDecisionPolicy", "cosmos.group.v1.PercentageDecisionPolicy"];
/// The description of a field or message that the node lacks.
const MISSING: &str = "missing";
/// Fields of the envelope that this program never sets.
const NEVER_SENT: [&str; 1] = ["cosmos.tx.v1beta1.AuthInfo.tip"];
/// Messages of the applications' configuration are never sent.
const CONFIGURATION_PACKAGE: &str = ".module.v1.";
/// Types that belong to the language of descriptors.
const LANGUAGE_PACKAGE: &str = "google.protobuf.";

impl ProtoRegistry {
    /// Compares these descriptors, as a node serves them, with the compiled-in ones.
    pub fn compare_with_compiled(&self, compiled: &Self) -> DescriptorComparison {
        let mut comparer = Comparer { live: self, compiled, own: BTreeMap::new(), unknown: BTreeSet::new() };
        let mut signed = BTreeSet::new();
        let envelope = ENVELOPE.iter().filter_map(|name| compiled.pool().get_message_by_name(name)).collect();
        let envelope = comparer.differences_within(envelope, &mut signed);
        let messages = comparer.compare_transactions(&mut signed);
        let answers = comparer.compare_answers();
        let mut reads = Vec::new();
        for known in compiled.pool().all_messages() {
            let is_of_registry = local_name(known.full_name(), compiled).is_some();
            if is_of_registry && !signed.contains(known.full_name()) {
                reads.extend(comparer.own_differences(&known).iter().cloned());
            }
        }
        reads.sort();
        for live in self.pool().all_messages() {
            let local = local_name(live.full_name(), self);
            let Some(local) = local.filter(|_| !live.full_name().contains(CONFIGURATION_PACKAGE)) else { continue };
            if compiled.pool().get_message_by_name(&format!("{}.{local}", compiled.namespace())).is_none() {
                comparer.unknown.insert(local.to_owned());
            }
        }
        DescriptorComparison { envelope, messages, reads, answers, unknown: comparer.unknown.into_iter().collect() }
    }
}

/// The name of a message without the namespace of its registry.
fn local_name<'a>(name: &'a str, registry: &ProtoRegistry) -> Option<&'a str> {
    name.strip_prefix(registry.namespace().as_str()).and_then(|rest| rest.strip_prefix('.'))
}

struct Comparer<'a> {
    live: &'a ProtoRegistry,
    compiled: &'a ProtoRegistry,
    /// Differences of the fields of each compared message, without those of messages inside.
    own: BTreeMap<String, Vec<DescriptorDifference>>,
    unknown: BTreeSet<String>,
}

impl Comparer<'_> {
    /// The messages of the `Msg` services that cannot be sent. `signed` gets every message that one of them reaches.
    fn compare_transactions(&mut self, signed: &mut BTreeSet<String>) -> BTreeMap<String, MessageProblem> {
        let mut problems = BTreeMap::new();
        let services = self.compiled.pool().services().filter(|service| service.name() == "Msg");
        for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let (request, answer) = (method.input(), method.output());
            let Some(local) = local_name(request.full_name(), self.compiled).map(str::to_owned) else { continue };
            let differences = self.differences_within(vec![request.clone(), answer], signed);
            if self.live_message(&request).is_none() {
                problems.insert(local, MessageProblem::Absent);
            } else if !differences.is_empty() {
                problems.insert(local, MessageProblem::Differs(differences));
            }
        }
        problems
    }

    /// The queries whose answers have a field that the node describes otherwise.
    fn compare_answers(&mut self) -> BTreeMap<String, Vec<DescriptorDifference>> {
        let mut found = BTreeMap::new();
        let services = self.compiled.pool().services().filter(|service| service.name() == "Query");
        for method in services.flat_map(|service| service.methods().collect::<Vec<_>>()) {
            let service = method.parent_service().full_name().to_owned();
            let service = match local_name(&service, self.compiled) {
                Some(local) => format!("{}.{local}", self.live.namespace()),
                None => service,
            };
            let mut differences = self.differences_within(vec![method.output()], &mut BTreeSet::new());
            differences.retain(|difference| difference.live != MISSING);
            if !differences.is_empty() {
                found.insert(format!("/{service}/{}", method.name()), differences);
            }
        }
        found
    }

    /// Differences of messages and of all that their fields lead to.
    fn differences_within(
        &mut self,
        messages: Vec<MessageDescriptor>,
        reached: &mut BTreeSet<String>,
    ) -> Vec<DescriptorDifference> {
        let (mut open, mut seen, mut found) = (messages, BTreeSet::new(), BTreeSet::new());
        for root in &open {
            // A field whose type the node lacks is another field; a message in no field is missing by itself.
            if self.live_message(root).is_none() {
                let path = local_name(root.full_name(), self.compiled).unwrap_or(root.full_name()).to_owned();
                let compiled = "a message".to_owned();
                found.insert(DescriptorDifference { path, compiled, live: MISSING.to_owned() });
            }
        }
        while let Some(message) = open.pop() {
            if message.full_name().starts_with(LANGUAGE_PACKAGE) || !seen.insert(message.full_name().to_owned()) {
                continue;
            }
            found.extend(self.own_differences(&message).iter().cloned());
            let name = local_name(message.full_name(), self.compiled).unwrap_or(message.full_name());
            let packed = PACKED.iter().filter(|(holder, _)| *holder == name).flat_map(|(_, packed)| *packed);
            open.extend(packed.filter_map(|name| self.compiled.pool().get_message_by_name(name)));
            let sent = message.fields().filter(|field| !NEVER_SENT.contains(&field.full_name()));
            open.extend(sent.filter_map(|field| match field.kind() {
                Kind::Message(inner) => Some(inner),
                _ => None,
            }));
        }
        reached.append(&mut seen);
        found.into_iter().collect()
    }

    /// Differences of the fields of one message. A message that the node lacks has none: nothing is sent in its place.
    fn own_differences(&mut self, known: &MessageDescriptor) -> &[DescriptorDifference] {
        let name = known.full_name().to_owned();
        if !self.own.contains_key(&name) {
            let mut found = Vec::new();
            if let Some(live) = self.live_message(known) {
                self.compare_message(known, &live, &mut found);
            }
            self.own.insert(name.clone(), found);
        }
        self.own.get(&name).map_or(&[], Vec::as_slice)
    }

    fn live_message(&self, known: &MessageDescriptor) -> Option<MessageDescriptor> {
        let name = known.full_name();
        match local_name(name, self.compiled) {
            Some(local) => self.live.pool().get_message_by_name(&format!("{}.{local}", self.live.namespace())),
            None => self.live.pool().get_message_by_name(name),
        }
    }

    fn compare_message(
        &mut self,
        known: &MessageDescriptor,
        live: &MessageDescriptor,
        found: &mut Vec<DescriptorDifference>,
    ) {
        let local = local_name(known.full_name(), self.compiled);
        let (is_of_registry, path) = (local.is_some(), local.unwrap_or(known.full_name()));
        let compared = known.fields().filter(|field| !NEVER_SENT.contains(&field.full_name()));
        for field in compared {
            let path = format!("{path}.{}", field.name());
            let compiled = describe_field(&field, self.compiled.namespace().as_str());
            let same = live.get_field(field.number()).or_else(|| live.get_field_by_name(field.name()));
            let served = same.as_ref().map(|same| describe_field(same, self.live.namespace().as_str()));
            if let (Kind::Enum(known), Some(Kind::Enum(live))) = (field.kind(), same.map(|same| same.kind())) {
                self.compare_values(&known, &live, (&path, is_of_registry), found);
            }
            if served.as_ref() != Some(&compiled) {
                let live = served.unwrap_or_else(|| MISSING.to_owned());
                found.push(DescriptorDifference { path, compiled, live });
            }
        }
        let additions = live.fields().filter(|field| is_of_registry && known.get_field(field.number()).is_none());
        self.unknown.extend(additions.map(|field| format!("{path}.{}", field.name())));
    }

    /// A message contains the numbers of an enum's values: each known value keeps its own. New ones are unknown.
    fn compare_values(
        &mut self,
        known: &EnumDescriptor,
        live: &EnumDescriptor,
        (path, is_of_registry): (&str, bool),
        found: &mut Vec<DescriptorDifference>,
    ) {
        for value in known.values() {
            let served = live.get_value_by_name(value.name()).map(|same| same.number());
            // A value that the node has lost is refused there, and means nothing else unless another one has its number.
            let is_free = served.is_none() && live.get_value(value.number()).is_none();
            if served != Some(value.number()) && !is_free {
                let live = served.map_or_else(|| "another value's".to_owned(), |number| number.to_string());
                let path = format!("{path}.{}", value.name());
                found.push(DescriptorDifference { path, compiled: value.number().to_string(), live });
            }
        }
        let additions = live.values().filter(|value| is_of_registry && known.get_value_by_name(value.name()).is_none());
        self.unknown.extend(additions.map(|value| format!("{path}.{}", value.name())));
    }
}

/// Name, number and type of a field, without the namespace of the network.
fn describe_field(field: &FieldDescriptor, namespace: &str) -> String {
    let local = |name: &str| name.strip_prefix(namespace).map_or_else(|| name.to_owned(), |rest| format!("*{rest}"));
    let kind = match field.kind() {
        Kind::Message(message) => local(message.full_name()),
        Kind::Enum(kind) => local(kind.full_name()),
        scalar => format!("{scalar:?}"),
    };
    let repeated = if field.cardinality() == Cardinality::Repeated { "repeated " } else { "" };
    format!("{} = {}: {repeated}{kind}", field.name(), field.number())
}
