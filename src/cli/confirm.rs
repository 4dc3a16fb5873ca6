//! The question before a call that takes something away or gives a right, where a person sits at the terminal.

use std::{
    fs::OpenOptions,
    io::{BufRead, BufReader, IsTerminal, Write},
};

use anyhow::{Context, bail};
use serde_json::{Map, Value};

use crate::{
    mcp::DESTRUCTIVE_VERBS,
    visible_text::{visible, visible_lines},
};

/// Beginning of the verbs that give a right.
const GRANT: &str = "grant";

/// Whether a call takes something away or gives a right. A dry run does neither.
fn is_grave(tool: &str, arguments: &Map<String, Value>) -> bool {
    let verb = tool.rsplit(['.', '_']).next().unwrap_or_default();
    let is_read = ["get", "list", "find"].iter().any(|read| verb.starts_with(read));
    let is_dry = arguments.get("dry_run") == Some(&Value::Bool(true));
    !is_read && !is_dry && DESTRUCTIVE_VERBS.iter().chain([&GRANT]).any(|beginning| verb.starts_with(beginning))
}

/// Asks the person before a grave call. A program, which has no terminal, is not asked. Fails when the answer is not yes.
pub(super) fn confirm(tool: &str, arguments: &Map<String, Value>, is_confirmed: bool) -> anyhow::Result<()> {
    if is_confirmed || !is_grave(tool, arguments) { Ok(()) } else { ask_person(tool, arguments) }
}

/// Asks the person before a call. A program, which has no terminal for its input or its errors, is not asked. Fails when the answer is not yes.
pub(super) fn ask_person(tool: &str, arguments: &Map<String, Value>) -> anyhow::Result<()> {
    ask_person_about(&describe_call(tool, arguments))
}

fn describe_call(tool: &str, arguments: &Map<String, Value>) -> String {
    let shown =
        arguments.iter().map(|(name, value)| format!("  {} = {}\n", visible(name), visible(&value.to_string())));
    format!("{}\n{}", visible(tool), shown.collect::<String>())
}

/// Asks the person about something that `shown` describes. A program, which has no terminal, is not asked. Fails when the answer is not
/// yes.
pub(super) fn ask_person_about(shown: &str) -> anyhow::Result<()> {
    // Either may be a file: standard input with the arguments, standard error as a log.
    let (reads, writes) = (std::io::stdin().is_terminal(), std::io::stderr().is_terminal());
    if !reads && !writes {
        return Ok(());
    }
    let terminal = || OpenOptions::new().read(true).write(true).open("/dev/tty");
    let mut input: Box<dyn BufRead> = if reads {
        Box::new(std::io::stdin().lock())
    } else {
        match terminal() {
            Ok(terminal) => Box::new(BufReader::new(terminal)),
            // Standard error is the terminal of another process.
            Err(_) => return Ok(()),
        }
    };
    let mut output: Box<dyn Write> = if writes {
        Box::new(std::io::stderr().lock())
    } else {
        Box::new(terminal().context("a question has no terminal to stand on; --yes does not ask")?)
    };
    ask(shown, &mut input, &mut output)
}

fn ask(shown: &str, input: &mut impl BufRead, output: &mut impl Write) -> anyhow::Result<()> {
    write!(output, "{}\nDo this? (yes or no; --yes does not ask) ", visible_lines(shown.trim_end()))?;
    output.flush()?;
    let mut answer = String::new();
    input.read_line(&mut answer)?;
    if matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes") {
        return Ok(());
    }
    bail!("not confirmed; nothing was sent")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments(value: Value) -> Map<String, Value> {
        value.as_object().cloned().expect("an object")
    }

    #[test]
    fn grave_calls_are_those_that_take_away_or_give_a_right() {
        for (tool, given, expected) in [
            ("svc.ledger.pp.revokeParticipant", json!({}), true),
            ("svc.ledger.pp.slashParticipantTrustDeposit", json!({}), true),
            ("svc_ledger_es_archiveEcosystem", json!({}), true),
            ("svc.vsa.se.deleteServiceEndpoint", json!({}), true),
            ("svc.ledger.de.grantOperatorAuthorization", json!({}), true),
            ("svc.ledger.de.grantOperatorAuthorization", json!({"dry_run": true}), false),
            ("svc.ledger.es.createEcosystem", json!({}), false),
            ("svc.idx.de.listFeeGrants", json!({}), false),
            ("svc.cosmos.authz.listGrants", json!({}), false),
        ] {
            assert_eq!(is_grave(tool, &arguments(given)), expected, "{tool}");
        }
    }

    #[test]
    fn only_yes_goes_on_and_the_question_shows_the_arguments() {
        for (answer, goes_on) in [("yes\n", true), ("Y\n", true), ("no\n", false), ("", false), ("yes please\n", false)]
        {
            let mut shown = Vec::new();
            let given = arguments(json!({"id": 7, "reason": "a\u{202e}b"}));
            let asked =
                ask(&describe_call("svc.ledger.pp.revokeParticipant", &given), &mut answer.as_bytes(), &mut shown);
            assert_eq!(asked.is_ok(), goes_on, "{answer:?}");
            let shown = String::from_utf8(shown).expect("text");
            assert!(shown.contains("  id = 7\n") && shown.contains("\\u{202e}"), "{shown}");
        }
    }
}
