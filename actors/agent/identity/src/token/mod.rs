//! The token issuer: logins of accounts to the admin API.
//!
//! It owns the presented nonces and the tokens, in memory only. Front ends ask it. A challenge stores nothing, so that strangers'
//! challenges cannot push out a login: the nonce carries its time and a MAC with a key of this incarnation. A presented nonce is never
//! redeemed again. Tokens are kept as hashes. When it dies, every nonce and token ends; callers log in again.

mod actor;
mod core;
#[cfg(test)]
mod tests;

use svc_agent_core::error::Refusal;
use svc_kit::{AskError, CallError, Handle, ReplyPort, impl_actor_message, supervision::ChildSpec};
use svc_wire::secret::SecretString;

pub use self::core::{LoginChallenge, LoginProof, LoginRules, TokenCheck};
use actor::TokenIssuer;

/// A token that was issued.
pub struct AccessToken {
    /// The token.
    pub value: SecretString,
    /// End of its validity, seconds since the epoch.
    pub expires_at: i64,
}

/// Messages that may wait.
const MAILBOX: usize = 1_024;

/// Messages of the token issuer.
pub enum Msg {
    /// Makes a challenge for an account.
    Challenge {
        /// The account.
        account: String,
        /// The answer.
        reply: ReplyPort<Result<LoginChallenge, Refusal>>,
    },
    /// Exchanges a signed challenge for a token.
    Redeem {
        /// The signed challenge.
        proof: LoginProof,
        /// The answer.
        reply: ReplyPort<Result<AccessToken, Refusal>>,
    },
    /// Looks a token up.
    Check {
        /// The token.
        token: SecretString,
        /// The answer.
        reply: ReplyPort<TokenCheck>,
    },
}

impl_actor_message!(Msg { Challenge, Redeem, Check });

/// The address of the token issuer.
#[derive(Clone)]
pub struct TokenIssuerHandle(Handle<Msg>);

impl TokenIssuerHandle {
    /// Returns the address, and the child specification that starts the actor.
    pub fn child_spec(rules: LoginRules) -> (Self, ChildSpec) {
        let handle = Handle::new("token_issuer", "token_issuer", MAILBOX);
        let child = ChildSpec::worker::<TokenIssuer>(&handle, rules);
        (Self(handle), child)
    }

    /// Makes a challenge for an account; never says whether the account may log in.
    pub async fn challenge(&self, account: String) -> Result<LoginChallenge, CallError<Refusal>> {
        self.0.ask(|reply| Msg::Challenge { account, reply }).await?.map_err(CallError::Refused)
    }

    /// Exchanges a signed challenge for a token.
    pub async fn redeem(&self, proof: LoginProof) -> Result<AccessToken, CallError<Refusal>> {
        self.0.ask(|reply| Msg::Redeem { proof, reply }).await?.map_err(CallError::Refused)
    }

    /// Looks a token up.
    pub async fn check(&self, token: SecretString) -> Result<TokenCheck, AskError> {
        self.0.ask(|reply| Msg::Check { token, reply }).await
    }
}
