//! `svc journal`: a copy of the journal, and a check of every row, also beside a running server.

use anyhow::Context;
use clap::Subcommand;
use svc_pipeline::{back_up_journal, verify_journal};

use super::output::{OutputForm, print_content};
use crate::{
    config::{Environment, ProcessEnvironment},
    settings::chain::SVC_JOURNAL,
};

#[derive(Debug, Subcommand)]
pub enum JournalCommand {
    /// Copies the journal into a new file and checks the copy; the server may run meanwhile.
    Backup {
        /// The new file.
        copy: String,
        /// The journal; SVC_JOURNAL by default.
        #[arg(long)]
        journal: Option<String>,
    },
    /// Checks every row of the journal; the server may run meanwhile.
    Verify {
        /// The journal; SVC_JOURNAL by default.
        journal: Option<String>,
    },
}

pub async fn run(command: JournalCommand, as_json: bool) -> anyhow::Result<()> {
    let file = |named: Option<String>| {
        named.or_else(|| ProcessEnvironment.get(SVC_JOURNAL.key())).context("name the journal, or set SVC_JOURNAL")
    };
    let report = match command {
        JournalCommand::Backup { copy, journal } => back_up_journal(&file(journal)?, &copy).await?,
        JournalCommand::Verify { journal } => verify_journal(&file(journal)?).await?,
    };
    print_content(&serde_json::to_value(report)?, OutputForm::chosen(as_json, false))
}
