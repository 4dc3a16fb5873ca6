//! The SDK's default ante chain: what a transaction must pass before its messages run.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use svc_wire::{
    instant,
    key::PublicKey,
    proto::cosmos::{
        auth::v1beta1::BaseAccount,
        crypto::secp256k1::PubKey,
        tx::{
            signing::v1beta1::SignMode,
            v1beta1::{AuthInfo, Fee, SignerInfo, TxBody, TxRaw, mode_info},
        },
    },
    schema::Unknown,
    tx::{SECP256K1_PUBKEY_URL, SignContext, sign_bytes},
};

use super::{
    error::LedgerError,
    exec::{Block, Chain, Event, Exec, any, out_of_gas},
    gas::Gas,
    modules::{self, bank, feegrant},
    state::State,
};

/// Default auth parameters.
pub const MAX_MEMO_CHARACTERS: u64 = 256;
pub const TX_SIG_LIMIT: u64 = 7;
pub const TX_SIZE_COST_PER_BYTE: u64 = 10;
pub const SIG_VERIFY_COST_ED25519: u64 = 590;
pub const SIG_VERIFY_COST_SECP256K1: u64 = 1_000;
/// A simulated transaction lacks its signature; the SDK charges for the bytes it will have.
const SIGNATURE_BYTES: u64 = 64;

/// Why a transaction is being checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Entry to the mempool: the node's own minimum gas price counts too.
    Check,
    /// In a block.
    Deliver,
    /// Signatures are not verified and gas is not limited.
    Simulate,
}

/// A transaction that passed.
pub struct Passed {
    pub body: TxBody,
    pub fee: Fee,
    pub gas: Gas,
    pub events: Vec<Event>,
}

/// Runs the ante chain and applies its effects to `state`; on failure the state is to be discarded.
pub fn check(
    state: &mut State,
    chain: &Chain,
    block: Block,
    bytes: &[u8],
    mode: Mode,
) -> Result<Passed, (LedgerError, Gas)> {
    let no_gas = |error| (error, Gas::new(0));
    let tx = Decoded::read(chain, bytes).map_err(no_gas)?;
    let gas = if mode == Mode::Simulate { Gas::unlimited() } else { Gas::new(tx.fee.gas_limit) };
    let mut exec = Exec::unpaid(state, chain, block, &gas);
    match decorators(&mut exec, &tx, mode) {
        Ok(()) => {
            let events = exec.events;
            Ok(Passed { body: tx.body, fee: tx.fee, gas, events })
        }
        Err(error) => Err((error, gas)),
    }
}

struct Decoded {
    raw: TxRaw,
    body: TxBody,
    signers: Vec<SignerInfo>,
    fee: Fee,
    size: u64,
}

impl Decoded {
    fn read(chain: &Chain, bytes: &[u8]) -> Result<Self, LedgerError> {
        let parse = |error: prost::DecodeError| LedgerError::sdk(2, error);
        let raw = TxRaw::decode(bytes).map_err(parse)?;
        // ADR-027: one transaction has one encoding, so that nobody can change its hash.
        if raw.encode_to_vec() != bytes {
            return Err(LedgerError::sdk(2, "transaction is not encoded canonically, or has unknown fields"));
        }
        let body = TxBody::decode(raw.body_bytes.as_slice()).map_err(parse)?;
        let auth_info = AuthInfo::decode(raw.auth_info_bytes.as_slice()).map_err(parse)?;
        let known = |name, bytes, unknown| {
            chain.registry.refuse_unknown_fields(name, bytes, unknown).map_err(|error| LedgerError::sdk(2, error))
        };
        known("cosmos.tx.v1beta1.TxBody", &raw.body_bytes, Unknown::Critical)?;
        known("cosmos.tx.v1beta1.AuthInfo", &raw.auth_info_bytes, Unknown::Any)?;
        Ok(Self {
            raw,
            body,
            signers: auth_info.signer_infos,
            fee: auth_info.fee.unwrap_or_default(),
            size: bytes.len() as u64,
        })
    }
}

fn decorators(exec: &mut Exec<'_>, tx: &Decoded, mode: Mode) -> Result<(), LedgerError> {
    let signers = validate_messages(exec, tx)?;
    if let Some(option) = tx.body.extension_options.first() {
        return Err(LedgerError::sdk(31, &option.type_url));
    }
    validate_basic(tx, &signers)?;
    timeouts(exec, tx)?;
    let memo = tx.body.memo.chars().count() as u64;
    if memo > MAX_MEMO_CHARACTERS {
        let text = format!("maximum number of characters is {MAX_MEMO_CHARACTERS} but received {memo} characters");
        return Err(LedgerError::sdk(12, text));
    }
    let missing_signature = if mode == Mode::Simulate { SIGNATURE_BYTES } else { 0 };
    exec.gas.consume((tx.size + missing_signature) * TX_SIZE_COST_PER_BYTE);
    if exec.gas.is_exceeded() {
        return Err(out_of_gas(exec.gas, "txSize"));
    }
    deduct_fee(exec, tx, &signers, mode)?;
    set_public_keys(exec, tx, &signers)?;
    if signers.len() as u64 > TX_SIG_LIMIT {
        return Err(LedgerError::sdk(14, format!("signatures: {}, limit: {TX_SIG_LIMIT}", signers.len())));
    }
    exec.gas.consume(SIG_VERIFY_COST_SECP256K1 * signers.len() as u64);
    verify_signatures(exec, tx, &signers, mode)?;
    for signer in &signers {
        if let Some(mut account) = exec.state.accounts.get(signer, exec.gas).cloned() {
            account.sequence += 1;
            exec.state.accounts.put(signer.clone(), account, exec.gas);
        }
    }
    if exec.gas.is_exceeded() { Err(out_of_gas(exec.gas, "signature verification")) } else { Ok(()) }
}

/// Stateless checks of the messages; yields the distinct signers in order. Who is named to pay the fee has to sign too.
fn validate_messages(exec: &Exec<'_>, tx: &Decoded) -> Result<Vec<String>, LedgerError> {
    if tx.body.messages.is_empty() {
        return Err(LedgerError::sdk(18, "must contain at least one message"));
    }
    let mut signers: Vec<String> = Vec::new();
    for message in &tx.body.messages {
        modules::validate(exec.chain, message)?;
        let of_message = exec
            .chain
            .registry
            .signers(&message.type_url, &message.value)
            .map_err(|error| LedgerError::sdk(2, error))?;
        for signer in of_message {
            if !signers.contains(&signer) {
                signers.push(signer);
            }
        }
    }
    if !tx.fee.payer.is_empty() && !signers.contains(&tx.fee.payer) {
        signers.push(tx.fee.payer.clone());
    }
    Ok(signers)
}

/// What the transaction says about gas and signatures as such.
fn validate_basic(tx: &Decoded, signers: &[String]) -> Result<(), LedgerError> {
    if i64::try_from(tx.fee.gas_limit).is_err() {
        return Err(LedgerError::sdk(18, format!("invalid gas supplied; {} > {}", tx.fee.gas_limit, i64::MAX)));
    }
    if tx.raw.signatures.is_empty() {
        return Err(LedgerError::sdk(15, "no signatures supplied"));
    }
    if tx.raw.signatures.len() != signers.len() || tx.signers.len() != signers.len() {
        let text = format!("wrong number of signers; expected {}, got {}", signers.len(), tx.raw.signatures.len());
        return Err(LedgerError::sdk(4, text));
    }
    Ok(())
}

fn timeouts(exec: &Exec<'_>, tx: &Decoded) -> Result<(), LedgerError> {
    if tx.body.unordered {
        return Err(LedgerError::sdk(37, "unordered transactions are not enabled"));
    }
    let (timeout, height) = (tx.body.timeout_height, exec.block.height);
    if timeout > 0 && height > timeout {
        return Err(LedgerError::sdk(30, format!("block height: {height}, timeout height: {timeout}")));
    }
    if let Some(until) = &tx.body.timeout_timestamp
        && instant::nanos(&exec.block.time) > instant::nanos(until)
    {
        return Err(LedgerError::sdk(42, "block time is after the timeout timestamp"));
    }
    Ok(())
}

fn deduct_fee(exec: &mut Exec<'_>, tx: &Decoded, signers: &[String], mode: Mode) -> Result<(), LedgerError> {
    let coins = bank::parse_coins(&tx.fee.amount).map_err(|text| LedgerError::sdk(10, text))?;
    if mode == Mode::Check {
        let required = u128::from(tx.fee.gas_limit) * u128::from(exec.chain.min_gas_price_micros);
        let required = required.div_ceil(1_000_000);
        let paid = coins.iter().find(|(denom, _)| *denom == exec.chain.denom).map_or(0, |(_, amount)| *amount);
        if paid < required {
            let denom = &exec.chain.denom;
            let text =
                format!("insufficient fees; got: {} required: {required}{denom}", bank::coins_text(&tx.fee.amount));
            return Err(LedgerError::sdk(13, text));
        }
    }
    let payer = if tx.fee.payer.is_empty() { signers[0].clone() } else { tx.fee.payer.clone() };
    let mut from = payer.clone();
    if !tx.fee.granter.is_empty() && tx.fee.granter != payer {
        feegrant::use_allowance(exec, &tx.fee.granter, &payer, &coins, &tx.body.messages)
            .map_err(|error| error.wrap(format!("{} does not allow to pay fees for {payer}", tx.fee.granter)))?;
        from = tx.fee.granter.clone();
    }
    if !exec.state.accounts.contains(&from, exec.gas) {
        return Err(LedgerError::sdk(9, format!("fee payer address: {from} does not exist")));
    }
    if !coins.is_empty() {
        let collector = bank::module_address(exec.chain, "fee_collector");
        bank::transfer(exec, &from, &collector, &coins)?;
    }
    let fee = bank::coins_text(&tx.fee.amount);
    exec.emit("tx", [("fee", fee), ("fee_payer", from)]);
    Ok(())
}

fn set_public_keys(exec: &mut Exec<'_>, tx: &Decoded, signers: &[String]) -> Result<(), LedgerError> {
    for (signer, info) in signers.iter().zip(&tx.signers) {
        let mut account = account_of(exec, signer)?;
        if account.pub_key.is_none()
            && let Some(key) = read_key(info)?
        {
            let address = key.address(&exec.chain.prefix).map_err(|error| LedgerError::sdk(8, error))?;
            if address.as_str() != signer {
                return Err(LedgerError::sdk(8, format!("pubKey does not match signer address {signer}")));
            }
            account.pub_key = Some(any(SECP256K1_PUBKEY_URL, &PubKey { key: key.as_bytes().to_vec() }));
            exec.state.accounts.put(signer.clone(), account, exec.gas);
        }
    }
    for (signer, info) in signers.iter().zip(&tx.signers) {
        exec.emit("tx", [("acc_seq", format!("{signer}/{}", info.sequence))]);
    }
    for signature in &tx.raw.signatures {
        exec.emit("tx", [("signature", STANDARD.encode(signature))]);
    }
    Ok(())
}

fn read_key(info: &SignerInfo) -> Result<Option<PublicKey>, LedgerError> {
    let Some(packed) = &info.public_key else { return Ok(None) };
    if packed.type_url != SECP256K1_PUBKEY_URL {
        return Err(LedgerError::sdk(8, format!("unsupported key type {}", packed.type_url)));
    }
    let key = PubKey::decode(packed.value.as_slice()).map_err(|error| LedgerError::sdk(8, error))?;
    PublicKey::from_bytes(&key.key).map(Some).map_err(|error| LedgerError::sdk(8, error))
}

fn account_of(exec: &Exec<'_>, address: &str) -> Result<BaseAccount, LedgerError> {
    exec.state
        .accounts
        .get(&address.to_owned(), exec.gas)
        .cloned()
        .ok_or_else(|| LedgerError::sdk(9, format!("account {address} does not exist")))
}

fn verify_signatures(exec: &Exec<'_>, tx: &Decoded, signers: &[String], mode: Mode) -> Result<(), LedgerError> {
    for ((signer, info), signature) in signers.iter().zip(&tx.signers).zip(&tx.raw.signatures) {
        let account = account_of(exec, signer)?;
        if info.sequence != account.sequence {
            let text = format!("account sequence mismatch, expected {}, got {}", account.sequence, info.sequence);
            return Err(LedgerError::sdk(32, text));
        }
        if mode == Mode::Simulate {
            continue;
        }
        let single = info.mode_info.as_ref().and_then(|mode| mode.sum.as_ref());
        let is_direct = matches!(single, Some(mode_info::Sum::Single(single)) if single.mode() == SignMode::Direct);
        if !is_direct {
            return Err(LedgerError::sdk(37, "only SIGN_MODE_DIRECT is supported by this node"));
        }
        let context = SignContext { chain_id: exec.chain.chain_id.clone(), account_number: account.account_number };
        let document = sign_bytes(&tx.raw.body_bytes, &tx.raw.auth_info_bytes, &context)
            .map_err(|error| LedgerError::sdk(4, error))?;
        let key = account.pub_key.as_ref().and_then(|packed| PubKey::decode(packed.value.as_slice()).ok());
        let Some(key) = key.and_then(|key| PublicKey::from_bytes(&key.key).ok()) else {
            return Err(LedgerError::sdk(8, "pubkey on account is not set"));
        };
        if !key.verify(&document, signature) {
            let text = format!(
                "signature verification failed; please verify account number ({}), sequence ({}) and chain-id ({})",
                account.account_number, account.sequence, exec.chain.chain_id
            );
            return Err(LedgerError::sdk(4, text));
        }
    }
    Ok(())
}
