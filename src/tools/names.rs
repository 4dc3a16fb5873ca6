//! The names of the tools, from the embedded tables alone. The configuration is checked against them before a chain is known.

use std::collections::BTreeSet;

use serde::Deserialize;

use super::table::{TableError, read_table};

/// The surfaces. The second segment of a tool's name is its surface.
pub const SURFACES: [&str; 6] = ["ledger", "idx", "graph", "vsa", "cosmos", "wallet"];

/// The toolset for hosts that send every listed tool to their model: each write to the chain, and the reads that a plan begins and
/// ends with. The other reads are called through `svc.wallet.readTool`.
pub const CORE_TOOLSET: &str = "core";

const TABLES: [(&str, &str); 6] = [
    ("ledger", include_str!("../mcp/catalog/data/ledger.json")),
    ("idx", include_str!("../mcp/catalog/data/idx.json")),
    ("graph", include_str!("../mcp/catalog/data/graph.json")),
    ("vsa", include_str!("../mcp/catalog/data/vsa.json")),
    ("cosmos", include_str!("../mcp/catalog/data/cosmos.json")),
    ("wallet", include_str!("../mcp/catalog/data/wallet.json")),
];

/// The names of all tools.
#[derive(Debug, Clone)]
pub struct ToolNames {
    tools: Vec<String>,
    messages: Vec<String>,
}

/// The part of a row that names its tool.
#[derive(Deserialize)]
#[serde(untagged)]
enum NameRow {
    Operation { operation: String },
    Name { name: String, message: Option<String> },
}

impl ToolNames {
    /// Reads the names from the embedded tables. Fails when a table cannot be read.
    pub fn load() -> Result<Self, TableError> {
        let (mut tools, mut messages) = (Vec::new(), Vec::new());
        for (surface, text) in TABLES {
            for row in read_table::<NameRow>(surface, text)? {
                match row {
                    NameRow::Operation { operation } => tools.push(format!("svc.{surface}.{operation}")),
                    NameRow::Name { name, message } => {
                        tools.push(name);
                        messages.extend(message);
                    }
                }
            }
        }
        Ok(Self { tools, messages })
    }

    /// All names, in the order of the tables.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(String::as_str)
    }

    /// The names of the messages of ledger tools, such as `MsgCreateEcosystem`.
    pub fn messages(&self) -> impl Iterator<Item = &str> {
        self.messages.iter().map(String::as_str)
    }

    /// All toolsets: the surfaces (`idx`), their modules (`ledger.es`) and the core.
    pub fn toolsets(&self) -> BTreeSet<String> {
        let modules = self.iter().filter_map(|name| {
            let segments: Vec<&str> = name.split('.').collect();
            (segments.len() == 4).then(|| format!("{}.{}", segments[1], segments[2]))
        });
        SURFACES.into_iter().chain([CORE_TOOLSET]).map(str::to_owned).chain(modules).collect()
    }
}

/// The full tool names that a text contains.
pub fn tool_names_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| word.starts_with("svc.") && word.matches('.').count() >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_without_a_name_is_an_error_that_names_the_table() {
        let Err(error) = read_table::<NameRow>("idx", r#"[{"title": "nameless"}]"#) else { panic!("accepted") };
        assert!(error.to_string().starts_with("table of idx: "), "{error}");
    }
}
