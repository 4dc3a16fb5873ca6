//! The state of the ledger at one height.

pub mod keys;
pub mod table;

use prost_types::Any;
use sha2::{Digest as _, Sha256};
use svc_wire::{
    proto::{
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
    },
    proto_registry::NodeGeneration,
};

use self::keys::{DocumentKey, ParticipantContextKey, RatePairKey, VersionKey, VsOperatorEntry};
use crate::{
    params::ModuleParams,
    state::table::{PlainValue, StateTable, StoredValue},
    values::decimal::LegacyDec,
};

/// Declares the state and its hash in one place, so that the hash covers every table.
macro_rules! state {
    (
        tables { $($(#[$table_doc:meta])* $table:ident: $kind:ty,)* }
        counters { $($counter:ident,)* }
    ) => {
        /// The state after a block. A clone shares its structure with the original.
        #[derive(Debug, Clone, Default)]
        pub struct LedgerState {
            $($(#[$table_doc])* pub(crate) $table: $kind,)*
            $(pub(crate) $counter: u64,)*
            pub(crate) params: ModuleParams,
            /// Fraction of a coin that the last yield distribution left over.
            pub(crate) yield_dust: LegacyDec,
        }

        impl LedgerState {
            /// Returns the application hash. Equal states have equal hashes, independent of their history.
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
        accounts: StateTable<String, BaseAccount>,
        /// (address, denom) to amount.
        balances: StateTable<(String, String), PlainValue<u128>>,
        supply: StateTable<String, PlainValue<u128>>,
        denoms: StateTable<String, Metadata>,
        /// (granter, grantee) to the allowance.
        allowances: StateTable<(String, String), Any>,
        groups: StateTable<u64, GroupInfo>,
        group_members: StateTable<(u64, String), GroupMember>,
        group_policies: StateTable<String, GroupPolicyInfo>,
        proposals: StateTable<u64, Proposal>,
        votes: StateTable<(u64, String), Vote>,
        /// Address to bonded stake, the weight of its governance votes. Set at genesis, and by a council: the devnet has no delegation.
        bonded: StateTable<String, PlainValue<u128>>,
        gov_proposals: StateTable<u64, gov::v1::Proposal>,
        gov_votes: StateTable<(u64, String), gov::v1::Vote>,
        /// (proposal, depositor and denom) to amount.
        gov_deposits: StateTable<(u64, (String, String)), PlainValue<u128>>,
        corporations: StateTable<u64, Corporation>,
        corporation_by_address: StateTable<String, PlainValue<u64>>,
        corporation_by_did: StateTable<String, PlainValue<u64>>,
        ecosystems: StateTable<u64, Ecosystem>,
        /// (DID, ecosystem) to corporation.
        ecosystem_by_did: StateTable<(String, u64), PlainValue<u64>>,
        versions: StateTable<u64, GovernanceFrameworkVersion>,
        /// Owner and version number to version id.
        version_index: StateTable<VersionKey, PlainValue<u64>>,
        documents: StateTable<u64, GovernanceFrameworkDocument>,
        document_index: StateTable<DocumentKey, PlainValue<()>>,
        schemas: StateTable<u64, CredentialSchema>,
        schema_policies: StateTable<u64, SchemaAuthorizationPolicy>,
        participants: StateTable<u64, Participant>,
        participant_context: StateTable<ParticipantContextKey, PlainValue<()>>,
        /// (DID, participant) to corporation.
        participant_by_did: StateTable<(String, u64), PlainValue<u64>>,
        sessions: StateTable<String, ParticipantSession>,
        trust_deposits: StateTable<u64, TrustDeposit>,
        operator_authorizations: StateTable<u64, OperatorAuthorization>,
        /// (corporation id, operator) to authorization id.
        authorization_index: StateTable<(u64, String), PlainValue<u64>>,
        vs_authorizations: StateTable<u64, VsOperatorAuthorization>,
        /// VS operator to corporation and authorization.
        vs_operator_index: StateTable<String, PlainValue<VsOperatorEntry>>,
        /// Participant to VS operator authorization.
        vs_participant_index: StateTable<u64, PlainValue<u64>>,
        fee_grants: StateTable<(u64, String), FeeGrant>,
        digests: StateTable<String, Digest>,
        rates: StateTable<u64, ExchangeRate>,
        /// Pair to rate id.
        rate_index: StateTable<RatePairKey, PlainValue<u64>>,
        /// (rate, operator).
        rate_authorizations: StateTable<(u64, String), ExchangeRateAuthorization>,
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

impl ModuleParams {
    fn hash(&self, hasher: &mut Sha256) {
        for part in [
            self.ec.stored_bytes(),
            self.cs.stored_bytes(),
            self.pp.stored_bytes(),
            self.td.stored_bytes(),
            self.xr.stored_bytes(),
        ] {
            hasher.update(part.len().to_be_bytes());
            hasher.update(part);
        }
        hasher.update(self.gov.stored_bytes());
    }
}

impl LedgerState {
    /// An empty state with the parameters of a generation.
    pub(crate) fn of_generation(generation: NodeGeneration) -> Self {
        Self { params: ModuleParams::of_generation(generation), ..Self::default() }
    }
}

/// Increments a counter and returns its value; the first id is 1.
pub(crate) fn next_id(counter: &mut u64) -> u64 {
    *counter += 1;
    *counter
}
