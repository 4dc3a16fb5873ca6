//! `svc audit`: a check of the chain of an audit file.

use clap::Subcommand;
use svc_operator::verify_audit;

use super::output::{OutputForm, print_content};

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Follows the chain through an audit file; fails when a line does not follow from the one before it.
    Verify {
        /// The file.
        file: String,
    },
}

pub fn run(command: AuditCommand, as_json: bool) -> anyhow::Result<()> {
    let AuditCommand::Verify { file } = command;
    let chain = verify_audit(&file)?;
    print_content(&serde_json::to_value(&chain)?, OutputForm::chosen(as_json, false))?;
    match chain.problem() {
        Some(problem) => anyhow::bail!("{file}: {problem}"),
        None => Ok(()),
    }
}
