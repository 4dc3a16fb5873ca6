//! The embedded prompts, one file each.

use std::collections::BTreeMap;

use minijinja::{Environment, UndefinedBehavior, value::Serde};
use rmcp::model::{Prompt, PromptArgument};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use svc_wire::proto_registry::NodeGeneration;

use super::node_rules::NodeRules;
use crate::mcp::completion::CompletionSource;

/// One prompt: a template of a plan for a model.
pub struct PromptTemplate {
    /// Name of the prompt.
    pub name: &'static str,
    title: String,
    description: String,
    arguments: Vec<TemplateArgument>,
    body: &'static str,
}

#[derive(Deserialize)]
struct PromptFrontMatter {
    title: String,
    description: String,
    #[serde(default)]
    arguments: Vec<TemplateArgument>,
}

#[derive(Deserialize)]
struct TemplateArgument {
    name: String,
    description: String,
    #[serde(default)]
    required: bool,
    completes: Option<CompletionSource>,
}

/// The names of a template.
#[derive(Serialize)]
struct TemplateNames<'a> {
    #[serde(flatten)]
    arguments: BTreeMap<&'a str, String>,
    node: NodeRules,
}

/// The reason for which a prompt cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The embedded file is malformed.
    #[error("prompt {name}: {reason}")]
    File {
        /// Name of the prompt.
        name: &'static str,
        /// The problem.
        reason: String,
    },
    /// Arguments are missing, unknown or too long; the text names all of them.
    #[error("{0}")]
    Arguments(String),
}

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!($name, ".md")))),*] };
}

const PROMPT_FILES: [(&str, &str); 15] = files![
    "diagnose-server",
    "reconcile-transaction",
    "bootstrap-corporation",
    "delegate-operator",
    "update-governance-framework",
    "rotate-dids",
    "audit-corporation",
    "create-ecosystem-with-schema",
    "create-root-participant",
    "manage-credential-schema",
    "onboard-participant",
    "manage-participant",
    "validate-participants",
    "explore-network",
    "check-trust-status",
];

/// Longest value of an argument, in bytes.
const MAX_ARGUMENT_BYTES: usize = 4_096;

/// All prompts, in the order of their listing.
pub struct PromptCatalog(Vec<PromptTemplate>);

impl PromptCatalog {
    /// Parses the embedded files. Fails on a malformed file.
    pub fn load() -> Result<Self, PromptError> {
        let prompts = PROMPT_FILES.into_iter().map(|(name, text)| PromptTemplate::parse(name, text));
        Ok(Self(prompts.collect::<Result<_, PromptError>>()?))
    }

    /// All prompts.
    pub fn iter(&self) -> impl Iterator<Item = &PromptTemplate> {
        self.0.iter()
    }

    /// The prompt with this name.
    pub fn get(&self, name: &str) -> Option<&PromptTemplate> {
        self.0.iter().find(|prompt| prompt.name == name)
    }
}

impl PromptTemplate {
    fn parse(name: &'static str, text: &'static str) -> Result<Self, PromptError> {
        let broken = |reason: &str| PromptError::File { name, reason: reason.to_owned() };
        let rest = text.strip_prefix("---\n").ok_or_else(|| broken("no front matter"))?;
        let (front, body) = rest.split_once("\n---\n").ok_or_else(|| broken("the front matter does not end"))?;
        let front: PromptFrontMatter = serde_json::from_str(front).map_err(|error| broken(&error.to_string()))?;
        Ok(Self { name, title: front.title, description: front.description, arguments: front.arguments, body })
    }

    /// The prompt as `prompts/list` shows it.
    pub fn listing(&self) -> Prompt {
        let arguments = self.arguments.iter().map(|argument| {
            PromptArgument::new(&argument.name)
                .with_description(argument.description.as_str())
                .with_required(argument.required)
        });
        Prompt::new(self.name, Some(self.description.as_str()), Some(arguments.collect()))
            .with_title(self.title.as_str())
    }

    /// The description, one sentence.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// The source that an argument completes from.
    pub fn completion_source(&self, argument: &str) -> Option<CompletionSource> {
        self.arguments.iter().find(|one| one.name == argument)?.completes
    }

    /// Renders the plan with its arguments and the rules of the node's generation. Fails when an argument is missing, unknown or too long.
    pub fn render(
        &self,
        arguments: &Map<String, Value>,
        generation: Option<NodeGeneration>,
    ) -> Result<String, PromptError> {
        let mut problems = Vec::new();
        for argument in self.arguments.iter().filter(|argument| argument.required) {
            if arguments.get(&argument.name).is_none_or(|value| argument_text(value).trim().is_empty()) {
                problems.push(format!("argument {:?} is required: {}", argument.name, argument.description));
            }
        }
        for (name, value) in arguments {
            if !self.arguments.iter().any(|argument| argument.name == *name) {
                problems.push(format!("{name:?} is not an argument of {}", self.name));
            } else if argument_text(value).len() > MAX_ARGUMENT_BYTES {
                problems.push(format!("argument {name:?} is longer than {MAX_ARGUMENT_BYTES} bytes"));
            }
        }
        if !problems.is_empty() {
            return Err(PromptError::Arguments(problems.join("; ")));
        }
        let given = arguments.iter().map(|(name, value)| (name.as_str(), argument_text(value)));
        let given = given.filter(|(_, value)| !value.trim().is_empty()).collect();
        let names = TemplateNames { arguments: given, node: NodeRules::of(generation) };
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment
            .render_str(self.body, Serde(&names))
            .map_err(|error| PromptError::File { name: self.name, reason: error.to_string() })
    }
}

/// The value of an argument as text. Arguments of prompts are texts; a number is converted.
fn argument_text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::tool_names_in;

    #[test]
    fn every_prompt_renders_with_all_arguments_and_with_the_required_ones() {
        let prompts = PromptCatalog::load().expect("the files");
        assert_eq!(prompts.iter().count(), 15);
        for plan in prompts.iter() {
            for only_required in [true, false] {
                let arguments: Map<String, Value> = plan
                    .arguments
                    .iter()
                    .filter(|argument| argument.required || !only_required)
                    .map(|argument| (argument.name.clone(), Value::from(format!("<{}>", argument.name))))
                    .collect();
                for generation in NodeGeneration::ALL.map(Some).into_iter().chain([None]) {
                    let text = plan.render(&arguments, generation);
                    let text = text.unwrap_or_else(|error| panic!("{}: {error}", plan.name));
                    assert!(!text.contains("{{") && !text.contains("{%"), "{}: {text}", plan.name);
                    for name in arguments.keys() {
                        assert!(text.contains(&format!("<{name}>")), "{}: {name} is not used", plan.name);
                    }
                }
            }
        }
    }

    #[test]
    fn a_plan_that_writes_names_the_steps_before_a_write_and_after_a_timeout() {
        // These prompts only read. They name writes as possible next steps.
        let read_only =
            ["diagnose-server", "reconcile-transaction", "audit-corporation", "explore-network", "check-trust-status"];
        for plan in PromptCatalog::load().expect("the files").iter() {
            let text = plan.body;
            if !read_only.contains(&plan.name) {
                assert!(text.contains("svc.wallet.listAuthorizations"), "{}: no check of the grants", plan.name);
                assert!(text.contains("dry_run"), "{}: no dry run", plan.name);
                assert!(text.contains("svc.cosmos.tx.getTx"), "{}: no reconciliation", plan.name);
                assert!(
                    tool_names_in(text).any(|tool| tool.starts_with("svc.idx.")),
                    "{}: nothing verifies",
                    plan.name
                );
            }
        }
    }

    #[test]
    fn an_error_names_all_wrong_arguments() {
        let prompts = PromptCatalog::load().expect("the files");
        let plan = prompts.get("onboard-participant").expect("known");
        let colour = Map::from_iter([("colour".to_owned(), Value::from("red"))]);
        let error = plan.render(&colour, None).expect_err("refused");
        let text = error.to_string();
        assert!(text.contains("schema_id") && text.contains("role") && text.contains("colour"), "{text}");
    }

    /// The plan with its required arguments and an agent.
    fn rendered(name: &str, generation: Option<NodeGeneration>) -> String {
        let prompts = PromptCatalog::load().expect("the files");
        let plan = prompts.get(name).expect("known");
        let given = plan.arguments.iter().filter(|one| one.required || one.name == "vs_operator");
        let given = given.map(|one| (one.name.clone(), Value::from(one.name.to_uppercase()))).collect();
        plan.render(&given, generation).expect("rendered")
    }

    #[test]
    fn a_template_asks_only_for_rules_that_there_are() {
        let rules = serde_json::to_value(NodeRules::of(None)).expect("JSON");
        let mut names = 0;
        for plan in PromptCatalog::load().expect("the files").iter() {
            for tail in plan.body.split("node.").skip(1) {
                let path = tail.split(|one: char| !one.is_ascii_lowercase() && one != '.').next().unwrap_or_default();
                // The end of a sentence about a node is no name.
                if path.is_empty() {
                    continue;
                }
                let found = rules.pointer(&format!("/{}", path.replace('.', "/")));
                assert!(found.is_some_and(|one| !one.is_object()), "{}: node.{path}", plan.name);
                names += 1;
            }
        }
        assert!(names > 20, "{names}");
    }

    #[test]
    fn a_plan_has_the_rules_of_its_node_and_both_where_builds_differ() {
        const CREATE_ROOT: &str = "create-root-participant";
        const ONBOARD: &str = "onboard-participant";
        // (prompt, text, generations with it)
        for (name, text, generations) in [
            (CREATE_ROOT, "(required, in the future", "N0 N1 ?"),
            (CREATE_ROOT, "left out to begin with the block", "N1 N2 N3 N4 ?"),
            (CREATE_ROOT, "even an ended one blocks it", "N0 N1 ?"),
            (CREATE_ROOT, "with DID DID that is ACTIVE or FUTURE", "N1 N2 N3 N4 ?"),
            (CREATE_ROOT, "without one it is unusable", "N0 N1 ?"),
            (CREATE_ROOT, "if and only if", "N3 N4 ?"),
            (CREATE_ROOT, "(nodes before 0.10.3)", "N1 ?"),
            (CREATE_ROOT, "the dry run shows which", "N1 ?"),
            (CREATE_ROOT, "a governance proposal", "N0 N1 N2 N3 ?"),
            (CREATE_ROOT, "the council", "N4 ?"),
            (ONBOARD, "without it never active", "N0 N1 ?"),
            (ONBOARD, "left out to begin with the block", "N1 N2 N3 N4 ?"),
            (ONBOARD, "even expired, revoked or slashed", "N0 N1 ?"),
            (ONBOARD, "revoked or slashed (nodes before 0.10.2)", "N1 ?"),
            (ONBOARD, "svc.ledger.td.repaySlashedTrustDeposit", "N1 N2 N3 N4 ?"),
            (ONBOARD, "to have an effective_until", "N0 N1 ?"),
            (ONBOARD, "if and only if", "N3 N4 ?"),
            ("create-ecosystem-with-schema", "sha256", "N0 ?"),
            ("create-ecosystem-with-schema", "the council", "N4 ?"),
            ("bootstrap-corporation", "No ecosystem or participant may carry it", "N1 N2 N3 N4 ?"),
            ("delegate-operator", "must be sent coins first", "N0 N1 ?"),
            ("manage-participant", "the whole slashed_deposit", "N0 N1 ?"),
            ("manage-participant", "what is outstanding", "N1 N2 N3 N4 ?"),
            ("manage-participant", "Once expired, revoked or slashed", "N0 N1 ?"),
            ("rotate-dids", "of the same kind", "N0 ?"),
            ("rotate-dids", "No corporation, ecosystem or participant", "N1 N2 N3 N4 ?"),
            ("validate-participants", "must end first", "N1 N2 N3 N4 ?"),
            ("audit-corporation", "end of its spend cycle", "N3 N4 ?"),
            ("explore-network", "the council", "N4 ?"),
        ] {
            for generation in NodeGeneration::ALL.map(Some).into_iter().chain([None]) {
                let word = generation.map_or("?", NodeGeneration::as_str);
                let is_there = rendered(name, generation).contains(text);
                assert_eq!(is_there, generations.contains(word), "{name} at {word}: {text}");
            }
        }
    }
}
