//! A call of a ledger tool: encodes the message, asks for the confirmation, runs the write and reports its progress.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_operator::{EncodedMessage, WriteAnswer, WriteOrigin, WriteRequest, WriteRequester, WriteStatus};
use svc_wire::error_envelope::{ErrorEnvelope, FailureCode, NextStep};

use super::{
    answer::ToolAnswer,
    confirmation::{ConfirmationOutcome, ConfirmationStore, ConfirmationSubject, FeeNotice},
    receipt_view::receipt_content,
    tool_call::CallOutcome,
};
use crate::mcp::{
    catalog::{AccountRole, CallPolicy, CatalogEntry, INCLUDE_EVENTS, LedgerTool, invalid_arguments},
    server::ToolServer,
    session::{CallProgress, ToolCaller},
};

impl ToolServer {
    /// Sends a message to the chain, or shows the message and its fee in a dry run.
    pub async fn call_ledger(
        &self,
        entry: &CatalogEntry,
        tool: &LedgerTool,
        arguments: &Value,
        caller: &ToolCaller<'_>,
    ) -> Result<CallOutcome, ErrorEnvelope> {
        let name = &*entry.tool.name;
        let encoded = self.encode_message(entry, tool, arguments)?;
        if arguments["dry_run"] == true {
            return self.dry_run(entry, &encoded, requester(caller)).await.map(CallOutcome::from);
        }
        let key = arguments["idempotency_key"].as_str().map(str::to_owned);
        let is_known = match &key {
            Some(key) => self.operator.is_known_write(&caller.principal().id, key, &encoded).await?,
            None => false,
        };
        let mut confirmed_by = None;
        // A repeated key returns the earlier outcome and writes nothing, so it needs no confirmation.
        if !is_known {
            let refused = |error| self.record_refusal(entry, arguments, caller, error);
            self.operator.check_permission(&encoded).map_err(refused)?;
            match self.confirm_message(entry, &encoded, caller).await.map_err(refused)? {
                ConfirmationOutcome::Proceed => {}
                ConfirmationOutcome::Confirmed { by } => confirmed_by = Some(by),
                ConfirmationOutcome::InputRequired(question) => return Ok(CallOutcome::InputRequired(question)),
            }
        }
        let receipt = self.execute_write(entry, encoded, key, confirmed_by, caller).await?;
        caller.record_write(receipt.block_height);
        let indexed = if receipt.indexer_synced { "and indexed" } else { "not indexed yet" };
        let summary = format!(
            "{name}: included in block {} {indexed}, tx {}, response {}",
            receipt.block_height, receipt.tx_hash, receipt.response
        );
        Ok(ToolAnswer::new(summary, receipt_content(&receipt, arguments[INCLUDE_EVENTS] == true)).into())
    }

    /// Has a person confirm the message and its fee, where the policy wants it. Yields the question when the client has to ask it.
    async fn confirm_message(
        &self,
        entry: &CatalogEntry,
        message: &EncodedMessage,
        caller: &ToolCaller<'_>,
    ) -> Result<ConfirmationOutcome, ErrorEnvelope> {
        if entry.call_policy == CallPolicy::Allow {
            return Ok(ConfirmationOutcome::Proceed);
        }
        let params = &self.operator.chain().params;
        let estimate = if ConfirmationStore::asks_person(entry.call_policy, caller) {
            let estimate = self.operator.estimate_fee(message, requester(caller)).await?;
            format!("{}{}", estimate.fee["amount"].as_str().unwrap_or_default(), params.denom)
        } else {
            String::new()
        };
        let notice = FeeNotice { estimate, max_fee: format!("{}{}", params.fees.max_fee, params.denom) };
        let (name, corporation) = (&*entry.tool.name, self.operator.corporation_id());
        let decoded = self.operator.decode_message(message);
        let subject = ConfirmationSubject::for_message(name, corporation, decoded, message.digest(), &notice);
        self.confirmations.require(entry.call_policy, &subject, caller).await
    }

    fn encode_message(
        &self,
        entry: &CatalogEntry,
        tool: &LedgerTool,
        arguments: &Value,
    ) -> Result<EncodedMessage, ErrorEnvelope> {
        let snapshot = self.operator.snapshot();
        let account = |role: AccountRole| match role {
            AccountRole::Corporation => snapshot.policy_address().to_owned(),
            AccountRole::Operator => self.operator.identity().address.to_string(),
        };
        let message =
            tool.build_message(arguments).map_err(|violations| invalid_arguments(&entry.tool.name, &violations))?;
        self.operator.encode_message(&WriteRequest {
            msg_type: tool.msg_type.clone(),
            arguments: message,
            accounts: tool.accounts.iter().map(|(field, role)| (field.clone(), account(*role))).collect(),
            needs_grant: tool.needs_grant,
        })
    }

    async fn dry_run(
        &self,
        entry: &CatalogEntry,
        prepared: &EncodedMessage,
        requester: WriteRequester<'_>,
    ) -> Result<ToolAnswer, ErrorEnvelope> {
        let estimate = self.operator.estimate_fee(prepared, requester).await?;
        let summary = format!(
            "{}: would pass now, gas {}, fee {}{} paid by the {}; nothing was signed or sent",
            entry.tool.name,
            estimate.gas_used,
            estimate.fee["amount"].as_str().unwrap_or_default(),
            estimate.fee["denom"].as_str().unwrap_or_default(),
            estimate.fee_payer
        );
        let mut content = json!({"dry_run": true, "message": self.operator.decode_message(prepared)});
        if let (Value::Object(content), Ok(Value::Object(estimate))) = (&mut content, serde_json::to_value(estimate)) {
            content.extend(estimate);
        }
        content["policy"] = entry.call_policy.as_str().into();
        content["message_digest"] = prepared.digest().into();
        Ok(ToolAnswer::new(summary, content))
    }

    /// Executes the write and reports its progress. When the caller cancels the call, the wait ends and the write continues.
    async fn execute_write(
        &self,
        entry: &CatalogEntry,
        message: EncodedMessage,
        key: Option<String>,
        confirmed_by: Option<String>,
        caller: &ToolCaller<'_>,
    ) -> WriteAnswer {
        let name = &*entry.tool.name;
        if caller.is_cancelled() {
            let hint = "nothing was sent";
            return Err(ErrorEnvelope::new(FailureCode::NotReady, "the caller has gone before the write began", hint));
        }
        let (session, client) = caller.session_and_client();
        let origin = WriteOrigin {
            principal: Arc::clone(&caller.principal().id),
            session: session.into(),
            client: client.as_str().into(),
            tool: name.into(),
            verdict: entry.call_policy.as_str().into(),
            confirmed_by: confirmed_by.map(Into::into),
        };
        let mut progress = WriteProgressReport { caller, tool: name, hash: None, is_included: false };
        progress.begin().await;
        let mut write = self.operator.execute(message, origin, key, caller.principal().rights.fee_limits)?;
        loop {
            tokio::select! {
                status = write.next_status() => {
                    progress.report(&status).await;
                    if let WriteStatus::Ended(answer) = status {
                        return answer;
                    }
                }
                () = caller.cancelled() => {
                    let hint = "the write goes on all the same; do not repeat it";
                    return Err(ErrorEnvelope::new(FailureCode::NotReady, "the caller has stopped waiting", hint)
                        .not_retryable()
                        .with_next_step(NextStep::ListTransactions)
                        .with_details(json!({"tx_hash": progress.hash})));
                }
            }
        }
    }
}

/// The caller as the operator knows it.
fn requester<'a>(caller: &'a ToolCaller<'_>) -> WriteRequester<'a> {
    let principal = caller.principal();
    WriteRequester { principal: &principal.id, fee_limits: principal.rights.fee_limits }
}

/// Steps of a write: simulated and signed, submitted, included, indexed.
const STEPS_TOTAL: u8 = 4;

/// Reports the steps of a write to its caller: each once and in order, also when a status was skipped.
struct WriteProgressReport<'a> {
    caller: &'a ToolCaller<'a>,
    tool: &'a str,
    hash: Option<String>,
    is_included: bool,
}

impl WriteProgressReport<'_> {
    async fn begin(&self) {
        self.step(1, "simulating and signing", json!({"tool": self.tool})).await;
    }

    async fn report(&mut self, status: &WriteStatus<WriteAnswer>) {
        match status {
            WriteStatus::InFlight { hash, timeout_height } => self.submitted(hash, Some(*timeout_height)).await,
            WriteStatus::Included { hash, timeout_height, height } => {
                self.submitted(hash, Some(*timeout_height)).await;
                self.included(hash, *height).await;
            }
            // A quick block or indexer has left no time for the statuses before.
            WriteStatus::Ended(Ok(receipt)) => {
                self.submitted(&receipt.tx_hash, None).await;
                self.included(&receipt.tx_hash, receipt.block_height).await;
                self.step(STEPS_TOTAL, "done", json!({"tool": self.tool, "tx_hash": receipt.tx_hash})).await;
            }
            WriteStatus::Queued | WriteStatus::Ended(Err(_)) => {}
        }
    }

    async fn submitted(&mut self, hash: &str, timeout_height: Option<u64>) {
        if self.hash.is_none() {
            self.hash = Some(hash.to_owned());
            let mut detail = json!({"tool": self.tool, "tx_hash": hash});
            if let Some(height) = timeout_height {
                detail["timeout_height"] = height.into();
            }
            self.step(2, "submitted, waiting for a block", detail).await;
        }
    }

    async fn included(&mut self, hash: &str, height: u64) {
        if !std::mem::replace(&mut self.is_included, true) {
            let detail = json!({"tool": self.tool, "tx_hash": hash, "block_height": height});
            self.step(3, "in a block, waiting for the indexer", detail).await;
        }
    }

    async fn step(&self, steps_done: u8, message: &'static str, detail: Value) {
        let progress = CallProgress { steps_done, steps_total: STEPS_TOTAL, message };
        self.caller.report_progress(progress, detail).await;
    }
}
