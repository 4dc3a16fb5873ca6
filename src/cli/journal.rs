//! `svc journal`: a copy of the journal and a check of every row, also beside a running server, and its rebase on another history of the
//! chain.

use anyhow::Context;
use clap::Subcommand;
use serde::Serialize;
use svc_net::upstream::NodeClient;
use svc_pipeline::{back_up_journal, check_encryption, rebase_journal, verify_journal};

use super::output::{OutputForm, print_content};
use crate::{
    config::{Environment, JournalNode, ProcessEnvironment, read_journal_node},
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
    /// Abandons the writes above a height, whose blocks the chain does not have any more, so that the server signs again. The server must be
    /// stopped. One that was interrupted is repeated; a repetition changes nothing.
    Rebase {
        /// Newest height to keep: one at which the chain still has its block; 0 when the chain was started once more.
        #[arg(long, value_name = "HEIGHT")]
        to: u64,
        /// The journal; SVC_JOURNAL by default.
        #[arg(long)]
        journal: Option<String>,
    },
}

pub async fn run(command: JournalCommand, as_json: bool) -> anyhow::Result<()> {
    let file = |named: Option<String>| {
        named.or_else(|| ProcessEnvironment.get(SVC_JOURNAL.key())).context("name the journal, or set SVC_JOURNAL")
    };
    match command {
        JournalCommand::Backup { copy, journal } => print(&back_up_journal(&file(journal)?, &copy).await?, as_json),
        JournalCommand::Verify { journal } => print(&verify_journal(&file(journal)?).await?, as_json),
        JournalCommand::Rebase { to, journal } => {
            let file = file(journal)?;
            let JournalNode { origins, allows_plaintext } = read_journal_node(&ProcessEnvironment)?;
            check_encryption(&origins, allows_plaintext).await?;
            let node = NodeClient::new(&origins)?;
            node.select_current(Some(0)).await;
            print(&rebase_journal(&file, &node, to).await?, as_json)
        }
    }
}

fn print(report: &impl Serialize, as_json: bool) -> anyhow::Result<()> {
    print_content(&serde_json::to_value(report)?, OutputForm::chosen(as_json, false))
}
