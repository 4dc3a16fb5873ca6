//! Journal and audit of a running server: checked, copied, rotated, and complete.

use std::process::{Command, Output};

use serde_json::{Value, json};

use crate::e2e::{
    callers::secrets::{SERVER_PROGRAM, ServerChild},
    harness::{CREATE_ECOSYSTEM, call_tool, network_config, start_network},
    recovery::process_kill::{ServerFiles, keyed_arguments, kill, new_files, refused_boot, start_with},
};

fn run(arguments: &[&str]) -> Output {
    Command::new(SERVER_PROGRAM).args(arguments).env_clear().output().expect("runs")
}

fn report(arguments: &[&str]) -> Value {
    let output = run(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn audit_lines(files: &ServerFiles) -> Vec<Value> {
    let text = std::fs::read_to_string(files.path("audit.jsonl")).expect("readable");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn signal(served: &ServerChild, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(&served.child);
    rustix::process::kill_process(pid, signal).expect("signalled");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_of_a_running_server_is_checked_and_copied_and_the_copy_is_a_journal() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let (served, client) = start_with(&world, &files, &[]).await;
    let first = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("first")).await;
    world.assert_included_once("first", &first);
    let (journal, copy) = (files.path("journal.db"), files.path("copy.db"));
    let checked = report(&["journal", "verify", &journal, "--json"]);
    assert_eq!((&checked["transactions"], &checked["open"]), (&json!(1), &json!(0)), "{checked}");
    let copied = report(&["journal", "backup", &copy, "--journal", &journal, "--json"]);
    assert_eq!((&copied["identity"], &copied["transactions"]), (&checked["identity"], &json!(1)));
    assert!(!run(&["journal", "backup", &copy, "--journal", &journal]).status.success(), "a copy is not replaced");
    let second = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("second")).await;
    world.assert_included_once("second", &second);
    kill(served);

    // The copy lacks the second write: it is taken from its block, and a repetition is refused.
    std::fs::rename(&copy, &journal).expect("restored");
    for rest in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{journal}{rest}"));
    }
    let (served, client) = start_with(&world, &files, &[]).await;
    let status = call_tool(&client, "svc.wallet.getStatus", json!({})).await.content["journal"].clone();
    assert_eq!(
        (&status["recovered"]["restored"], &status["recovered"]["unexplained"]),
        (&json!(1), &json!(0)),
        "{status}"
    );
    let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("first")).await;
    assert_eq!(again.content["tx_hash"], first.content["tx_hash"], "{:#}", again.content);
    let repeated = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("second")).await;
    assert_eq!(repeated.content["details"]["tx_hash"], second.content["tx_hash"], "{:#}", repeated.content);
    assert_eq!((world.times_on_chain("second"), world.operator_txs_in_blocks()), (1, 2));
    kill(served);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_on_another_machine_and_a_new_journal_are_compared_with_the_account() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let (served, client) = start_with(&world, &files, &[]).await;
    let first = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("first")).await;
    let (journal, copy) = (files.path("journal.db"), files.path("copy.db"));
    report(&["journal", "backup", &copy, "--journal", &journal, "--json"]);
    let second = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("second")).await;
    kill(served);

    // Neither place has the lock file, which would name the newest commit.
    let (other, new) = (new_files(), new_files());
    std::fs::rename(&copy, other.path("journal.db")).expect("moved");
    for (place, restored, boot) in [(&other, 1, 0), (&other, 0, 1), (&new, 2, 0), (&new, 0, 1)] {
        let (served, client) = start_with(&world, place, &[]).await;
        let status = call_tool(&client, "svc.wallet.getStatus", json!({})).await.content["journal"].clone();
        let recovered = &status["recovered"];
        assert_eq!(
            (&recovered["restored"], &recovered["unexplained"]),
            (&json!(restored), &json!(0)),
            "{boot}: {status}"
        );
        let repeated = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("second")).await;
        assert_eq!(repeated.content["details"]["tx_hash"], second.content["tx_hash"], "{:#}", repeated.content);
        let again = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("first")).await;
        let hash =
            if std::ptr::eq(place, &other) { &again.content["tx_hash"] } else { &again.content["details"]["tx_hash"] };
        assert_eq!(hash, &first.content["tx_hash"], "{:#}", again.content);
        kill(served);
    }
    assert_eq!(world.operator_txs_in_blocks(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_audit_has_each_write_each_refusal_and_each_request_without_a_token_in_a_chain() {
    let (world, files) = (start_network(network_config(100)).await, new_files());
    let denied = "svc.ledger.es.archiveEcosystem";
    let (served, client) =
        start_with(&world, &files, &[("SVC_TOOL_POLICY", "svc.ledger.es.archiveEcosystem=deny")]).await;
    let written = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("written")).await;
    world.assert_included_once("written", &written);
    let refused = call_tool(&client, denied, json!({"ecosystem_id": "1", "archive": true})).await;
    assert!(refused.is_error, "{:#}", refused.content);
    for _ in 0..20 {
        let answer = reqwest::Client::new().post(&served.url).bearer_auth("wrong").send().await.expect("answered");
        assert_eq!(answer.status().as_u16(), 401);
    }
    let lines = audit_lines(&files);
    let records: Vec<&str> = lines.iter().filter_map(|line| line["record"].as_str()).collect();
    assert_eq!(records, ["begun", "completed", "called", "unauthorized"]);
    assert_eq!(
        (&lines[0]["message"]["did"], &lines[0]["verdict"]),
        (&json!("did:web:written.example"), &json!("allow"))
    );
    assert!(lines[1]["fee"].as_str().is_some_and(|fee| fee.parse::<u64>().is_ok_and(|fee| fee > 0)), "{}", lines[1]);
    assert_eq!((&lines[2]["tool"], &lines[2]["verdict"]), (&json!(denied), &json!("deny")));
    let audit = files.path("audit.jsonl");
    assert_eq!(report(&["audit", "verify", &audit, "--json"])["lines"], 4);

    std::fs::rename(&audit, files.path("audit.1")).expect("moved");
    signal(&served, rustix::process::Signal::HUP);
    world.wait_until("the audit goes on in a new file", async || std::path::Path::new(&audit).exists()).await;
    let later = call_tool(&client, CREATE_ECOSYSTEM, keyed_arguments("later")).await;
    world.assert_included_once("later", &later);
    let lines = audit_lines(&files);
    let old = report(&["audit", "verify", &files.path("audit.1"), "--json"]);
    assert_eq!((&lines[0]["record"], &lines[0]["previous"]), (&json!("rotated"), &old["head"]));

    // A second server is refused by name, and does not touch the records of the first.
    let mut settings = vec![("SVC_AUDIT", audit.clone())];
    let stderr = refused_boot(&world, &settings).await;
    assert!(stderr.contains(&format!("in use by process {}", served.child.id())), "{stderr}");
    settings[0] = ("SVC_JOURNAL", files.path("journal.db"));
    let stderr = refused_boot(&world, &settings).await;
    assert!(stderr.contains(&format!("in use by process {}", served.child.id())), "{stderr}");
    let text = std::fs::read_to_string(&audit).expect("readable");
    kill(served);
    std::fs::write(&audit, text.replacen("did:web:later", "did:web:other", 1)).expect("changed");
    assert!(!run(&["audit", "verify", &audit]).status.success());
    let (served, client) = start_with(&world, &files, &[]).await;
    let problem = call_tool(&client, "svc.wallet.getStatus", json!({})).await.content["audit"]["problem"].clone();
    assert!(problem.as_str().is_some_and(|problem| problem.contains("line 3")), "{problem}");
    kill(served);
}
