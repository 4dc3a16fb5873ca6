//! Tests of the settings: every problem at once, and no secret in any.

mod peers_and_flows;

use std::collections::HashMap;

use svc_agent::{ConfiguredClaims, CredentialMode, FlowFormat, FlowSettings};
use svc_trust::EssentialCredential;

use super::*;

const PHRASE: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about";
const KEY: &str = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=";

fn minimal() -> HashMap<&'static str, &'static str> {
    HashMap::from([
        ("SVC_CORPORATION_ID", "7"),
        ("SVC_RPC_ENDPOINT_URL", "http://127.0.0.1:26657"),
        ("SVC_INDEXER_BASE_URL", "http://127.0.0.1:3001"),
        ("PUBLIC_API_BASE_URL", "https://agent.example.com"),
        ("TRUSTED_ECS_ECOSYSTEM_DIDS", "did:web:ecosystem.example.com"),
        ("ECS_CLAIMS_SERVICE_NAME", "Shop"),
    ])
}

/// The settings of an agent whose parent issues its service credential.
fn delegated() -> HashMap<&'static str, &'static str> {
    let mut environment = minimal();
    environment.retain(|name, _| !name.starts_with("ECS_CLAIMS_") && *name != "TRUSTED_ECS_ECOSYSTEM_DIDS");
    environment.extend([("AGENT_MODE", "delegated"), ("AGENT_DELEGATED_PARENT_VS_DID", "did:web:parent.example.com")]);
    environment
}

fn secrets() -> ProcessSecrets {
    ProcessSecrets::from_pairs([("SVC_ACCOUNT_MNEMONIC", PHRASE), ("SVC_AGENT_STORE_KEY", KEY)])
}

fn problems(environment: &HashMap<&str, &str>, mut secrets: ProcessSecrets) -> String {
    match read_agent(environment, &mut secrets) {
        Ok(_) => "none".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn account(seed: u8) -> String {
    svc_wire::address::Address::from_bytes("svc", &[seed; 20]).expect("an address").to_string()
}

#[test]
fn eight_settings_are_enough_and_the_rest_has_the_defaults_of_the_contract() {
    let config = read_agent(&minimal(), &mut secrets()).expect("enough");
    assert_eq!(config.server.admin.bind.to_string(), "127.0.0.1:3000");
    assert_eq!(config.server.public.to_string(), "0.0.0.0:3001");
    let networks: Vec<String> = config.server.admin.trusted_networks.iter().map(ToString::to_string).collect();
    assert_eq!(networks, ["127.0.0.0/8", "::1/128"]);
    let agent = &config.agent;
    assert!(agent.logins.is_none() && agent.admin_api.is_none() && agent.events.receiver.is_none());
    assert_eq!(agent.method, DidMethod::WebVh);
    assert_eq!((agent.chain.corporation_id, agent.chain.gas_adjustment, agent.chain.resolves_changes), (7, 150, true));
    assert_eq!(agent.chain.journal.file.as_deref(), Some("svc-agent.journal"));
    assert_eq!(
        (
            config.server.socket.as_ref().and_then(|path| path.to_str()),
            agent.head.as_ref().and_then(|path| path.to_str())
        ),
        (Some("svc-agent.sock"), Some("svc-agent.head"))
    );
    let credentials = &agent.credentials;
    assert_eq!((credentials.days, credentials.renew_days), (365, 30));
    assert_eq!(credentials.trusted_ecosystems, ["did:web:ecosystem.example.com"]);
    let CredentialMode::Standalone { claims } = &credentials.mode else { panic!("{credentials:?}") };
    let names: Vec<(EssentialCredential, usize)> =
        claims.iter().map(|(one, claims)| (*one, claims.texts.len())).collect();
    assert_eq!(names, [(EssentialCredential::Service, 1)]);
    assert_eq!(claims[&EssentialCredential::Service].texts["NAME"], "Shop");
    assert!(config.warnings.is_empty());
}

#[test]
fn a_delegated_agent_needs_its_parent_and_no_claims() {
    let mut environment = delegated();
    environment.extend([("AGENT_CREDENTIAL_DAYS", "10"), ("AGENT_CREDENTIAL_RENEW_DAYS", "3")]);
    let config = read_agent(&environment, &mut secrets()).expect("enough");
    let credentials = config.agent.credentials;
    let (parent, none) = ("did:web:parent.example.com".to_owned(), ConfiguredClaims::default());
    assert_eq!(credentials.mode, CredentialMode::Delegated { parent: parent.clone(), claims: none });
    assert_eq!((credentials.days, credentials.renew_days, credentials.trusted_ecosystems.len()), (10, 3, 0));
    assert!(config.warnings.is_empty() && config.agent.flows.claims.is_empty());
    environment.insert("ECS_CLAIMS_SERVICE_NAME", "Shop");
    let config = read_agent(&environment, &mut secrets()).expect("enough").agent;
    let asked = &config.flows.claims[&EssentialCredential::Service];
    assert_eq!(asked.texts["NAME"], "Shop");
    assert_eq!(config.credentials.mode, CredentialMode::Delegated { parent, claims: asked.clone() });

    for parent in ["", "parent.example.com", "did:key:z6Mk", "did:web:", "did:web:a/b", "did:web:a#b"] {
        environment.insert("AGENT_DELEGATED_PARENT_VS_DID", parent);
        let found = problems(&environment, secrets());
        assert!(
            found.starts_with("1 environment variable cannot be used:\n  AGENT_DELEGATED_PARENT_VS_DID: "),
            "{found}"
        );
    }
    environment
        .insert("AGENT_DELEGATED_PARENT_VS_DID", "did:webvh:QmTYXE8TR3uLUWWrefCtFCLhdFWDBk7Eyq5DQRmiHFVAEL:a.example");
    assert_eq!(problems(&environment, secrets()), "none");
}

#[test]
fn essential_schemas_count_in_the_listed_ecosystems_or_in_the_trusted_ones() {
    let mut environment = minimal();
    environment.insert("TRUSTED_ECS_ECOSYSTEM_DIDS", "self, did:web:a.example");
    let relied_on = |environment: &HashMap<&'static str, &'static str>| -> Vec<String> {
        let config = read_agent(environment, &mut secrets()).expect("usable");
        config.agent.credentials.essential_schemas.ecosystems().map(str::to_owned).collect()
    };
    assert_eq!(relied_on(&environment), ["did:web:a.example", "self"]);
    environment.insert("SVC_ESSENTIAL_ECOSYSTEMS", "did:web:b.example");
    assert_eq!(relied_on(&environment), ["did:web:b.example"]);
    assert!(relied_on(&delegated()).is_empty());
    // A list with another separator, and a DID without an id, would make nothing trusted in silence.
    for wrong in ["did:web:a did:web:b", "did:", "did:web:", "did:web:a;did:web:b", "did:key:z6Mk", "did:web:a,"] {
        environment.insert("SVC_ESSENTIAL_ECOSYSTEMS", wrong);
        let found = problems(&environment, secrets());
        assert!(found.contains("1 environment variable cannot be used:\n  SVC_ESSENTIAL_ECOSYSTEMS: "), "{found}");
    }
    environment.insert("SVC_ESSENTIAL_ECOSYSTEMS", "b.example");
    environment.insert("SVC_ESSENTIAL_SCHEMAS", "ServiceCredential=sha256-x");
    let found = problems(&environment, secrets());
    assert!(found.contains("SVC_ESSENTIAL_ECOSYSTEMS: ") && found.contains("SVC_ESSENTIAL_SCHEMAS: "), "{found}");
}

#[test]
fn the_form_of_claims_is_checked_and_their_schema_stands_on_the_chain() {
    let mut environment = minimal();
    environment.retain(|name, _| !name.starts_with("ECS_CLAIMS_"));
    assert_eq!(problems(&environment, secrets()), "none");
    environment.remove("TRUSTED_ECS_ECOSYSTEM_DIDS");
    assert!(problems(&environment, secrets()).contains("\n  TRUSTED_ECS_ECOSYSTEM_DIDS: not set; allowed: "));

    let mut environment = minimal();
    environment.extend([
        ("TRUSTED_ECS_ECOSYSTEM_DIDS", "did:web:b.example, did:web:a.example"),
        ("ECS_CLAIMS_PERSONA_NAME", "Ada"),
        ("ECS_CLAIMS_ORG_COUNTRY_CODE", "Britain"),
    ]);
    let config = read_agent(&environment, &mut secrets()).expect("both may be set");
    assert_eq!(config.agent.credentials.trusted_ecosystems, ["did:web:b.example", "did:web:a.example"]);
    let CredentialMode::Standalone { claims } = config.agent.credentials.mode else { panic!("another mode") };
    assert_eq!(claims.len(), 3);
    environment.insert("ECS_CLAIMS_SERVICE_NAME", "Shop\u{202e}");
    let found = problems(&environment, secrets());
    assert!(found.contains("1 environment variable"), "{found}");
    assert!(found.contains("ECS_CLAIMS_SERVICE_NAME: has the character U+202E"), "{found}");
}

#[test]
fn a_file_of_claims_is_read_with_its_form() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("claims.json");
    let shown = path.to_str().expect("a text").to_owned();
    let mut environment = minimal();
    environment.insert("ECS_CLAIMS_FILE", &shown);
    std::fs::write(&path, r#"{"service": {"logoUri": "https://a.example/logo"}, "persona": {"name": "Ada"}}"#)
        .expect("written");
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    let CredentialMode::Standalone { claims } = config.agent.credentials.mode else { panic!("another mode") };
    assert_eq!(claims[&EssentialCredential::Service].members["logoUri"], "https://a.example/logo");
    assert_eq!(claims[&EssentialCredential::Service].texts["NAME"], "Shop");
    assert_eq!(claims[&EssentialCredential::Persona].members["name"], "Ada");
    assert_eq!(config.agent.flows.claims, claims, "an applicant asks for the same");
    let long = format!(r#"{{"org": {{"name": "{}"}}}}"#, "x".repeat(1 << 20));
    for (content, expected) in [
        ("[]", "no JSON object"),
        ("{", ""),
        (r#"{"service": {}, "service": {}}"#, ""),
        (r#"{"badge": {}}"#, "\"badge\" is no credential with claims"),
        (r#"{"org": 7}"#, "org is no JSON object"),
        (r#"{"org": {"id": "did:web:a"}}"#, "org.id is the DID of the agent"),
        ("{\"org\": {\"name\": \"a\u{202e}\"}}", "org claims.name: has the character U+202E"),
        (long.as_str(), "more than 1048576 bytes"),
    ] {
        std::fs::write(&path, content).expect("written");
        let found = problems(&environment, secrets());
        assert!(found.starts_with("1 environment variable cannot be used:\n  ECS_CLAIMS_FILE: "), "{found}");
        assert!(found.contains(expected), "{expected} in {found}");
    }
    std::fs::remove_file(&path).expect("removed");
    assert!(problems(&environment, secrets()).contains("ECS_CLAIMS_FILE: "));
}

#[test]
fn the_renewal_lies_within_the_validity() {
    for (days, renew_days, expected) in [
        ("1", "0", None),
        ("3650", "3649", None),
        ("10", "30", Some("AGENT_CREDENTIAL_RENEW_DAYS: 30, and AGENT_CREDENTIAL_DAYS is 10")),
        ("10", "10", Some("AGENT_CREDENTIAL_RENEW_DAYS: 10, and AGENT_CREDENTIAL_DAYS is 10")),
        ("0", "0", Some("AGENT_CREDENTIAL_DAYS: \"0\"")),
        ("3651", "30", Some("AGENT_CREDENTIAL_DAYS: \"3651\"; allowed: days, 1 to 3650")),
        ("365", "-1", Some("AGENT_CREDENTIAL_RENEW_DAYS: \"-1\"")),
    ] {
        let mut environment = minimal();
        environment.extend([("AGENT_CREDENTIAL_DAYS", days), ("AGENT_CREDENTIAL_RENEW_DAYS", renew_days)]);
        let found = problems(&environment, secrets());
        match expected {
            None => assert_eq!(found, "none"),
            Some(expected) => assert!(found.starts_with("1 environment") && found.contains(expected), "{found}"),
        }
    }
}

#[test]
fn mode_corporation_needs_its_origin_and_its_accounts_and_mode_internal_refuses_them() {
    let accounts = [account(1), account(2)].join(", ");
    let mut environment = minimal();
    environment.extend([
        ("ADMIN_API_AUTH_MODE", "corporation"),
        ("ADMIN_API_PUBLIC_URL", "https://admin.example.com"),
        ("ADMIN_API_CORPORATION_ALLOWED_ACCOUNTS", accounts.as_str()),
        ("ADMIN_API_TRUSTED_NETWORKS", "none"),
    ]);
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    let logins = config.agent.logins.expect("logins");
    assert_eq!((logins.audience.as_deref(), logins.prefix.as_str()), (Some("https://admin.example.com"), "svc"));
    assert_eq!(logins.allowed_accounts.len(), 2);
    assert_eq!(config.server.admin.bind.to_string(), "0.0.0.0:3000");
    assert!(config.server.admin.trusted_networks.is_empty());
    assert_eq!(config.server.admin.public_host.as_deref(), Some("admin.example.com"));

    environment.insert("ADMIN_API_AUTH_MODE", "internal");
    let found = problems(&environment, secrets());
    assert!(found.starts_with("2 environment") && found.contains("ADMIN_API_PUBLIC_URL"), "{found}");
    for (url, expected) in [
        ("https://Admin.example.com/", "https://admin.example.com"),
        ("https://admin.example.com:443", "https://admin.example.com"),
        ("https://admin.example.com/api", "without a path"),
        ("http://admin.example.com", "https origin"),
        ("http://localhost:3000", "SVC_ALLOW_PRIVATE_HOSTS"),
    ] {
        environment.extend([("ADMIN_API_AUTH_MODE", "corporation"), ("ADMIN_API_PUBLIC_URL", url)]);
        let found = problems(&environment, secrets());
        assert!(found.contains("ADMIN_API_PUBLIC_URL") && found.contains(expected), "{url}: {found}");
    }
    environment.extend([("SVC_ALLOW_PRIVATE_HOSTS", "true")]);
    assert_eq!(problems(&environment, secrets()), "none");
}

#[test]
fn every_bad_setting_is_named_at_once_and_no_secret_is_shown() {
    let environment = HashMap::from([
        ("SVC_CORPORATION_ID", "0"),
        ("SVC_RPC_ENDPOINT_URL", "node"),
        ("SVC_INDEXER_SUBSCRIPTION_SCOPE", "all"),
        ("SVC_GAS_ADJUSTMENT", "0.5"),
        ("SVC_AUTO_TRIGGER_RESOLVER", "yes"),
        ("SVC_AGENT_START", "0"),
        ("SVC_INDEXER_SILENCE_MS", "10"),
        ("PUBLIC_API_BASE_URL", "https://user:password@agent.example.com"),
        ("PUBLIC_API_PORT", "70000"),
        ("AGENT_PUBLIC_DID_METHOD", "key"),
        ("ADMIN_API_TRUSTED_NETWORKS", "10.0.0.0/40"),
        ("ADMIN_API_ALLOWED_HOSTS", "http://a"),
        ("EVENTS_WEBHOOK_URL", "ftp://hook.example.com/secret-path"),
        ("EVENTS_WEBHOOK_MAX_STORED", "0"),
        ("AGENT_LOG_LEVEL", "loud"),
        ("AGENT_CREDENTIAL_DAYS", "ten"),
        ("TRUSTED_ECS_ECOSYSTEM_DIDS", "did:web:a.example,"),
        ("ECS_CLAIMS_ORG_NAME", "\u{202e}"),
        ("ECS_CLAIMS_FILE", "/nowhere/claims.json"),
    ]);
    let secrets = ProcessSecrets::from_pairs([
        ("SVC_ACCOUNT_MNEMONIC", "secret words"),
        ("SVC_AGENT_STORE_KEY", "secret key"),
        ("SVC_AGENT_DB", "mysql://svc:secret@db/agent"),
        ("EVENTS_WEBHOOK_SECRET", "secret signature"),
        ("EVENTS_WEBHOOK_API_KEY", "secret\u{7f}"),
    ]);
    let found = problems(&environment, secrets);
    let named = environment.keys().copied().filter(|name| *name != "SVC_RPC_ENDPOINT_URL");
    for name in named.chain(["SVC_RPC_ENDPOINT_URL", "SVC_INDEXER_BASE_URL", "SVC_ACCOUNT_MNEMONIC"]).chain([
        "SVC_AGENT_STORE_KEY",
        "SVC_AGENT_DB",
        "EVENTS_WEBHOOK_SECRET",
        "EVENTS_WEBHOOK_API_KEY",
    ]) {
        assert!(found.contains(&format!("\n  {name}: ")), "{name} in {found}");
    }
    assert!(!found.contains("secret") && !found.contains("password"), "{found}");
}

#[test]
fn secrets_come_from_files_and_credentials_too() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name).to_str().expect("a text").to_owned();
    std::fs::write(path("svc-agent-store-key"), format!("{KEY}\n")).expect("written");
    std::fs::write(path("phrase"), PHRASE).expect("written");
    let (home, phrase) = (directory.path().to_str().expect("a text"), path("phrase"));
    let mut environment = minimal();
    environment.extend([("CREDENTIALS_DIRECTORY", home), ("SVC_ACCOUNT_MNEMONIC_FILE", phrase.as_str())]);
    assert_eq!(problems(&environment, ProcessSecrets::default()), "none");
    let found = problems(&environment, secrets());
    assert!(found.contains("SVC_ACCOUNT_MNEMONIC_FILE: set beside SVC_ACCOUNT_MNEMONIC"), "{found}");
    environment.insert("SVC_ACCOUNT_MNEMONIC_FILE", "/nowhere");
    let found = problems(&environment, ProcessSecrets::default());
    assert!(found.starts_with("1 environment variable") && found.contains("/nowhere"), "{found}");
}

#[test]
fn settings_that_are_not_used_are_warnings() {
    let mut environment = minimal();
    environment.extend([
        ("MRTD_MASTER_LIST_CSCA_LOCATION", "x"),
        ("AGENT_DELEGATED_PARENT_VS_DID", "x"),
        ("ECS_CLAIMS_USER_AGENT_NAME", "x"),
        ("SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE", "StartParticipantOP,Unheard"),
    ]);
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    assert_eq!(
        config.warnings,
        [
            "MRTD_MASTER_LIST_CSCA_LOCATION is not used: passports and identity cards are not read",
            "AGENT_DELEGATED_PARENT_VS_DID is not used: AGENT_MODE is standalone",
            "ECS_CLAIMS_USER_AGENT_NAME is not used: variables with claims begin with ECS_CLAIMS_SERVICE_, ECS_CLAIMS_ORG_, \
             ECS_CLAIMS_PERSONA_",
            "SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE names \"Unheard\", which is no event type that this release knows",
        ]
    );
    environment.insert("SVC_INDEXER_DEFAULT_HANDLERS_OVERRIDE", "*");
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    assert_eq!(config.agent.events.handled, svc_agent::HandledEvents::None);
}

#[test]
fn variables_of_the_first_generation_are_taken_over_or_named() {
    let mut environment = minimal();
    environment.extend([("ADMIN_PORT", "4000"), ("AGENT_PORT", "4001"), ("AGENT_LABEL", "Shop")]);
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    assert_eq!((config.server.admin.bind.port(), config.server.public.port()), (4000, 4001));
    assert_eq!(
        config.warnings,
        [
            "ADMIN_PORT is taken as ADMIN_API_PORT, its name of now",
            "AGENT_PORT is taken as PUBLIC_API_PORT, its name of now",
            "AGENT_LABEL is not used: this release has nothing like it",
        ]
    );
    environment.extend([("ADMIN_API_PORT", "5000"), ("MASTER_LIST_CSCA_LOCATION", "x")]);
    let config = read_agent(&environment, &mut secrets()).expect("usable");
    assert_eq!(config.server.admin.bind.port(), 5000);
    assert_eq!(config.warnings[0], "ADMIN_PORT is not used: ADMIN_API_PORT is set");
    let about_passports: Vec<_> = config.warnings.iter().filter(|one| one.contains("MASTER_LIST")).collect();
    assert_eq!(about_passports, ["MASTER_LIST_CSCA_LOCATION is not used: passports and identity cards are not read"]);
}

#[test]
fn a_problem_has_the_name_of_the_variable_that_was_set() {
    for (name, value, expected) in [
        ("ADMIN_PORT", "abc", "ADMIN_PORT: \"abc\"; allowed: "),
        ("AGENT_PORT", "99999", "AGENT_PORT: \"99999\"; allowed: "),
        ("ADMIN_LOG_LEVEL", "8", "ADMIN_LOG_LEVEL: \"8\"; allowed: "),
        ("ADMIN_LOG_LEVEL", "loud", "ADMIN_LOG_LEVEL: \"loud\"; allowed: "),
        ("ADMIN_API_PORT", "abc", "ADMIN_API_PORT: \"abc\"; allowed: "),
    ] {
        let mut environment = minimal();
        environment.extend([(name, value)]);
        let found = problems(&environment, secrets());
        assert!(found.contains(expected), "{found}");
    }
    // The name of now wins.
    let mut environment = minimal();
    environment.extend([("ADMIN_PORT", "abc"), ("ADMIN_API_PORT", "xyz")]);
    let found = problems(&environment, secrets());
    assert!(found.contains("ADMIN_API_PORT: \"xyz\"") && !found.contains("ADMIN_PORT"), "{found}");
}

#[test]
fn the_numbers_of_a_former_log_level_have_their_meaning() {
    for (number, level) in [("0", "trace"), ("1", "trace"), ("2", "debug"), ("4", "warn"), ("6", "error"), ("7", "off")]
    {
        let mut environment = minimal();
        environment.extend([("ADMIN_LOG_LEVEL", number)]);
        let config = read_agent(&environment, &mut secrets()).expect("usable");
        assert_eq!(config.warnings, ["ADMIN_LOG_LEVEL is taken as ADMIN_API_LOG_LEVEL, its name of now"]);
        let taken = WithFormerNames(&environment).get(crate::settings::agent::ADMIN_API_LOG_LEVEL.key());
        assert_eq!(taken.as_deref(), Some(level), "{number}");
    }
}

#[test]
fn files_beside_the_database_have_its_name_and_each_is_a_file_of_its_own() {
    let with_database = |url: &str| {
        ProcessSecrets::from_pairs([
            ("SVC_ACCOUNT_MNEMONIC", PHRASE),
            ("SVC_AGENT_STORE_KEY", KEY),
            ("SVC_AGENT_DB", url),
        ])
    };
    let paths = |url: &str| {
        let paths = read_paths(&minimal(), &mut with_database(url));
        [paths.socket, paths.head, paths.journal].map(|path| path.to_str().expect("a text").to_owned())
    };
    assert_eq!(paths("sqlite:///var/lib/a.db?mode=rwc"), ["/var/lib/a.sock", "/var/lib/a.head", "/var/lib/a.journal"]);
    assert_eq!(paths("postgres://db/agent"), ["svc-agent.sock", "svc-agent.head", "svc-agent.journal"]);
    let found = problems(&minimal(), with_database("sqlite://a.head"));
    assert!(found.contains("SVC_AGENT_HEAD: a.head; allowed: a file of its own"), "{found}");
    let long = format!("/{}/a.sock", "d".repeat(120));
    let mut environment = minimal();
    environment.extend([("SVC_AGENT_SOCKET", long.as_str())]);
    let found = problems(&environment, secrets());
    assert!(
        found.contains(&format!("SVC_AGENT_SOCKET: {long}, 128 bytes; allowed: a path that the system takes")),
        "{found}"
    );
    let mut environment = minimal();
    environment.extend([("ADMIN_API_PORT", "3001"), ("PUBLIC_API_BIND", "0.0.0.0")]);
    assert!(problems(&environment, secrets()).contains("another port than ADMIN_API_PORT"));
}
