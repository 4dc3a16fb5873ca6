//! Surface `wallet`: the accounts, authorizations and state of this server. Its tools answer from the published snapshot, which
//! is read again where the session has written since.

use super::{
    definition::ToolDefinition,
    table::{CatalogError, ToolRow},
};
use crate::tools::{TableError, ToolEffect, read_table};

/// A tool of the wallet surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletTool {
    /// The operator account.
    GetAddress,
    /// The bound corporation.
    GetCorporation,
    /// The authorizations of the operator.
    ListAuthorizations,
    /// The agents of the corporation.
    ListVsAgents,
    /// The state of links, actors and caches.
    GetStatus,
    /// Search of the tools by purpose.
    FindTools,
}

/// The tool that calls reading tools that are not listed. Its answers are theirs.
const READ_TOOL: &str = "svc.wallet.readTool";

/// The tools; `None` for the one that calls others.
pub(super) fn tools() -> Result<Vec<(ToolDefinition, Option<WalletTool>)>, CatalogError> {
    let rows: Vec<ToolRow> = read_table("wallet", include_str!("data/wallet.json"))?;
    rows.into_iter()
        .map(|row| {
            if row.name == READ_TOOL {
                return Ok((row.into_definition(ToolEffect::Reads), None));
            }
            let tool = match row.name.as_str() {
                "svc.wallet.getAddress" => WalletTool::GetAddress,
                "svc.wallet.getCorporation" => WalletTool::GetCorporation,
                "svc.wallet.listAuthorizations" => WalletTool::ListAuthorizations,
                "svc.wallet.listVSAgents" => WalletTool::ListVsAgents,
                "svc.wallet.getStatus" => WalletTool::GetStatus,
                "svc.wallet.findTools" => WalletTool::FindTools,
                other => {
                    return Err(CatalogError::Table(TableError {
                        surface: "wallet",
                        reason: format!("no tool {other}"),
                    }));
                }
            };
            Ok((row.into_definition(ToolEffect::Reads), Some(tool)))
        })
        .collect()
}
