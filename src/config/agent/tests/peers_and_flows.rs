//! The settings of peers and flows.

use super::*;

#[test]
fn peers_have_the_variables_and_defaults_of_the_contract_and_all_bad_ones_are_named_at_once() {
    let contract = include_str!("../../../../didcomm/tests/fixtures/contract.json");
    let contract: serde_json::Value = serde_json::from_str(contract).expect("JSON");
    let variables = contract["env"].as_array().expect("variables");
    let text = |variable: &serde_json::Value, member: &str| variable[member].as_str().expect("a text").to_owned();
    let pairs: Vec<(String, String)> =
        variables.iter().map(|variable| (text(variable, "name"), text(variable, "default"))).collect();
    let with = |values: &[(String, String)]| {
        let values: HashMap<String, String> = values.iter().cloned().collect();
        let mut environment: HashMap<&'static str, &'static str> = minimal();
        for (name, value) in values {
            environment.insert(Box::leak(name.into_boxed_str()), Box::leak(value.into_boxed_str()));
        }
        environment
    };
    let unset = read_agent(&minimal(), &mut secrets()).expect("enough").agent.peers;
    let set = read_agent(&with(&pairs), &mut secrets()).expect("the defaults can be used").agent.peers;
    assert_eq!(format!("{set:?}"), format!("{unset:?}"));
    // Each variable is read: a word is no value of any.
    let wrong: Vec<(String, String)> = pairs.iter().map(|(name, _)| (name.clone(), "wrong".to_owned())).collect();
    let found = problems(&with(&wrong), secrets());
    assert!(found.starts_with(&format!("{} environment variables cannot be used:", pairs.len())), "{found}");
    for (name, _) in &pairs {
        assert!(found.contains(&format!("\n  {name}: ")), "{name} in {found}");
    }
    for (name, value) in [
        ("DIDCOMM_TRANSPORTS", "ws,ws"),
        ("DIDCOMM_TRUST_TTL_SECONDS", "61"),
        ("DIDCOMM_REPLAY_HOURS", "23"),
        ("DIDCOMM_MAX_MESSAGE_BYTES", "5242881"),
        ("DIDCOMM_MAX_INFLIGHT_BYTES", "1024"),
        ("DIDCOMM_RATE_PER_PEER", "0"),
    ] {
        let found = problems(&with(&[(name.to_owned(), value.to_owned())]), secrets());
        assert!(found.contains(&format!("{name}: {value:?}")) || found.contains(value), "{found}");
        assert!(found.starts_with("1 environment variable"), "{found}");
    }
    let none = read_agent(&with(&[("DIDCOMM_TRANSPORTS".to_owned(), "none".to_owned())]), &mut secrets());
    assert!(none.expect("no transport").agent.peers.transports.is_empty());
}

#[test]
fn the_settings_of_flows_have_the_defaults_of_the_contract_and_each_wrong_one_is_named() {
    let flows = read_agent(&minimal(), &mut secrets()).expect("enough").agent.flows;
    let default = FlowSettings::default();
    assert_eq!((flows.per_peer, flows.actors, flows.session_cost), (100, 1_000, None));
    assert_eq!((flows.verify_time, flows.format, flows.sends_terms), (default.verify_time, default.format, false));
    let mut environment = minimal();
    environment.extend([
        ("FLOW_CLAIMS_DIR", "/"),
        ("FLOW_PUBLISH_SCHEMAS", "7, 9"),
        ("FLOW_MAX_SESSION_COST", "5000"),
        ("FLOW_VERIFY_SECONDS", "60"),
        ("FLOW_ISSUE_FORMAT", "ld-proof"),
        ("FLOW_SEND_TERMS", "true"),
    ]);
    let flows = read_agent(&environment, &mut secrets()).expect("enough").agent.flows;
    assert_eq!((flows.session_cost, flows.sends_terms), (Some(5_000), true));
    let listed = flows.published_schemas;
    assert!(listed.wants(9, None) && listed.wants(9, Some(false)) && !listed.wants(8, Some(true)));
    environment.insert("FLOW_PUBLISH_SCHEMAS", "*");
    let flows = read_agent(&environment, &mut secrets()).expect("enough").agent.flows;
    let all = &flows.published_schemas;
    assert!(all.wants(8, None) && all.wants(8, Some(true)) && !all.wants(8, Some(false)));
    assert_eq!((flows.format, flows.verify_time.as_secs()), (FlowFormat::LdProof, 60));
    let wrong = [
        ("FLOW_CLAIMS_DIR", "/no/such/folder"),
        ("FLOW_PUBLISH_SCHEMAS", "7,x"),
        ("FLOW_MAX_PER_PEER", "0"),
        ("FLOW_MAX_ACTORS", "many"),
        ("FLOW_MAX_SESSION_COST", "-1"),
        ("FLOW_VERIFY_SECONDS", "0"),
        ("FLOW_ISSUE_FORMAT", "jwt"),
        ("FLOW_SEND_TERMS", "perhaps"),
    ];
    environment.extend(wrong);
    let found = problems(&environment, secrets());
    assert!(found.starts_with("8 environment variables cannot be used:"), "{found}");
    for (name, value) in wrong {
        assert!(found.contains(&format!("\n  {name}: ")) && found.contains(value), "{name} in {found}");
    }
}
