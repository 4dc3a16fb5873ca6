//! Surface `wallet`: what this server is and may do. Answered from the published snapshot, without asking anybody.

use super::{CatalogError, Effect, Outline, Row, table};

/// A tool of the wallet surface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalletTool {
    /// Operator account.
    GetAddress,
    /// Bound corporation.
    GetCorporation,
    /// Authorizations of the operator.
    ListAuthorizations,
    /// Agents of the corporation.
    ListVsAgents,
    /// Links, actors, caches.
    GetStatus,
    /// Tools by what they are for.
    FindTools,
}

pub(super) fn tools() -> Result<Vec<(Outline, WalletTool)>, CatalogError> {
    let rows: Vec<Row> = table("wallet", include_str!("data/wallet.json"))?;
    rows.into_iter()
        .map(|row| {
            let tool = match row.name.as_str() {
                "svc.wallet.getAddress" => WalletTool::GetAddress,
                "svc.wallet.getCorporation" => WalletTool::GetCorporation,
                "svc.wallet.listAuthorizations" => WalletTool::ListAuthorizations,
                "svc.wallet.listVSAgents" => WalletTool::ListVsAgents,
                "svc.wallet.getStatus" => WalletTool::GetStatus,
                "svc.wallet.findTools" => WalletTool::FindTools,
                other => {
                    return Err(CatalogError::Table { surface: "wallet", reason: format!("no tool {other}") });
                }
            };
            Ok((row.outline(Effect::Reads), tool))
        })
        .collect()
}
