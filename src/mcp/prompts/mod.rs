//! The prompts: plans for a model. Each is an embedded Markdown file with arguments that complete from live data.

mod catalog;
mod node_rules;
mod rendering;

pub use catalog::{PromptCatalog, PromptError, PromptTemplate};
