//! Comparison of the descriptors that a node serves with the compiled-in ones.

use std::fmt;

use prost_reflect::{Cardinality, EnumDescriptor, FieldDescriptor, Kind, MessageDescriptor};

use super::registry::ProtoRegistry;

/// A known field that the node describes otherwise, or a known value of its enum.
#[derive(Debug, Clone, PartialEq, Eq)]
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

/// Differences between the descriptors of a node and the compiled-in ones.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DescriptorComparison {
    /// Known fields that differ in number, type or name, sorted.
    pub differences: Vec<DescriptorDifference>,
    /// Messages and fields of the registry's modules that are not compiled in, as `module.v1.Message.field`, sorted.
    pub unknown: Vec<String>,
}

/// Packages outside of the network's namespace whose messages are signed.
const SIGNED_PACKAGES: [&str; 2] = ["cosmos.tx.v1beta1.", "cosmos.base.v1beta1."];
/// Messages of the applications' configuration are never sent.
const CONFIGURATION_PACKAGE: &str = ".module.v1.";

impl ProtoRegistry {
    /// Compares these descriptors, as a node serves them, with the compiled-in ones.
    pub fn compare_with_compiled(&self, compiled: &Self) -> DescriptorComparison {
        let mut comparison = DescriptorComparison::default();
        for known in compiled.pool().all_messages() {
            let name = known.full_name();
            let local = name.strip_prefix(compiled.namespace().as_str()).and_then(|rest| rest.strip_prefix('.'));
            let live_name = match local {
                Some(local) => format!("{}.{local}", self.namespace()),
                None if SIGNED_PACKAGES.iter().any(|package| name.starts_with(package)) => name.to_owned(),
                None => continue,
            };
            // A message that the node lacks cannot be sent to it, and nothing else is signed in its place.
            if let Some(live) = self.pool().get_message_by_name(&live_name) {
                self.compare_message(compiled, &known, &live, local.unwrap_or(name), &mut comparison);
            }
        }
        for live in self.pool().all_messages() {
            let local =
                live.full_name().strip_prefix(self.namespace().as_str()).and_then(|rest| rest.strip_prefix('.'));
            let Some(local) = local.filter(|_| !live.full_name().contains(CONFIGURATION_PACKAGE)) else { continue };
            if compiled.pool().get_message_by_name(&format!("{}.{local}", compiled.namespace())).is_none() {
                comparison.unknown.push(local.to_owned());
            }
        }
        comparison.differences.sort_by(|one, other| one.path.cmp(&other.path));
        comparison.unknown.sort();
        // Several fields may have one enum.
        comparison.unknown.dedup();
        comparison
    }

    fn compare_message(
        &self,
        compiled: &Self,
        known: &MessageDescriptor,
        live: &MessageDescriptor,
        path: &str,
        comparison: &mut DescriptorComparison,
    ) {
        for field in known.fields() {
            let expected = describe_field(&field, compiled.namespace().as_str());
            let found = live.get_field(field.number()).map(|same| describe_field(&same, self.namespace().as_str()));
            if let (Kind::Enum(known), Some(Kind::Enum(live))) =
                (field.kind(), live.get_field(field.number()).map(|same| same.kind()))
            {
                compare_values(&known, &live, &format!("{path}.{}", field.name()), comparison);
            }
            if found.as_ref() != Some(&expected) {
                let live = found.unwrap_or_else(|| "missing".to_owned());
                let path = format!("{path}.{}", field.name());
                comparison.differences.push(DescriptorDifference { path, compiled: expected, live });
            }
        }
        let additions = live.fields().filter(|field| known.get_field(field.number()).is_none());
        comparison.unknown.extend(additions.map(|field| format!("{path}.{}", field.name())));
    }
}

/// A message contains the numbers of an enum's values: each known value keeps its own. New ones are unknown.
fn compare_values(known: &EnumDescriptor, live: &EnumDescriptor, path: &str, comparison: &mut DescriptorComparison) {
    for value in known.values() {
        let found = live.get_value_by_name(value.name()).map(|same| same.number());
        if found != Some(value.number()) {
            let live = found.map_or_else(|| "missing".to_owned(), |number| number.to_string());
            let path = format!("{path}.{}", value.name());
            comparison.differences.push(DescriptorDifference { path, compiled: value.number().to_string(), live });
        }
    }
    let additions = live.values().filter(|value| known.get_value_by_name(value.name()).is_none());
    comparison.unknown.extend(additions.map(|value| format!("{path}.{}", value.name())));
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
