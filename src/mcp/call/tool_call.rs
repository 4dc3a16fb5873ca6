//! One tool call: looks the tool up, checks its availability and the arguments, dispatches it, and shapes the result.

use std::{borrow::Cow, sync::Arc};

use rmcp::model::{CallToolResponse, InputRequiredResult};
use serde_json::{Value, json};
use svc_kit::wall_clock;
use svc_operator::{AuditCall, GrantStatus};
use svc_otel::{metrics, trace};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode};
use tokio::time::Instant;

use super::{
    answer::{ToolAnswer, error_result, summary_line},
    confirmation::{ConfirmationOutcome, ConfirmationSubject},
    next_step::spell_out,
    receipt_view::tx_content,
};
use crate::{
    mcp::{
        catalog::{CallPolicy, CatalogEntry, INCLUDE_EVENTS, ToolAction, WalletTool},
        server::ToolServer,
        session::ToolCaller,
    },
    principals::Principal,
    tools::ToolEffect,
};

/// The outcome of a call that did not fail.
pub enum CallOutcome {
    /// The call has an answer.
    Answered(ToolAnswer),
    /// The call has a question to the person. The client calls again with the answer.
    InputRequired(Box<InputRequiredResult>),
}

impl From<ToolAnswer> for CallOutcome {
    fn from(answer: ToolAnswer) -> Self {
        Self::Answered(answer)
    }
}

/// The reason for which a tool of the catalog cannot be called now.
pub enum UnavailableReason {
    /// The deployment excludes it.
    Excluded,
    /// The policy denies it.
    Denied,
    /// The corporation does not grant its message type.
    NotGranted,
    /// The network does not have the upstream of the tool.
    Unsupported(&'static str),
    /// The release of the node does not take its message, with the fields in words.
    NotTaken(String),
}

impl UnavailableReason {
    /// The reason as a text.
    pub fn reason(&self) -> Cow<'static, str> {
        match self {
            Self::Excluded => {
                "this deployment leaves it out (SVC_TOOLSETS, SVC_READ_ONLY, SVC_TOOLS_ALLOW, SVC_TOOLS_DENY)".into()
            }
            Self::Denied => "the policy of this deployment denies it (SVC_TOOL_POLICY)".into(),
            Self::NotGranted => "the corporation does not grant its message type to this operator".into(),
            Self::Unsupported(reason) => (*reason).into(),
            Self::NotTaken(reason) => {
                format!("the node does not take its message as this release means it: {reason}").into()
            }
        }
    }
}

impl ToolServer {
    /// The reason for which a tool is unavailable now; `None` for an available tool. Listing and dispatch both use this.
    pub fn unavailable_reason(&self, entry: &CatalogEntry) -> Option<UnavailableReason> {
        match entry.call_policy {
            CallPolicy::Excluded => return Some(UnavailableReason::Excluded),
            CallPolicy::Deny => return Some(UnavailableReason::Denied),
            CallPolicy::Allow | CallPolicy::Ask | CallPolicy::Confirm => {}
        }
        if let ToolAction::Ledger(tool) = &entry.action
            && let Some(reason) = self.operator.node_release().problem_of(&tool.msg_type)
        {
            return Some(UnavailableReason::NotTaken(reason));
        }
        let snapshot = self.operator.snapshot();
        match &entry.action {
            ToolAction::Ledger(tool) if tool.needs_grant => {
                let status = snapshot.grant_status(&tool.msg_type, &self.operator.chain_time());
                (status != GrantStatus::Granted).then_some(UnavailableReason::NotGranted)
            }
            ToolAction::Idx(tool) if tool.needs_trust() && !snapshot.serves_trust => {
                Some(UnavailableReason::Unsupported("the indexer of this network does not answer trust reads"))
            }
            ToolAction::Graph(_) if !self.operator.has_graph() => {
                Some(UnavailableReason::Unsupported("there is no graph in this deployment (SVC_GRAPH)"))
            }
            ToolAction::Vsa(_) if snapshot.agents.is_empty() => Some(UnavailableReason::Unsupported(
                "the corporation has no agents: no participant with a DID and an authorized VS operator",
            )),
            ToolAction::Wallet(WalletTool::FindTools) if !self.catalog.is_partial() => {
                Some(UnavailableReason::Unsupported("tools/list has every tool of this deployment"))
            }
            ToolAction::UnlistedRead if !self.catalog.has_unlisted() => {
                Some(UnavailableReason::Unsupported("tools/list has every reading tool of this deployment"))
            }
            _ => None,
        }
    }

    /// The tools that are available now and are not called through another one, for any principal.
    pub fn listed_entries(&self) -> impl Iterator<Item = &Arc<CatalogEntry>> {
        self.catalog.iter().filter(|entry| !entry.is_unlisted && self.unavailable_reason(entry).is_none())
    }

    /// A tool of the catalog that is within the rights of a principal.
    pub fn find_entry(&self, name: &str, principal: &Principal) -> Option<&Arc<CatalogEntry>> {
        self.catalog.get(name).filter(|entry| principal.rights.allow(&entry.facts()))
    }

    /// Calls a tool and shapes its outcome as a result of MCP. A failure is a result too: the model reads the envelope.
    pub async fn answer_call(&self, name: &str, arguments: Value, caller: &ToolCaller<'_>) -> CallToolResponse {
        let started = Instant::now();
        let outcome = self.call_tool(name, arguments, caller).await;
        // The name of an unknown tool is not a label: labels are bounded.
        let label = self.find_entry(name, caller.principal()).map_or("unknown", |entry| &*entry.tool.name);
        match outcome {
            Ok(CallOutcome::Answered(answer)) => {
                metrics::record_tool_call(label, "", started.elapsed());
                tracing::info!(outcome = "ok", took_ms = elapsed_millis(started), "tool call has ended");
                answer.into_result().into()
            }
            Ok(CallOutcome::InputRequired(question)) => {
                tracing::info!(outcome = "asked", took_ms = elapsed_millis(started), "tool call needs a confirmation");
                (*question).into()
            }
            Err(error) => {
                metrics::record_tool_call(label, error.code.as_str(), started.elapsed());
                trace::record_error(&tracing::Span::current(), error.code.as_str());
                tracing::warn!(
                    outcome = "error",
                    error_code = error.code.as_str(),
                    took_ms = elapsed_millis(started),
                    "tool call has failed"
                );
                let detail = json!({"tool": label, "code": error.code, "message": error.message});
                caller.log_failure(detail).await;
                error_result(&spell_out(error)).into()
            }
        }
    }

    /// Looks a tool up and dispatches its call. Fails with an envelope for the client.
    async fn call_tool(
        &self,
        name: &str,
        arguments: Value,
        caller: &ToolCaller<'_>,
    ) -> Result<CallOutcome, ErrorEnvelope> {
        if self.is_draining() {
            return Err(ErrorEnvelope::new(
                FailureCode::NotReady,
                "the server is stopping",
                "call another instance, or later",
            ));
        }
        // A tool outside the rights of the principal is one that it has never heard of.
        let Some(entry) = self.find_entry(name, caller.principal()) else {
            let hint = "tools/list shows what there is";
            let name = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
            return Err(ErrorEnvelope::new(FailureCode::ToolUnknown, format!("there is no tool {name:?}"), hint)
                .with_details(json!({"tool": name})));
        };
        let name = &*entry.tool.name;
        // The write itself refuses a missing grant: its error names the authorization.
        match self.unavailable_reason(entry) {
            None | Some(UnavailableReason::NotGranted) => {}
            Some(UnavailableReason::Denied) => {
                let message = format!("{name}: {}", UnavailableReason::Denied.reason());
                let hint = "nothing was sent; whoever runs this server can change the policy";
                let error = ErrorEnvelope::new(FailureCode::AuthzPreconditionFailed, message, hint)
                    .with_details(json!({"tool": name, "policy": "deny"}));
                return Err(self.record_refusal(entry, &arguments, caller, error));
            }
            // The call of an agent fails with an error that names the DID.
            Some(UnavailableReason::Unsupported(_)) if matches!(entry.action, ToolAction::Vsa(_)) => {}
            // An earlier call under this key may have been executed: its receipt is there, and a new write is refused by the signer.
            Some(UnavailableReason::NotTaken(_)) if arguments["idempotency_key"].is_string() => {}
            Some(unavailable) => {
                let message = format!("{name} is not there: {}", unavailable.reason());
                let hint = "tools/list shows what there is";
                return Err(
                    ErrorEnvelope::new(FailureCode::ToolUnknown, message, hint).with_details(json!({"tool": name}))
                );
            }
        }
        let arguments = entry.normalize(arguments);
        entry.check_arguments(&arguments)?;
        // Calls of ledger tools and agents ask for the confirmation themselves, because it shows more than the arguments, and a call
        // of another tool asks for both at once.
        if !matches!(entry.action, ToolAction::Ledger(_) | ToolAction::Vsa(_) | ToolAction::UnlistedRead)
            && let Some(question) = self.confirm_read(entry, entry.call_policy, &arguments, caller).await?
        {
            return Ok(question);
        }
        match &entry.action {
            ToolAction::Ledger(tool) => self.call_ledger(entry, tool, &arguments, caller).await,
            ToolAction::Idx(tool) => self.call_indexer(name, *tool, &arguments, caller).await.map(of_others),
            ToolAction::Graph(tool) => self.call_graph(name, tool, &arguments, caller).await.map(of_others),
            ToolAction::Vsa(tool) => self.call_agent(entry, tool, &arguments, caller).await,
            ToolAction::Cosmos(tool) => self.call_cosmos(name, tool, &arguments, caller).await.map(of_others),
            ToolAction::UnlistedRead => self.call_unlisted(entry, &arguments, caller).await,
            ToolAction::Wallet(tool) => {
                let content = self.call_wallet(*tool, &arguments, caller).await;
                Ok(ToolAnswer::new(summary_line(name, &content), content).into())
            }
        }
    }

    /// Has a person confirm a read, where `policy` wants it. Yields the question when the client has to ask it.
    async fn confirm_read(
        &self,
        entry: &CatalogEntry,
        policy: CallPolicy,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<Option<CallOutcome>, ErrorEnvelope> {
        let subject = ConfirmationSubject::for_read(&entry.tool.name, arguments);
        match self.confirmations.require(policy, &subject, caller).await {
            Ok(ConfirmationOutcome::InputRequired(question)) => Ok(Some(CallOutcome::InputRequired(question))),
            Ok(ConfirmationOutcome::Proceed) => Ok(None),
            Ok(ConfirmationOutcome::Confirmed { by }) => {
                self.record_call(entry, arguments, caller, Some(by), None);
                Ok(None)
            }
            Err(error) => Err(self.record_refusal(entry, arguments, caller, error)),
        }
    }

    /// Calls a reading tool that is not listed, under its own policy and that of `outer`. Refuses every other tool.
    async fn call_unlisted(
        &self,
        outer: &CatalogEntry,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<CallOutcome, ErrorEnvelope> {
        let name = arguments["name"].as_str().unwrap_or_default();
        let inner = arguments.get("arguments").cloned().unwrap_or_else(|| json!({}));
        if let Some(entry) = self.find_entry(name, caller.principal()) {
            let is_refused = matches!(entry.call_policy, CallPolicy::Excluded | CallPolicy::Deny);
            if !entry.is_unlisted && !is_refused {
                let name = &*entry.tool.name;
                let reason = if entry.effect == ToolEffect::Reads { "is listed" } else { "writes" };
                let message =
                    format!("{name} {reason}: {} calls only reading tools that are not listed", outer.tool.name);
                let error = ErrorEnvelope::new(FailureCode::InputInvalid, message, "call it by its own name")
                    .with_details(json!({"violations": [{"pointer": "/name", "reason": reason}]}));
                return Err(self.record_refusal(entry, &inner, caller, error));
            }
            // The inner call asks for the confirmation of its own policy. Without one, that of the outer tool holds.
            if entry.call_policy == CallPolicy::Allow {
                let arguments = entry.normalize(inner.clone());
                if let Some(question) = self.confirm_read(entry, outer.call_policy, &arguments, caller).await? {
                    return Ok(question);
                }
            }
        }
        let shown = &name[..name.floor_char_boundary(MAX_NAME_BYTES)];
        tracing::info!(read_tool = shown, "calling a tool that is not listed");
        Box::pin(self.call_tool(name, inner, caller)).await
    }

    /// Puts a call on record that wrote nothing to the chain.
    pub(super) fn record_call(
        &self,
        entry: &CatalogEntry,
        arguments: &Value,
        caller: &ToolCaller<'_>,
        confirmed_by: Option<String>,
        error: Option<&ErrorEnvelope>,
    ) {
        let (session, client) = caller.session_and_client();
        self.operator.audit().record_call(AuditCall {
            at: wall_clock::now_rfc3339(),
            principal: caller.principal().id.to_string(),
            session,
            client,
            tool: entry.tool.name.to_string(),
            verdict: entry.call_policy.as_str().to_owned(),
            confirmed_by,
            arguments: arguments.clone(),
            error_code: error.map(|error| error.code.to_string()),
        });
    }

    /// Puts a call on record that was refused, denied or declined, and yields its error.
    pub(super) fn record_refusal(
        &self,
        entry: &CatalogEntry,
        arguments: &Value,
        caller: &ToolCaller<'_>,
        error: ErrorEnvelope,
    ) -> ErrorEnvelope {
        self.record_call(entry, arguments, caller, None, Some(&error));
        error
    }

    pub(super) async fn describe_tx(&self, hash: &str, arguments: &Value) -> Result<ToolAnswer, ErrorEnvelope> {
        let status = self.operator.tx_status(hash).await?;
        let summary = format!("transaction {hash}: {}", status["state"].as_str().unwrap_or_default());
        Ok(ToolAnswer::new(summary, tx_content(status, arguments[INCLUDE_EVENTS] == true)))
    }
}

fn of_others(answer: ToolAnswer) -> CallOutcome {
    answer.of_others().into()
}

/// Longest name that an error quotes, in bytes.
const MAX_NAME_BYTES: usize = 200;

fn elapsed_millis(since: Instant) -> i64 {
    i64::try_from(since.elapsed().as_millis()).unwrap_or(i64::MAX)
}
