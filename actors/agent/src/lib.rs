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
mod flow_directory;
mod flow_session;
mod flows;
mod gate;
mod grant;
mod identity;
mod keeper;
pub mod log;
mod peer_directory;
mod peer_session;
mod peers;
mod registry;
mod resolution;
mod rotation;
mod setup;
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
pub use flows::{
    FlowCall, FlowFormat, FlowRequest, FlowService, FlowSettings, FlowStateChange, PublishedSchemas, ShownFlow,
};
pub use grant::{AgentGrant, RegistryEnd, read_ends, read_grant};
pub use identity::{DidMethod, PublicLocation};
pub use keeper::{
    BoundDistance, DocumentError, KeeperHandle, LogRecoveryError, PublishedDocument, PublishedFile, RecoveredLog,
    recover_log,
};
pub use peers::{
    GrantPresentation, InvitationRequest, PeerAccessRequest, PeerAdmission, PeerEndpoint, PeerResolution, PeerService,
    PeerSettings, PeerTransport, SentInvitation,
};
pub use resolution::{ResolutionHandle, ResolutionPhase, ResolutionReport};
pub use rotation::{RotationAnswer, RotationHandle, RotationKind, RotationPauses, RotationRequest};
pub use setup::{Setup, SetupOptions, SetupStep, StepActor, StepState};
pub use svc_agent_core::{
    access::{GrantState, StoredGrant},
    error::{AgentPart, DenialDetails, Refusal, RefusalCode, Violation},
    flows::ValidationTerms,
    grant::{AgentAccount, BlockedReason, WantedGrant},
    notification::{Notification, NotificationMaker},
    peers::{
        BasicMessageFilter, ConnectionFilter, ConnectionRole, ExchangeFilter, ExchangeState, MessageRole,
        StoredBasicMessage, StoredConnection, StoredExchange, Verdict,
    },
};
pub use svc_agent_store::{
    AccessGrantFilter, AgentStore, AgentStoreError, BlockEvents, CredentialKind, CredentialState, DeadLetter, EventGap,
    ExportError, FlowFilter, HeadFile, ImportError, ImportReport, OutboxEvent, OutboxSizes, PublishedHead,
    ResolutionProgress, RotationPhase, SealingError, StoreExport, StoreKey, StoreKeys, StoreSettings, StoredChain,
    StoredCredential, has_export_end, import_store,
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
