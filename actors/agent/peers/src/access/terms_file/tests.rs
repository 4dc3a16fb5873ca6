//! The file of conditions.

use std::os::unix::fs::PermissionsExt;

use super::*;

fn parse(text: &str) -> Result<AccessTerms, Vec<String>> {
    AccessTerms::parse(text, 600, |_| Ok(MaterialSecret::new("planted-value\n".to_owned())))
}

const GOOD: &str = r##"
        [[endpoint]]
        id = "mcp"
        material = "bearer"
        scopes = ["mcp:read", "mcp:tool:svc.idx.es.getecosystem"]
        default_scopes = ["mcp:read"]
        token_seconds = 300
        [endpoint.allow]
        "*" = ["mcp:read"]
        "did:web:friend.example" = ["mcp:read", "mcp:tool:svc.idx.es.getecosystem"]
        [[endpoint]]
        id = "#site"
        material = "none"
        allow = "*"
        [[endpoint]]
        id = "api"
        material = "key"
        header = "X-Api-Key"
        value_file = "api.key"
        allow = ["did:web:friend.example"]
        [[endpoint]]
        id = "members"
        material = "credential"
        schema_id = 7
        issuer = "did:web:issuer.example"
        allow = "*"
    "##;

#[test]
fn a_file_is_read_with_every_material() {
    let terms = parse(GOOD).expect("usable");
    let of = |fragment: &str| terms.of(fragment, 600);
    assert_eq!((of("mcp").material, of("mcp").token_seconds), (TermsMaterial::Bearer, 300));
    assert_eq!(of("mcp").allowed.everyone.as_deref(), Some(&["mcp:read".to_owned()][..]));
    assert_eq!(of("mcp").allowed.named.len(), 1);
    assert_eq!(of("site").material, TermsMaterial::None);
    assert_eq!(of("api").material, TermsMaterial::Key { header: "X-Api-Key".into() });
    assert_eq!(terms.value("api").map(MaterialSecret::expose_secret), Some("planted-value"));
    let credential = TermsMaterial::Credential { schema_id: "7".into(), issuer: "did:web:issuer.example".into() };
    assert_eq!(of("members").material, credential);
    assert_eq!(of("other"), EndpointTerms::open(600), "an entry without a line needs nothing");
    assert!(!format!("{terms:?}").contains("planted"));
}

#[test]
fn every_problem_of_a_file_is_named() {
    let line = |rest: &str| format!("[[endpoint]]\nid = \"x\"\n{rest}");
    let bearer = |rest: &str| line(&format!("material = \"bearer\"\nallow = \"*\"\n{rest}"));
    for (text, expected) in [
        (line("material = \"gold\"\nallow = \"*\""), "allowed are none, bearer, key and credential"),
        (line("material = \"none\""), "missing field `allow`"),
        (bearer("scope = []"), "unknown field `scope`"),
        (bearer("scopes = [\"Read\"]"), "is no scope"),
        (bearer("scopes = [\"a\", \"a\"]"), "each of them once"),
        (bearer("default_scopes = [\"a\"]"), "is not among the scopes of the endpoint"),
        (bearer("token_seconds = 901"), "allowed are 60 to 900"),
        (bearer("header = \"X\""), "header belongs only to the material key"),
        (line("material = \"bearer\"\nallow = [\"did:key:z\"]"), "allowed are \"*\" and DIDs"),
        (line("material = \"bearer\"\nallow = [\"did:web:a did:web:b\"]"), "allowed are \"*\" and DIDs"),
        (line("material = \"bearer\"\nallow = {\"*\" = [\"a\"]}"), "allow of *: \"a\" is not among"),
        (
            line("material = \"key\"\nallow = \"*\"\nheader = \"X\"\nvalue_file = \"v\""),
            "DIDs that are named one by one",
        ),
        (line("material = \"key\"\nallow = []\nheader = \"Host\"\nvalue_file = \"v\""), "header is no name"),
        (line("material = \"key\"\nallow = []\nheader = \"X\""), "value_file is missing"),
        (
            line("material = \"credential\"\nallow = \"*\"\nschema_id = \"x\"\nissuer = \"did:web:a\""),
            "number of a schema",
        ),
        (line("material = \"credential\"\nallow = \"*\"\nschema_id = 7\nissuer = \"me\""), "issuer is no DID"),
        (format!("{}\n{}", bearer(""), bearer("")), "two lines for this endpoint"),
        ("[[endpoint]]\nid = \"\"\nmaterial = \"none\"\nallow = \"*\"".to_owned(), "fragment of a service entry"),
        ("x".to_owned(), "(line 1)"),
    ] {
        let problems = parse(&text).map(|_| ()).expect_err(&text).join("; ");
        assert!(problems.contains(expected), "{text}\n{problems}");
    }
}

#[test]
fn files_that_others_may_read_are_refused() {
    let home = tempfile::tempdir().expect("a directory");
    let (path, value) = (home.path().join("access.toml"), home.path().join("api.key"));
    let set = |path: &Path, text: &str, mode: u32| {
        std::fs::write(path, text).expect("written");
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("set");
    };
    set(&path, GOOD, 0o600);
    set(&value, "secret\n", 0o600);
    let read = || AccessTerms::read(&path, 600).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read(), Ok(()));
    set(&value, "secret\n", 0o640);
    assert!(read().expect_err("the value is open").contains("chmod 600"));
    set(&value, &"x".repeat(5_000), 0o600);
    assert!(read().expect_err("a long value").contains("longer than 4096"));
    set(&value, "se\u{e9}cret", 0o600);
    assert!(read().expect_err("no header").contains("no text that a header can carry"));
    set(&value, "secret", 0o600);
    set(&path, GOOD, 0o604);
    assert!(read().expect_err("the file is open").contains("chmod 600"));
    std::fs::remove_file(&path).expect("removed");
    assert!(read().is_err());
}
