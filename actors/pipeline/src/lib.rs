//! The write pipeline of one account on a Cosmos SDK chain: from an encoded message to an outcome that blocks prove.
//!
//! A [`Pipeline`] simulates, signs, records, broadcasts and confirms transactions of one key. It signs on consecutive sequences
//! without waiting for blocks; every transaction is in the journal before it is sent; a transaction in doubt is sent again with the
//! same bytes; a write is signed again only after the chain has decided that its transaction never executes. Its actors are
//! supervised, and any ractor actor can supervise the pipeline.
//!
//! It is no client for queries, and it knows no indexer, no agent, no MCP and no module of a registry: its errors are typed, and
//! words for people are the embedder's. It signs for one account; an embedder with two accounts runs two pipelines, each with a
//! journal of its own.
//!
//! The decisions of the pipeline work without a network:
//!
//! ```
//! use svc_pipeline::{EncodedMessage, FeeBudget, WriteHandle, WriteOrigin, WriteReporter, WriteStatus};
//!
//! let message = EncodedMessage {
//!     message: prost_types::Any { type_url: "/cosmos.bank.v1beta1.MsgSend".to_owned(), value: vec![] },
//!     needs_grant: false,
//! };
//! assert_eq!(message.digest().len(), 64);
//! assert!(FeeBudget::UpTo(5_000).covers(3_750));
//!
//! // Callers watch one status from the queue to the answer. `Pipeline::execute` returns such a handle.
//! let (reporter, handle): (WriteReporter<u32>, WriteHandle<u32>) = WriteReporter::new();
//! reporter.report(WriteStatus::InFlight { hash: "AB".to_owned(), timeout_height: 20 });
//! assert!(matches!(handle.status(), WriteStatus::InFlight { timeout_height: 20, .. }));
//! # let _ = WriteOrigin::embedder("example");
//! ```

mod chain;
mod config;
mod confirmer;
mod decided_write;
mod estimate;
mod history;
mod journal;
mod known_history;
mod node_link;
mod pipeline;
mod rebase;
mod recovery;
mod restoration;
mod signer;
mod write;
mod write_task;

pub use chain::{
    account::{AccountIdentity, AccountState, query_account, query_balance},
    discovery::{
        ChainExpectation, DiscoveryError, PlaintextNode, RegistryChain, SetGasPrice, check_encryption, describe_index,
        discover_chain,
    },
    fee_allowance::{FeeAllowance, query_fee_allowance},
    gas_price::GasPriceWatch,
    head::query_head,
    node_release::{NodeRelease, ReleaseWatch},
    params::{ChainParams, query_bond_denom},
};
pub use config::PipelineConfig;
pub use confirmer::core::describe_heights;
pub use decided_write::{DecidedWrite, WriteTimes};
pub use estimate::{EstimateError, TxEstimate};
pub use journal::{
    JournalHandle,
    core::RecoverySummary,
    error::{JournalError, JournalLoss, RecoveryError},
    health::JournalFailure,
    inspection::{JournalReport, back_up_journal, verify_journal},
    record::JournalRecord,
    store::JournalPlace,
};
pub use known_history::{BlockPin, ChainChange, RebaseRefusal};
pub use pipeline::{Pipeline, PipelineError, PipelineParts, WriteAnswer};
pub use rebase::{JournalRebase, PlannedRebase, RebaseError, find_chain_change, plan_rebase, rebase_journal};
pub use recovery::RecoveredJournal;
pub use signer::{SignerHandle, TextSignature, window::WindowBound};
pub use svc_net::upstream::{BlockClock, BlockHead};
pub use write::{
    error::{SubmitError, WriteError, WriteFailure},
    fee::{Ceiling, CeilingExceeded, FeeBudget, FeeGranter, FeeLimits, FeePolicy, decimal_price},
    in_flight::{InFlightTable, InFlightTx},
    intent::{DEFAULT_PRINCIPAL, WriteIntent, WriteOrigin},
    message::EncodedMessage,
    outcome::{TxRefusal, WriteOutcome},
    policy::{OwnAccount, SigningPolicy},
    status::{WriteHandle, WriteReporter, WriteStatus, WriteStopped},
    submission::SubmittedTx,
};
pub use write_task::{WriteActors, WriteTask};
