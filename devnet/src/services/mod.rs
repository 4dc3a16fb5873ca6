//! Services of a scenario: DIDs, keys, documents and credentials, served over HTTP on loopback. Some are trusted; others are
//! untrusted, one for each reason.
//!
//! [`ServiceSpec`] is their part of the scenario file, `provisioner` creates them with transactions of the scenario, and
//! [`DevnetServices`] serves them. Tests can replace pages, documents and presentations while the devnet runs.

mod claims;
mod credential;
mod did_log;
mod error;
pub(crate) mod first_form;
mod first_log;
mod identity;
mod page_server;
mod provisioner;
mod running;

pub use crate::scenario::{
    AnchorTiming, CredentialFormat, CredentialSpec, DidServiceSpec, EcosystemSpec, ExpectedVerdict, HolderOnboarding,
    IntendedFlaw, IssuerOnboarding, IssuerSpec, ParticipantOutcome, ProvisioningPhase, SchemaSpec, ServiceDidMethod,
    ServiceForm, ServiceSpec,
};
pub use did_log::DidLogWriteError;
pub use error::ServicesError;
pub use identity::{MAIN_KEY_LABEL, SECOND_KEY_LABEL, ServiceIdentity, verification_method};
pub use page_server::{DID_LOG_CONTENT_TYPE, JSON_CONTENT_TYPE, PageAnswers, StaticPage};
pub(crate) use provisioner::ServiceProvisioner;
pub(crate) use running::StoredServices;
pub use running::{DevnetService, DevnetServices, presentation_path, schema_path};
