//! The files of a devnet in its home.

use anyhow::Context;

use crate::cli::output::print_line;

/// File name of the indexer's database in a home.
pub(super) const INDEXER_FILE: &str = "indexer.db";

/// The names of the agents that have files in a home; a scenario chooses them.
fn agents_of_home(home: &std::path::Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    if !home.exists() {
        return Ok(names);
    }
    for entry in std::fs::read_dir(home)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "head") {
            names.extend(path.file_stem().and_then(|name| name.to_str()).map(str::to_owned));
        }
    }
    Ok(names)
}

/// Removes the chain, the indexer and the agents of a home.
pub(super) fn reset_home(home: &std::path::Path) -> anyhow::Result<()> {
    let had_chain = svc_devnet::node::reset_home(home)?;
    let agents = agents_of_home(home).context("cannot reset")?;
    let databases = agents.iter().flat_map(|name| [format!("{name}.db"), format!("{name}.journal")]);
    let with_suffixes = databases
        .chain([INDEXER_FILE.to_owned()])
        .flat_map(|file| ["", "-wal", "-shm", ".lock"].map(|suffix| format!("{file}{suffix}")));
    // The head files name the agents, so they go last.
    let others = agents.iter().flat_map(|name| [format!("{name}.sock"), format!("{name}.head")]);
    for file in with_suffixes.chain(others) {
        match std::fs::remove_file(home.join(file)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error).context("cannot reset"),
            _ => {}
        }
    }
    let outcome = if had_chain { "is empty now" } else { "had no chain" };
    print_line(format!("{} {outcome}.", home.display()));
    Ok(())
}
