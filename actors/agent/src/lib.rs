//! The agent of one corporation and one DID: its DID Document and the log of its versions, logins to its admin API, and the registry
//! events that it delivers to a backend.
//!
//! This crate is no HTTP server: a front end parses requests, asks a handle and shapes the answer. Each actor has a folder; the
//! decisions are in code without I/O and clock.

mod access;
mod access_asker;
mod access_granter;
mod account_write;
mod boot;
mod chain_link;
mod courier;
mod credentials;
mod delivery;
pub mod document;
mod error;
mod flow_directory;
mod flow_session;
mod flows;
mod grant;
mod identity;
mod journal_key;
mod keeper;
pub mod log;
mod notification;
mod participant;
mod peer_directory;
mod peer_session;
mod peer_tag;
mod peers;
mod registry;
mod resolution;
mod rotation;
mod setup;
mod store;
mod store_guard;
mod token;
mod trust_watch;
mod watcher;

pub use access::{AccessSettings, AccessTerms, TermsFileError};
pub use access_granter::AccessGranterHandle;
pub use boot::{Agent, AgentBootError, AgentConfig, EventsConfig, OtherPublicLog};
pub use chain_link::{AnchorForm, ChainAccess, ChainConfig, ChainError, ChainLinkHandle, ChainLinkState, OlderStore};
pub use courier::{CourierConfig, CourierHandle, InvalidWebhookSecret, WebhookSecrets};
pub use credentials::{
    CLAIM_PLACES, CLAIMS_FILE, ClaimProblem, ClaimSettings, ConfiguredClaims, CredentialAnswer, CredentialHandle,
    CredentialMode, CredentialSettings, IssueRequest, OWN_DID, PassReport, PublishedProofs, check_claim_texts,
    document_digest,
};
pub use delivery::DeliveryHandle;
pub use error::{AgentPart, DenialDetails, Refusal, RefusalCode, Violation};
pub use flows::{
    FlowCall, FlowFormat, FlowRequest, FlowService, FlowSettings, FlowStateChange, PublishedSchemas, ShownFlow,
    ValidationTerms,
};
pub use grant::{AgentAccount, AgentGrant, BlockedReason, RegistryEnd, WantedGrant, read_ends, read_grant};
pub use identity::{DidMethod, PublicLocation};
pub use keeper::{
    BoundDistance, DocumentError, KeeperHandle, LogRecoveryError, PublishedDocument, PublishedFile, RecoveredLog,
    recover_log,
};
pub use notification::{Notification, NotificationMaker};
pub use peers::{
    GrantPresentation, InvitationRequest, PeerAccessRequest, PeerAdmission, PeerEndpoint, PeerResolution, PeerService,
    PeerSettings, PeerTransport, SentInvitation,
};
pub use resolution::{ResolutionHandle, ResolutionPhase, ResolutionReport};
pub use rotation::{RotationAnswer, RotationHandle, RotationKind, RotationPauses, RotationRequest};
pub use setup::{Setup, SetupOptions, SetupStep, StepActor, StepState};
pub use store::{
    AccessGrantFilter, AgentStore, AgentStoreError, BasicMessageFilter, BlockEvents, ConnectionFilter, ConnectionRole,
    CredentialKind, CredentialState, DeadLetter, EventGap, ExchangeFilter, ExchangeState, ExportError, FlowFilter,
    GrantState, HeadFile, ImportError, ImportReport, MessageRole, OutboxEvent, OutboxSizes, PublishedHead,
    ResolutionProgress, RotationPhase, SealingError, StoreExport, StoreKey, StoreKeys, StoreSettings,
    StoredBasicMessage, StoredChain, StoredConnection, StoredCredential, StoredExchange, StoredGrant, Verdict,
    has_export_end, import_store,
};
pub use svc_didcomm::{
    flow::{ConnectionState as FlowConnectionState, CredentialTerms, FlowState, Side as FlowSide},
    protocol::{
        PROTOCOLS,
        endpoint_access::{AccessGrant as PeerGrant, GrantedMaterial, MaterialSecret},
    },
};
pub use token::{AccessToken, LoginChallenge, LoginProof, LoginRules, TokenCheck, TokenIssuerHandle};
pub use watcher::{HandledEvents, WatcherHandle, WatcherState};
