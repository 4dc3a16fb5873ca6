//! Which tools a deployment has, and what must precede a call. Pure.

use wildmatch::WildMatch;

use super::{Effect, tool_names};

/// The surfaces.
pub const SURFACES: [&str; 6] = ["ledger", "idx", "graph", "vsa", "cosmos", "wallet"];

/// A pattern over tool names; `*` stands for any text.
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern(WildMatch);

impl Pattern {
    /// Reads a pattern; one that matches no tool is a mistake.
    pub fn parse(text: &str) -> Option<Self> {
        let pattern = Self(WildMatch::new(text));
        tool_names().iter().any(|name| pattern.matches(name)).then_some(pattern)
    }

    /// Whether it matches a tool.
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name)
    }
}

/// What precedes a call of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Allow,
    /// A confirmation by the person, if the client can ask one; otherwise nothing.
    Ask,
    /// A confirmation by the person; a client that cannot ask one is refused.
    Confirm,
    /// It is refused.
    Deny,
    /// This deployment does not have the tool.
    LeftOut,
}

impl Verdict {
    /// Reads what a policy may say.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "allow" => Some(Self::Allow),
            "ask" => Some(Self::Ask),
            "confirm" => Some(Self::Confirm),
            "deny" => Some(Self::Deny),
            _ => None,
        }
    }

    /// As a dry run tells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Ask => "ask",
            Self::Confirm => "confirm",
            Self::Deny | Self::LeftOut => "deny",
        }
    }
}

/// What a deployment chooses.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Selection {
    /// Surfaces (`idx`) and modules (`ledger.es`); empty: all.
    pub toolsets: Vec<String>,
    /// Only tools that change nothing.
    pub is_read_only: bool,
    /// Only these; empty: all.
    pub allow: Vec<Pattern>,
    /// Not these.
    pub deny: Vec<Pattern>,
    /// List names with `_` for each dot, for hosts that refuse dots.
    pub is_underscored: bool,
    /// What precedes a call; the first pattern that matches decides.
    pub policy: Vec<(Pattern, Verdict)>,
}

/// Verbs after which something is gone: a person is asked by default.
const ENDING_VERBS: [&str; 4] = ["revoke", "slash", "archive", "delete"];

impl Selection {
    /// What holds for a tool.
    pub fn verdict(&self, name: &str, effect: Effect) -> Verdict {
        let segments: Vec<&str> = name.split('.').collect();
        let is_in = |toolset: &String| match toolset.split_once('.') {
            Some((surface, module)) => segments.get(1..3) == Some(&[surface, module]),
            None => segments.get(1) == Some(&toolset.as_str()),
        };
        // The own surface is small, and the way out of every trouble: it is always there, unless it is denied.
        let is_own = segments.get(1) == Some(&"wallet");
        let is_selected = is_own || self.toolsets.is_empty() || self.toolsets.iter().any(is_in);
        let is_allowed = is_own || self.allow.is_empty() || self.allow.iter().any(|pattern| pattern.matches(name));
        let is_denied = self.deny.iter().any(|pattern| pattern.matches(name));
        if !is_selected || !is_allowed || is_denied || (self.is_read_only && effect != Effect::Reads) {
            return Verdict::LeftOut;
        }
        if let Some((_, verdict)) = self.policy.iter().find(|(pattern, _)| pattern.matches(name)) {
            return *verdict;
        }
        let verb = segments.last().copied().unwrap_or_default();
        let ends = effect != Effect::Reads && ENDING_VERBS.iter().any(|ending| verb.starts_with(ending));
        if ends { Verdict::Ask } else { Verdict::Allow }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern {
        Pattern::parse(text).expect("a pattern")
    }

    #[test]
    fn a_selection_decides_for_each_tool_and_the_first_rule_of_a_policy_counts() {
        let all = Selection::default();
        let es = Selection { toolsets: vec!["ledger.es".into(), "idx".into()], ..Selection::default() };
        let reads = Selection { is_read_only: true, ..Selection::default() };
        let lists = Selection {
            allow: vec![pattern("svc.idx.*"), pattern("svc.ledger.*")],
            deny: vec![pattern("*.revoke*")],
            ..Selection::default()
        };
        let policy = Selection {
            policy: vec![
                (pattern("svc.ledger.pp.slash*"), Verdict::Deny),
                (pattern("svc.ledger.*"), Verdict::Confirm),
                (pattern("*"), Verdict::Allow),
            ],
            ..Selection::default()
        };
        for (selection, name, effect, expected) in [
            (&all, "svc.ledger.es.createEcosystem", Effect::Creates, Verdict::Allow),
            (&all, "svc.ledger.es.archiveEcosystem", Effect::Ends, Verdict::Ask),
            (&all, "svc.ledger.pp.slashParticipantTrustDeposit", Effect::Ends, Verdict::Ask),
            (&all, "svc.vsa.se.deleteServiceEndpoint", Effect::Ends, Verdict::Ask),
            (&all, "svc.ledger.pp.setParticipantOpToValidated", Effect::Ends, Verdict::Allow),
            (&all, "svc.idx.es.getEcosystem", Effect::Reads, Verdict::Allow),
            (&es, "svc.ledger.es.createEcosystem", Effect::Creates, Verdict::Allow),
            (&es, "svc.ledger.cs.createCredentialSchema", Effect::Creates, Verdict::LeftOut),
            (&es, "svc.idx.cs.getCredentialSchema", Effect::Reads, Verdict::Allow),
            (&es, "svc.wallet.getStatus", Effect::Reads, Verdict::Allow),
            (&reads, "svc.ledger.es.createEcosystem", Effect::Creates, Verdict::LeftOut),
            (&reads, "svc.vsa.flow.listFlows", Effect::Reads, Verdict::Allow),
            (&lists, "svc.ledger.de.revokeOperatorAuthorization", Effect::Ends, Verdict::LeftOut),
            (&lists, "svc.cosmos.tx.getTx", Effect::Reads, Verdict::LeftOut),
            (&policy, "svc.ledger.pp.slashParticipantTrustDeposit", Effect::Ends, Verdict::Deny),
            (&policy, "svc.ledger.es.createEcosystem", Effect::Creates, Verdict::Confirm),
            (&policy, "svc.vsa.se.deleteServiceEndpoint", Effect::Ends, Verdict::Allow),
        ] {
            assert_eq!(selection.verdict(name, effect), expected, "{name} under {selection:?}");
        }
    }

    #[test]
    fn patterns_that_can_match_nothing_are_no_patterns() {
        for text in ["", "ledger.es", "svc.ledger es", "svc.ledger.{a}", "svc.ledger.pp.slashParticipant"] {
            assert!(Pattern::parse(text).is_none(), "{text}");
        }
    }
}
