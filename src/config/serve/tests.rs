use std::{collections::HashMap, time::Duration};

use super::*;

const PHRASE: &str = "legal winner thank year wave sausage worth useful legal winner thank yellow";
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn good() -> HashMap<&'static str, &'static str> {
    HashMap::from([("SVC_CORPORATION", "7"), ("SVC_RPC", "http://node:26657/"), ("SVC_INDEXER", "https://indexer")])
}

fn secrets() -> ProcessSecrets {
    ProcessSecrets::from_pairs([("MCP_SVC_MNEMONIC", PHRASE), ("MCP_BEARER_TOKEN", TOKEN)])
}

fn bad(environment: &HashMap<&str, &str>, mut secrets: ProcessSecrets) -> Vec<std::borrow::Cow<'static, str>> {
    match read_serve(environment, &mut secrets) {
        Ok(_) => Vec::new(),
        Err(ConfigError::Variables(problems)) => problems.into_iter().map(|problem| problem.variable).collect(),
        Err(error @ ConfigError::Catalog(_)) => panic!("{error}"),
    }
}

#[test]
fn unset_variables_have_the_defaults_of_the_contract() {
    let config = read_serve(&good(), &mut secrets()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(config.operator.rpc.to_string(), "http://node:26657");
    assert_eq!(config.operator.fees, FeePolicy::at_price(25_000));
    assert_eq!(config.operator.tx_timeout, Duration::from_secs(30));
    assert_eq!(config.operator.indexer_timeout, Duration::from_secs(15));
    assert_eq!(config.operator.refresh_period, Duration::from_secs(60));
    let TransportConfig::Http(http) = config.transport else { panic!("http") };
    assert_eq!((http.port, http.bind.to_string()), (3000, "0.0.0.0".to_owned()));
}

#[test]
fn every_missing_variable_is_named_at_once() {
    let missing = ["MCP_SVC_MNEMONIC", "SVC_CORPORATION", "SVC_RPC", "SVC_INDEXER", "MCP_BEARER_TOKEN"];
    assert_eq!(bad(&HashMap::new(), ProcessSecrets::default()), missing);
    let stdio = HashMap::from([("MCP_TRANSPORT", "stdio")]);
    assert_eq!(bad(&stdio, ProcessSecrets::default()), missing[..4], "no token is needed without a socket");
}

#[test]
fn every_malformed_variable_is_named_with_its_allowed_values() {
    for (variable, value) in [
        ("SVC_CORPORATION", "0"),
        ("SVC_CORPORATION", "x"),
        ("SVC_RPC", "node:26657"),
        ("SVC_RPC", "http://a:1,,http://b:2"),
        ("SVC_INDEXER", "http://a:1 http://b:2"),
        ("SVC_TX_WINDOW", "0"),
        ("SVC_TX_WINDOW", "many"),
        ("SVC_INDEXER", "ftp://x"),
        ("SVC_VSA_UNBOUND_LOGINS", "did:web:a did:web:b"),
        ("SVC_VSA_UNBOUND_LOGINS", "did:"),
        ("SVC_GAS_PRICE", "cheap"),
        ("SVC_DENOM", "1x"),
        ("SVC_CHAIN_ID", "a b"),
        ("SVC_TX_TIMEOUT_MS", "0"),
        ("SVC_INDEXER_TIMEOUT_MS", "-1"),
        ("SVC_CACHE_REFRESH_MS", "1s"),
        ("SVC_LOG_LEVEL", "loud"),
        ("SVC_GRAPH", "graph"),
        ("SVC_ALLOW_PRIVATE_HOSTS", "yes"),
        ("SVC_ALLOW_PLAINTEXT_NODE", "1"),
        ("SVC_LIVE_DESCRIPTORS", "yes"),
        ("SVC_TOOLSETS", "ledger,foo"),
        ("SVC_READ_ONLY", "1"),
        ("SVC_TOOLS_ALLOW", "ledger"),
        ("SVC_TOOLS_DENY", "svc.ledger.{a}"),
        ("SVC_TOOL_POLICY", "svc.ledger.*=maybe"),
        ("SVC_TOOL_NAMES", "camel"),
        ("MCP_MAX_SESSIONS", "0"),
        ("MCP_SESSION_IDLE_MS", "x"),
        ("MCP_TRANSPORT", "tcp"),
        ("MCP_HTTP_PORT", "70000"),
        ("MCP_HTTP_BIND", "localhost"),
        ("SVC_STRICT_CONFIRM", "yes"),
        ("SVC_PRINCIPALS", "no/such/file.toml"),
        ("SVC_HTTP_MAX_CONNECTIONS", "-1"),
        ("SVC_TLS_CERT", "no/such/file.pem"),
    ] {
        let mut environment = good();
        environment.insert(variable, value);
        let expected = if variable == "SVC_TLS_CERT" { "SVC_TLS_KEY" } else { variable };
        assert_eq!(bad(&environment, secrets()), [expected], "{value}");
    }
}

#[test]
fn a_bad_secret_is_described_and_never_shown() {
    for (name, value, expected) in [
        ("MCP_SVC_MNEMONIC", "legal winner thank", "3 words"),
        ("MCP_BEARER_TOKEN", "short-token-value", "17 characters"),
    ] {
        let is_phrase = name == "MCP_SVC_MNEMONIC";
        let (phrase, token) = if is_phrase { (value, TOKEN) } else { (PHRASE, value) };
        let mut given = ProcessSecrets::from_pairs([("MCP_SVC_MNEMONIC", phrase), ("MCP_BEARER_TOKEN", token)]);
        let Err(error) = read_serve(&good(), &mut given) else { panic!("{name}: accepted") };
        let text = format!("{error} {error:?}");
        assert!(text.contains(expected) && text.contains(name), "{text}");
        assert!(!text.contains("winner") && !text.contains(value), "{text}");
    }
}

#[test]
fn a_gas_price_is_digits_with_one_point_and_the_denom_or_nothing() {
    for (text, micros, denom) in [
        ("0.025", 25_000, None),
        ("0.25usvc", 250_000, Some("usvc")),
        ("1", 1_000_000, None),
        ("0", 0, None),
        ("0.000001", 1, None),
        ("12.5ibc/AB12", 12_500_000, Some("ibc/AB12")),
    ] {
        assert_eq!(parse_gas_price(text), Some((micros, denom.map(str::to_owned))), "{text}");
    }
    // A price that is read as another one costs money.
    for text in ["", "usvc", "-1", "1.2.3", "1e-3", "0,025", ".5", "1.", "0.0000019", "0.025 usvc", "+1", "1u"] {
        assert_eq!(parse_gas_price(text), None, "{text}");
    }
}

#[test]
fn the_ceilings_follow_the_price_unless_they_are_set() {
    let read = |extra: &[(&'static str, &'static str)]| {
        let mut environment = good();
        environment.extend(extra.iter().copied());
        read_serve(&environment, &mut secrets()).map(|config| config.operator.fees)
    };
    let fees = |extra| read(extra).expect("valid");
    assert_eq!(
        fees(&[("SVC_GAS_PRICE", "1")]),
        FeePolicy { gas_price_micros: 1_000_000, max_gas: 20_000_000, max_fee: 20_000_000, max_fee_per_day: None }
    );
    let set = fees(&[("SVC_MAX_GAS", "300000"), ("SVC_MAX_FEE", "7"), ("SVC_MAX_FEE_PER_DAY", "70")]);
    let expected = FeePolicy { gas_price_micros: 25_000, max_gas: 300_000, max_fee: 7, max_fee_per_day: Some(70) };
    assert_eq!(set, expected);
    for bad in [
        ("SVC_MAX_GAS", "0"),
        ("SVC_MAX_GAS", "2e7"),
        ("SVC_MAX_FEE", "5usvc"),
        ("SVC_MAX_FEE", "-1"),
        ("SVC_MAX_FEE_PER_DAY", "1e6"),
    ] {
        assert!(read(&[bad]).is_err(), "{bad:?}");
    }
}
