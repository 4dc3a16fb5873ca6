//! The variables that select the tools of a deployment: toolsets, patterns, policy; and the limits of its sessions.

use super::environment::{Environment, EnvironmentReader};
use crate::mcp::{CallPolicy, CatalogError, PolicyRule, SessionLimits, ToolNames, ToolPattern, ToolSelection};
use crate::settings::{mcp, tools};

/// The elements of a comma-separated list.
fn list_elements(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|element| !element.is_empty())
}

/// Reads the tool selection; `None` when a variable is bad. Fails when the embedded tool tables cannot be read.
pub(super) fn read_selection<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
) -> Result<Option<ToolSelection>, CatalogError> {
    let tool_names = ToolNames::load()?;
    let known = tool_names.toolsets();
    let names: Vec<&str> = known.iter().map(String::as_str).collect();
    let allowed = format!("all, or a comma-separated list of {}", names.join(", "));
    let sets = reader.read_allowed(tools::SVC_TOOLSETS, &allowed, Some(Vec::new()), |text| {
        let sets: Vec<String> = list_elements(text).map(str::to_owned).collect();
        if sets == ["all"] {
            return Some(Vec::new());
        }
        (!sets.is_empty() && sets.iter().all(|set| known.contains(set.as_str()))).then_some(sets)
    });
    let is_read_only = reader.read_flag(tools::SVC_READ_ONLY);
    let pattern = |text: &str| ToolPattern::parse(text, &tool_names);
    let patterns = |text: &str| list_elements(text).map(pattern).collect::<Option<Vec<ToolPattern>>>();
    let allow = reader.read_or(tools::SVC_TOOLS_ALLOW, Vec::new(), patterns);
    let deny = reader.read_or(tools::SVC_TOOLS_DENY, Vec::new(), patterns);
    let is_underscored = reader.read_choice(tools::SVC_TOOL_NAMES, "underscored");
    let policy = reader.read_or(tools::SVC_TOOL_POLICY, Vec::new(), |text| {
        let rule = |element: &str| {
            let (text, policy) = element.split_once('=')?;
            Some(PolicyRule { pattern: pattern(text.trim())?, policy: CallPolicy::parse(policy.trim())? })
        };
        list_elements(text).map(rule).collect::<Option<Vec<_>>>()
    });
    let is_strict = reader.read_flag(tools::SVC_STRICT_CONFIRM);
    let (Some(toolsets), Some(is_read_only), Some(allow), Some(deny), Some(is_underscored), Some(policy)) =
        (sets, is_read_only, allow, deny, is_underscored, policy)
    else {
        return Ok(None);
    };
    let Some(is_strict) = is_strict else { return Ok(None) };
    Ok(Some(ToolSelection { toolsets, is_read_only, allow, deny, is_underscored, policy, is_strict }))
}

pub(super) fn read_session_limits<E: Environment>(reader: &mut EnvironmentReader<'_, E>) -> Option<SessionLimits> {
    let sessions = reader.read_number(mcp::MCP_MAX_SESSIONS);
    let idle = reader.read_millis(mcp::MCP_SESSION_IDLE_MS);
    Some(SessionLimits { max_sessions: sessions?, idle_timeout: idle? })
}
