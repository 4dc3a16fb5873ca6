//! `svc complete` and `svc completions`: completion of `svc call` in a shell.

use clap::CommandFactory;
use clap_complete::Shell;
use serde_json::Value;

use super::{
    connection::ClientArgs,
    output::{print_line, print_text},
};
use crate::{secrets::ProcessSecrets, visible_text::visible};

/// Prints the names or values that continue `word`, one per line. For an unknown tool it prints tool names.
pub(super) async fn run(
    tool: &str,
    word: &str,
    server: &ClientArgs,
    secrets: &mut ProcessSecrets,
) -> anyhow::Result<()> {
    let client = server.connect(secrets).await?;
    let candidates = async {
        let tools = client.list_tools().await?;
        let Some(known) = tools.iter().find(|one| one.name == tool) else {
            return Ok(tools.iter().map(|one| one.name.to_string()).filter(|name| name.starts_with(tool)).collect());
        };
        match word.split_once('=') {
            Some((name, begun)) => {
                let values = client.complete_argument(tool, name, begun).await?;
                Ok(values.into_iter().map(|value| format!("{name}={value}")).collect())
            }
            None => {
                let names = known.input_schema.get("properties").and_then(Value::as_object).into_iter().flatten();
                Ok(names.filter(|(name, _)| name.starts_with(word)).map(|(name, _)| format!("{name}=")).collect())
            }
        }
    };
    let candidates: anyhow::Result<Vec<String>> = candidates.await;
    client.close().await;
    // A candidate is a word on the command line; one that a terminal would obey is none.
    candidates?.iter().filter(|candidate| visible(candidate) == **candidate).for_each(print_line);
    Ok(())
}

/// Prints the completion script of a shell for the command `C`.
pub(super) fn print_script<C: CommandFactory>(shell: Shell) {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut C::command(), "svc", &mut script);
    print_text(&String::from_utf8_lossy(&script));
}
