//! The prompts: plans for a model, one file each (`prompts/`), with arguments that complete from live data.

use std::collections::BTreeMap;

use minijinja::{Environment, UndefinedBehavior};
use rmcp::model::{Prompt, PromptArgument};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::complete::Kind;

/// One prompt.
pub struct Plan {
    /// Name.
    pub name: &'static str,
    title: String,
    description: String,
    arguments: Vec<Argument>,
    body: &'static str,
}

#[derive(Deserialize)]
struct Front {
    title: String,
    description: String,
    #[serde(default)]
    arguments: Vec<Argument>,
}

#[derive(Deserialize)]
struct Argument {
    name: String,
    description: String,
    #[serde(default)]
    required: bool,
    completes: Option<Kind>,
}

/// A prompt that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PromptError {
    /// The file is not what it must be.
    #[error("prompt {name}: {reason}")]
    File {
        /// Prompt.
        name: &'static str,
        /// What is wrong.
        reason: String,
    },
    /// The arguments are not usable; the text names all of them.
    #[error("{0}")]
    Arguments(String),
}

macro_rules! files {
    ($($name:literal),* $(,)?) => { [$(($name, include_str!(concat!("prompts/", $name, ".md")))),*] };
}

const FILES: [(&str, &str); 15] = files![
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

/// Longest value of an argument.
const MAX_ARGUMENT: usize = 4_096;

/// All prompts.
pub struct Prompts(BTreeMap<&'static str, Plan>);

impl Prompts {
    /// Reads the files, which are part of the program.
    pub fn load() -> Result<Self, PromptError> {
        let plans = FILES.into_iter().map(|(name, text)| Ok((name, Plan::read(name, text)?)));
        Ok(Self(plans.collect::<Result<_, PromptError>>()?))
    }

    /// All of them, in the order of the list above.
    pub fn iter(&self) -> impl Iterator<Item = &Plan> {
        FILES.iter().filter_map(|(name, _)| self.0.get(name))
    }

    /// A prompt by name.
    pub fn get(&self, name: &str) -> Option<&Plan> {
        self.0.get(name)
    }
}

impl Plan {
    fn read(name: &'static str, text: &'static str) -> Result<Self, PromptError> {
        let broken = |reason: &str| PromptError::File { name, reason: reason.to_owned() };
        let rest = text.strip_prefix("---\n").ok_or_else(|| broken("no front matter"))?;
        let (front, body) = rest.split_once("\n---\n").ok_or_else(|| broken("the front matter does not end"))?;
        let front: Front = serde_json::from_str(front).map_err(|error| broken(&error.to_string()))?;
        Ok(Self { name, title: front.title, description: front.description, arguments: front.arguments, body })
    }

    /// As it is listed.
    pub fn listing(&self) -> Prompt {
        let arguments = self.arguments.iter().map(|argument| {
            PromptArgument::new(&argument.name)
                .with_description(argument.description.as_str())
                .with_required(argument.required)
        });
        Prompt::new(self.name, Some(self.description.as_str()), Some(arguments.collect()))
            .with_title(self.title.as_str())
    }

    /// One sentence.
    pub fn description(&self) -> &str {
        &self.description
    }

    /// What an argument completes from.
    pub fn completes(&self, argument: &str) -> Option<Kind> {
        self.arguments.iter().find(|one| one.name == argument)?.completes
    }

    /// The plan with its arguments filled in.
    pub fn render(&self, arguments: &Map<String, Value>) -> Result<String, PromptError> {
        let mut complaints = Vec::new();
        for argument in self.arguments.iter().filter(|argument| argument.required) {
            if arguments.get(&argument.name).is_none_or(|value| text(value).trim().is_empty()) {
                complaints.push(format!("argument {:?} is required: {}", argument.name, argument.description));
            }
        }
        for (name, value) in arguments {
            if !self.arguments.iter().any(|argument| argument.name == *name) {
                complaints.push(format!("{name:?} is not an argument of {}", self.name));
            } else if text(value).len() > MAX_ARGUMENT {
                complaints.push(format!("argument {name:?} is longer than {MAX_ARGUMENT} bytes"));
            }
        }
        if !complaints.is_empty() {
            return Err(PromptError::Arguments(complaints.join("; ")));
        }
        let given: BTreeMap<&str, String> = arguments
            .iter()
            .map(|(name, value)| (name.as_str(), text(value)))
            .filter(|(_, value)| !value.trim().is_empty())
            .collect();
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Lenient);
        environment
            .render_str(self.body, given)
            .map_err(|error| PromptError::File { name: self.name, reason: error.to_string() })
    }
}

/// Arguments of prompts are texts; a number is taken as one.
fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Full names of the tools a text mentions.
pub fn tools_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.starts_with("svc.") && word.matches('.').count() >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prompt_renders_with_all_and_with_only_the_required_arguments() {
        let prompts = Prompts::load().expect("the files");
        assert_eq!(prompts.iter().count(), 15);
        for plan in prompts.iter() {
            for only_required in [true, false] {
                let arguments: Map<String, Value> = plan
                    .arguments
                    .iter()
                    .filter(|argument| argument.required || !only_required)
                    .map(|argument| (argument.name.clone(), Value::from(format!("<{}>", argument.name))))
                    .collect();
                let text = plan.render(&arguments).unwrap_or_else(|error| panic!("{}: {error}", plan.name));
                assert!(!text.contains("{{") && !text.contains("{%"), "{}: {text}", plan.name);
                for name in arguments.keys() {
                    assert!(text.contains(&format!("<{name}>")), "{}: {name} is not used", plan.name);
                }
            }
        }
    }

    #[test]
    fn a_plan_that_writes_says_what_precedes_a_write_and_what_follows_a_timeout() {
        // These only look, and name writes as what could follow.
        let only_look =
            ["diagnose-server", "reconcile-transaction", "audit-corporation", "explore-network", "check-trust-status"];
        for plan in Prompts::load().expect("the files").iter() {
            let text = plan.body;
            if !only_look.contains(&plan.name) {
                assert!(text.contains("svc.wallet.listAuthorizations"), "{}: no check of the grants", plan.name);
                assert!(text.contains("dry_run"), "{}: no dry run", plan.name);
                assert!(text.contains("svc.cosmos.tx.getTx"), "{}: no reconciliation", plan.name);
                assert!(tools_in(text).any(|tool| tool.starts_with("svc.idx.")), "{}: nothing verifies", plan.name);
            }
        }
    }

    #[test]
    fn wrong_arguments_are_all_named() {
        let prompts = Prompts::load().expect("the files");
        let plan = prompts.get("onboard-participant").expect("known");
        let error = plan.render(&Map::from_iter([("colour".to_owned(), Value::from("red"))])).expect_err("refused");
        let text = error.to_string();
        assert!(text.contains("schema_id") && text.contains("role") && text.contains("colour"), "{text}");
    }
}
