//! The rights of a peer, by the scopes of its token. Pure.

use std::collections::BTreeSet;

use wildmatch::WildMatch;

use crate::{principals::PrincipalRights, tools::ToolNames};

/// The surfaces that a peer may read.
const PEER_SURFACES: [&str; 3] = ["idx", "graph", "cosmos"];
/// All of their tools.
const READ_ALL: &str = "mcp:read";
/// One of them; its name is in lower case, as scopes are.
const ONE_TOOL: &str = "mcp:tool:";

fn surface_of(tool: &str) -> &str {
    tool.split('.').nth(1).unwrap_or_default()
}

/// The tool of a scope.
fn tool_of<'a>(scope: &str, names: &'a ToolNames) -> Option<&'a str> {
    let wanted = scope.strip_prefix(ONE_TOOL)?;
    names.iter().find(|name| name.eq_ignore_ascii_case(wanted) && PEER_SURFACES.contains(&surface_of(name)))
}

/// Whether the server knows a scope. One for a tool that peers never get is unknown.
pub(super) fn knows_scope(scope: &str, names: &ToolNames) -> bool {
    scope == READ_ALL || tool_of(scope, names).is_some()
}

/// The rights of a peer with these scopes, narrowed by the line `peers` of the configuration.
pub(super) fn rights_of(scopes: &[String], names: &ToolNames, line: Option<&PrincipalRights>) -> PrincipalRights {
    let line = line.cloned().unwrap_or_default();
    let has_surface = |surface: &&str| line.surfaces.is_empty() || line.surfaces.contains(*surface);
    let has_tool = |name: &&str| line.tools.is_empty() || line.tools.iter().any(|pattern| pattern.matches(name));
    let surfaces: BTreeSet<String> = PEER_SURFACES.into_iter().filter(has_surface).map(str::to_owned).collect();
    let reads_all = scopes.iter().any(|scope| scope == READ_ALL);
    let one_by_one = || scopes.iter().filter_map(|scope| tool_of(scope, names)).filter(has_tool).map(WildMatch::new);
    let mut tools = if reads_all { line.tools.clone() } else { one_by_one().collect() };
    // An empty list permits everything.
    if surfaces.is_empty() || (tools.is_empty() && !reads_all) {
        tools = vec![WildMatch::new("")];
    }
    PrincipalRights { surfaces, tools, is_read_only: true, is_peer: true, ..PrincipalRights::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{principals::ToolFacts, tools::ToolEffect};

    #[test]
    fn a_peer_reads_the_registry_as_far_as_its_scopes_go_and_nothing_else() {
        let names = ToolNames::load().expect("the tables");
        let line = PrincipalRights { tools: vec![WildMatch::new("svc.idx.es.*")], ..PrincipalRights::default() };
        let surfaces =
            |name: &str| PrincipalRights { surfaces: [name.to_owned()].into(), ..PrincipalRights::default() };
        let (idx, ledger) = (surfaces("idx"), surfaces("ledger"));
        let allowed = |scopes: &[&str], line: Option<&PrincipalRights>, name: &str, effect: ToolEffect| {
            let scopes: Vec<String> = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            let facts = ToolFacts { name, surface: surface_of(name), effect, msg_type: None };
            rights_of(&scopes, &names, line).allow(&facts)
        };
        let (read, create) = (ToolEffect::Reads, ToolEffect::Creates);
        let (one, other) = ("svc.idx.es.getEcosystem", "svc.idx.pp.getParticipant");
        let one_tool = format!("{ONE_TOOL}{}", one.to_ascii_lowercase());
        for (scopes, line, name, effect, expected) in [
            (&["mcp:read"][..], None, one, read, true),
            (&["mcp:read"], None, other, read, true),
            (&["mcp:read"], Some(&line), one, read, true),
            (&["mcp:read"], Some(&line), other, read, false),
            (&["mcp:read"], Some(&idx), one, read, true),
            (&["mcp:read"], Some(&idx), "svc.cosmos.bank.getBalance", read, false),
            (&["mcp:read"], Some(&ledger), one, read, false),
            (&["mcp:read"], Some(&ledger), "svc.ledger.es.createEcosystem", create, false),
            (&[&one_tool], None, one, read, true),
            (&[&one_tool], Some(&line), one, read, true),
            (&[&one_tool], Some(&ledger), one, read, false),
            (&[&one_tool], None, other, read, false),
            (&[], None, one, read, false),
            (&["mcp:read"], None, "svc.wallet.getStatus", read, false),
            (&["mcp:read"], None, "svc.ledger.es.createEcosystem", create, false),
            (&["mcp:read"], None, "svc.vsa.getAgentInfo", read, false),
            (&["mcp:read"], None, one, create, false),
        ] {
            assert_eq!(allowed(scopes, line, name, effect), expected, "{scopes:?} {name}");
        }
        assert!(names.iter().any(|name| name == one) && names.iter().any(|name| name == other), "tools that exist");
        assert!(knows_scope(&one_tool, &names) && knows_scope("mcp:read", &names));
        for unknown in
            ["mcp:tool:svc.wallet.getstatus", "mcp:tool:svc.ledger.es.createecosystem", "ledger", "mcp:tool:x"]
        {
            assert!(!knows_scope(unknown, &names), "{unknown}");
        }
    }

    #[test]
    fn no_two_tools_have_one_scope_and_each_scope_is_short_enough() {
        let names = ToolNames::load().expect("the tables");
        let mut scopes: Vec<String> =
            names.iter().map(|name| format!("{ONE_TOOL}{}", name.to_ascii_lowercase())).collect();
        let count = scopes.len();
        scopes.sort();
        scopes.dedup();
        assert_eq!(scopes.len(), count);
        let of_peers = names.iter().filter(|name| PEER_SURFACES.contains(&surface_of(name)));
        for name in of_peers {
            let scope = format!("{ONE_TOOL}{}", name.to_ascii_lowercase());
            assert!(svc_wire::endpoint_access::is_scope(&scope), "{scope}");
        }
    }
}
