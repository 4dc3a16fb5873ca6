//! Completion of the arguments of tools and prompts, from the published snapshot and the indexer.

mod source;

use rmcp::model::CompletionInfo;
use serde_json::Value;
use svc_wire::syntax::{DELEGABLE_MESSAGES, plain_text};

use super::{
    catalog::{CatalogEntry, ToolAction},
    server::ToolServer,
};

pub use source::CompletionSource;

/// Rows of a list that are read for one completion.
const CANDIDATE_LIMIT: &str = "1024";

impl ToolServer {
    /// Values that begin with the typed text, then values that contain it. No source gives no values.
    pub async fn complete(&self, source: Option<CompletionSource>, typed: &str) -> CompletionInfo {
        // A comma-separated list is completed at its last element.
        let (before, last) = typed.rsplit_once(',').map_or(("", typed), |(before, last)| (before, last.trim_start()));
        let found = match source {
            Some(source) => self.candidates(source).await,
            None => Vec::new(),
        };
        select_candidates(found, before, last)
    }

    /// Values of a tool's argument: those of its schema, or those of the source that its name implies.
    pub async fn complete_tool(&self, entry: &CatalogEntry, argument: &str, typed: &str) -> CompletionInfo {
        let schema = &entry.tool.input_schema.get("properties").map_or(&Value::Null, |all| &all[argument]);
        let allowed = schema["enum"].as_array().or_else(|| schema["items"]["enum"].as_array());
        if let Some(allowed) = allowed {
            return select_candidates(allowed.iter().map(plain_text).collect(), "", typed);
        }
        if schema["type"] == "boolean" {
            return select_candidates(vec!["true".to_owned(), "false".to_owned()], "", typed);
        }
        self.complete(completion_source(entry, argument), typed).await
    }

    async fn candidates(&self, source: CompletionSource) -> Vec<String> {
        let (operator, snapshot) = (&self.operator, self.operator.snapshot());
        let own = [("corporation_id".to_owned(), operator.corporation_id().to_string())];
        match source {
            CompletionSource::Ecosystem => {
                snapshot.ecosystems.iter().filter_map(|one| identifier_text(&one["id"])).collect()
            }
            CompletionSource::AnyEcosystem => self.list_field("/v4/ecosystem/list", "ecosystems", &[], "id").await,
            CompletionSource::Schema => self.list_field("/v4/credential-schema/list", "schemas", &[], "id").await,
            CompletionSource::Participant => self.list_field("/v4/participant/list", "participants", &own, "id").await,
            CompletionSource::Corporation => self.list_field("/v4/corporation/list", "corporations", &[], "id").await,
            CompletionSource::Did => {
                let mut dids: Vec<String> = identifier_text(&snapshot.corporation["did"]).into_iter().collect();
                dids.extend(snapshot.ecosystems.iter().filter_map(|one| identifier_text(&one["did"])));
                dids.extend(self.list_field("/v4/participant/list", "participants", &own, "did").await);
                dids
            }
            CompletionSource::MsgType => {
                let namespace = operator.chain().registry.namespace().clone();
                let release = operator.node_release();
                let all = DELEGABLE_MESSAGES.iter().map(|(module, name)| namespace.type_url(module, name));
                all.filter(|type_url| !release.lacks(type_url)).collect()
            }
            CompletionSource::AgentDid => snapshot.agents.iter().map(|agent| agent.did.clone()).collect(),
            CompletionSource::Proposal => self.list_field("/v4/group/proposals", "proposals", &own, "id").await,
            CompletionSource::Language => {
                identifier_text(&snapshot.corporation["language"]).into_iter().chain(["en".to_owned()]).collect()
            }
            CompletionSource::TxHash => operator.recent_hashes(),
        }
    }

    /// One field of the newest rows of a list. A list that cannot be read gives no values.
    async fn list_field(&self, path: &str, key: &str, filter: &[(String, String)], field: &str) -> Vec<String> {
        let mut query = filter.to_vec();
        query.push(("limit".to_owned(), CANDIDATE_LIMIT.to_owned()));
        let answer = self.operator.indexer_get("completion", path, &query, None).await;
        let answer = answer.map(|document| document.value).unwrap_or_default();
        let rows = answer[key].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| identifier_text(&row[field])).collect()
    }
}

/// The text of an identifier, which is a JSON string or number; `None` for any other value.
fn identifier_text(value: &Value) -> Option<String> {
    (value.is_string() || value.is_number()).then(|| plain_text(value))
}

/// At most a hundred distinct values: first those that begin with the typed text, then those that contain it.
fn select_candidates(mut found: Vec<String>, before: &str, typed: &str) -> CompletionInfo {
    let mut seen = std::collections::HashSet::new();
    found.retain(|value| value.contains(typed) && seen.insert(value.clone()));
    found.sort_by_key(|value| !value.starts_with(typed));
    let total = found.len();
    found.truncate(CompletionInfo::MAX_VALUES);
    let lead = if before.is_empty() { String::new() } else { format!("{before},") };
    let values = found.into_iter().map(|value| format!("{lead}{value}")).collect();
    let reported_total = u32::try_from(total).ok();
    CompletionInfo::with_pagination(values, reported_total, total > CompletionInfo::MAX_VALUES).unwrap_or_default()
}

/// The source that the name of an argument implies.
fn completion_source(entry: &CatalogEntry, argument: &str) -> Option<CompletionSource> {
    let module = entry.tool.name.split('.').nth(2).unwrap_or_default();
    let is_write = matches!(entry.action, ToolAction::Ledger(_));
    match (argument, module) {
        ("id", "es") if is_write => Some(CompletionSource::Ecosystem),
        ("id", "es") | ("ecosystem_id" | "ecosystemId", _) if !is_write => Some(CompletionSource::AnyEcosystem),
        ("ecosystem_id", _) => Some(CompletionSource::Ecosystem),
        ("id", "cs") | ("schema_id" | "credential_schema_id" | "credentialSchemaId", _) => {
            Some(CompletionSource::Schema)
        }
        ("id", "pp") => Some(CompletionSource::Participant),
        ("id", "co") | ("corporation_id" | "corporationId", _) => Some(CompletionSource::Corporation),
        ("agent_did", _) => Some(CompletionSource::AgentDid),
        ("did" | "dids", _) => Some(CompletionSource::Did),
        ("msg_type" | "msg_types" | "vs_operator_authz_msg_types", _) => Some(CompletionSource::MsgType),
        ("proposal_id", _) => Some(CompletionSource::Proposal),
        ("language" | "doc_language" | "preferred_language", _) => Some(CompletionSource::Language),
        ("hash", "tx") => Some(CompletionSource::TxHash),
        (name, _) if name.ends_with("participant_id") || name.ends_with("ParticipantId") => {
            Some(CompletionSource::Participant)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefix_matches_come_first_and_a_list_is_completed_at_its_end() {
        let found = || ["21", "12", "2", "2"].map(str::to_owned).to_vec();
        assert_eq!(select_candidates(found(), "", "2").values, ["21", "2", "12"]);
        assert_eq!(select_candidates(found(), "7", "1").values, ["7,12", "7,21"]);
        let many: Vec<String> = (0..250).map(|id| id.to_string()).collect();
        let info = select_candidates(many, "", "");
        assert_eq!((info.values.len(), info.total, info.has_more), (100, Some(250), Some(true)));
    }
}
