//! The file of SVC_PRINCIPALS. Pure.

use std::{collections::BTreeSet, sync::Arc};

use serde::Deserialize;
use sha2::{Digest, Sha256};
use svc_operator::{DEFAULT_PRINCIPAL, FeeLimits};
use svc_wire::timestamp;
use wildmatch::WildMatch;

use super::principal::{Principal, PrincipalRights};
use crate::tools::{SURFACES, ToolNames};

/// SHA-256 of a token.
pub type TokenDigest = [u8; 32];

/// SHA-256 of a token.
pub fn token_digest(token: &str) -> TokenDigest {
    Sha256::digest(token.as_bytes()).into()
}

/// A principal, and the ways in which it proves itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct FilePrincipal {
    pub principal: Arc<Principal>,
    pub token: Option<TokenDigest>,
    /// Scope of access tokens that act as this principal.
    pub oauth_scope: Option<String>,
}

impl FilePrincipal {
    /// The principal in a changed file: it keeps its generation when nothing of it has changed.
    pub fn after(self, former: &[Self], generation: u64) -> Self {
        let with = |generation| {
            let principal = Principal { generation, ..(*self.principal).clone() };
            Self { principal: Arc::new(principal), token: self.token, oauth_scope: self.oauth_scope.clone() }
        };
        let before = former.iter().find(|one| one.principal.name == self.principal.name);
        match before {
            Some(before) if *before == with(before.principal.generation) => before.clone(),
            _ => with(generation),
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrincipalFile {
    #[serde(default)]
    principal: Vec<PrincipalRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PrincipalRow {
    name: String,
    token_sha256: Option<String>,
    oauth_scope: Option<String>,
    #[serde(default)]
    surfaces: Vec<String>,
    #[serde(default)]
    tools: Vec<String>,
    #[serde(default)]
    read_only: bool,
    #[serde(default)]
    messages: Vec<String>,
    max_fee: Option<String>,
    max_fee_per_day: Option<String>,
    expires: Option<String>,
    #[serde(default)]
    may_approve: bool,
}

/// Name of the line that narrows the rights of all peers.
pub(super) const PEERS_LINE: &str = "peers";
/// Most characters of a name.
const MAX_NAME: usize = 64;

/// Reads the principals of a file. Fails with all problems at once.
pub(super) fn parse(text: &str, names: &ToolNames) -> Result<Vec<FilePrincipal>, Vec<String>> {
    let file: PrincipalFile = match toml::from_str(text) {
        Ok(file) => file,
        Err(error) => return Err(vec![error.message().to_owned() + &position(text, &error)]),
    };
    let (mut problems, mut principals, mut taken) = (Vec::new(), Vec::new(), BTreeSet::new());
    let (mut tokens, mut scopes) = (BTreeSet::new(), BTreeSet::new());
    for row in file.principal {
        let name = row.name.clone();
        match read_row(row, names) {
            Ok(principal) => {
                if !taken.insert(name.clone()) {
                    problems.push(format!("{name}: there are two principals of this name"));
                }
                if principal.token.is_some_and(|token| !tokens.insert(token)) {
                    problems.push(format!("{name}: another principal has the same token"));
                }
                if principal.oauth_scope.as_ref().is_some_and(|scope| !scopes.insert(scope.clone())) {
                    problems.push(format!("{name}: another principal has the same oauth_scope"));
                }
                principals.push(principal);
            }
            Err(found) => problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}"))),
        }
    }
    if problems.is_empty() { Ok(principals) } else { Err(problems) }
}

fn position(text: &str, error: &toml::de::Error) -> String {
    let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
    line.map(|line| format!(" (line {line})")).unwrap_or_default()
}

fn read_row(row: PrincipalRow, names: &ToolNames) -> Result<FilePrincipal, Vec<String>> {
    let mut problems = Vec::new();
    let is_name = |text: &str| {
        (1..=MAX_NAME).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
    };
    let is_peers_line = row.name == PEERS_LINE;
    if !is_name(&row.name) || row.name == DEFAULT_PRINCIPAL || (row.name.starts_with("peer") && !is_peers_line) {
        problems.push(format!(
            "a name has 1 to {MAX_NAME} letters, digits or - _ . and is not {DEFAULT_PRINCIPAL}, nor begins with peer, but for {PEERS_LINE}"
        ));
    }
    let token = row.token_sha256.as_deref().map(|text| {
        let mut digest = TokenDigest::default();
        if hex::decode_to_slice(text, &mut digest).is_err() {
            problems.push(
                "token_sha256 is the SHA-256 of a token in 64 hexadecimal digits (svc token new NAME)".to_owned(),
            );
        }
        digest
    });
    if row.oauth_scope.as_deref().is_some_and(|scope| scope.is_empty() || scope.contains(char::is_whitespace)) {
        problems.push("oauth_scope is one scope, without blanks".to_owned());
    }
    let has_proof = token.is_some() || row.oauth_scope.is_some();
    if is_peers_line && (has_proof || row.may_approve || row.expires.is_some()) {
        problems.push("peers prove themselves by tokens of SVC_PEER_ISSUER: allowed are surfaces and tools".to_owned());
    }
    if !has_proof && !is_peers_line {
        problems.push("it needs token_sha256 or oauth_scope".to_owned());
    }
    for surface in &row.surfaces {
        if !SURFACES.contains(&surface.as_str()) {
            problems.push(format!("there is no surface {surface:?}; there are {}", SURFACES.join(", ")));
        }
    }
    let mut patterns = |texts: &[String], known: &[&str], kind: &str| -> Vec<WildMatch> {
        let all: Vec<WildMatch> = texts.iter().map(|text| WildMatch::new(text)).collect();
        for (pattern, text) in all.iter().zip(texts) {
            if !known.iter().any(|name| pattern.matches(name)) {
                problems.push(format!("{text:?} matches no {kind}"));
            }
        }
        all
    };
    let tool_names: Vec<&str> = names.iter().collect();
    let message_names: Vec<&str> = names.messages().collect();
    let tools = patterns(&row.tools, &tool_names, "tool");
    let messages = patterns(&row.messages, &message_names, "message of the ledger tools, such as MsgCreateEcosystem");
    let mut amount = |name: &str, text: &Option<String>| {
        let text = text.as_deref()?;
        let amount = text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()));
        if amount.is_none() {
            problems.push(format!("{name} is an amount of the fee denom in digits"));
        }
        amount
    };
    let fee_limits = FeeLimits {
        max_fee: amount("max_fee", &row.max_fee),
        max_fee_per_day: amount("max_fee_per_day", &row.max_fee_per_day),
    };
    let expires_at = row.expires.as_deref().and_then(|text| {
        let end = timestamp::parse_rfc3339(text).map(|time| time.seconds);
        if end.is_none() {
            problems.push("expires is a time such as 2027-01-31T00:00:00Z".to_owned());
        }
        end
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    let rights = PrincipalRights {
        surfaces: row.surfaces.into_iter().collect(),
        tools,
        is_read_only: row.read_only,
        messages,
        fee_limits,
        expires_at,
        may_approve: row.may_approve,
        is_peer: is_peers_line,
    };
    let principal = Arc::new(Principal::new(&row.name, rights));
    Ok(FilePrincipal { principal, token, oauth_scope: row.oauth_scope })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_names_principals_and_every_problem_of_it_is_named() {
        let names = ToolNames::load().expect("the tables");
        let digest = hex::encode(token_digest("0123456789abcdef0123456789abcdef"));
        let good = format!(
            "[[principal]]\nname = \"reports\"\ntoken_sha256 = \"{digest}\"\nsurfaces = [\"idx\"]\nread_only = true\n\
             [[principal]]\nname = \"issuer\"\noauth_scope = \"svc:issue\"\ntools = [\"svc.ledger.pp.*\"]\n\
             messages = [\"MsgCreateOrUpdate*\"]\nmax_fee = \"5000\"\nexpires = \"2027-01-31T00:00:00Z\"\nmay_approve = true\n"
        );
        let read = parse(&good, &names).expect("usable");
        assert_eq!(read[0].token, Some(token_digest("0123456789abcdef0123456789abcdef")));
        assert!(read[0].principal.rights.is_read_only && read[1].principal.rights.may_approve);
        assert_eq!(read[1].principal.rights.fee_limits.max_fee, Some(5_000));
        assert_eq!(read[1].oauth_scope.as_deref(), Some("svc:issue"));
        assert!(parse("", &names).expect("no principals").is_empty());
        for (text, expected) in [
            ("[[principal]]\nname = 7", "line 2"),
            ("[[principal]]\nname = \"a\"\nadmin = true", "unknown field"),
            ("[[principal]]\nname = \"default\"\noauth_scope = \"a\"", "a name has"),
            ("[[principal]]\nname = \"peer:x\"\noauth_scope = \"a\"", "a name has"),
            ("[[principal]]\nname = \"a\"", "needs token_sha256 or oauth_scope"),
            ("[[principal]]\nname = \"peers\"\noauth_scope = \"a\"", "peers prove themselves"),
            ("[[principal]]\nname = \"a\"\ntoken_sha256 = \"secret\"", "64 hexadecimal digits"),
            ("[[principal]]\nname = \"a\"\noauth_scope = \"a\"\nsurfaces = [\"ledgers\"]", "no surface"),
            ("[[principal]]\nname = \"a\"\noauth_scope = \"a\"\ntools = [\"svc.ledgers.*\"]", "matches no tool"),
            ("[[principal]]\nname = \"a\"\noauth_scope = \"a\"\nmessages = [\"Create\"]", "matches no message"),
            ("[[principal]]\nname = \"a\"\noauth_scope = \"a\"\nmax_fee = \"1.5\"", "max_fee is"),
            ("[[principal]]\nname = \"a\"\noauth_scope = \"a\"\nexpires = \"soon\"", "expires is"),
            (
                "[[principal]]\nname = \"a\"\noauth_scope = \"a\"\n[[principal]]\nname = \"a\"\noauth_scope = \"b\"",
                "two principals",
            ),
            (
                "[[principal]]\nname = \"a\"\noauth_scope = \"s\"\n[[principal]]\nname = \"b\"\noauth_scope = \"s\"",
                "same oauth_scope",
            ),
        ] {
            let problems = parse(text, &names).expect_err("unusable").join("; ");
            assert!(problems.contains(expected), "{text}: {problems}");
        }
    }
}
