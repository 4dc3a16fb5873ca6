//! All of the ledger's state at one height.

use prost_types::Any;
use svc_wire::proto::{
    cosmos::{
        auth::v1beta1::BaseAccount,
        group::v1::{GroupInfo, GroupMember, GroupPolicyInfo, Proposal, Vote},
    },
    svc::{
        co::v1::Corporation,
        de::v1::{FeeGrant, OperatorAuthorization, VsOperatorAuthorization},
        ec::v1::Ecosystem,
        gf::v1::{GovernanceFrameworkDocument, GovernanceFrameworkVersion},
    },
};

use super::table::{Plain, Table};

/// State after a block. Cloning shares everything.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub(super) accounts: Table<String, BaseAccount>,
    pub(super) next_account_number: u64,
    /// (address, denom) to amount.
    pub(super) balances: Table<(String, String), Plain<u128>>,
    pub(super) supply: Table<String, Plain<u128>>,
    /// (granter, grantee) to the allowance.
    pub(super) allowances: Table<(String, String), Any>,
    pub(super) groups: Table<u64, GroupInfo>,
    pub(super) group_members: Table<(u64, String), GroupMember>,
    pub(super) group_policies: Table<String, GroupPolicyInfo>,
    pub(super) proposals: Table<u64, Proposal>,
    pub(super) votes: Table<(u64, String), Vote>,
    pub(super) next_group: u64,
    pub(super) next_group_policy: u64,
    pub(super) next_proposal: u64,
    pub(super) corporations: Table<u64, Corporation>,
    pub(super) corporation_by_address: Table<String, Plain<u64>>,
    pub(super) corporation_by_did: Table<String, Plain<u64>>,
    pub(super) next_corporation: u64,
    pub(super) ecosystems: Table<u64, Ecosystem>,
    pub(super) next_ecosystem: u64,
    pub(super) versions: Table<u64, GovernanceFrameworkVersion>,
    pub(super) documents: Table<u64, GovernanceFrameworkDocument>,
    pub(super) next_version: u64,
    pub(super) next_document: u64,
    pub(super) operator_authorizations: Table<u64, OperatorAuthorization>,
    /// (corporation id, operator) to authorization id.
    pub(super) authorization_index: Table<(u64, String), Plain<u64>>,
    pub(super) next_authorization: u64,
    pub(super) vs_authorizations: Table<u64, VsOperatorAuthorization>,
    pub(super) fee_grants: Table<(u64, String), FeeGrant>,
}

/// Takes the next id of a counter that starts at 1.
pub(super) fn next(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter
}
