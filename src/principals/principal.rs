//! A principal and its rights. Pure.

use std::{collections::BTreeSet, sync::Arc};

use svc_operator::{DEFAULT_PRINCIPAL, FeeLimits};
use wildmatch::WildMatch;

use crate::tools::ToolEffect;

/// The holder of a token.
#[derive(Debug, Clone, PartialEq)]
pub struct Principal {
    /// Name in the configuration. The audit and the fees of a day go by it.
    pub name: Arc<str>,
    /// Name, and the subject of an OAuth token. Sessions, idempotency keys and confirmations belong to it.
    pub id: Arc<str>,
    /// Its rights.
    pub rights: PrincipalRights,
    /// Number of the change of the configuration that gave it its token and rights.
    pub generation: u64,
}

/// The rights of a principal. An empty list permits everything.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PrincipalRights {
    /// Surfaces of tools.
    pub surfaces: BTreeSet<String>,
    /// Patterns over tool names.
    pub tools: Vec<WildMatch>,
    /// Whether it may only read.
    pub is_read_only: bool,
    /// Patterns over names of messages, such as `MsgCreateEcosystem`.
    pub messages: Vec<WildMatch>,
    /// Ceilings of its fees.
    pub fee_limits: FeeLimits,
    /// End of its token, in seconds since 1970.
    pub expires_at: Option<i64>,
    /// Whether it may approve the calls of others.
    pub may_approve: bool,
    /// Whether it is a peer of an agent: it sees tools of the registry alone, and neither resources nor prompts nor approvals.
    pub is_peer: bool,
}

/// The facts about a tool that rights are decided by.
#[derive(Debug, Clone, Copy)]
pub struct ToolFacts<'a> {
    /// Name with dots.
    pub name: &'a str,
    /// Second segment of the name.
    pub surface: &'a str,
    /// Effect of a call.
    pub effect: ToolEffect,
    /// Type URL of its message, if it sends one.
    pub msg_type: Option<&'a str>,
}

impl Principal {
    /// The holder of MCP_BEARER_TOKEN, or of standard input: it may do everything.
    pub fn default_one() -> Arc<Self> {
        let rights = PrincipalRights { may_approve: true, ..PrincipalRights::default() };
        Arc::new(Self { name: DEFAULT_PRINCIPAL.into(), id: DEFAULT_PRINCIPAL.into(), rights, generation: 0 })
    }

    /// A caller that has not proven itself.
    pub fn without_rights() -> Self {
        let rights =
            PrincipalRights { tools: vec![WildMatch::new("")], is_read_only: true, ..PrincipalRights::default() };
        Self::new("none", rights)
    }

    /// A principal of the configuration.
    pub fn new(name: &str, rights: PrincipalRights) -> Self {
        Self { name: name.into(), id: name.into(), rights, generation: 0 }
    }

    /// The same rights for one subject of an issuer.
    pub fn for_subject(&self, subject: &str) -> Self {
        Self { id: format!("{}/{subject}", self.name).into(), ..self.clone() }
    }

    /// Whether it is the one that may do everything.
    pub fn is_default(&self) -> bool {
        *self.name == *DEFAULT_PRINCIPAL
    }
}

impl PrincipalRights {
    /// Whether a tool is within the rights. The wallet's reads, which explain every refusal, always are.
    pub fn allow(&self, tool: &ToolFacts<'_>) -> bool {
        if tool.surface == "wallet" {
            return !self.is_peer;
        }
        let has_surface = self.surfaces.is_empty() || self.surfaces.contains(tool.surface);
        let has_tool = self.tools.is_empty() || self.tools.iter().any(|pattern| pattern.matches(tool.name));
        let has_effect = !self.is_read_only || tool.effect == ToolEffect::Reads;
        let message = tool.msg_type.map(|url| url.rsplit(['.', '/']).next().unwrap_or(url));
        let has_message = self.messages.is_empty()
            || message.is_none_or(|message| self.messages.iter().any(|pattern| pattern.matches(message)));
        has_surface && has_tool && has_effect && has_message
    }

    /// Whether its token is over.
    pub fn has_expired(&self, now: i64) -> bool {
        self.expires_at.is_some_and(|end| now >= end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_the_meet_of_all_lists() {
        let create = ToolFacts {
            name: "svc.ledger.es.createEcosystem",
            surface: "ledger",
            effect: ToolEffect::Creates,
            msg_type: Some("/svc.ec.v1.MsgCreateEcosystem"),
        };
        let read =
            ToolFacts { name: "svc.idx.es.getEcosystem", surface: "idx", effect: ToolEffect::Reads, msg_type: None };
        let status =
            ToolFacts { name: "svc.wallet.getStatus", surface: "wallet", effect: ToolEffect::Reads, msg_type: None };
        let all = PrincipalRights::default();
        let patterns = |texts: &[&str]| texts.iter().map(|text| WildMatch::new(text)).collect::<Vec<_>>();
        let idx = PrincipalRights { surfaces: BTreeSet::from(["idx".to_owned()]), ..all.clone() };
        let tools = PrincipalRights { tools: patterns(&["svc.ledger.es.*"]), ..all.clone() };
        let reads = PrincipalRights { is_read_only: true, ..all.clone() };
        let messages = PrincipalRights { messages: patterns(&["MsgArchive*", "MsgCreateEcosystem"]), ..all.clone() };
        let other = PrincipalRights { messages: patterns(&["MsgCreateCorporation"]), ..all.clone() };
        for (name, rights, expected) in [
            ("all", &all, [true, true]),
            ("a surface", &idx, [false, true]),
            ("tools", &tools, [true, false]),
            ("read only", &reads, [false, true]),
            ("its message", &messages, [true, true]),
            ("another message", &other, [false, true]),
        ] {
            assert_eq!([rights.allow(&create), rights.allow(&read)], expected, "{name}");
            assert!(rights.allow(&status), "{name}");
        }
        let over = PrincipalRights { expires_at: Some(9), ..all.clone() };
        assert!(!over.has_expired(8) && over.has_expired(9) && !all.has_expired(i64::MAX));
    }
}
