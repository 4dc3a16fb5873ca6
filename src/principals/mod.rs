//! The principals of a tool server: the programs and people that hold a token, and the rights of each.
//!
//! A [`TokenVerifier`] finds the principal of a token. The tokens of the configuration and of SVC_PRINCIPALS are one verifier
//! ([`PrincipalDirectory`]), access tokens of an OAuth issuer another one ([`OauthVerifier`]), and those
//! of an agent for its peers a third ([`PeerVerifier`]); an [`Authenticator`] asks one after the other.
//! A right token is never slowed; wrong ones are, by the address that they come from.

mod authenticator;
mod directory;
mod file;
mod oauth;
mod peer;
mod principal;
mod throttle;

pub use authenticator::{Authenticator, TokenRejection, TokenVerdict, TokenVerifier};
pub use directory::{DirectoryError, PrincipalDirectory};
pub use file::token_digest;
pub use oauth::{OauthConfig, OauthVerifier, verify_access_token};
pub use peer::{PeerConfig, PeerVerifier};
pub use principal::{Principal, PrincipalRights, ToolFacts};
pub use throttle::WrongTokenThrottle;
