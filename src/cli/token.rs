//! `svc token new`: makes a bearer token and the entry of SVC_PRINCIPALS that knows it by its digest.

use anyhow::Context;
use clap::Subcommand;

use super::output::print_line;
use crate::principals::token_digest;

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Makes a token. It is printed once and stored nowhere.
    New {
        /// Name of the principal: letters, digits and - _ .
        name: String,
    },
}

/// Runs a command.
pub(super) fn run(command: TokenCommand) -> anyhow::Result<()> {
    let TokenCommand::New { name } = command;
    let token = new_token()?;
    let digest = hex::encode(token_digest(&token));
    print_line(format!("# The token, for MCP_BEARER_TOKEN of the client. It is shown once.\n# {token}\n"));
    print_line(format!(
        "# For the file of SVC_PRINCIPALS. Without further lines it has every right; docs/operating.md has the others.\n\
         [[principal]]\nname = {name:?}\ntoken_sha256 = \"{digest}\"\n# read_only = true\n# surfaces = [\"idx\"]\n\
         # tools = [\"svc.ledger.es.*\"]\n# max_fee_per_day = \"1000000\"\n# expires = \"2030-01-01T00:00:00Z\"\n# may_approve = true"
    ));
    Ok(())
}

/// 256 random bits as text that every header can carry.
fn new_token() -> anyhow::Result<String> {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).context("the operating system gives no random numbers")?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}
