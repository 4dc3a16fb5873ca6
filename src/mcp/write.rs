//! A call of a ledger tool: the exact message, the confirmation, the write, its progress.

use serde_json::{Value, json};
use svc_operator::{Asker, LedgerCall, LedgerReceipt, Prepared, STEPS, Step};
use svc_wire::envelope::{Code, ErrorEnvelope};
use tokio::sync::mpsc;

use super::{
    Front,
    call::{Called, Shaped},
    caller::{Caller, Progress},
    catalog::{Account, Entry, LedgerTool, invalid},
    confirm::{Confirmation, Subject},
};

impl Front {
    /// Sends a message to the chain, or shows what it would be.
    pub async fn write(
        &self,
        entry: &Entry,
        tool: &LedgerTool,
        arguments: &Value,
        caller: &Caller<'_>,
    ) -> Result<Called, ErrorEnvelope> {
        let name = &*entry.tool.name;
        let prepared = self.prepare(entry, tool, arguments)?;
        if arguments["dry_run"] == true {
            return self.dry_run(entry, &prepared).await.map(Called::from);
        }
        let key = arguments["idempotency_key"].as_str().map(str::to_owned);
        let is_known = match &key {
            Some(key) => self.operator.is_known(key, &prepared).await?,
            None => false,
        };
        // Nothing is done again, so nothing has to be confirmed again.
        if !is_known {
            self.operator.permits(&prepared)?;
            let message = self.operator.show(&prepared);
            let subject = Subject::of_message(name, self.operator.corporation_id(), message, prepared.digest());
            match self.confirmed(entry.verdict, &subject, caller).await? {
                Confirmation::Given => {}
                Confirmation::Ask(question) => return Ok(Called::Ask(question)),
            }
        }
        let receipt = self.send(entry, prepared, key, caller).await?;
        caller.written(receipt.block_height);
        let indexed = if receipt.indexer_synced { "and indexed" } else { "not indexed yet" };
        let summary = format!(
            "{name}: included in block {} {indexed}, tx {}, response {}",
            receipt.block_height, receipt.tx_hash, receipt.response
        );
        let content = serde_json::to_value(receipt).unwrap_or_default();
        Ok(Shaped { content, summary }.into())
    }

    fn prepare(&self, entry: &Entry, tool: &LedgerTool, arguments: &Value) -> Result<Prepared, ErrorEnvelope> {
        let snapshot = self.operator.snapshot();
        let account = |account: Account| match account {
            Account::Corporation => snapshot.policy_address().to_owned(),
            Account::Operator => self.operator.identity().address.to_string(),
        };
        let message = tool.message(arguments).map_err(|violations| invalid(&entry.tool.name, &violations))?;
        self.operator.prepare(&LedgerCall {
            msg_type: entry.msg_type.clone().unwrap_or_default(),
            arguments: message,
            accounts: tool.accounts.iter().map(|(field, whose)| (field.clone(), account(*whose))).collect(),
            needs_grant: tool.needs_grant,
        })
    }

    async fn dry_run(&self, entry: &Entry, prepared: &Prepared) -> Result<Shaped, ErrorEnvelope> {
        let estimate = self.operator.estimate(prepared).await?;
        let summary = format!(
            "{}: would pass now, gas {}, fee {}{} paid by the {}; nothing was signed or sent",
            entry.tool.name,
            estimate.gas_used,
            estimate.fee["amount"].as_str().unwrap_or_default(),
            estimate.fee["denom"].as_str().unwrap_or_default(),
            estimate.fee_payer
        );
        let mut content = serde_json::to_value(estimate).unwrap_or_default();
        content["dry_run"] = true.into();
        content["message"] = self.operator.show(prepared);
        content["message_digest"] = prepared.digest().into();
        content["policy"] = entry.verdict.as_str().into();
        Ok(Shaped { content, summary })
    }

    /// Runs the write and tells its steps. A caller that goes away stops waiting; the write goes on.
    async fn send(
        &self,
        entry: &Entry,
        prepared: Prepared,
        key: Option<String>,
        caller: &Caller<'_>,
    ) -> Result<LedgerReceipt, ErrorEnvelope> {
        let name = &*entry.tool.name;
        if caller.is_gone() {
            let hint = "nothing was sent";
            return Err(ErrorEnvelope::new(Code::NotReady, "the caller has gone before the write began", hint));
        }
        let (steps, mut told) = mpsc::channel(STEPS);
        let (session, client) = caller.who();
        let asker = Asker {
            session: session.into(),
            client: client.into(),
            tool: name.into(),
            verdict: entry.verdict.as_str().into(),
        };
        let write = self.operator.execute(prepared, asker, key, Some(steps));
        tokio::pin!(write);
        let mut hash = None;
        caller
            .progress(Progress { done: 1, of: TOTAL, message: "simulating and signing" }, json!({"tool": name}))
            .await;
        loop {
            tokio::select! {
                // What was told before the end is passed on before the end.
                biased;
                Some(step) = told.recv() => match step {
                    Step::Submitted { hash: submitted, timeout_height } => {
                        let detail = json!({"tool": name, "tx_hash": submitted, "timeout_height": timeout_height});
                        hash = Some(submitted);
                        caller.progress(Progress { done: 2, of: TOTAL, message: "submitted, waiting for a block" }, detail).await;
                    }
                    Step::Included { height } => {
                        let detail = json!({"tool": name, "tx_hash": hash, "block_height": height});
                        caller.progress(Progress { done: 3, of: TOTAL, message: "in a block, waiting for the indexer" }, detail).await;
                    }
                },
                outcome = &mut write => {
                    if outcome.is_ok() {
                        caller.progress(Progress { done: TOTAL, of: TOTAL, message: "done" }, json!({"tool": name, "tx_hash": hash})).await;
                    }
                    return outcome;
                }
                () = caller.cancelled() => {
                    let hint = "the write goes on all the same: svc://own/transactions shows it, do not repeat it";
                    return Err(ErrorEnvelope::new(Code::NotReady, "the caller has stopped waiting", hint)
                        .unrepeatable()
                        .with_details(json!({"tx_hash": hash})));
                }
            }
        }
    }
}

/// Steps of a write: simulated and signed, submitted, included, indexed.
const TOTAL: u8 = 4;
