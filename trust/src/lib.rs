//! The evaluation of trust: whether a DID is trusted, and why.
//!
//! A verdict follows from the DID Document, the presentations it links to, the proofs and schemas of their credentials, and the
//! participants and digests in the registry. The crate also signs documents ([`proof`]) and computes digests ([`digest`]).
//! Tokens and presentations by which peers call endpoints are made and verified in [`access`].
//!
//! This crate is no resolver and no client. It opens no connection and reads no clock: an evaluation reports the evidence that
//! it needs, the caller fetches it and evaluates again.
//!
//! ```
//! use std::sync::Arc;
//!
//! use serde_json::json;
//! use svc_trust::{EssentialSchemas, EvaluationRules, Evidence, EvidenceRequest, RejectionCode, evaluate_did};
//!
//! let rules = EvaluationRules {
//!     schema_prefix: "vpr:svc:net-1:cs:".into(),
//!     essential_schemas: EssentialSchemas::default().in_ecosystems(["did:web:ecosystem.example".to_owned()]),
//!     now: 1_767_225_600_000_000_000,
//! };
//! let mut evidence = Evidence::default();
//! let missing = evaluate_did("did:web:a.example", &evidence, &rules);
//! assert_eq!(missing, Err([EvidenceRequest::Document("did:web:a.example".into())].into()));
//!
//! evidence.documents.insert("did:web:a.example".into(), Ok(Arc::new(json!({"id": "did:web:a.example"}))));
//! let verdict = evaluate_did("did:web:a.example", &evidence, &rules).expect("complete evidence");
//! assert!(!verdict.is_trusted());
//! assert_eq!(verdict.reasons[0].code, RejectionCode::NoPresentation);
//! ```

pub mod access;
mod documents;
mod evaluation;
mod evidence;
mod evidence_request;
pub mod issuance;
pub mod proof;
mod rejection;
mod schemas;
mod verdict;

pub use documents::{did_document, digest};
pub use evaluation::{
    CredentialError, EvaluationRules, authorize_holder, authorize_issuer, evaluate_credential, evaluate_did,
};
pub use evidence::{Evidence, EvidenceFailure, RegistryParticipant, RegistrySchema, TransientCause, VerificationCache};
pub use evidence_request::EvidenceRequest;
pub use rejection::{RejectionCode, RejectionReason};
pub use schemas::essential_schema::{self, EssentialCredential, EssentialSchemaError, EssentialSchemas};
pub use schemas::schema_validation::{SchemaViolation, credential_violations};
pub use verdict::{AcceptedCredential, PresentationSummary, TrustPattern, TrustVerdict};
