//! The tools of a deployment, and the confirmation that each call needs. Pure.

use wildmatch::WildMatch;

use crate::tools::{CORE_TOOLSET, ToolEffect, ToolNames};

/// A pattern over tool names; `*` matches any text.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolPattern(WildMatch);

impl ToolPattern {
    /// Parses a pattern; `None` for one that matches no tool.
    pub fn parse(text: &str, names: &ToolNames) -> Option<Self> {
        let pattern = Self(WildMatch::new(text));
        names.iter().any(|name| pattern.matches(name)).then_some(pattern)
    }

    /// Whether the pattern matches a tool name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

/// The confirmation that must precede a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallPolicy {
    /// None.
    Allow,
    /// A confirmation by the person, if the client can ask for one; otherwise none.
    Ask,
    /// A confirmation by the person; a client that cannot ask for one is refused.
    Confirm,
    /// The call is refused.
    Deny,
    /// This deployment does not have the tool.
    Excluded,
}

impl CallPolicy {
    /// Parses a policy; `None` for any other text, and for a policy that only a selection can give.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "confirm" => Some(Self::Confirm),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    /// Name of the policy in the answer of a dry run and in the audit.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Confirm => "confirm",
            Self::Deny | Self::Excluded => "deny",
        }
    }
}

/// A rule of a tool policy.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyRule {
    /// The tools of the rule.
    pub pattern: ToolPattern,
    /// Their policy.
    pub policy: CallPolicy,
}

/// The reads of the core.
const CORE_READS: [&str; 8] = [
    "svc.cosmos.tx.getTx",
    "svc.idx.cs.getCredentialSchema",
    "svc.idx.cs.listCredentialSchemas",
    "svc.idx.es.getEcosystem",
    "svc.idx.es.listEcosystems",
    "svc.idx.pp.getParticipant",
    "svc.idx.pp.listParticipants",
    "svc.idx.vt.resolve",
];

/// The choices of a deployment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ToolSelection {
    /// Surfaces (`idx`), modules (`ledger.es`) and the core to include; empty includes all.
    pub toolsets: Vec<String>,
    /// Whether only tools that change nothing are included.
    pub is_read_only: bool,
    /// Tools to include; empty includes all.
    pub allow: Vec<ToolPattern>,
    /// Tools to exclude.
    pub deny: Vec<ToolPattern>,
    /// Whether names are listed with `_` in place of each dot, for hosts that refuse dots.
    pub is_underscored: bool,
    /// Rules for calls; the first one that matches a tool applies.
    pub policy: Vec<PolicyRule>,
    /// Whether a call that asks a person where it can is refused where it cannot.
    pub is_strict: bool,
}

/// Verbs of destructive tools: by default, a call needs a confirmation if the client can ask for one.
pub const DESTRUCTIVE_VERBS: [&str; 4] = ["revoke", "slash", "archive", "delete"];

impl ToolSelection {
    /// Whether the toolsets have a tool.
    fn has_selected(&self, name: &str) -> bool {
        let segments: Vec<&str> = name.split('.').collect();
        let is_in = |toolset: &String| match toolset.split_once('.') {
            Some((surface, module)) => segments.get(1..3) == Some(&[surface, module]),
            None if toolset == CORE_TOOLSET => is_core(name),
            None => segments.get(1) == Some(&toolset.as_str()),
        };
        self.toolsets.is_empty() || is_own(name) || self.toolsets.iter().any(is_in)
    }

    /// Whether a tool is left out of the listing and is called through another one: a read beside the core.
    pub fn is_unlisted_read(&self, name: &str, effect: ToolEffect) -> bool {
        let has_core = self.toolsets.iter().any(|toolset| toolset == CORE_TOOLSET);
        has_core && effect == ToolEffect::Reads && !self.has_selected(name)
    }

    /// The policy of a tool.
    pub fn policy_for(&self, name: &str, effect: ToolEffect) -> CallPolicy {
        let is_selected = self.has_selected(name) || self.is_unlisted_read(name, effect);
        // The wallet surface is small and its tools diagnose every problem, so only an explicit denial excludes it.
        let is_allowed =
            is_own(name) || self.allow.is_empty() || self.allow.iter().any(|pattern| pattern.matches(name));
        let is_denied = self.deny.iter().any(|pattern| pattern.matches(name));
        if !is_selected || !is_allowed || is_denied || (self.is_read_only && effect != ToolEffect::Reads) {
            return CallPolicy::Excluded;
        }
        let rule = self.policy.iter().find(|rule| rule.pattern.matches(name));
        match rule.map_or_else(|| default_policy(name, effect), |rule| rule.policy) {
            CallPolicy::Ask if self.is_strict => CallPolicy::Confirm,
            policy => policy,
        }
    }
}

/// Tools that give a right or take on an obligation: by default, a call needs a confirmation if the client can ask for one.
const GRAVE_TOOLS: [&str; 7] = [
    "svc.ledger.de.grantOperatorAuthorization",
    "svc.ledger.pp.createRootParticipant",
    "svc.ledger.pp.renewParticipantOp",
    "svc.ledger.pp.selfCreateParticipant",
    "svc.ledger.pp.setParticipantOpToValidated",
    "svc.ledger.pp.startParticipantOp",
    "svc.vsa.flow.validateFlow",
];

fn default_policy(name: &str, effect: ToolEffect) -> CallPolicy {
    let verb = name.rsplit('.').next().unwrap_or_default();
    let ends = effect != ToolEffect::Reads && DESTRUCTIVE_VERBS.iter().any(|ending| verb.starts_with(ending));
    if ends || GRAVE_TOOLS.contains(&name) { CallPolicy::Ask } else { CallPolicy::Allow }
}

/// Whether a tool is of the wallet surface.
fn is_own(name: &str) -> bool {
    name.split('.').nth(1) == Some("wallet")
}

/// Whether a tool is in the core: every write to the chain, as one tool each so that a host can ask for each, and some reads.
fn is_core(name: &str) -> bool {
    name.starts_with("svc.ledger.") || CORE_READS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> ToolPattern {
        ToolPattern::parse(text, &ToolNames::load().expect("the tables")).expect("a pattern")
    }

    fn rule(text: &str, policy: CallPolicy) -> PolicyRule {
        PolicyRule { pattern: pattern(text), policy }
    }

    #[test]
    fn each_tool_has_one_policy_and_the_first_matching_rule_applies() {
        let all = ToolSelection::default();
        let strict = ToolSelection {
            policy: vec![rule("svc.ledger.pp.*", CallPolicy::Allow)],
            is_strict: true,
            ..ToolSelection::default()
        };
        let es = ToolSelection { toolsets: vec!["ledger.es".into(), "idx".into()], ..ToolSelection::default() };
        let core = ToolSelection {
            toolsets: vec!["core".into(), "cosmos.bank".into()],
            deny: vec![pattern("svc.idx.gr.*")],
            ..ToolSelection::default()
        };
        let reads = ToolSelection { is_read_only: true, ..ToolSelection::default() };
        let lists = ToolSelection {
            allow: vec![pattern("svc.idx.*"), pattern("svc.ledger.*")],
            deny: vec![pattern("*.revoke*")],
            ..ToolSelection::default()
        };
        let policy = ToolSelection {
            policy: vec![
                rule("svc.ledger.pp.slash*", CallPolicy::Deny),
                rule("svc.ledger.*", CallPolicy::Confirm),
                rule("*", CallPolicy::Allow),
            ],
            ..ToolSelection::default()
        };
        for (selection, name, effect, expected) in [
            (&all, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Allow),
            (&all, "svc.ledger.es.archiveEcosystem", ToolEffect::Ends, CallPolicy::Ask),
            (&all, "svc.ledger.pp.slashParticipantTrustDeposit", ToolEffect::Ends, CallPolicy::Ask),
            (&all, "svc.vsa.se.deleteServiceEndpoint", ToolEffect::Ends, CallPolicy::Ask),
            (&all, "svc.ledger.pp.setParticipantOpToValidated", ToolEffect::Ends, CallPolicy::Ask),
            (&all, "svc.ledger.de.grantOperatorAuthorization", ToolEffect::Creates, CallPolicy::Ask),
            (&all, "svc.ledger.pp.createRootParticipant", ToolEffect::Creates, CallPolicy::Ask),
            (&all, "svc.vsa.flow.validateFlow", ToolEffect::Creates, CallPolicy::Ask),
            (&strict, "svc.ledger.es.archiveEcosystem", ToolEffect::Ends, CallPolicy::Confirm),
            (&strict, "svc.ledger.pp.startParticipantOp", ToolEffect::Creates, CallPolicy::Allow),
            (&strict, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Allow),
            (&all, "svc.idx.es.getEcosystem", ToolEffect::Reads, CallPolicy::Allow),
            (&es, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Allow),
            (&es, "svc.ledger.cs.createCredentialSchema", ToolEffect::Creates, CallPolicy::Excluded),
            (&es, "svc.idx.cs.getCredentialSchema", ToolEffect::Reads, CallPolicy::Allow),
            (&es, "svc.wallet.getStatus", ToolEffect::Reads, CallPolicy::Allow),
            (&core, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Allow),
            (&core, "svc.idx.es.getEcosystem", ToolEffect::Reads, CallPolicy::Allow),
            (&core, "svc.vsa.se.addServiceEndpoint", ToolEffect::Creates, CallPolicy::Excluded),
            (&core, "svc.vsa.flow.listFlows", ToolEffect::Reads, CallPolicy::Allow),
            (&core, "svc.idx.td.getTrustDeposit", ToolEffect::Reads, CallPolicy::Allow),
            (&core, "svc.idx.gr.listVotes", ToolEffect::Reads, CallPolicy::Excluded),
            (&reads, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Excluded),
            (&reads, "svc.vsa.flow.listFlows", ToolEffect::Reads, CallPolicy::Allow),
            (&lists, "svc.ledger.de.revokeOperatorAuthorization", ToolEffect::Ends, CallPolicy::Excluded),
            (&lists, "svc.cosmos.tx.getTx", ToolEffect::Reads, CallPolicy::Excluded),
            (&policy, "svc.ledger.pp.slashParticipantTrustDeposit", ToolEffect::Ends, CallPolicy::Deny),
            (&policy, "svc.ledger.es.createEcosystem", ToolEffect::Creates, CallPolicy::Confirm),
            (&policy, "svc.vsa.se.deleteServiceEndpoint", ToolEffect::Ends, CallPolicy::Allow),
        ] {
            assert_eq!(selection.policy_for(name, effect), expected, "{name} under {selection:?}");
        }
    }

    #[test]
    fn beside_the_core_only_reads_are_unlisted() {
        let core = ToolSelection { toolsets: vec!["core".into(), "cosmos.bank".into()], ..ToolSelection::default() };
        for (selection, name, effect, expected) in [
            (&core, "svc.idx.td.getTrustDeposit", ToolEffect::Reads, true),
            (&core, "svc.idx.es.getEcosystem", ToolEffect::Reads, false),
            (&core, "svc.cosmos.bank.getBalance", ToolEffect::Reads, false),
            (&core, "svc.wallet.getStatus", ToolEffect::Reads, false),
            (&core, "svc.vsa.se.deleteServiceEndpoint", ToolEffect::Ends, false),
            (&ToolSelection::default(), "svc.idx.td.getTrustDeposit", ToolEffect::Reads, false),
        ] {
            assert_eq!(selection.is_unlisted_read(name, effect), expected, "{name}");
        }
        let names = ToolNames::load().expect("the tables");
        assert!(CORE_READS.iter().chain(&GRAVE_TOOLS).all(|tool| names.iter().any(|name| name == *tool)));
    }

    #[test]
    fn a_pattern_that_matches_no_tool_is_refused() {
        let names = ToolNames::load().expect("the tables");
        for text in ["", "ledger.es", "svc.ledger es", "svc.ledger.{a}", "svc.ledger.pp.slashParticipant"] {
            assert!(ToolPattern::parse(text, &names).is_none(), "{text}");
        }
    }
}
