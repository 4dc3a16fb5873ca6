//! The claims of the agent's own credentials: single variables, and a file with a JSON object for each credential. Their form alone is
//! checked here: the schemas stand on the chain.

use std::{collections::BTreeSet, fs::File, io::Read};

use serde_json::{Map, Value};
use svc_agent::{CLAIM_PLACES, ClaimSettings, check_claim_texts};
use svc_trust::EssentialCredential;
use svc_wire::strict_json::parse_strict_json;

use crate::{
    config::environment::{Environment, EnvironmentReader},
    settings::agent::{ECS_CLAIMS_ANY, ECS_CLAIMS_FILE},
};

/// Longest file, in bytes: a badge has a picture in it, and other credentials are short.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
const MAX_LEVELS: usize = 32;

/// Reads the claims, on top of those in `claims`.
pub(super) fn read_claims<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    warnings: &mut Vec<String>,
    mut claims: ClaimSettings,
) -> Option<ClaimSettings> {
    let mut has_problem = false;
    if let Some(path) = reader.get(ECS_CLAIMS_FILE) {
        match read_file(&path) {
            Ok(members) => {
                // An object without claims asks for no credential.
                for (essential, members) in members.into_iter().filter(|(_, members)| !members.is_empty()) {
                    claims.entry(essential).or_default().members = members;
                }
            }
            Err(found) => {
                has_problem = true;
                reader.refuse(ECS_CLAIMS_FILE, format!("{path}: {found}"));
            }
        }
    }
    for name in claim_variables(reader.environment) {
        let Some(text) = ECS_CLAIMS_ANY.member(&name).and_then(|name| reader.environment.get(name)) else { continue };
        let places = CLAIM_PLACES.iter().find_map(|places| Some((places, name.strip_prefix(places.prefix)?)));
        let Some((places, suffix)) = places else {
            let prefixes = CLAIM_PLACES.map(|places| places.prefix).join(", ");
            warnings.push(format!("{name} is not used: variables with claims begin with {prefixes}"));
            continue;
        };
        let text_alone = Map::from_iter([(suffix.to_owned(), Value::from(text.as_str()))]);
        if let Err(violations) = check_claim_texts(&text_alone) {
            has_problem = true;
            let found = violations.into_iter().next().map(|one| one.message).unwrap_or_default();
            reader.add_problem(name, found, ECS_CLAIMS_ANY.kind.allowed());
            continue;
        }
        claims.entry(places.essential).or_default().texts.insert(suffix.to_owned(), text);
    }
    Some(claims).filter(|_| !has_problem)
}

/// The claims of a file, by their credentials.
type FileClaims = Vec<(EssentialCredential, Map<String, Value>)>;

fn read_file(path: &str) -> Result<FileClaims, String> {
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    // One byte more than is allowed shows that there are more.
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(format!("it has more than {MAX_FILE_BYTES} bytes"));
    }
    let Value::Object(credentials) = parse_strict_json(&bytes, MAX_LEVELS).map_err(|error| error.to_string())? else {
        return Err("it is no JSON object".to_owned());
    };
    let mut found = Vec::new();
    for (name, claims) in credentials {
        let places = CLAIM_PLACES.iter().find(|places| places.member == name);
        let places = places.ok_or_else(|| format!("{name:?} is no credential with claims"))?;
        let Value::Object(claims) = claims else { return Err(format!("{name} is no JSON object")) };
        if claims.contains_key("id") {
            return Err(format!("{name}.id is the DID of the agent, which is no setting"));
        }
        check_claim_texts(&claims).map_err(|violations| {
            let texts = violations.into_iter().map(|one| format!("{name} {}: {}", one.path, one.message));
            texts.collect::<Vec<_>>().join("; ")
        })?;
        found.push((places.essential, claims));
    }
    Ok(found)
}

/// The single variables with claims, sorted.
fn claim_variables(environment: &impl Environment) -> BTreeSet<String> {
    environment
        .names()
        .into_iter()
        .filter(|name| ECS_CLAIMS_ANY.member(name).is_some() && name != ECS_CLAIMS_FILE.name)
        .collect()
}
