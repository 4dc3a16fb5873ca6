//! Rules about several arguments of a read, which no single parameter can state.

use serde::Deserialize;

/// A rule.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArgumentRule {
    /// One of these groups is given, whole, and nothing of the others.
    OneOf(Vec<Vec<String>>),
    /// At least one is given.
    AnyOf(Vec<String>),
    /// An argument is given unless another one has a value.
    RequiredUnless {
        /// The argument.
        name: String,
        /// The other one. Without it, and without a default, the rule says nothing.
        argument: String,
        /// Its value.
        value: String,
        /// Its value where it is not given.
        #[serde(default)]
        default: Option<String>,
        /// Whether the argument is refused at that value.
        #[serde(default)]
        is_refused: bool,
    },
}

impl ArgumentRule {
    /// The rule as a sentence.
    pub fn describe(&self) -> String {
        match self {
            Self::OneOf(groups) => format!(
                "Give either {}.",
                groups.iter().map(|group| joined(group, "and")).collect::<Vec<_>>().join(" or ")
            ),
            Self::AnyOf(names) => format!("Give {}, or both.", joined(names, "or")),
            Self::RequiredUnless { name, argument, value, is_refused, .. } => {
                let end = if *is_refused { ", refused then" } else { "" };
                format!("{name} is required unless {argument} is {value}{end}.")
            }
        }
    }

    /// The reason for which arguments break the rule, with the name of the argument that it is about. `given` returns an argument as text.
    pub fn violation(&self, given: impl Fn(&str) -> Option<String>) -> Option<(String, String)> {
        let is_given = |name: &String| given(name).is_some();
        match self {
            Self::OneOf(groups) => {
                let whole = groups.iter().filter(|group| group.iter().all(is_given)).count();
                let touched = groups.iter().filter(|group| group.iter().any(is_given)).count();
                let name = groups.first()?.first()?;
                ((whole, touched) != (1, 1)).then(|| (name.clone(), self.describe()))
            }
            Self::AnyOf(names) => {
                let name = names.first()?;
                (!names.iter().any(is_given)).then(|| (name.clone(), self.describe()))
            }
            Self::RequiredUnless { name, argument, value, default, is_refused } => {
                let is_exempt = given(argument).or_else(|| default.clone())? == *value;
                let is_broken = if is_exempt { *is_refused && is_given(name) } else { !is_given(name) };
                is_broken.then(|| (name.clone(), self.describe()))
            }
        }
    }
}

/// `a`, `a and b`, `a, b and c`.
fn joined(names: &[String], word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.clone(),
        [all @ .., last] => format!("{} {word} {last}", all.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::indexer_reads::read_endpoints;

    fn broken(operation: &str, given: &[(&str, &str)]) -> Vec<String> {
        let endpoint =
            read_endpoints().expect("a table").iter().find(|one| one.operation == operation).expect("a read");
        let value = |name: &str| given.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        endpoint.rules.iter().filter_map(|rule| rule.violation(value)).map(|(name, _)| name).collect()
    }

    #[test]
    fn arguments_that_belong_together_are_checked_together() {
        let none: [&str; 0] = [];
        let range = [("granularity", "HOUR"), ("timestamp", "t"), ("entity_type", "GLOBAL")];
        for (operation, given, names) in [
            ("gf.listGovernanceFrameworkVersions", &[][..], &["ecosystem_id"][..]),
            (
                "gf.listGovernanceFrameworkVersions",
                &[("ecosystem_id", "1"), ("corporation_id", "1")],
                &["ecosystem_id"],
            ),
            ("gf.listGovernanceFrameworkVersions", &[("corporation_id", "1")], &none),
            ("pp.findBeneficiaries", &[], &["issuer_participant_id"]),
            ("pp.findBeneficiaries", &[("verifier_participant_id", "1")], &none),
            ("gr.listVotes", &[], &["proposal_id"]),
            ("gr.listVotes", &[("voter", "a"), ("proposal_id", "1")], &none),
            ("xr.getExchangeRate", &[], &["id"]),
            ("xr.getExchangeRate", &[("id", "1")], &none),
            ("xr.getExchangeRate", &[("base_asset", "tu")], &["id"]),
            ("stats.getStats", &[], &["id"]),
            ("stats.getStats", &[("id", "1"), ("timestamp", "t")], &["id"]),
            ("stats.getStats", &range, &none),
            (
                "stats.getStats",
                &[("granularity", "HOUR"), ("timestamp", "t"), ("entity_type", "ECOSYSTEM")],
                &["entity_id"],
            ),
            ("stats.getStatsRange", &[("entity_type", "GLOBAL"), ("entity_ids", "1")], &["entity_ids"]),
            ("stats.getStatsRange", &[("entity_type", "ECOSYSTEM")], &["entity_ids"]),
            ("stats.getStatsSnapshot", &[], &none),
            ("stats.getStatsSnapshot", &[("entity_id", "1")], &["entity_id"]),
            ("stats.countParticipants", &[("entity_kind", "0"), ("entity_id", "1")], &none),
            ("stats.countParticipants", &[("entity_kind", "1")], &["entity_id"]),
        ] {
            assert_eq!(broken(operation, given), names, "{operation} {given:?}");
        }
    }

    #[test]
    fn rules_name_arguments_of_their_read() {
        for endpoint in read_endpoints().expect("a table") {
            for rule in &endpoint.rules {
                let names: Vec<&String> = match rule {
                    ArgumentRule::OneOf(groups) => groups.iter().flatten().collect(),
                    ArgumentRule::AnyOf(names) => names.iter().collect(),
                    ArgumentRule::RequiredUnless { name, argument, .. } => vec![name, argument],
                };
                for name in names {
                    assert!(endpoint.params.iter().any(|param| param.name == *name), "{}: {name}", endpoint.operation);
                }
            }
        }
    }
}
