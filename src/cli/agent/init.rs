//! `svc agent init`: the steps that make the agent's DID trusted, and the sending of those that are the operator's by a tool server.

use std::{collections::BTreeMap, pin::pin, time::Duration};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::Value;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    init_answer::{SendEnd, judge_answer},
    init_progress::{STEP_TIMEOUT, SetupProgress, TELL_PAUSE},
};
use crate::{
    cli::{
        confirm::ask_person,
        connection::take_bearer_token,
        output::{print_json, print_line},
        tools::find_listed,
    },
    mcp_client::{McpClient, result_content},
    secrets::ProcessSecrets,
    visible_text::visible,
};
use svc_peer::{AgentApi, AgentApiError};

/// Pause between two looks at the steps.
const LOOK_PAUSE: Duration = Duration::from_secs(1);
/// Time after which the write of an earlier run has ended.
const EARLIER_WRITE_TIMEOUT: Duration = Duration::from_secs(60);
/// The parameter of the setup for messages that are sent at once.
const SENT_AT_ONCE: &str = "sentAtOnce";
/// The status of an agent that waits for its node.
const SERVICE_UNAVAILABLE: u16 = 503;
/// Writes of one step: a key that was given to an earlier write with other times is followed by another.
const MAX_WRITES: usize = 3;

/// Arguments of `svc agent init`.
#[derive(Debug, Args)]
pub struct InitArgs {
    /// MCP endpoint of the corporation's tool server, which sends the missing steps; its token is read from MCP_BEARER_TOKEN. Without it
    /// they are shown.
    #[arg(long)]
    operator: Option<String>,
    /// Do not ask before each step.
    #[arg(long, requires = "operator")]
    yes: bool,
    /// Days for which participants are made and extended.
    #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    days: u16,
    /// Most of the corporation's coins that the agent may spend on credentials, such as 10000000ufee; 10000000 base units when absent.
    #[arg(long)]
    spend_limit: Option<String>,
    /// Most fees that the corporation pays for each participant; no limit when absent, and 10000000 base units a period where the node needs one.
    #[arg(long)]
    fee_limit: Option<String>,
    /// The ISSUER participant under which the DID becomes a HOLDER; the only one that there is when absent.
    #[arg(long)]
    apply_to: Option<String>,
}

/// An end with steps that others have to take, or that a person has to.
#[derive(Debug, thiserror::Error)]
#[error("steps that are not done: {0}; a line without a party is for this corporation")]
pub(crate) struct StepsLeft(usize);

impl InitArgs {
    /// The path of the setup, for messages that are read by a person or sent at once.
    fn path(&self, is_sent_at_once: bool) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.append_pair("days", &self.days.to_string());
        for (name, value) in
            [("spendLimit", &self.spend_limit), ("feeLimit", &self.fee_limit), ("applyTo", &self.apply_to)]
        {
            if let Some(value) = value {
                query.append_pair(name, value);
            }
        }
        if is_sent_at_once {
            query.append_pair(SENT_AT_ONCE, "true");
        }
        format!("/v2/agent/setup?{}", query.finish())
    }
}

/// Runs the command. Fails with [`StepsLeft`] when steps are left that no tool sends.
pub(super) async fn run(
    args: &InitArgs,
    api: &AgentApi,
    as_json: bool,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let read = async |is_sent_at_once| match api.get(&args.path(is_sent_at_once)).await {
        // An agent of an earlier release, which was not started again yet, does not know the parameter.
        Err(error) if is_sent_at_once && error.to_string().contains(SENT_AT_ONCE) => {
            Ok(api.get(&args.path(false)).await?)
        }
        answer => Ok(answer?),
    };
    let setup = match &args.operator {
        None => read(false).await?,
        Some(url) => {
            let client = McpClient::connect(url, take_bearer_token(secrets)?.expose_secret()).await?;
            let taken = take_steps(read, &client, args.yes, print_progress).await;
            client.close().await;
            taken?
        }
    };
    print_setup(&setup, as_json)?;
    match left(&setup) {
        0 => Ok(()),
        left => Err(StepsLeft(left).into()),
    }
}

/// Number of steps that are not done.
fn left(setup: &Value) -> usize {
    steps(setup).filter(|step| step["state"] != "done").count()
}

pub(super) fn steps(setup: &Value) -> impl Iterator<Item = &Value> {
    setup["steps"].as_array().into_iter().flatten()
}

fn print_progress(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr().lock(), "{}", visible(line));
}

/// The sending of a step: the number of attempts, the time of the last one, and its end.
struct Sending {
    attempts: usize,
    at: Instant,
    end: SendEnd,
}

impl Sending {
    /// Whether the step is not to be sent now. The write of an earlier run may still be on its way.
    fn holds(&self) -> bool {
        match self.end {
            SendEnd::Taken => true,
            SendEnd::SentEarlier => self.at.elapsed() < EARLIER_WRITE_TIMEOUT,
            SendEnd::Late => false,
        }
    }
}

/// The next step that the tool server can send, if its account's precondition is met.
fn next_step<'a>(setup: &'a Value, sent: &BTreeMap<String, Sending>) -> Option<&'a Value> {
    let is_held = |step: &Value| sent.get(key_of(step)).is_some_and(Sending::holds);
    let is_ours = |step: &Value| step["state"] == "missing" && step["by"] == "operator" && step["tool"].is_string();
    steps(setup).filter(|_| is_account_ready(setup)).find(|step| is_ours(step) && !is_held(step))
}

/// Whether the agent's account can be granted something. Without that nothing else goes on, and a person has to see it at once.
fn is_account_ready(setup: &Value) -> bool {
    steps(setup).all(|step| step["id"] != "account" || step["state"] == "done")
}

fn key_of(step: &Value) -> &str {
    text(&step["message"]["idempotency_key"])
}

/// A step that ends by itself: it was sent and its agent's node shows it a little later, or time or the agent ends it.
fn open_step<'a>(setup: &'a Value, sent: &BTreeMap<String, Sending>) -> Option<&'a Value> {
    // A setting changes when a person changes it, and a later time is not waited for.
    let is_soon = |step: &Value| step["endsIn"].as_u64().is_none_or(|seconds| seconds <= STEP_TIMEOUT.as_secs());
    let is_waiting = |step: &Value| step["state"] == "waiting" && step["setting"].is_null() && is_soon(step);
    let is_open = |step: &&Value| is_waiting(step) || (step["state"] == "missing" && sent.contains_key(key_of(step)));
    steps(setup).filter(|step| is_account_ready(setup) && step["by"] == "operator").find(is_open)
}

/// Sends the missing steps of the operator in their order, and waits for those that end by themselves. Returns the setup at the end.
pub(crate) async fn take_steps(
    read: impl AsyncFn(bool) -> anyhow::Result<Value>,
    client: &McpClient,
    is_confirmed: bool,
    report: impl Fn(&str),
) -> anyhow::Result<Value> {
    let mut sent: BTreeMap<String, Sending> = BTreeMap::new();
    let mut progress = SetupProgress::begin(Instant::now());
    loop {
        // A chain that was slower than its usual pace has refused the short lead.
        let is_late = sent.values().any(|sending| sending.end == SendEnd::Late);
        let setup = look(async || read(is_confirmed && !is_late).await, progress.has_looked(), &report).await?;
        progress.look(&setup, Instant::now()).iter().for_each(|line| report(line));
        if let Some(step) = next_step(&setup, &sent) {
            let attempts = sent.get(key_of(step)).map_or(1, |earlier| earlier.attempts + 1);
            let end = send(step, attempts, client, is_confirmed, &report).await?;
            sent.insert(key_of(step).to_owned(), Sending { attempts, at: Instant::now(), end });
            progress.sent(Instant::now());
            continue;
        }
        match open_step(&setup, &sent) {
            None => return Ok(setup),
            Some(step) if progress.has_time(Instant::now()) => {
                if let Some(line) = progress.wait(step, Instant::now()) {
                    report(&line);
                }
                sleep(LOOK_PAUSE).await;
            }
            Some(step) if step["state"] == "missing" => {
                let (id, reason) = (text(&step["id"]), text(&step["reason"]));
                bail!("{id} was sent, and the agent's node does not show it: {reason}")
            }
            Some(_) => return Ok(setup),
        }
    }
}

/// Reads the setup, and repeats that as long as its failures pass by themselves: the node of the agent does not answer or, once the agent
/// has answered (`has_looked`), the agent starts again.
async fn look(
    read: impl AsyncFn() -> anyhow::Result<Value>,
    has_looked: bool,
    report: &impl Fn(&str),
) -> anyhow::Result<Value> {
    let deadline = Instant::now() + STEP_TIMEOUT;
    let mut next_line = Instant::now();
    loop {
        let told = |left: Duration| {
            report(&format!("the agent compares the steps with the node; waiting for {} s at most", left.as_secs()));
        };
        let Some(answer) = await_told(read(), deadline, told).await else {
            bail!("the agent has not compared the steps with the node within {} s", STEP_TIMEOUT.as_secs());
        };
        let now = Instant::now();
        match answer {
            Err(error) if passes(&error, has_looked) && now + LOOK_PAUSE < deadline => {
                if now >= next_line {
                    let left = (deadline - now).as_secs();
                    report(&format!("{error:#}; trying again for {left} s at most"));
                    next_line = now + TELL_PAUSE;
                }
                sleep(LOOK_PAUSE).await;
            }
            answer => return answer,
        }
    }
}

/// Whether a failure of the agent's answer may pass by itself.
fn passes(error: &anyhow::Error, has_looked: bool) -> bool {
    match error.downcast_ref::<AgentApiError>() {
        Some(AgentApiError::Refused { status, .. }) => *status == SERVICE_UNAVAILABLE,
        Some(AgentApiError::Unreachable { .. } | AgentApiError::NoJson { .. }) => has_looked,
        None => false,
    }
}

/// Waits for an answer until the deadline, and tells in the meantime how much time is left. `None` after the deadline.
async fn await_told<T>(work: impl Future<Output = T>, deadline: Instant, tell: impl Fn(Duration)) -> Option<T> {
    let mut work = pin!(work);
    loop {
        let told_at = deadline.min(Instant::now() + TELL_PAUSE);
        match timeout_at(told_at, &mut work).await {
            Ok(answer) => return Some(answer),
            Err(_) if told_at == deadline => return None,
            Err(_) => tell(deadline - told_at),
        }
    }
}

/// Sends a step.
async fn send(
    step: &Value,
    attempt: usize,
    client: &McpClient,
    is_confirmed: bool,
    report: &impl Fn(&str),
) -> anyhow::Result<SendEnd> {
    let (id, tool) = (text(&step["id"]), text(&step["tool"]));
    let mut message = step["message"].as_object().cloned().with_context(|| format!("step {id} has no message"))?;
    if attempt > MAX_WRITES {
        bail!("step {id}: {MAX_WRITES} earlier writes of it had no effect");
    }
    if attempt > 1 {
        message.insert("idempotency_key".to_owned(), format!("{}-{attempt}", key_of(step)).into());
    }
    if !is_confirmed {
        ask_person(tool, &message)?;
    }
    let tools = client.list_tools().await?;
    let name = find_listed(tool, &tools).map_or_else(|| tool.to_owned(), |tool| tool.name.to_string());
    report(&format!("{id}: {tool}"));
    let told =
        |left: Duration| report(&format!("{id}: {tool} waits for its block; waiting for {} s at most", left.as_secs()));
    let call = client.call_tool(&name, message);
    let Some(result) = await_told(call, Instant::now() + STEP_TIMEOUT, told).await else {
        let waited = STEP_TIMEOUT.as_secs();
        bail!(
            "step {id}: {tool} has not answered within {waited} s; a repeated run finds the write if a block took it"
        );
    };
    let result = result?;
    match judge_answer(result.is_error == Some(true), &result_content(&result)) {
        Ok((end, words)) => {
            report(&format!("{id}: {words}"));
            Ok(end)
        }
        Err(words) => bail!("step {id}: {tool} failed: {words}"),
    }
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn print_setup(setup: &Value, as_json: bool) -> anyhow::Result<()> {
    if as_json {
        return print_json(setup);
    }
    for step in steps(setup) {
        let by = match (text(&step["by"]), step["corporationId"].as_str()) {
            ("operator", _) => String::new(),
            (_, Some(corporation)) => format!(" (corporation {corporation})"),
            (_, None) => " (another party)".to_owned(),
        };
        let (state, id, reason) = (text(&step["state"]), text(&step["id"]), text(&step["reason"]));
        print_line(visible(&format!("{state:<7}  {id}{by}: {reason}")));
        if let (false, Some(tool)) = (state == "done", step["tool"].as_str()) {
            print_line(visible(&format!("         {tool} {}", step["message"])));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use serde_json::json;

    use super::*;

    fn refusal(status: u16) -> anyhow::Error {
        let (code, message) = ("NOT_READY".to_owned(), "the registry cannot be read".to_owned());
        AgentApiError::Refused { status, code, message, details: Value::Null, retry_after: None }.into()
    }

    /// The answer to a look whose reads take so many seconds and end so, and the lines of it.
    async fn look_at(reads: &[(u64, Option<u16>)]) -> (anyhow::Result<Value>, Vec<String>) {
        let (lines, count) = (RefCell::new(Vec::new()), Cell::new(0));
        let read = async || {
            let (takes, refused) = reads[count.get().min(reads.len() - 1)];
            count.set(count.get() + 1);
            sleep(Duration::from_secs(takes)).await;
            refused.map_or(Ok(json!({"steps": []})), |status| Err(refusal(status)))
        };
        let answer = look(read, true, &|line: &str| lines.borrow_mut().push(line.to_owned())).await;
        (answer, lines.take())
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_does_not_answer_is_waited_for_with_a_line_every_ten_seconds() {
        let (answer, lines) = look_at(&[(25, Some(503)), (0, None)]).await;
        assert!(answer.is_ok());
        assert_eq!(
            lines,
            [
                "the agent compares the steps with the node; waiting for 170 s at most",
                "the agent compares the steps with the node; waiting for 160 s at most",
                "NOT_READY: the registry cannot be read; trying again for 155 s at most",
            ]
        );
        // Refusals at once are lines every ten seconds too, and end with the last of them.
        let (answer, lines) = look_at(&[(0, Some(503))]).await;
        assert!(answer.is_err_and(|error| error.to_string().contains("NOT_READY")));
        assert_eq!(lines.len(), 18, "{lines:?}");
        let (answer, lines) = look_at(&[(1_000, None)]).await;
        assert!(answer.is_err_and(|error| error.to_string().contains("within 180 s")));
        assert_eq!(lines.len(), 17, "{lines:?}");
        let (answer, lines) = look_at(&[(0, Some(400)), (0, None)]).await;
        assert!(answer.is_err() && lines.is_empty(), "a request that is wrong stays so");
    }

    #[test]
    fn a_step_is_waited_for_only_while_it_ends_by_itself_and_soon() {
        let sent = BTreeMap::new();
        for (step, is_open) in [
            (json!({"state": "waiting"}), true),
            (json!({"state": "waiting", "endsIn": 180}), true),
            (json!({"state": "waiting", "endsIn": 181}), false),
            (json!({"state": "waiting", "setting": "ECS_CLAIMS_SERVICE_NAME"}), false),
            (json!({"state": "missing"}), false),
            (json!({"state": "done"}), false),
        ] {
            let mut step = step;
            step["by"] = "operator".into();
            let setup = json!({"steps": [step]});
            assert_eq!(open_step(&setup, &sent).is_some(), is_open, "{setup}");
        }
        let others = json!({"steps": [{"state": "waiting", "by": "other"}]});
        assert!(open_step(&others, &sent).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_that_takes_long_is_told_of_every_ten_seconds_until_it_is_given_up() {
        for (takes, expected_answer, expected_lines) in [
            (0, Some(7), &[][..]),
            (9, Some(7), &[]),
            (35, Some(7), &[35, 25, 15]),
            // No line at the end itself: the error says it.
            (46, None, &[35, 25, 15, 5]),
        ] {
            let told = RefCell::new(Vec::new());
            let answered = async {
                sleep(Duration::from_secs(takes)).await;
                7
            };
            let deadline = Instant::now() + Duration::from_secs(45);
            let answer = await_told(answered, deadline, |left| told.borrow_mut().push(left.as_secs())).await;
            assert_eq!((answer, told.take().as_slice()), (expected_answer, expected_lines), "{takes}");
        }
    }
}
