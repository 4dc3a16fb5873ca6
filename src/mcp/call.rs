//! One tool call: look the tool up, check the arguments, ask, shape.

use std::sync::Arc;

use rmcp::model::InputRequiredResult;
use serde_json::{Value, json};
use svc_operator::{Gate, Reader};
use svc_wire::envelope::{Code, ErrorEnvelope};

use super::{
    Front, Readiness,
    caller::Caller,
    catalog::{
        Action, CosmosTool, Defaults, Entry, GraphTool, IdxTool, Query, Question, Verdict, Violation, VsaTool, invalid,
        whole_numbers,
    },
    confirm::{Confirmation, Subject},
};

/// A successful call: structured content, and a line for people.
pub struct Shaped {
    /// Structured content.
    pub content: Value,
    /// One line.
    pub summary: String,
}

/// How a call ended that did not fail.
pub enum Called {
    /// With an answer.
    Done(Shaped),
    /// With a question to the person; the client calls again with the answer.
    Ask(Box<InputRequiredResult>),
}

impl From<Shaped> for Called {
    fn from(shaped: Shaped) -> Self {
        Self::Done(shaped)
    }
}

/// Why a tool of the catalogue cannot be called now.
pub enum Absence {
    /// The deployment leaves it out.
    LeftOut,
    /// The policy denies it.
    Denied,
    /// The corporation does not grant its message type.
    NotGranted,
    /// What it asks is not there in this network.
    NotServed(&'static str),
}

impl Absence {
    /// In words.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::LeftOut => {
                "this deployment leaves it out (SVC_TOOLSETS, SVC_READ_ONLY, SVC_TOOLS_ALLOW, SVC_TOOLS_DENY)"
            }
            Self::Denied => "the policy of this deployment denies it (SVC_TOOL_POLICY)",
            Self::NotGranted => "the corporation does not grant its message type to this operator",
            Self::NotServed(why) => why,
        }
    }
}

impl Front {
    /// Why a tool is not there now; `None` when it is. Listing and dispatch both ask this.
    pub fn absence(&self, entry: &Entry) -> Option<Absence> {
        match entry.verdict {
            Verdict::LeftOut => return Some(Absence::LeftOut),
            Verdict::Deny => return Some(Absence::Denied),
            Verdict::Allow | Verdict::Ask | Verdict::Confirm => {}
        }
        let snapshot = self.operator.snapshot();
        match (&entry.action, &entry.msg_type) {
            (Action::Ledger(tool), Some(msg_type)) if tool.needs_grant => {
                let gate = snapshot.gate(msg_type, &svc_kit::wall::now());
                (gate != Gate::Granted).then_some(Absence::NotGranted)
            }
            (Action::Idx(tool), _) if tool.needs_trust() && !snapshot.serves_trust => {
                Some(Absence::NotServed("the indexer of this network does not answer trust reads"))
            }
            (Action::Graph(_), _) if !self.operator.has_graph() => {
                Some(Absence::NotServed("there is no graph in this deployment (SVC_GRAPH)"))
            }
            (Action::Vsa(_), _) if snapshot.agents.is_empty() => Some(Absence::NotServed(
                "the corporation has no agents: no participant with a DID and an authorized VS operator",
            )),
            (Action::Wallet(super::catalog::WalletTool::FindTools), _) if !self.catalog.is_partial() => {
                Some(Absence::NotServed("tools/list has every tool of this deployment"))
            }
            _ => None,
        }
    }

    /// Tools that are listed now.
    pub fn listed(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.catalog.iter().filter(|entry| self.absence(entry).is_none())
    }

    /// Calls a tool.
    pub async fn call(&self, name: &str, arguments: Value, caller: &Caller<'_>) -> Result<Called, ErrorEnvelope> {
        if self.readiness() == Readiness::Draining {
            return Err(ErrorEnvelope::new(
                Code::NotReady,
                "the server is stopping",
                "call another instance, or later",
            ));
        }
        let Some(entry) = self.catalog.get(name) else {
            let hint = "tools/list shows what there is";
            let name = &name[..name.floor_char_boundary(MAX_NAME)];
            return Err(ErrorEnvelope::new(Code::ToolUnknown, format!("there is no tool {name:?}"), hint)
                .with_details(json!({"tool": name})));
        };
        let name = &*entry.tool.name;
        // A missing grant is refused by the write itself, in the words of the authorization.
        match self.absence(entry) {
            None | Some(Absence::NotGranted) => {}
            Some(Absence::Denied) => {
                let message = format!("{name}: {}", Absence::Denied.reason());
                let hint = "nothing was sent; whoever runs this server can change the policy";
                return Err(ErrorEnvelope::new(Code::AuthzPreconditionFailed, message, hint)
                    .with_details(json!({"tool": name, "policy": "deny"})));
            }
            // Who asks for an agent is told whether it is one.
            Some(Absence::NotServed(_)) if matches!(entry.action, Action::Vsa(_)) => {}
            Some(absence) => {
                let message = format!("{name} is not there: {}", absence.reason());
                let hint = "tools/list shows what there is";
                return Err(ErrorEnvelope::new(Code::ToolUnknown, message, hint).with_details(json!({"tool": name})));
            }
        }
        let arguments = whole_numbers(arguments);
        entry.check(&arguments)?;
        // Writes and agents show more than the arguments, and ask for themselves.
        if !matches!(entry.action, Action::Ledger(_) | Action::Vsa(_)) {
            let subject = Subject::of_read(name, &arguments);
            if let Confirmation::Ask(question) = self.confirmed(entry.verdict, &subject, caller).await? {
                return Ok(Called::Ask(question));
            }
        }
        match &entry.action {
            Action::Ledger(tool) => self.write(entry, tool, &arguments, caller).await,
            Action::Idx(tool) => self.idx(name, *tool, &arguments, caller).await.map(Called::from),
            Action::Graph(tool) => self.ask_graph(name, tool, &arguments, caller).await.map(Called::from),
            Action::Vsa(tool) => self.ask_agent(entry, tool, &arguments, caller).await,
            Action::Cosmos(tool) => self.cosmos(name, tool, &arguments, caller).await.map(Called::from),
            Action::Wallet(tool) => {
                let content = self.wallet(*tool, &arguments).await;
                Ok(Shaped { summary: summary(name, &content), content }.into())
            }
        }
    }

    async fn idx(
        &self,
        name: &str,
        tool: IdxTool,
        arguments: &Value,
        caller: &Caller<'_>,
    ) -> Result<Shaped, ErrorEnvelope> {
        let note = self.until(Reader::Indexer, arguments, caller).await?;
        let asked = tool.ask(arguments);
        let content = match &asked.body {
            Some(body) => {
                self.operator.indexer_post(tool.operation(), &asked.path, body, asked.at_block_height).await?
            }
            None => {
                self.operator.indexer_get(tool.operation(), &asked.path, &asked.query, asked.at_block_height).await?
            }
        };
        Ok(Shaped { summary: summary(name, &content) + &note, content })
    }

    async fn ask_graph(
        &self,
        name: &str,
        tool: &GraphTool,
        arguments: &Value,
        caller: &Caller<'_>,
    ) -> Result<Shaped, ErrorEnvelope> {
        let note = self.until(Reader::Graph, arguments, caller).await?;
        let content = match &tool.0 {
            Question::Traverse(query) => {
                let (input, page) = GraphTool::input(arguments);
                self.operator.traverse(query, &input, &page).await?
            }
            Question::Search(surface) => self.operator.search(&GraphTool::search(surface, arguments)).await?,
        };
        Ok(Shaped { summary: summary(name, &content) + &note, content })
    }

    async fn ask_agent(
        &self,
        entry: &Entry,
        tool: &VsaTool,
        arguments: &Value,
        caller: &Caller<'_>,
    ) -> Result<Called, ErrorEnvelope> {
        let (did, request) = tool.request(arguments);
        let subject = Subject::of_agent(&entry.tool.name, &did, &request);
        match self.confirmed(entry.verdict, &subject, caller).await? {
            Confirmation::Given => {}
            Confirmation::Ask(question) => return Ok(Called::Ask(question)),
        }
        let content = self.operator.agent_call(&did, request).await?;
        Ok(Shaped { summary: summary(&entry.tool.name, &content), content }.into())
    }

    async fn cosmos(
        &self,
        name: &str,
        tool: &CosmosTool,
        arguments: &Value,
        caller: &Caller<'_>,
    ) -> Result<Shaped, ErrorEnvelope> {
        let (snapshot, operator) = (self.operator.snapshot(), self.operator.identity().address.to_string());
        let defaults = Defaults {
            operator: &operator,
            policy_address: snapshot.policy_address(),
            denom: &self.operator.chain().denom,
        };
        let query = tool
            .query(arguments, &defaults)
            .map_err(|reason| invalid(name, &[Violation { pointer: String::new(), reason }]))?;
        let note = self.until(Reader::Node, arguments, caller).await?;
        let content = match query {
            Query::Tx(hash) => return self.get_tx(&hash).await,
            Query::Rpc(method, params) => self.operator.node_rpc(method, params).await?,
            Query::Grpc { path, request, height } => self.operator.chain_query(path, &request, height).await?,
        };
        Ok(Shaped { summary: summary(name, &content) + &note, content })
    }

    /// Waits for the block the caller asked for; without one, for the block of the session's last write. The latter is
    /// courtesy: when it does not come the read goes on, and says so.
    async fn until(&self, reader: Reader, arguments: &Value, caller: &Caller<'_>) -> Result<String, ErrorEnvelope> {
        if let Some(height) = arguments["min_height"].as_u64() {
            return self.operator.until_height(reader, height).await.map(|()| String::new());
        }
        let written = caller.last_written();
        if written == 0 || arguments.get("at_block_height").is_some() {
            return Ok(String::new());
        }
        match self.operator.until_height(reader, written).await {
            Ok(()) => Ok(String::new()),
            Err(behind) => {
                caller.forget_written(written);
                Ok(format!(" (does not show this session's last write, block {written}: {})", behind.message))
            }
        }
    }

    async fn get_tx(&self, hash: &str) -> Result<Shaped, ErrorEnvelope> {
        let (found, node_height) = self.operator.tx(hash).await?;
        let record = self.operator.record_of(hash).await;
        let timeout_height = record.as_ref().map(|record| record.timeout_height);
        // In a block before its turn: the same bytes may still execute.
        let had_no_turn = |code: u32| code != 0 && record.as_ref().is_some_and(|record| record.state == "open");
        let content = match found.filter(|tx| !had_no_turn(tx.tx_result.code)) {
            Some(tx) => json!({
                "found": true, "state": "included", "tx_hash": hash, "node_height": node_height, "block_height": tx.height,
                "code": tx.tx_result.code, "codespace": tx.tx_result.codespace, "raw_log": tx.tx_result.log,
                "gas_used": tx.tx_result.gas_used, "gas_wanted": tx.tx_result.gas_wanted, "events": tx.tx_result.events,
            }),
            None => {
                let state = match record.as_ref().map(|record| record.state.as_str()) {
                    None => "unknown",
                    Some("open") => "pending",
                    // The node's index is a moment late, or pruned.
                    Some("included" | "failed") => "included",
                    Some(decided) => decided,
                };
                json!({
                    "found": false, "state": state, "tx_hash": hash, "node_height": node_height,
                    "timeout_height": timeout_height,
                    "block_height": record.as_ref().and_then(|record| record.block_height),
                    "code": record.as_ref().and_then(|record| record.code),
                    "codespace": record.as_ref().and_then(|record| record.codespace.clone()),
                    "raw_log": record.and_then(|record| record.raw_log),
                })
            }
        };
        let summary = format!("transaction {hash}: {}", content["state"].as_str().unwrap_or_default());
        Ok(Shaped { content, summary })
    }
}

/// Longest name that is told back.
const MAX_NAME: usize = 200;

/// A line for people: the tool and the size of what came back.
fn summary(name: &str, content: &Value) -> String {
    let list =
        content.as_object().and_then(|members| members.iter().find_map(|(key, value)| Some((key, value.as_array()?))));
    match list {
        Some((key, items)) => format!("{name}: {} {key}", items.len()),
        None => format!(
            "{name}: {}",
            content.as_object().map(|m| m.keys().cloned().collect::<Vec<_>>().join(", ")).unwrap_or_default()
        ),
    }
}
