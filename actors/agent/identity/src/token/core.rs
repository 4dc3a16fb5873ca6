//! Challenges and tokens. Pure: times and random bytes are given.

use std::collections::{BTreeSet, HashMap, VecDeque};

use base64::{
    Engine,
    engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD},
};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use svc_agent_core::error::{AgentPart, Refusal, RefusalCode};
use svc_wire::{account_key::PublicKey, address::Address, adr036};

/// Validity of a nonce and of a token, in seconds.
const NONCE_SECONDS: i64 = 120;
const TOKEN_SECONDS: i64 = 900;
/// Presented nonces that are remembered until their end.
const MAX_PRESENTED: usize = 100_000;
/// Tokens of one account.
const MAX_TOKENS_OF_ACCOUNT: usize = 32;
/// Tokens of all accounts that are not on the list: they are of no use but to be answered 403.
const MAX_TOKENS_OF_STRANGERS: usize = 10_000;
/// Begins every payload.
const PAYLOAD_PREFIX: &str = "vs-agent-admin-auth:";
/// A public key for logins without a usable one, so that they take the same time: the generator of the curve.
const ANY_KEY: [u8; 33] = [
    0x02, 0x79, 0xbe, 0x66, 0x7e, 0xf9, 0xdc, 0xbb, 0xac, 0x55, 0xa0, 0x62, 0x95, 0xce, 0x87, 0x0b, 0x07, 0x02, 0x9b,
    0xfc, 0xdb, 0x2d, 0xce, 0x28, 0xd9, 0x59, 0xf2, 0x81, 0x5b, 0x16, 0xf8, 0x17, 0x98,
];

/// The rules of logins.
#[derive(Debug, Clone)]
pub struct LoginRules {
    /// Origin of the admin API that challenges name and payloads contain; `None` takes payloads without one.
    pub audience: Option<String>,
    /// Prefix of account addresses.
    pub prefix: String,
    /// Accounts that may use the API.
    pub allowed_accounts: BTreeSet<String>,
}

/// A challenge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoginChallenge {
    /// The text to sign, with its prefix and audience.
    pub nonce: String,
    /// End of its validity, seconds since the epoch.
    pub expires_at: i64,
    /// Origin that the payload contains.
    pub audience: Option<String>,
}

/// A signed challenge.
#[derive(Debug, Clone)]
pub struct LoginProof {
    /// Account.
    pub account: String,
    /// Public key, base64.
    pub public_key: String,
    /// Signature, base64.
    pub signature: String,
    /// Nonce of the challenge.
    pub nonce: String,
}

/// The owner of a token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TokenCheck {
    /// No valid token.
    Unknown,
    /// The token of an account that may not use the API.
    NotAllowed,
    /// The token of an account that may use the API.
    Allowed(String),
}

struct Token {
    account: String,
    expires_at: i64,
}

type TokenHash = [u8; 32];

/// The nonces and tokens of one incarnation.
pub struct LoginCore {
    rules: LoginRules,
    mac_key: [u8; 32],
    presented: HashMap<[u8; 32], i64>,
    presented_order: VecDeque<([u8; 32], i64)>,
    tokens: HashMap<TokenHash, Token>,
    /// Tokens of each account on the list, the oldest first.
    by_account: HashMap<String, VecDeque<TokenHash>>,
    strangers: VecDeque<TokenHash>,
}

fn refused_login() -> Refusal {
    Refusal::new(
        RefusalCode::Unauthenticated,
        "the login failed; request a challenge and sign it with the account's key",
    )
}

impl LoginCore {
    /// Begins without tokens. `mac_key` is secret and new.
    pub fn new(rules: LoginRules, mac_key: [u8; 32]) -> Self {
        Self {
            rules,
            mac_key,
            presented: HashMap::new(),
            presented_order: VecDeque::new(),
            tokens: HashMap::new(),
            by_account: HashMap::new(),
            strangers: VecDeque::new(),
        }
    }

    /// Makes a challenge. `now` is in seconds since the epoch.
    pub fn challenge(&self, account: &str, random: [u8; 8], now: i64) -> Result<LoginChallenge, Refusal> {
        let account = Address::parse(&self.rules.prefix, account)
            .map_err(|error| Refusal::of_member(RefusalCode::InvalidInput, "account", error.to_string()))?;
        let expires_at = now + NONCE_SECONDS;
        let mut nonce = [random, expires_at.to_be_bytes()].concat();
        let mac = self.nonce_mac(&nonce, account.as_str());
        nonce.extend(mac);
        let audience = self.rules.audience.clone();
        Ok(LoginChallenge { nonce: URL_SAFE_NO_PAD.encode(nonce), expires_at, audience })
    }

    fn nonce_mac(&self, head: &[u8], account: &str) -> [u8; 16] {
        let mut first = [0; 16];
        // A key of any length is taken.
        if let Ok(mac) = Hmac::<Sha256>::new_from_slice(&self.mac_key) {
            let whole = mac.chain_update(head).chain_update(account).finalize().into_bytes();
            first.copy_from_slice(&whole[..16]);
        }
        first
    }

    /// Takes a signed challenge; returns the end of the token's validity. `token` is secret and new.
    ///
    /// Every failure takes the same work and gives the same answer, but for a memory that is full.
    pub fn redeem(&mut self, proof: &LoginProof, token: &str, now: i64) -> Result<i64, Refusal> {
        self.forget_ended(now);
        let is_own = self.present_nonce(proof, now)?;
        let account = Address::parse(&self.rules.prefix, &proof.account).ok();
        let given = STANDARD.decode(&proof.public_key).ok().and_then(|bytes| PublicKey::from_bytes(&bytes).ok());
        let signature = STANDARD.decode(&proof.signature).unwrap_or_default();
        let key = given.or_else(|| PublicKey::from_bytes(&ANY_KEY).ok()).ok_or_else(refused_login)?;
        let owner = key.address(&self.rules.prefix).map_err(|_| refused_login())?;
        let payload = match &self.rules.audience {
            Some(audience) => format!("{PAYLOAD_PREFIX}{audience}:{}", proof.nonce),
            None => format!("{PAYLOAD_PREFIX}{}", proof.nonce),
        };
        let is_signed = adr036::verify_arbitrary(&key, &payload, &owner, &signature);
        if !(is_own & is_signed & given.is_some() & (account.as_ref() == Some(&owner))) {
            return Err(refused_login());
        }
        let expires_at = now + TOKEN_SECONDS;
        self.keep_token(owner.as_str(), token, expires_at);
        Ok(expires_at)
    }

    /// Whether the nonce is one of this incarnation for this account, valid, and presented for the first time.
    fn present_nonce(&mut self, proof: &LoginProof, now: i64) -> Result<bool, Refusal> {
        let decoded: Option<[u8; 32]> =
            URL_SAFE_NO_PAD.decode(&proof.nonce).ok().and_then(|bytes| bytes.try_into().ok());
        let nonce = decoded.unwrap_or_default();
        let (head, mac) = nonce.split_at(16);
        let is_own = bool::from(self.nonce_mac(head, &proof.account).ct_eq(mac)) & decoded.is_some();
        let expires_at = head[8..].try_into().map(i64::from_be_bytes).unwrap_or_default();
        let is_valid = is_own & (expires_at > now) & !self.presented.contains_key(&nonce);
        if is_valid {
            if self.presented.len() >= MAX_PRESENTED {
                let message = "too many logins at this time";
                return Err(Refusal::not_ready(AgentPart::Store, message, NONCE_SECONDS.unsigned_abs()));
            }
            self.presented.insert(nonce, expires_at);
            self.presented_order.push_back((nonce, expires_at));
        }
        Ok(is_valid)
    }

    fn keep_token(&mut self, account: &str, token: &str, expires_at: i64) {
        let hash: TokenHash = Sha256::digest(token).into();
        let is_allowed = self.rules.allowed_accounts.contains(account);
        let (list, limit) = if is_allowed {
            (self.by_account.entry(account.to_owned()).or_default(), MAX_TOKENS_OF_ACCOUNT)
        } else {
            (&mut self.strangers, MAX_TOKENS_OF_STRANGERS)
        };
        list.push_back(hash);
        if list.len() > limit
            && let Some(oldest) = list.pop_front()
        {
            self.tokens.remove(&oldest);
        }
        self.tokens.insert(hash, Token { account: account.to_owned(), expires_at });
    }

    /// Looks a token up. The hash keeps the time of the comparison from telling the token.
    pub fn check(&self, token: &str, now: i64) -> TokenCheck {
        let hash: TokenHash = Sha256::digest(token).into();
        match self.tokens.get(&hash).filter(|token| token.expires_at > now) {
            None => TokenCheck::Unknown,
            Some(token) if self.rules.allowed_accounts.contains(&token.account) => {
                TokenCheck::Allowed(token.account.clone())
            }
            Some(_) => TokenCheck::NotAllowed,
        }
    }

    fn forget_ended(&mut self, now: i64) {
        while let Some((nonce, _)) = self.presented_order.pop_front_if(|(_, expires_at)| *expires_at <= now) {
            self.presented.remove(&nonce);
        }
        let tokens = &mut self.tokens;
        for list in self.by_account.values_mut().chain([&mut self.strangers]) {
            while list
                .pop_front_if(|hash| tokens.get(hash).is_none_or(|token| token.expires_at <= now))
                .map(|hash| tokens.remove(&hash))
                .is_some()
            {}
        }
    }

    /// Numbers of tokens and of remembered nonces.
    pub fn sizes(&self) -> (usize, usize) {
        (self.tokens.len(), self.presented.len())
    }
}
