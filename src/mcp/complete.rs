//! Completion of arguments from live data.

use rmcp::model::CompletionInfo;
use serde::Deserialize;
use serde_json::Value;
use svc_wire::syntax::{DELEGABLE, plain};

use super::{
    Front,
    catalog::{Action, Entry},
};

/// What an argument is one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Id of an ecosystem of the corporation.
    Ecosystem,
    /// Id of any ecosystem.
    AnyEcosystem,
    /// Id of a credential schema.
    Schema,
    /// Id of a participant.
    Participant,
    /// Id of a corporation.
    Corporation,
    /// A DID of the corporation's own, its ecosystems' or its participants'.
    Did,
    /// A message type a corporation can grant.
    MsgType,
    /// DID of an agent.
    AgentDid,
    /// Id of a group proposal of the corporation.
    Proposal,
    /// A language tag.
    Language,
    /// Hash of a transaction of this process.
    TxHash,
}

/// Rows looked at for one completion.
const ROWS: &str = "1024";

impl Front {
    /// Values that begin with what was typed, or contain it.
    pub async fn complete(&self, kind: Option<Kind>, typed: &str) -> CompletionInfo {
        // A list is completed at its last element.
        let (before, last) = typed.rsplit_once(',').map_or(("", typed), |(before, last)| (before, last.trim_start()));
        let found = match kind {
            Some(kind) => self.candidates(kind).await,
            None => Vec::new(),
        };
        chosen(found, before, last)
    }

    /// The same for an argument of a tool, by its name and schema.
    pub async fn complete_tool(&self, entry: &Entry, argument: &str, typed: &str) -> CompletionInfo {
        let schema = &entry.tool.input_schema.get("properties").map_or(&Value::Null, |all| &all[argument]);
        let allowed = schema["enum"].as_array().or_else(|| schema["items"]["enum"].as_array());
        if let Some(allowed) = allowed {
            return chosen(allowed.iter().map(plain).collect(), "", typed);
        }
        if schema["type"] == "boolean" {
            return chosen(vec!["true".to_owned(), "false".to_owned()], "", typed);
        }
        self.complete(argument_kind(entry, argument), typed).await
    }

    async fn candidates(&self, kind: Kind) -> Vec<String> {
        let (operator, snapshot) = (&self.operator, self.operator.snapshot());
        let own = [("corporation_id".to_owned(), operator.corporation_id().to_string())];
        match kind {
            Kind::Ecosystem => snapshot.ecosystems.iter().filter_map(|one| identifier(&one["id"])).collect(),
            Kind::AnyEcosystem => self.rows("/v4/ecosystem/list", "ecosystems", &[], "id").await,
            Kind::Schema => self.rows("/v4/credential-schema/list", "schemas", &[], "id").await,
            Kind::Participant => self.rows("/v4/participant/list", "participants", &own, "id").await,
            Kind::Corporation => self.rows("/v4/corporation/list", "corporations", &[], "id").await,
            Kind::Did => {
                let mut dids: Vec<String> = identifier(&snapshot.corporation["did"]).into_iter().collect();
                dids.extend(snapshot.ecosystems.iter().filter_map(|one| identifier(&one["did"])));
                dids.extend(self.rows("/v4/participant/list", "participants", &own, "did").await);
                dids
            }
            Kind::MsgType => {
                let namespace = operator.chain().registry.namespace().clone();
                DELEGABLE.iter().map(|(module, name)| namespace.type_url(module, name)).collect()
            }
            Kind::AgentDid => snapshot.agents.iter().map(|agent| agent.did.clone()).collect(),
            Kind::Proposal => self.rows("/v4/group/proposals", "proposals", &own, "id").await,
            Kind::Language => {
                identifier(&snapshot.corporation["language"]).into_iter().chain(["en".to_owned()]).collect()
            }
            Kind::TxHash => operator.recent_hashes(),
        }
    }

    /// One field of the newest rows of a list. A list that cannot be read completes nothing.
    async fn rows(&self, path: &str, key: &str, filter: &[(String, String)], field: &str) -> Vec<String> {
        let mut query = filter.to_vec();
        query.push(("limit".to_owned(), ROWS.to_owned()));
        let answer = self.operator.indexer_get("completion", path, &query, None).await.unwrap_or_default();
        let rows = answer[key].as_array().cloned().unwrap_or_default();
        rows.iter().filter_map(|row| identifier(&row[field])).collect()
    }
}

/// A text or a number; nothing else is one.
fn identifier(value: &Value) -> Option<String> {
    (value.is_string() || value.is_number()).then(|| plain(value))
}

/// At most a hundred distinct values: first those that begin with what was typed, then those that contain it.
fn chosen(mut found: Vec<String>, before: &str, typed: &str) -> CompletionInfo {
    let mut seen = std::collections::HashSet::new();
    found.retain(|value| value.contains(typed) && seen.insert(value.clone()));
    found.sort_by_key(|value| !value.starts_with(typed));
    let total = found.len();
    found.truncate(CompletionInfo::MAX_VALUES);
    let lead = if before.is_empty() { String::new() } else { format!("{before},") };
    let values = found.into_iter().map(|value| format!("{lead}{value}")).collect();
    let total_told = u32::try_from(total).ok();
    CompletionInfo::with_pagination(values, total_told, total > CompletionInfo::MAX_VALUES).unwrap_or_default()
}

/// What a tool's argument is one of, by the names the registry uses everywhere.
fn argument_kind(entry: &Entry, argument: &str) -> Option<Kind> {
    let module = entry.tool.name.split('.').nth(2).unwrap_or_default();
    let is_write = matches!(entry.action, Action::Ledger(_));
    match (argument, module) {
        ("id", "es") if is_write => Some(Kind::Ecosystem),
        ("id", "es") | ("ecosystem_id" | "ecosystemId", _) if !is_write => Some(Kind::AnyEcosystem),
        ("ecosystem_id", _) => Some(Kind::Ecosystem),
        ("id", "cs") | ("schema_id" | "credential_schema_id" | "credentialSchemaId", _) => Some(Kind::Schema),
        ("id", "pp") => Some(Kind::Participant),
        ("id", "co") | ("corporation_id" | "corporationId", _) => Some(Kind::Corporation),
        ("agent_did", _) => Some(Kind::AgentDid),
        ("did" | "dids", _) => Some(Kind::Did),
        ("msg_type" | "msg_types" | "vs_operator_authz_msg_types", _) => Some(Kind::MsgType),
        ("proposal_id", _) => Some(Kind::Proposal),
        ("language" | "doc_language" | "preferred_language", _) => Some(Kind::Language),
        ("hash", "tx") => Some(Kind::TxHash),
        (name, _) if name.ends_with("participant_id") || name.ends_with("ParticipantId") => Some(Kind::Participant),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_begins_with_the_text_comes_first_and_a_list_completes_at_its_end() {
        let found = || ["21", "12", "2", "2"].map(str::to_owned).to_vec();
        assert_eq!(chosen(found(), "", "2").values, ["21", "2", "12"]);
        assert_eq!(chosen(found(), "7", "1").values, ["7,12", "7,21"]);
        let many: Vec<String> = (0..250).map(|id| id.to_string()).collect();
        let info = chosen(many, "", "");
        assert_eq!((info.values.len(), info.total, info.has_more), (100, Some(250), Some(true)));
    }
}
