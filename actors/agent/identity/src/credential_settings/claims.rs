//! Claims: the way from the settings to the properties of a schema, and the checks of their characters and values. Pure.

#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use heck::{ToLowerCamelCase, ToShoutySnakeCase};
use serde_json::{Map, Value, json};
use svc_agent_core::error::Violation;
use svc_trust::{
    EssentialCredential, RejectionReason, SchemaViolation, credential_violations,
    digest::{DigestAlgorithm, canonical_json, sri_digest},
};
use svc_wire::syntax::has_exact_integers;

/// The claims of one credential, as the settings have them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConfiguredClaims {
    /// Texts of single variables, by their names behind the prefix of the credential. A variable wins over a member of the file.
    pub texts: BTreeMap<String, String>,
    /// Members of the credential's object in [`CLAIMS_FILE`], by the names of the schema.
    pub members: Map<String, Value>,
}

impl ConfiguredClaims {
    /// Whether no setting gives a claim.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.members.is_empty()
    }
}

/// The claims of each essential credential.
pub type ClaimSettings = BTreeMap<EssentialCredential, ConfiguredClaims>;

/// The variable of the file with claims.
pub const CLAIMS_FILE: &str = "ECS_CLAIMS_FILE";

/// The places of the claims of an essential credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClaimPlaces {
    /// The credential.
    pub essential: EssentialCredential,
    /// Prefix of its variables.
    pub prefix: &'static str,
    /// Its member in [`CLAIMS_FILE`].
    pub member: &'static str,
}

/// The essential credentials with claims in settings.
pub const CLAIM_PLACES: [ClaimPlaces; 3] = [
    ClaimPlaces { essential: EssentialCredential::Service, prefix: "ECS_CLAIMS_SERVICE_", member: "service" },
    ClaimPlaces { essential: EssentialCredential::Organization, prefix: "ECS_CLAIMS_ORG_", member: "org" },
    ClaimPlaces { essential: EssentialCredential::Persona, prefix: "ECS_CLAIMS_PERSONA_", member: "persona" },
];

/// Properties with a URI whose variables end in `_URI`, which the properties do not.
const NAMED_WITH_URI: [&str; 4] = ["avatar", "logo", "privacyPolicy", "termsAndConditions"];
/// The subject of claims that are checked before their DID is known.
const ANY_SUBJECT: &str = "did:web:subject.example";
/// Violations of one answer.
const MAX_VIOLATIONS: usize = 16;
/// Longest path of a violation, in characters: the names in it are those of a request.
const MAX_PATH_CHARS: usize = 200;
const PLAIN_TEXT: &str = "a text without control characters and without characters that change its direction";

/// A setting, or its absence, for which there are no claims.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimProblem {
    /// The variable, or the member of the file; all variables of the credential when no single one is the cause.
    pub setting: String,
    /// The value with the rule that it breaks, or the state of the setting.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

impl ClaimProblem {
    pub(crate) fn new(setting: impl Into<String>, found: impl Into<String>, allowed: impl Into<String>) -> Self {
        Self { setting: setting.into(), found: found.into(), allowed: allowed.into() }
    }
}

impl fmt::Display for ClaimProblem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}; allowed: {}", self.setting, self.found, self.allowed)
    }
}

/// The problems of one credential as one text.
pub fn problems_text(problems: &[ClaimProblem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// The whole name of a variable: the prefix of its credential, and the suffix.
fn variable(essential: EssentialCredential, suffix: &str) -> String {
    let places = CLAIM_PLACES.iter().find(|places| places.essential == essential);
    format!("{}{suffix}", places.map_or("ECS_CLAIMS_", |places| places.prefix))
}

/// The place of a claim in the file.
fn member(essential: EssentialCredential, property: &str) -> String {
    let places = CLAIM_PLACES.iter().find(|places| places.essential == essential);
    format!("{CLAIMS_FILE} {}.{property}", places.map_or("*", |places| places.member))
}

/// Claims that fit their schema.
#[derive(Debug, Clone, PartialEq)]
pub struct FoundClaims {
    /// The claims, without the `id` of the subject.
    pub claims: Map<String, Value>,
    /// The setting of each claim.
    pub settings: BTreeMap<String, String>,
}

/// The properties that a schema has for the subject of a credential.
struct SubjectProperties {
    properties: Map<String, Value>,
    required: BTreeSet<String>,
}

impl SubjectProperties {
    /// Reads a schema. One that is no schema has no properties; its validation says so.
    fn parse(schema: &str) -> Self {
        let schema: Value = serde_json::from_str(schema).unwrap_or_default();
        let subject = &schema["properties"]["credentialSubject"];
        let required = subject["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
        // The issuer adds the DID of the subject.
        let is_claim = |name: &str| name != "id";
        Self {
            required: required.filter(|name| is_claim(name)).map(str::to_owned).collect(),
            properties: subject["properties"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(name, _)| is_claim(name))
                .map(|(name, property)| (name.clone(), property.clone()))
                .collect(),
        }
    }

    /// Whether the subject has the property.
    fn has(&self, name: &str) -> bool {
        self.properties.contains_key(name) || self.required.contains(name)
    }

    /// The property that a variable gives.
    fn property_of(&self, suffix: &str) -> Option<String> {
        let name = suffix.to_lower_camel_case();
        let without_uri = name.strip_suffix("Uri").map(str::to_owned);
        let is_known = |name: &String| self.has(name);
        Some(name).filter(is_known).or(without_uri.filter(is_known))
    }

    /// The variable that gives a property; none for a name that is not in camelCase.
    fn suffix_of(&self, property: &str) -> Option<String> {
        let plain = property.to_shouty_snake_case();
        let with_uri = Some(format!("{plain}_URI")).filter(|_| NAMED_WITH_URI.contains(&property));
        let gives_it = |suffix: &String| self.property_of(suffix).as_deref() == Some(property);
        with_uri.filter(gives_it).or(Some(plain).filter(gives_it))
    }

    fn schema_of(&self, property: &str) -> &Value {
        self.properties.get(property).unwrap_or(&Value::Null)
    }
}

/// The claims that the settings give for a schema. A setting without a property gives none. Fails with the problems of all settings.
pub fn claims_for(
    schema: &str,
    essential: EssentialCredential,
    configured: &ConfiguredClaims,
) -> Result<FoundClaims, Vec<ClaimProblem>> {
    let subject = SubjectProperties::parse(schema);
    let (mut claims, mut settings, mut problems) = (Map::new(), BTreeMap::new(), Vec::new());
    for (property, value) in configured.members.iter().filter(|(property, _)| subject.has(property)) {
        claims.insert(property.clone(), value.clone());
        settings.insert(property.clone(), member(essential, property));
    }
    let mut variables: BTreeMap<String, &str> = BTreeMap::new();
    for (suffix, text) in &configured.texts {
        let Some(property) = subject.property_of(suffix) else { continue };
        let setting = variable(essential, suffix);
        if let Some(other) = variables.insert(property.clone(), suffix) {
            let found = format!("gives {property}, as {} does", variable(essential, other));
            problems.push(ClaimProblem::new(setting, found, "one of the two"));
        } else if let Some(character) = text.chars().find(|one| is_refused(*one)) {
            problems.push(ClaimProblem::new(setting, refused_character(character), PLAIN_TEXT));
        } else {
            claims.insert(property.clone(), to_value(text, subject.schema_of(&property)));
            settings.insert(property, setting);
        }
    }
    let is_given = |property: &String| settings.contains_key(property) || variables.contains_key(property);
    for property in subject.required.iter().filter(|property| !is_given(property)) {
        let allowed = allowed_values(subject.schema_of(property));
        problems.push(match subject.suffix_of(property) {
            Some(suffix) => ClaimProblem::new(variable(essential, &suffix), "not set", allowed),
            None => ClaimProblem::new(member(essential, property), "not set, and no variable gives it", allowed),
        });
    }
    // The schema would name a claim without a value again, as one that the whole subject lacks.
    let has_values = problems.is_empty();
    match violations_of(schema, &claims) {
        Err(reason) => {
            let allowed = "a schema that can be evaluated";
            problems.push(ClaimProblem::new(variable(essential, "*"), reason.message, allowed));
        }
        Ok(violations) => {
            for SchemaViolation { path, message } in violations {
                let property = property_at(&path).unwrap_or_default();
                match settings.get(&property) {
                    Some(setting) => {
                        let allowed = allowed_values(subject.schema_of(&property));
                        problems.push(ClaimProblem::new(setting, message, allowed));
                    }
                    None if has_values => {
                        let allowed = "claims that match the schema";
                        problems.push(ClaimProblem::new(variable(essential, "*"), message, allowed));
                    }
                    None => {}
                }
            }
        }
    }
    if problems.is_empty() { Ok(FoundClaims { claims, settings }) } else { Err(problems) }
}

/// The settings that no property of a schema takes.
pub(crate) fn unused_settings(
    schema: &str,
    essential: EssentialCredential,
    configured: &ConfiguredClaims,
) -> Vec<String> {
    let subject = SubjectProperties::parse(schema);
    let variables = configured.texts.keys().filter(|suffix| subject.property_of(suffix).is_none());
    let members = configured.members.keys().filter(|property| !subject.has(property));
    variables.map(|suffix| variable(essential, suffix)).chain(members.map(|name| member(essential, name))).collect()
}

/// The violations of a schema by claims about any subject. An essential schema speaks of the subject alone.
fn violations_of(schema: &str, claims: &Map<String, Value>) -> Result<Vec<SchemaViolation>, RejectionReason> {
    let mut subject = claims.clone();
    subject.insert("id".to_owned(), ANY_SUBJECT.into());
    let credential = json!({"credentialSubject": subject});
    let length = credential.to_string().len();
    credential_violations(schema, &credential, length)
}

/// The member behind the subject in the path of a violation, a JSON Pointer.
fn property_at(path: &str) -> Option<String> {
    path.strip_prefix("/credentialSubject/")?.split('/').next().map(unescape)
}

/// The value of a text: that of the first type of the property that the text fits. A text that fits none stays a text, which the
/// schema then refuses.
fn to_value(text: &str, property: &Value) -> Value {
    let types = match &property["type"] {
        Value::Array(several) => several.as_slice(),
        one => std::slice::from_ref(one),
    };
    let value = types.iter().filter_map(Value::as_str).find_map(|kind| match kind {
        "string" => Some(text.into()),
        "boolean" => text.parse::<bool>().ok().map(Value::Bool),
        "integer" => parse_number(text).filter(|number| number.is_i64() || number.is_u64()),
        "number" => parse_number(text),
        _ => None,
    });
    value.unwrap_or_else(|| text.into())
}

/// A number that every reader reads as the same one.
fn parse_number(text: &str) -> Option<Value> {
    let value: Value = serde_json::from_str(text).ok()?;
    Some(value).filter(|value| value.is_number() && has_exact_integers(value))
}

/// The values that a property takes, with the rules as its schema has them.
fn allowed_values(property: &Value) -> String {
    let kind = match property["type"].as_str() {
        Some("string") => "a text",
        Some("integer") => "an integer",
        Some("number") => "a number",
        Some("boolean") => "true or false",
        _ => "a value",
    };
    let rules = property.as_object().into_iter().flatten();
    let rules = rules.filter(|(name, _)| !matches!(name.as_str(), "type" | "title" | "description" | "$comment"));
    let rules: Vec<String> = rules.map(|(name, rule)| format!("{name} {rule}")).collect();
    if rules.is_empty() { kind.to_owned() } else { format!("{kind}, {}", rules.join(", ")) }
}

/// Whether a character hides or reorders a text before a reader's eyes: a control character, or one that sets a direction.
fn is_refused(character: char) -> bool {
    let sets_direction = matches!(
        character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    character.is_control() || sets_direction
}

fn refused_character(character: char) -> String {
    format!("has the character U+{:04X}", u32::from(character))
}

/// Checks the texts and the names of members in claims. Fails with the places of refused characters.
pub fn check_claim_texts(claims: &Map<String, Value>) -> Result<(), Vec<Violation>> {
    let mut violations = Vec::new();
    check_members(claims, "claims", &mut violations);
    if violations.is_empty() { Ok(()) } else { Err(violations) }
}

fn check_members(members: &Map<String, Value>, path: &str, violations: &mut Vec<Violation>) {
    for (name, value) in members {
        let path = format!("{path}.{name}");
        check_text(name, &path, violations);
        check_value(value, &path, violations);
    }
}

fn check_value(value: &Value, path: &str, violations: &mut Vec<Violation>) {
    match value {
        Value::String(text) => check_text(text, path, violations),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                check_value(item, &format!("{path}[{index}]"), violations);
            }
        }
        Value::Object(members) => check_members(members, path, violations),
        _ => {}
    }
}

fn check_text(text: &str, path: &str, violations: &mut Vec<Violation>) {
    let Some(character) = text.chars().find(|character| is_refused(*character)) else { return };
    if violations.len() < MAX_VIOLATIONS {
        let message = format!("{}; allowed is {PLAIN_TEXT}", refused_character(character));
        violations.push(Violation { path: visible_path(path), message });
    }
}

/// A path with refused characters in their escaped form.
fn visible_path(path: &str) -> String {
    let visible = |one: char| if is_refused(one) { one.escape_unicode().to_string() } else { one.to_string() };
    path.chars().take(MAX_PATH_CHARS).map(visible).collect()
}

/// The violations of a schema by a signed credential, at the places that the request of its claims has.
pub(crate) fn claim_violations(schema: &str, credential: &Value) -> Result<Vec<Violation>, RejectionReason> {
    let found = credential_violations(schema, credential, credential.to_string().len())?;
    Ok(found.into_iter().map(|one| Violation { path: place_in_request(&one.path), message: one.message }).collect())
}

/// The place that a JSON Pointer has in a request: the claims are the subject of the credential.
fn place_in_request(pointer: &str) -> String {
    let mut steps = pointer.split('/').skip(1).peekable();
    let is_claim = steps.next_if_eq(&"credentialSubject").is_some();
    let mut place = String::from(if is_claim { "claims" } else { "credential" });
    for step in steps {
        if !step.is_empty() && step.bytes().all(|byte| byte.is_ascii_digit()) {
            place.push_str(&format!("[{step}]"));
        } else {
            place.push_str(&format!(".{}", unescape(step)));
        }
    }
    visible_path(&place)
}

/// A step of a JSON Pointer as the name of a member.
fn unescape(step: &str) -> String {
    step.replace("~1", "/").replace("~0", "~")
}

/// The digest by which equal claims are known again.
pub(crate) fn claims_digest(claims: &Map<String, Value>) -> String {
    let claims = Value::Object(claims.clone());
    // Claims without a canonical form are refused when they are signed. Until then their text distinguishes them from others.
    let text = canonical_json(&claims).unwrap_or_else(|| claims.to_string());
    sri_digest(text.as_bytes(), DigestAlgorithm::Sha256)
}
