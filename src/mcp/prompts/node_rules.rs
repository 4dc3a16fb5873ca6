//! The rules of the chain that a later release replaced, as plans name them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;
use svc_wire::proto_registry::NodeGeneration;

/// A rule that a release replaced. Builds of one generation may differ, so that either rule may hold there.
struct ReplacedRule {
    name: &'static str,
    /// The last generation with a build that has the old rule.
    last_old: NodeGeneration,
    /// The first generation with a build that has the new rule.
    first_new: NodeGeneration,
    /// The nodes with the old rule, in words.
    before: &'static str,
    /// The nodes with the new rule, in words.
    since: &'static str,
}

const REPLACED_RULES: [ReplacedRule; 4] = [
    // One corporation a DID, digests of any shape, and no sha256 for schemas.
    ReplacedRule {
        name: "ownership",
        last_old: NodeGeneration::N0,
        first_new: NodeGeneration::N1,
        before: "nodes before 0.10.1",
        since: "nodes from 0.10.1 on",
    },
    // Records of VS operators without an end.
    ReplacedRule {
        name: "records",
        last_old: NodeGeneration::N1,
        first_new: NodeGeneration::N1,
        before: "nodes before 0.10.2",
        since: "nodes from 0.10.2 on",
    },
    // Windows of participants, the beginning that may be left out, and slashes that are not repaid.
    ReplacedRule {
        name: "windows",
        last_old: NodeGeneration::N1,
        first_new: NodeGeneration::N1,
        before: "nodes before 0.10.3",
        since: "nodes from 0.10.3 on",
    },
    // Spend cycles, and fee limits of VS operators.
    ReplacedRule {
        name: "cycles",
        last_old: NodeGeneration::N2,
        first_new: NodeGeneration::N3,
        before: "nodes up to generation N2",
        since: "nodes from generation N3 on",
    },
];

/// A replaced rule at the node in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct RuleAtNode {
    /// Whether the old rule may hold.
    old: bool,
    /// Whether the new rule may hold.
    new: bool,
    /// Whether either may hold, so that a plan names both.
    either: bool,
    /// The nodes with the old rule, in parentheses after a space; empty where the rule holds for certain.
    before: String,
    /// The nodes with the new rule, in the same form.
    since: String,
}

/// The rules of the node in use, as templates see them under `node`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct NodeRules {
    #[serde(flatten)]
    rules: BTreeMap<&'static str, RuleAtNode>,
    /// The origin of decisions about parameters, exchange rates and slashes by the network.
    authority: &'static str,
}

impl NodeRules {
    /// The rules of a generation; both rules of each pair where the generation is not known.
    pub(super) fn of(generation: Option<NodeGeneration>) -> Self {
        let at_node = |rule: &ReplacedRule| {
            let old = generation.is_none_or(|one| one <= rule.last_old);
            let new = generation.is_none_or(|one| one >= rule.first_new);
            let words = |nodes: &str| if old && new { format!(" ({nodes})") } else { String::new() };
            RuleAtNode { old, new, either: old && new, before: words(rule.before), since: words(rule.since) }
        };
        Self {
            rules: REPLACED_RULES.iter().map(|rule| (rule.name, at_node(rule))).collect(),
            authority: match generation {
                Some(NodeGeneration::N4) => "a proposal of the council of validators",
                Some(NodeGeneration::N0 | NodeGeneration::N1 | NodeGeneration::N2 | NodeGeneration::N3) => {
                    "a governance proposal"
                }
                None => "a governance proposal, on council nodes one of the council of validators",
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generation_has_the_rules_of_its_builds() {
        let words = |generation, name: &str| {
            let rule = &NodeRules::of(generation).rules[name];
            (rule.old, rule.new, rule.before.clone(), rule.since.clone())
        };
        let certain = |old: bool| (old, !old, String::new(), String::new());
        let both = |before: &str, since: &str| (true, true, format!(" ({before})"), format!(" ({since})"));
        let either = both("nodes before 0.10.3", "nodes from 0.10.3 on");
        for (generation, windows) in [
            (Some(NodeGeneration::N0), certain(true)),
            (Some(NodeGeneration::N1), either.clone()),
            (Some(NodeGeneration::N2), certain(false)),
            (Some(NodeGeneration::N4), certain(false)),
            (None, either),
        ] {
            assert_eq!(words(generation, "windows"), windows, "{generation:?}");
        }
        assert_eq!(words(Some(NodeGeneration::N1), "ownership"), certain(false));
        assert_eq!(words(Some(NodeGeneration::N2), "cycles"), certain(true));
        assert_eq!(words(Some(NodeGeneration::N3), "cycles"), certain(false));
    }
}
