//! The agent of one corporation and one DID: its DID Document and the log of its versions, logins to its admin API, and the registry
//! events that it delivers to a backend.
//!
//! This crate is no HTTP server: a front end parses requests, asks a handle and shapes the answer. Each actor has a folder; the
//! decisions are in code without I/O and clock. The subjects are crates below this one, which names all that a program may use of them.

mod boot;
mod watcher;

pub use boot::{
    Agent, AgentBootError, AgentConfig, AgentRebase, AgentRebaseError, EventsConfig, OtherPublicLog, rebase_agent,
};
pub use svc_agent_core::{
    access::{GrantState, StoredGrant},
    error::{AgentPart, DenialDetails, Refusal, RefusalCode, Violation},
    flows::ValidationTerms,
    grant::{AgentAccount, BlockedReason, SIGNED_MESSAGES, WantedGrant},
    notification::{Notification, NotificationMaker},
    peers::{
        BasicMessageFilter, ConnectionFilter, ConnectionRole, ExchangeFilter, ExchangeState, MessageRole,
        StoredBasicMessage, StoredConnection, StoredExchange, Verdict,
    },
};
pub use svc_agent_flows::{
    FlowCall, FlowFormat, FlowRequest, FlowService, FlowSettings, FlowStateChange, PublishedSchemas, ShownFlow,
};
pub use svc_agent_identity::{
    DidMethod, PublicLocation,
    chain_link::{AnchorForm, ChainAccess, ChainConfig, ChainError, ChainLinkHandle, ChainLinkState, OlderStore},
    credential_settings::{
        CLAIM_PLACES, CLAIMS_FILE, ClaimProblem, ClaimSettings, ConfiguredClaims, CredentialMode, CredentialSettings,
        OWN_DID, PublishedProofs, check_claim_texts,
    },
    credentials::{CredentialAnswer, CredentialHandle, IssueRequest, PassReport, document_digest},
    document,
    grant::{AgentGrant, GrantError, RegistryEnd, read_ends, read_grant},
    keeper::{
        BoundDistance, DocumentError, KeeperHandle, LogRecoveryError, PublishedDocument, PublishedFile, RecoveredLog,
        recover_log,
    },
    log,
    resolution::{ResolutionHandle, ResolutionPhase, ResolutionReport},
    rotation::{RotationAnswer, RotationHandle, RotationKind, RotationPauses, RotationRequest},
    setup::{Setup, SetupOptions, SetupStep, StepActor, StepState},
    token::{AccessToken, LoginChallenge, LoginProof, LoginRules, TokenCheck, TokenIssuerHandle},
};
pub use svc_agent_peers::{
    AccessGranterHandle, AccessSettings, AccessTerms, CourierConfig, CourierHandle, DeliveryHandle, GrantPresentation,
    InvalidWebhookSecret, InvitationRequest, PeerAccessRequest, PeerAdmission, PeerEndpoint, PeerResolution,
    PeerService, PeerSettings, PeerTransport, SentInvitation, TermsFileError, WebhookSecrets,
};
pub use svc_agent_store::{
    AccessGrantFilter, AgentStore, AgentStoreError, BlockEvents, CredentialKind, CredentialState, DeadLetter, EventGap,
    ExportError, FlowFilter, HeadFile, ImportError, ImportReport, OutboxEvent, OutboxSizes, PublishedHead,
    RebasedStore, ResolutionProgress, RotationPhase, SealingError, StoreExport, StoreKey, StoreKeys, StoreSettings,
    StoredChain, StoredCredential, has_export_end, import_store,
};
pub use svc_didcomm::{
    flow::{ConnectionState as FlowConnectionState, CredentialTerms, FlowState, Side as FlowSide},
    protocol::{
        PROTOCOLS,
        endpoint_access::{AccessGrant as PeerGrant, GrantedMaterial, MaterialSecret},
    },
};
pub use watcher::{HandledEvents, WatcherHandle, WatcherState};
