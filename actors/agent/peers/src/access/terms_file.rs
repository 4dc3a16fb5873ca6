//! The file of ENDPOINT_ACCESS_FILE: the conditions of endpoints, and the values of keys.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::Deserialize;
use svc_didcomm::{
    access::{AllowedPeers, EndpointTerms, TermsMaterial},
    protocol::endpoint_access::MaterialSecret,
};
use svc_wire::{
    endpoint_access::{MAX_SCOPES, Material, is_scope},
    syntax::is_web_did,
};

/// Longest file, and longest value of a key.
const MAX_FILE_BYTES: u64 = 1 << 20;
const MAX_VALUE_BYTES: u64 = 4096;
/// Longest fragment of an entry.
const MAX_FRAGMENT: usize = 128;
/// Shortest and longest life of a grant, in seconds.
const TOKEN_SECONDS: std::ops::RangeInclusive<i64> = 60..=900;
/// The name of every trusted peer.
const EVERYONE: &str = "*";

/// The conditions of endpoints.
#[derive(Debug, Clone, Default)]
pub struct AccessTerms {
    /// The conditions, by the fragments of the entries.
    endpoints: BTreeMap<String, EndpointTerms>,
    values: BTreeMap<String, MaterialSecret>,
}

/// The file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {}", .path.display(), .problems.join("; "))]
pub struct TermsFileError {
    path: PathBuf,
    problems: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TermsFile {
    #[serde(default)]
    endpoint: Vec<EndpointRow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct EndpointRow {
    id: String,
    material: String,
    #[serde(default)]
    scopes: Vec<String>,
    default_scopes: Option<Vec<String>>,
    allow: Allow,
    token_seconds: Option<i64>,
    header: Option<String>,
    value_file: Option<PathBuf>,
    schema_id: Option<SchemaId>,
    issuer: Option<String>,
}

/// `"*"`, a list of DIDs, or a table from DIDs to their scopes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Allow {
    Everyone(String),
    Peers(Vec<String>),
    Scopes(BTreeMap<String, Vec<String>>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SchemaId {
    Number(u64),
    Text(String),
}

impl AccessTerms {
    /// Reads a file and those that it names. Fails with all of its problems.
    pub fn read(path: &Path, token_seconds: i64) -> Result<Self, TermsFileError> {
        let failed = |problems: Vec<String>| TermsFileError { path: path.to_owned(), problems };
        let text = read_private(path, MAX_FILE_BYTES).map_err(|problem| failed(vec![problem]))?;
        let directory = path.parent().unwrap_or(Path::new("."));
        // A value stands in a file of its own, beside the conditions or at an absolute path.
        let read_value = |file: &Path| read_private(&directory.join(file), MAX_VALUE_BYTES);
        Self::parse(text.expose_secret(), token_seconds, read_value).map_err(failed)
    }

    /// Reads the text of a file; `read_value` reads the files that it names. Fails with all of its problems.
    pub fn parse(
        text: &str,
        token_seconds: i64,
        read_value: impl Fn(&Path) -> Result<MaterialSecret, String>,
    ) -> Result<Self, Vec<String>> {
        let file: TermsFile = match toml::from_str(text) {
            Ok(file) => file,
            Err(error) => {
                let line = error.span().map(|span| text[..span.start.min(text.len())].matches('\n').count() + 1);
                let place = line.map(|line| format!(" (line {line})")).unwrap_or_default();
                return Err(vec![error.message().to_owned() + &place]);
            }
        };
        let (mut terms, mut problems) = (Self::default(), Vec::new());
        for row in file.endpoint {
            let id = row.id.strip_prefix('#').unwrap_or(&row.id).to_owned();
            match row.read(token_seconds, &read_value) {
                Ok((conditions, value)) => {
                    if let Some(value) = value {
                        terms.values.insert(id.clone(), value);
                    }
                    if terms.endpoints.insert(id.clone(), conditions).is_some() {
                        problems.push(format!("{id}: there are two lines for this endpoint"));
                    }
                }
                Err(found) => problems.extend(found.into_iter().map(|problem| format!("{id}: {problem}"))),
            }
        }
        if problems.is_empty() { Ok(terms) } else { Err(problems) }
    }

    /// The conditions of an entry; those of an open one where the file has none.
    pub fn of(&self, fragment: &str, token_seconds: i64) -> EndpointTerms {
        self.endpoints.get(fragment).cloned().unwrap_or_else(|| EndpointTerms::open(token_seconds))
    }

    /// The conditions, with the fragments of their entries.
    pub fn endpoints(&self) -> impl Iterator<Item = (&str, &EndpointTerms)> {
        self.endpoints.iter().map(|(fragment, terms)| (fragment.as_str(), terms))
    }

    /// The value of a key.
    pub(super) fn value(&self, fragment: &str) -> Option<&MaterialSecret> {
        self.values.get(fragment)
    }
}

impl EndpointRow {
    fn read(
        self,
        token_seconds: i64,
        read_value: impl Fn(&Path) -> Result<MaterialSecret, String>,
    ) -> Result<(EndpointTerms, Option<MaterialSecret>), Vec<String>> {
        let mut problems = Vec::new();
        let fragment = self.id.strip_prefix('#').unwrap_or(&self.id);
        if fragment.is_empty() || fragment.len() > MAX_FRAGMENT || fragment.contains(['#', ' ']) {
            problems.push(format!("id is the fragment of a service entry, with 1 to {MAX_FRAGMENT} characters"));
        }
        let default_scopes = self.default_scopes.clone().unwrap_or_default();
        check_scopes("scopes", &self.scopes, None, &mut problems);
        check_scopes("default_scopes", &default_scopes, Some(&self.scopes), &mut problems);
        let allowed = self.allowed(&mut problems);
        let seconds = self.token_seconds.unwrap_or(token_seconds);
        if !TOKEN_SECONDS.contains(&seconds) {
            problems.push(format!("token_seconds is {seconds}; allowed are 60 to 900"));
        }
        let material = Material::from_name(&self.material);
        for (member, is_there, of) in [
            ("header", self.header.is_some(), Material::Key),
            ("value_file", self.value_file.is_some(), Material::Key),
            ("schema_id", self.schema_id.is_some(), Material::Credential),
            ("issuer", self.issuer.is_some(), Material::Credential),
        ] {
            if let Some(material) = material
                && is_there != (material == of)
            {
                let rule = if is_there { "belongs only to" } else { "is missing for" };
                problems.push(format!("{member} {rule} the material {}", of.as_str()));
            }
        }
        let mut value = None;
        let material = match (material, self.header, self.schema_id, self.issuer) {
            (None, ..) => {
                problems.push(format!("material is {:?}; allowed are none, bearer, key and credential", self.material));
                TermsMaterial::None
            }
            (Some(Material::Key), Some(header), ..) => {
                // A value that everyone gets cannot be withdrawn from one of them.
                if allowed.everyone.is_some() {
                    problems.push("allow is \"*\"; a key is given to DIDs that are named one by one".to_owned());
                }
                if !is_header_name(&header) {
                    problems.push("header is no name of a header that carries a key".to_owned());
                }
                match self.value_file.as_deref().map(read_value) {
                    Some(Ok(read)) => {
                        value = trimmed(&read).or_else(|| {
                            problems.push("value_file has no text that a header can carry".to_owned());
                            None
                        })
                    }
                    Some(Err(problem)) => problems.push(format!("value_file: {problem}")),
                    None => {}
                }
                TermsMaterial::Key { header }
            }
            (Some(Material::Credential), _, Some(schema_id), Some(issuer)) => {
                let schema_id = match schema_id {
                    SchemaId::Number(id) => id.to_string(),
                    SchemaId::Text(id) => id,
                };
                if schema_id.parse::<u64>().is_err() {
                    problems.push("schema_id is the number of a schema of the registry".to_owned());
                }
                if !issuer.starts_with("did:") {
                    problems.push("issuer is no DID".to_owned());
                }
                TermsMaterial::Credential { schema_id, issuer }
            }
            (Some(Material::Bearer), ..) => TermsMaterial::Bearer,
            _ => TermsMaterial::None,
        };
        if !problems.is_empty() {
            return Err(problems);
        }
        let scopes = self.scopes;
        Ok((EndpointTerms { material, scopes, default_scopes, allowed, token_seconds: seconds }, value))
    }

    fn allowed(&self, problems: &mut Vec<String>) -> AllowedPeers {
        let mut allowed = AllowedPeers::default();
        let mut add = |peer: &str, scopes: Vec<String>| {
            if peer == EVERYONE {
                allowed.everyone = Some(scopes);
            } else if is_web_did(peer) {
                allowed.named.insert(peer.to_owned(), scopes);
            } else {
                problems.push(format!("allow names {peer:?}; allowed are \"*\" and DIDs of the methods web and webvh"));
            }
        };
        match &self.allow {
            Allow::Everyone(peer) => add(peer, self.scopes.clone()),
            Allow::Peers(peers) => peers.iter().for_each(|peer| add(peer, self.scopes.clone())),
            Allow::Scopes(table) => table.iter().for_each(|(peer, scopes)| add(peer, scopes.clone())),
        }
        if let Allow::Scopes(table) = &self.allow {
            for (peer, scopes) in table {
                check_scopes(&format!("allow of {peer}"), scopes, Some(&self.scopes), problems);
            }
        }
        allowed
    }
}

fn check_scopes(member: &str, scopes: &[String], within: Option<&[String]>, problems: &mut Vec<String>) {
    if scopes.len() > MAX_SCOPES || scopes.iter().collect::<BTreeSet<_>>().len() < scopes.len() {
        problems.push(format!("{member}: at most {MAX_SCOPES} scopes, each of them once"));
    }
    if let Some(wrong) = scopes.iter().find(|scope| !is_scope(scope)) {
        problems.push(format!("{member}: {wrong:?} is no scope; allowed is [a-z0-9:._-]{{1,64}}"));
    }
    if let Some(outside) = within.and_then(|within| scopes.iter().find(|scope| !within.contains(scope))) {
        problems.push(format!("{member}: {outside:?} is not among the scopes of the endpoint"));
    }
}

/// Whether a header may carry a key. Those that steer a request itself may not: a peer's client sends them by itself.
fn is_header_name(name: &str) -> bool {
    const STEERING: [&str; 8] =
        ["host", "content-length", "transfer-encoding", "connection", "upgrade", "te", "trailer", "cookie"];
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.len() <= 128
        && name.bytes().all(is_token)
        && !STEERING.iter().any(|one| one.eq_ignore_ascii_case(name))
}

/// The value without the end of its line, if a header can carry it.
fn trimmed(value: &MaterialSecret) -> Option<MaterialSecret> {
    let text = value.expose_secret().trim_end_matches(['\r', '\n']);
    let is_value = !text.is_empty() && text.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    is_value.then(|| MaterialSecret::new(text.to_owned()))
}

/// Reads a file that only its owner can read.
fn read_private(path: &Path, max_bytes: u64) -> Result<MaterialSecret, String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = std::fs::File::open(path).map_err(named)?;
    let metadata = file.metadata().map_err(named)?;
    if !metadata.is_file() {
        return Err(format!("{} is no file", path.display()));
    }
    if metadata.mode() & 0o077 != 0 {
        return Err(format!("{}: others than the owner may use the file; chmod 600", path.display()));
    }
    let mut text = String::new();
    file.take(max_bytes + 1).read_to_string(&mut text).map_err(named)?;
    if text.len() as u64 > max_bytes {
        return Err(format!("{} is longer than {max_bytes} bytes", path.display()));
    }
    Ok(MaterialSecret::new(text))
}

/// The conditions that are in force, which every reader shares.
pub(crate) type SharedTerms = Arc<arc_swap::ArcSwap<AccessTerms>>;

#[cfg(test)]
mod tests;
