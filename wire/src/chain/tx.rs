//! Transactions: encoding, signing in SIGN_MODE_DIRECT, hashing, decoding of results.

use prost::Message;
use prost_types::Any;
use sha2::{Digest, Sha256};

use crate::{
    account_key::{AccountKey, KeyError, PublicKey},
    proto::cosmos::{
        base::{abci::v1beta1::TxMsgData, v1beta1::Coin},
        crypto::secp256k1::PubKey,
        tx::{
            signing::v1beta1::SignMode,
            v1beta1::{AuthInfo, Fee, ModeInfo, SignerInfo, TxBody, TxRaw, mode_info},
        },
    },
};

/// Type URL of the only account key type in use.
pub const SECP256K1_PUBKEY_URL: &str = "/cosmos.crypto.secp256k1.PubKey";

/// A transaction before it is signed.
#[derive(Debug, Clone, PartialEq)]
pub struct UnsignedTx {
    /// Messages in order.
    pub messages: Vec<Any>,
    /// Account sequence.
    pub sequence: u64,
    /// Fee coins; may be empty in a simulation.
    pub fee: Vec<Coin>,
    /// Gas limit.
    pub gas_limit: u64,
    /// Address of the account that pays the fee instead of the signer.
    pub fee_granter: Option<String>,
    /// Greatest height of a block that can execute the transaction.
    pub timeout_height: u64,
}

/// A signed transaction, in the form that the node takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedTx {
    /// `TxRaw` bytes.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes, upper-case hex.
    pub hash: String,
}

/// Chain and account that a signature is bound to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningContext {
    /// Chain id.
    pub chain_id: String,
    /// Number of the signing account.
    pub account_number: u64,
}

impl UnsignedTx {
    fn body_bytes(&self) -> Vec<u8> {
        TxBody { messages: self.messages.clone(), timeout_height: self.timeout_height, ..TxBody::default() }
            .encode_to_vec()
    }

    fn auth_info_bytes(&self, key: &PublicKey) -> Vec<u8> {
        let public_key = Any {
            type_url: SECP256K1_PUBKEY_URL.to_owned(),
            value: PubKey { key: key.as_bytes().to_vec() }.encode_to_vec(),
        };
        let single = mode_info::Single { mode: SignMode::Direct.into() };
        AuthInfo {
            signer_infos: vec![SignerInfo {
                public_key: Some(public_key),
                mode_info: Some(ModeInfo { sum: Some(mode_info::Sum::Single(single)) }),
                sequence: self.sequence,
            }],
            fee: Some(Fee {
                amount: self.fee.clone(),
                gas_limit: self.gas_limit,
                payer: String::new(),
                granter: self.fee_granter.clone().unwrap_or_default(),
            }),
            tip: None,
        }
        .encode_to_vec()
    }

    /// Bytes for `Simulate`: the whole transaction with an empty signature.
    pub fn simulation_bytes(&self, key: &PublicKey) -> Vec<u8> {
        TxRaw {
            body_bytes: self.body_bytes(),
            auth_info_bytes: self.auth_info_bytes(key),
            signatures: vec![Vec::new()],
        }
        .encode_to_vec()
    }

    /// Signs the transaction. Fails when the sign document cannot be encoded or signed.
    pub fn sign(&self, key: &AccountKey, context: &SigningContext) -> Result<SignedTx, KeyError> {
        let (body_bytes, auth_info_bytes) = (self.body_bytes(), self.auth_info_bytes(&key.public_key()));
        let signature = key.sign(&direct_sign_bytes(&body_bytes, &auth_info_bytes, context)?)?;
        let bytes = TxRaw { body_bytes, auth_info_bytes, signatures: vec![signature.to_vec()] }.encode_to_vec();
        Ok(SignedTx { hash: tx_hash(&bytes), bytes })
    }
}

/// Bytes of the document that SIGN_MODE_DIRECT signs.
pub fn direct_sign_bytes(body: &[u8], auth_info: &[u8], context: &SigningContext) -> Result<Vec<u8>, KeyError> {
    let document = cosmrs::tx::SignDoc {
        body_bytes: body.to_vec(),
        auth_info_bytes: auth_info.to_vec(),
        chain_id: context.chain_id.clone(),
        account_number: context.account_number,
    };
    document.into_bytes().map_err(|_| KeyError::Signing)
}

/// Whether a transaction has a signature of this key in SIGN_MODE_DIRECT for this sequence. Only the owner of the key can make one.
pub fn is_signed_at(bytes: &[u8], key: &PublicKey, context: &SigningContext, sequence: u64) -> bool {
    let Ok(raw) = TxRaw::decode(bytes) else { return false };
    let Ok(auth) = AuthInfo::decode(raw.auth_info_bytes.as_slice()) else { return false };
    let Ok(document) = direct_sign_bytes(&raw.body_bytes, &raw.auth_info_bytes, context) else { return false };
    let signers = auth.signer_infos.iter().zip(&raw.signatures);
    let mut signatures = signers.filter(|(info, _)| info.sequence == sequence).map(|(_, signature)| signature);
    signatures.any(|signature| key.verify(&document, signature))
}

/// Transaction hash: SHA-256 of the bytes, upper-case hex.
pub fn tx_hash(bytes: &[u8]) -> String {
    hex::encode_upper(Sha256::digest(bytes))
}

/// Decodes the body of a transaction; `None` when the bytes are not a transaction.
pub fn decode_tx_body(bytes: &[u8]) -> Option<TxBody> {
    TxBody::decode(TxRaw::decode(bytes).ok()?.body_bytes.as_slice()).ok()
}

/// Amount of one denom in the fee of a transaction; 0 when the bytes are not a transaction.
pub fn decode_fee(bytes: &[u8], denom: &str) -> u128 {
    let auth_info = TxRaw::decode(bytes).and_then(|raw| AuthInfo::decode(raw.auth_info_bytes.as_slice()));
    let coins = auth_info.ok().and_then(|auth_info| auth_info.fee).map(|fee| fee.amount).unwrap_or_default();
    coins.iter().filter(|coin| coin.denom == denom).filter_map(|coin| coin.amount.parse::<u128>().ok()).sum()
}

/// Message responses of a successful transaction, from the base64-decoded `data` of its result; none when it does not decode.
pub fn decode_message_responses(data: &[u8]) -> Vec<Any> {
    TxMsgData::decode(data).map(|decoded| decoded.msg_responses).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unsigned() -> UnsignedTx {
        UnsignedTx {
            messages: vec![Any { type_url: "/svc.ec.v1.MsgArchiveEcosystem".into(), value: vec![24, 1] }],
            sequence: 3,
            fee: vec![Coin { denom: "usvc".into(), amount: "5000".into() }],
            gas_limit: 200_000,
            fee_granter: Some("svc1policy".into()),
            timeout_height: 42,
        }
    }

    #[test]
    fn the_signature_verifies_over_the_encoded_bytes_and_the_signing_context() {
        let key = AccountKey::from_bytes(&[1; 32]).expect("a valid key");
        let context = SigningContext { chain_id: "test-1".into(), account_number: 7 };
        let signed = unsigned().sign(&key, &context).expect("signs");
        let raw = TxRaw::decode(signed.bytes.as_slice()).expect("decodes");
        let document = direct_sign_bytes(&raw.body_bytes, &raw.auth_info_bytes, &context).expect("encodes");
        assert!(key.public_key().verify(&document, &raw.signatures[0]));
        let other = SigningContext { account_number: 8, ..context };
        let document = direct_sign_bytes(&raw.body_bytes, &raw.auth_info_bytes, &other).expect("encodes");
        assert!(!key.public_key().verify(&document, &raw.signatures[0]));
        assert!(is_signed_at(
            &signed.bytes,
            &key.public_key(),
            &SigningContext { account_number: 7, ..other.clone() },
            3
        ));
        let stranger = AccountKey::from_bytes(&[2; 32]).expect("a valid key").public_key();
        for (key, context, sequence) in [
            (&key.public_key(), &other, 3),
            (&key.public_key(), &SigningContext { account_number: 7, ..other.clone() }, 4),
            (&stranger, &SigningContext { account_number: 7, ..other.clone() }, 3),
        ] {
            assert!(!is_signed_at(&signed.bytes, key, context, sequence), "{context:?} {sequence}");
        }
        assert_eq!(decode_tx_body(&signed.bytes).map(|body| body.timeout_height), Some(42));
        assert_eq!(signed.hash.len(), 64);
    }

    #[test]
    fn the_same_transaction_signs_to_the_same_bytes() {
        let key = AccountKey::from_bytes(&[1; 32]).expect("a valid key");
        let context = SigningContext { chain_id: "test-1".into(), account_number: 7 };
        assert_eq!(unsigned().sign(&key, &context), unsigned().sign(&key, &context));
    }
}
