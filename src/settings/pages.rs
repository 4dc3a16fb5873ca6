//! The tables of settings in the pages.

use super::{
    Process::{Agent, Indexer, Serve},
    Setting, SettingDefault, access, agent, chain, didcomm, events, flows, indexer, listener, mcp, tools,
};

/// A table of a page, below a line `<!-- settings: NAME -->`.
pub(super) struct PageTable {
    pub page: &'static str,
    pub name: &'static str,
    pub rows: Vec<&'static Setting>,
}

/// All tables. A setting that several programs read may stand in several of them.
pub(super) fn tables() -> Vec<PageTable> {
    let chain_of = |process| chain::ROWS.iter().copied().filter(move |row| row.processes.contains(&process));
    let all = |rows: &[&'static Setting]| rows.to_vec();
    vec![
        PageTable {
            page: "docs/operating.md",
            name: "tool server",
            rows: chain_of(Serve).chain(mcp::ROWS.iter().copied()).collect(),
        },
        PageTable { page: "docs/operating.md", name: "listeners", rows: all(listener::ROWS) },
        PageTable { page: "docs/tools.md", name: "tools", rows: all(tools::ROWS) },
        PageTable {
            page: "docs/indexer.md",
            name: "indexer",
            rows: chain_of(Indexer).chain(indexer::ROWS.iter().copied()).collect(),
        },
        PageTable {
            page: "docs/agent-operating.md",
            name: "agent",
            rows: agent::ROWS.iter().chain(events::ROWS).copied().chain(chain_of(Agent)).collect(),
        },
        PageTable { page: "docs/peers.md", name: "peers", rows: all(didcomm::ROWS) },
        PageTable { page: "docs/flows.md", name: "flows", rows: all(flows::ROWS) },
        PageTable { page: "docs/access.md", name: "access", rows: all(access::ROWS) },
    ]
}

impl PageTable {
    /// The table as the page has it.
    pub(super) fn print(&self) -> String {
        let mut lines = vec!["| Variable | Default | Meaning |".to_owned(), "|---|---|---|".to_owned()];
        lines.extend(self.rows.iter().map(|row| line(row)));
        lines.join("\n")
    }

    /// The page with this table in the place of its own; `None` when the page has no place for it.
    pub(super) fn written_into(&self, page: &str) -> Option<String> {
        let mark = format!("<!-- settings: {} -->\n", self.name);
        let (before, after) = page.split_once(&mark)?;
        let end: usize = after.split_inclusive('\n').take_while(|line| line.starts_with('|')).map(str::len).sum();
        Some(format!("{before}{mark}{}\n{}", self.print(), &after[end..]))
    }
}

fn line(setting: &Setting) -> String {
    let default = match setting.default {
        SettingDefault::Required => "required".to_owned(),
        SettingDefault::Value(text) => format!("`{text}`"),
        SettingDefault::Words(words) => words.to_owned(),
    };
    let secret = if setting.is_secret { "; a secret" } else { "" };
    let see = if setting.see.is_empty() { String::new() } else { format!(": {}", setting.see) };
    format!("| {} | {default} | {}{secret}{see} |", setting.name, setting.sentence)
}
