//! Which tools a deployment has: toolsets, patterns, policy.

use crate::mcp::{Pattern, Selection, SessionLimits, Verdict, toolsets};

use super::{Environment, Reader};

const PATTERNS: &str = "tool names with * for any text, behind commas, such as svc.idx.*,svc.ledger.es.*";
const POLICY: &str =
    "pattern=allow, ask, confirm or deny, behind commas, such as svc.ledger.pp.slash*=deny,svc.ledger.*=confirm";

/// The elements of a list behind commas.
fn elements(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty())
}

pub(super) fn read_selection<E: Environment>(reader: &mut Reader<'_, E>) -> Option<Selection> {
    let known = toolsets();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let allowed = format!("all, or any of {}, behind commas", names.join(", "));
    let sets = reader.parsed("SVC_TOOLSETS", &allowed, Some(Vec::new()), |text| {
        let sets: Vec<String> = elements(text).map(str::to_owned).collect();
        if sets == ["all"] {
            return Some(Vec::new());
        }
        (!sets.is_empty() && sets.iter().all(|set| known.contains(set.as_str()))).then_some(sets)
    });
    let is_read_only = reader.flag("SVC_READ_ONLY");
    let patterns = |text: &str| elements(text).map(Pattern::parse).collect::<Option<Vec<Pattern>>>();
    let allow = reader.parsed("SVC_TOOLS_ALLOW", PATTERNS, Some(Vec::new()), patterns);
    let deny = reader.parsed("SVC_TOOLS_DENY", PATTERNS, Some(Vec::new()), patterns);
    let is_underscored = reader.parsed("SVC_TOOL_NAMES", "dotted, underscored", Some(false), |text| match text {
        "dotted" => Some(false),
        "underscored" => Some(true),
        _ => None,
    });
    let policy = reader.parsed("SVC_TOOL_POLICY", POLICY, Some(Vec::new()), |text| {
        let rule = |element: &str| {
            let (pattern, verdict) = element.split_once('=')?;
            Some((Pattern::parse(pattern.trim())?, Verdict::parse(verdict.trim())?))
        };
        elements(text).map(rule).collect::<Option<Vec<_>>>()
    });
    Some(Selection {
        toolsets: sets?,
        is_read_only: is_read_only?,
        allow: allow?,
        deny: deny?,
        is_underscored: is_underscored?,
        policy: policy?,
    })
}

pub(super) fn read_session_limits<E: Environment>(reader: &mut Reader<'_, E>) -> Option<SessionLimits> {
    let usual = SessionLimits::default();
    let sessions = reader.parsed("MCP_MAX_SESSIONS", "a number, 1 to 100000", Some(usual.sessions), |text| {
        text.parse().ok().filter(|count| (1..=100_000).contains(count))
    });
    let idle = reader.millis("MCP_SESSION_IDLE_MS", u64::try_from(usual.idle.as_millis()).unwrap_or(u64::MAX));
    Some(SessionLimits { sessions: sessions?, idle: idle? })
}
