//! The SDK's default ante chain, behind the guard of a council: the checks of a transaction before its messages run.

use base64::{Engine, engine::general_purpose::STANDARD};
use prost::Message;
use svc_wire::{
    account_key::PublicKey,
    proto::cosmos::{
        auth::v1beta1::BaseAccount,
        base::v1beta1::Coin,
        crypto::secp256k1::PubKey,
        tx::{
            signing::v1beta1::SignMode,
            v1beta1::{AuthInfo, Fee, SignerInfo, TxBody, TxRaw, mode_info},
        },
    },
    proto_registry::UnknownFieldPolicy,
    timestamp,
    tx::{SECP256K1_PUBKEY_URL, SigningContext, direct_sign_bytes},
};

use crate::{
    chain::{BlockContext, ChainConfig},
    context::{ExecContext, LedgerEvent},
    error::LedgerError,
    gas::GasMeter,
    modules::{bank, council, feegrant, routes},
    state::LedgerState,
    values::any::pack_any,
};

/// Default auth parameters.
pub const MAX_MEMO_CHARACTERS: u64 = 256;
pub const TX_SIG_LIMIT: u64 = 7;
pub const TX_SIZE_COST_PER_BYTE: u64 = 10;
pub const SIG_VERIFY_COST_ED25519: u64 = 590;
pub const SIG_VERIFY_COST_SECP256K1: u64 = 1_000;
/// Bytes that the SDK charges for the missing signature of a simulated transaction.
const SIGNATURE_BYTES: u64 = 64;
const PUBLIC_KEY_BYTES: usize = 33;
/// Gas of the deduction of a fee, which a simulation without a fee reports too: it names the gas that the block then uses.
const FEE_DEDUCTION: u64 = 15_200;
/// Gas of the reads that a node makes for every transaction, and this ledger does not.
const ANTE_READS: u64 = 11_000;

/// The mode in which the ante chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecMode {
    /// CheckTx: the node's minimum gas price applies too.
    Check,
    /// Execution in a block.
    Deliver,
    /// Simulation: signatures are not verified and gas is not limited.
    Simulate,
}

/// A transaction that passed the ante chain.
pub struct AnteOutcome {
    pub body: TxBody,
    pub fee: Fee,
    pub gas: GasMeter,
    pub events: Vec<LedgerEvent>,
}

/// Runs the ante chain and applies its effects to `state`. The caller must discard the state on an error.
pub fn run_ante(
    state: &mut LedgerState,
    chain: &ChainConfig,
    block: BlockContext,
    bytes: &[u8],
    mode: ExecMode,
) -> Result<AnteOutcome, (LedgerError, GasMeter)> {
    let no_gas = |error| (error, GasMeter::new(0));
    let tx = DecodedTx::read(chain, bytes).map_err(no_gas)?;
    let gas = if mode == ExecMode::Simulate { GasMeter::unlimited() } else { GasMeter::new(tx.fee.gas_limit) };
    let mut exec = ExecContext::without_fee(state, chain, block, &gas);
    match run_decorators(&mut exec, &tx, mode) {
        Ok(()) => {
            let events = exec.events;
            Ok(AnteOutcome { body: tx.body, fee: tx.fee, gas, events })
        }
        Err(error) => Err((error, gas)),
    }
}

struct DecodedTx {
    raw: TxRaw,
    body: TxBody,
    signers: Vec<SignerInfo>,
    fee: Fee,
    size: u64,
}

impl DecodedTx {
    fn read(chain: &ChainConfig, bytes: &[u8]) -> Result<Self, LedgerError> {
        let parse = |error: prost::DecodeError| LedgerError::sdk(2, error);
        let raw = TxRaw::decode(bytes).map_err(parse)?;
        // ADR-027: a transaction has exactly one valid encoding, so its hash cannot be changed by another encoding.
        if raw.encode_to_vec() != bytes {
            return Err(LedgerError::sdk(2, "transaction is not encoded canonically, or has unknown fields"));
        }
        let body = TxBody::decode(raw.body_bytes.as_slice()).map_err(parse)?;
        let auth_info = AuthInfo::decode(raw.auth_info_bytes.as_slice()).map_err(parse)?;
        let known = |name, bytes, unknown| {
            chain.registry.refuse_unknown_fields(name, bytes, unknown).map_err(|error| LedgerError::sdk(2, error))
        };
        known("cosmos.tx.v1beta1.TxBody", &raw.body_bytes, UnknownFieldPolicy::RefuseCritical)?;
        known("cosmos.tx.v1beta1.AuthInfo", &raw.auth_info_bytes, UnknownFieldPolicy::RefuseAll)?;
        Ok(Self {
            raw,
            body,
            signers: auth_info.signer_infos,
            fee: auth_info.fee.unwrap_or_default(),
            size: bytes.len() as u64,
        })
    }
}

fn run_decorators(exec: &mut ExecContext<'_>, tx: &DecodedTx, mode: ExecMode) -> Result<(), LedgerError> {
    council::guard(exec, &tx.body.messages)?;
    let signers = validate_messages(exec, tx)?;
    if let Some(option) = tx.body.extension_options.first() {
        return Err(LedgerError::sdk(31, &option.type_url));
    }
    validate_basic(tx, &signers)?;
    check_timeouts(exec, tx)?;
    let memo = tx.body.memo.chars().count() as u64;
    if memo > MAX_MEMO_CHARACTERS {
        let text = format!("maximum number of characters is {MAX_MEMO_CHARACTERS} but received {memo} characters");
        return Err(LedgerError::sdk(12, text));
    }
    let missing_signature = if mode == ExecMode::Simulate { SIGNATURE_BYTES } else { 0 };
    exec.gas.consume((tx.size + missing_signature) * TX_SIZE_COST_PER_BYTE + ANTE_READS);
    if exec.gas.is_exceeded() {
        return Err(exec.gas.out_of_gas_error("txSize"));
    }
    deduct_fee(exec, tx, &signers, mode)?;
    set_public_keys(exec, tx, &signers, mode)?;
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
    if exec.gas.is_exceeded() { Err(exec.gas.out_of_gas_error("signature verification")) } else { Ok(()) }
}

/// Runs the stateless checks of the messages; returns the distinct signers in order. A named fee payer is a signer too.
fn validate_messages(exec: &ExecContext<'_>, tx: &DecodedTx) -> Result<Vec<String>, LedgerError> {
    if tx.body.messages.is_empty() {
        return Err(LedgerError::sdk(18, "must contain at least one message"));
    }
    let mut signers: Vec<String> = Vec::new();
    for message in &tx.body.messages {
        routes::validate(exec.chain, message)?;
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

/// Checks the gas limit and the number of signatures.
fn validate_basic(tx: &DecodedTx, signers: &[String]) -> Result<(), LedgerError> {
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

fn check_timeouts(exec: &ExecContext<'_>, tx: &DecodedTx) -> Result<(), LedgerError> {
    if tx.body.unordered {
        return Err(LedgerError::sdk(37, "unordered transactions are not enabled"));
    }
    let (timeout, height) = (tx.body.timeout_height, exec.block.height);
    if timeout > 0 && height > timeout {
        return Err(LedgerError::sdk(30, format!("block height: {height}, timeout height: {timeout}")));
    }
    if let Some(until) = &tx.body.timeout_timestamp
        && timestamp::unix_nanos(&exec.block.time) > timestamp::unix_nanos(until)
    {
        return Err(LedgerError::sdk(42, "block time is after the timeout timestamp"));
    }
    Ok(())
}

fn deduct_fee(
    exec: &mut ExecContext<'_>,
    tx: &DecodedTx,
    signers: &[String],
    mode: ExecMode,
) -> Result<(), LedgerError> {
    // Clients in Go simulate with the price of no gas: a coin of amount 0.
    let is_simulated_nothing = |coin: &&Coin| mode == ExecMode::Simulate && coin.amount == "0";
    let offered: Vec<Coin> = tx.fee.amount.iter().filter(|coin| !is_simulated_nothing(coin)).cloned().collect();
    let coins = bank::parse_coins(&offered).map_err(|text| LedgerError::sdk(10, text))?;
    if mode == ExecMode::Check {
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
    if coins.is_empty() && mode == ExecMode::Simulate {
        exec.gas.consume(FEE_DEDUCTION);
    }
    if !coins.is_empty() {
        let collector = bank::module_address(exec.chain, "fee_collector");
        bank::transfer(exec, &from, &collector, &coins)?;
    }
    let fee = bank::coins_text(&tx.fee.amount);
    exec.emit("tx", [("fee", fee), ("fee_payer", from)]);
    Ok(())
}

/// Notes the public keys of accounts that have none yet. In a simulation nothing is compared with them, and a placeholder takes the place of
/// a key that is missing or has no bytes, as clients in Go send it.
fn set_public_keys(
    exec: &mut ExecContext<'_>,
    tx: &DecodedTx,
    signers: &[String],
    mode: ExecMode,
) -> Result<(), LedgerError> {
    for (signer, info) in signers.iter().zip(&tx.signers) {
        let mut account = load_account(exec, signer)?;
        if mode == ExecMode::Simulate {
            require_known_kind(info)?;
            if account.pub_key.is_none() {
                account.pub_key = Some(pack_any(SECP256K1_PUBKEY_URL, &PubKey { key: vec![2; PUBLIC_KEY_BYTES] }));
                exec.state.accounts.put(signer.clone(), account, exec.gas);
            }
        } else if account.pub_key.is_none()
            && let Some(key) = decode_public_key(info)?
        {
            let address = key.address(&exec.chain.prefix).map_err(|error| LedgerError::sdk(8, error))?;
            if address.as_str() != signer {
                return Err(LedgerError::sdk(8, format!("pubKey does not match signer address {signer}")));
            }
            account.pub_key = Some(pack_any(SECP256K1_PUBKEY_URL, &PubKey { key: key.as_bytes().to_vec() }));
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

fn require_known_kind(info: &SignerInfo) -> Result<(), LedgerError> {
    match &info.public_key {
        Some(packed) if packed.type_url != SECP256K1_PUBKEY_URL => {
            Err(LedgerError::sdk(8, format!("unsupported key type {}", packed.type_url)))
        }
        _ => Ok(()),
    }
}

fn decode_public_key(info: &SignerInfo) -> Result<Option<PublicKey>, LedgerError> {
    let Some(packed) = &info.public_key else { return Ok(None) };
    require_known_kind(info)?;
    let key = PubKey::decode(packed.value.as_slice()).map_err(|error| LedgerError::sdk(8, error))?;
    PublicKey::from_bytes(&key.key).map(Some).map_err(|error| LedgerError::sdk(8, error))
}

fn load_account(exec: &ExecContext<'_>, address: &str) -> Result<BaseAccount, LedgerError> {
    exec.state
        .accounts
        .get(&address.to_owned(), exec.gas)
        .cloned()
        .ok_or_else(|| LedgerError::sdk(9, format!("account {address} does not exist")))
}

/// The amino JSON that a signature covers. A body with content outside of it is refused, since a third party could change that
/// content — x/tx/signing/aminojson, SignModeHandler.
fn amino_document(
    chain: &ChainConfig,
    tx: &DecodedTx,
    sequence: u64,
    context: &SigningContext,
) -> Result<Vec<u8>, LedgerError> {
    let unauthorized = |error| LedgerError::sdk(4, error);
    let body = &tx.raw.body_bytes;
    chain
        .registry
        .refuse_unknown_fields("cosmos.tx.v1beta1.TxBody", body, UnknownFieldPolicy::RefuseAll)
        .map_err(unauthorized)?;
    if !tx.body.non_critical_extension_options.is_empty() {
        return Err(LedgerError::sdk(4, "SIGN_MODE_LEGACY_AMINO_JSON covers no extension options"));
    }
    chain.registry.amino_sign_bytes(&tx.body, &tx.fee, sequence, context).map_err(unauthorized)
}

fn verify_signatures(
    exec: &ExecContext<'_>,
    tx: &DecodedTx,
    signers: &[String],
    mode: ExecMode,
) -> Result<(), LedgerError> {
    for ((signer, info), signature) in signers.iter().zip(&tx.signers).zip(&tx.raw.signatures) {
        let account = load_account(exec, signer)?;
        if info.sequence != account.sequence {
            let text = format!("account sequence mismatch, expected {}, got {}", account.sequence, info.sequence);
            return Err(LedgerError::sdk(32, text));
        }
        if mode == ExecMode::Simulate {
            continue;
        }
        let mode = match info.mode_info.as_ref().and_then(|mode| mode.sum.as_ref()) {
            Some(mode_info::Sum::Single(single)) => single.mode(),
            _ => SignMode::Unspecified,
        };
        let context = SigningContext { chain_id: exec.chain.chain_id.clone(), account_number: account.account_number };
        let document = match mode {
            SignMode::Direct => direct_sign_bytes(&tx.raw.body_bytes, &tx.raw.auth_info_bytes, &context)
                .map_err(|error| LedgerError::sdk(4, error))?,
            SignMode::LegacyAminoJson => amino_document(exec.chain, tx, info.sequence, &context)?,
            other => {
                let text = format!("{} is not verified by this node: sign with SIGN_MODE_DIRECT", other.as_str_name());
                return Err(LedgerError::sdk(37, text));
            }
        };
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
