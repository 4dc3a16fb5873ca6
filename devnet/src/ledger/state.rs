//! All of the ledger's state at one height.

use prost_types::Any;
use sha2::{Digest as _, Sha256};
use svc_wire::proto::{
    cosmos::{
        auth::v1beta1::BaseAccount,
        bank::v1beta1::Metadata,
        gov,
        group::v1::{GroupInfo, GroupMember, GroupPolicyInfo, Proposal, Vote},
    },
    svc::{
        co::v1::Corporation,
        cs::v1::{CredentialSchema, SchemaAuthorizationPolicy},
        de::v1::{FeeGrant, OperatorAuthorization, VsOperatorAuthorization},
        di::v1::Digest,
        ec::v1::Ecosystem,
        gf::v1::{GovernanceFrameworkDocument, GovernanceFrameworkVersion},
        pp::v1::{Participant, ParticipantSession},
        td::v1::TrustDeposit,
        xr::v1::{ExchangeRate, ExchangeRateAuthorization},
    },
};

use super::{
    decimal::Dec,
    params::Params,
    table::{Plain, Stored, Table},
};

/// Declares the state and its hash in one place, so that no part of it can be left out of the hash.
macro_rules! state {
    (
        tables { $($(#[$table_doc:meta])* $table:ident: $kind:ty,)* }
        counters { $($counter:ident,)* }
    ) => {
        /// State after a block. Cloning shares everything.
        #[derive(Debug, Clone, Default)]
        pub struct State {
            $($(#[$table_doc])* pub(super) $table: $kind,)*
            $(pub(super) $counter: u64,)*
            pub(super) params: Params,
            /// What was left over when yield was last distributed.
            pub(super) yield_dust: Dec,
        }

        impl State {
            /// Hash of everything: equal states have equal hashes, whatever led to them.
            pub fn hash(&self) -> [u8; 32] {
                let mut hasher = Sha256::new();
                $(self.$table.hash(&mut hasher);)*
                $(hasher.update(self.$counter.to_be_bytes());)*
                self.params.hash(&mut hasher);
                hasher.update(self.yield_dust.to_wire());
                hasher.finalize().into()
            }
        }
    };
}

state! {
    tables {
        accounts: Table<String, BaseAccount>,
        /// (address, denom) to amount.
        balances: Table<(String, String), Plain<u128>>,
        supply: Table<String, Plain<u128>>,
        denoms: Table<String, Metadata>,
        /// (granter, grantee) to the allowance.
        allowances: Table<(String, String), Any>,
        groups: Table<u64, GroupInfo>,
        group_members: Table<(u64, String), GroupMember>,
        group_policies: Table<String, GroupPolicyInfo>,
        proposals: Table<u64, Proposal>,
        votes: Table<(u64, String), Vote>,
        /// Bonded stake, which votes on governance proposals. Given at genesis: the devnet has no delegation.
        bonded: Table<String, Plain<u128>>,
        gov_proposals: Table<u64, gov::v1::Proposal>,
        gov_votes: Table<(u64, String), gov::v1::Vote>,
        /// (proposal, depositor and denom) to amount.
        gov_deposits: Table<(u64, (String, String)), Plain<u128>>,
        corporations: Table<u64, Corporation>,
        corporation_by_address: Table<String, Plain<u64>>,
        corporation_by_did: Table<String, Plain<u64>>,
        ecosystems: Table<u64, Ecosystem>,
        /// (DID, ecosystem) to corporation.
        ecosystem_by_did: Table<(String, u64), Plain<u64>>,
        versions: Table<u64, GovernanceFrameworkVersion>,
        /// (corporation or 0, ecosystem or 0, version number) to version id.
        version_index: Table<[u64; 3], Plain<u64>>,
        documents: Table<u64, GovernanceFrameworkDocument>,
        /// (version id, document id).
        document_index: Table<[u64; 2], Plain<()>>,
        schemas: Table<u64, CredentialSchema>,
        schema_policies: Table<u64, SchemaAuthorizationPolicy>,
        participants: Table<u64, Participant>,
        /// (schema, role, validator, corporation, participant): what overlap and repetition are looked for in.
        participant_context: Table<[u64; 5], Plain<()>>,
        /// (DID, participant) to corporation.
        participant_by_did: Table<(String, u64), Plain<u64>>,
        sessions: Table<String, ParticipantSession>,
        trust_deposits: Table<u64, TrustDeposit>,
        operator_authorizations: Table<u64, OperatorAuthorization>,
        /// (corporation id, operator) to authorization id.
        authorization_index: Table<(u64, String), Plain<u64>>,
        vs_authorizations: Table<u64, VsOperatorAuthorization>,
        /// VS operator to (corporation, authorization): it serves one corporation only.
        vs_operator_index: Table<String, Plain<[u64; 2]>>,
        /// Participant to VS operator authorization.
        vs_participant_index: Table<u64, Plain<u64>>,
        fee_grants: Table<(u64, String), FeeGrant>,
        digests: Table<String, Digest>,
        rates: Table<u64, ExchangeRate>,
        /// (base type, base, quote type, quote) to rate id.
        rate_index: Table<(i32, String, i32, String), Plain<u64>>,
        /// (rate, operator).
        rate_authorizations: Table<(u64, String), ExchangeRateAuthorization>,
    }
    counters {
        next_account_number,
        next_group,
        next_group_policy,
        next_proposal,
        next_gov_proposal,
        next_corporation,
        next_ecosystem,
        next_version,
        next_document,
        next_schema,
        next_schema_policy,
        next_participant,
        next_authorization,
        next_vs_authorization,
        next_rate,
    }
}

impl Params {
    fn hash(&self, hasher: &mut Sha256) {
        for part in [self.ec.stored(), self.cs.stored(), self.pp.stored(), self.td.stored(), self.xr.stored()] {
            hasher.update(part.len().to_be_bytes());
            hasher.update(part);
        }
        hasher.update(self.gov.stored());
    }
}

/// Takes the next id of a counter that starts at 1.
pub(super) fn next(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter
}
