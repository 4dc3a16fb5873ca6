//! The module xr: exchange rates, which convert trust units, fiat money and other coins to the fee denom.

use num_bigint::BigUint;
use prost_types::Duration;
use svc_wire::{
    proto::svc::{
        cs::v1::PricingAssetType,
        xr::v1::{
            ExchangeRate, ExchangeRateAuthorization, MsgCreateExchangeRate, MsgCreateExchangeRateResponse,
            MsgGrantExchangeRateAuthorization, MsgGrantExchangeRateAuthorizationResponse,
            MsgRevokeExchangeRateAuthorization, MsgRevokeExchangeRateAuthorizationResponse, MsgSetExchangeRateState,
            MsgSetExchangeRateStateResponse, MsgUpdateExchangeRate, MsgUpdateExchangeRateResponse, MsgUpdateParams,
            MsgUpdateParamsResponse,
        },
    },
    timestamp,
};

use super::authority::ensure_authority;
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    state::{LedgerState, keys::RatePairKey, next_id, table::PlainValue},
    values::validate::{self, ensure},
};

const MAX_SCALE: u32 = 18;
const MIN_VALIDITY_NANOS: i128 = 60 * 1_000_000_000;
const MAX_BPS: u32 = 10_000;

/// Reason why an amount cannot be converted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PriceError {
    Missing,
    Disabled,
    Expired,
    Overflow,
}

impl PriceError {
    /// Returns the text of the gRPC status that the chain answers with.
    pub fn grpc_text(self) -> &'static str {
        match self {
            Self::Missing => "rpc error: code = NotFound desc = exchange rate not found",
            Self::Disabled => "rpc error: code = FailedPrecondition desc = exchange rate is not active",
            Self::Expired => "rpc error: code = FailedPrecondition desc = exchange rate has expired",
            Self::Overflow => "rpc error: code = Internal desc = price does not fit",
        }
    }
}

/// Returns `floor(amount x rate / 10^scale)` of a stored pair. Inverse pairs and chains of pairs are not tried.
pub fn convert_amount(
    state: &LedgerState,
    now: &prost_types::Timestamp,
    base: (PricingAssetType, &str),
    quote: (PricingAssetType, &str),
    amount: &BigUint,
) -> Result<BigUint, PriceError> {
    let key = RatePairKey {
        base_type: base.0.into(),
        base: base.1.to_owned(),
        quote_type: quote.0.into(),
        quote: quote.1.to_owned(),
    };
    let id = state.rate_index.peek(&key).ok_or(PriceError::Missing)?.0;
    let rate = state.rates.peek(&id).ok_or(PriceError::Missing)?;
    if !rate.state {
        return Err(PriceError::Disabled);
    }
    if rate.expires.as_ref().is_none_or(|until| timestamp::is_at_or_before(until, now)) {
        return Err(PriceError::Expired);
    }
    let number: BigUint = rate.rate.parse().map_err(|_| PriceError::Overflow)?;
    Ok(amount * number / BigUint::from(10u32).pow(rate.rate_scale))
}

/// Converts an amount of an asset to the fee denom. 0 needs no rate.
pub fn to_fee_denom(exec: &ExecContext<'_>, asset: (PricingAssetType, &str), amount: u64) -> Result<u64, LedgerError> {
    if amount == 0 {
        return Ok(0);
    }
    let quote = (PricingAssetType::Coin, exec.chain.denom.as_str());
    exec.gas.charge_read(asset.1.len());
    convert_amount(exec.state, &exec.block_time(), asset, quote, &BigUint::from(amount))
        .and_then(|worth| i64::try_from(worth).map_err(|_| PriceError::Overflow))
        .map(i64::unsigned_abs)
        .map_err(|cause| {
            LedgerError::unregistered(format!("failed to convert {amount} {}: {}", asset.1, cause.grpc_text()))
        })
}

/// Parses a positive integer of at most 256 bits.
fn parse_positive(text: &str) -> Option<BigUint> {
    let is_digits = !text.is_empty() && text.len() <= 78 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|rate: &BigUint| is_digits && rate.bits() > 0 && rate.bits() <= 256)
}

fn ensure_valid_rate(text: &str) -> Result<(), LedgerError> {
    match parse_positive(text) {
        Some(_) => Ok(()),
        None => Err(LedgerError::unregistered(format!("rate must be a positive integer, got {text:?}"))),
    }
}

/// Tells whether the text of an asset fits its type.
pub fn is_asset(kind: PricingAssetType, asset: &str) -> bool {
    match kind {
        PricingAssetType::Tu => asset == "tu",
        PricingAssetType::Coin => validate::is_denom(asset),
        PricingAssetType::Fiat => validate::is_currency(asset),
        PricingAssetType::Unspecified => false,
    }
}

fn ensure_valid_asset(side: &str, kind: PricingAssetType, asset: &str) -> Result<(), LedgerError> {
    if is_asset(kind, asset) {
        Ok(())
    } else {
        Err(LedgerError::unregistered(format!("invalid {side} asset: {kind:?} {asset:?}")))
    }
}

pub fn validate_create(chain: &ChainConfig, message: &MsgCreateExchangeRate) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "authority", &message.authority)?;
    ensure_valid_asset("base", message.base_asset_type(), &message.base_asset)?;
    ensure_valid_asset("quote", message.quote_asset_type(), &message.quote_asset)?;
    if (message.base_asset_type, &message.base_asset) == (message.quote_asset_type, &message.quote_asset) {
        return Err(LedgerError::unregistered("base and quote must differ"));
    }
    ensure_valid_rate(&message.rate)?;
    if message.rate_scale > MAX_SCALE {
        return Err(LedgerError::unregistered(format!("rate_scale must be at most {MAX_SCALE}")));
    }
    if message.validity_duration.as_ref().map_or(0, timestamp::duration_nanos) < MIN_VALIDITY_NANOS {
        return Err(LedgerError::unregistered("validity_duration must be at least one minute"));
    }
    Ok(())
}

pub fn create(
    exec: &mut ExecContext<'_>,
    message: MsgCreateExchangeRate,
) -> Result<MsgCreateExchangeRateResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("xr", 1100))?;
    let validity = message.validity_duration.unwrap_or_default();
    let longest = exec.state.params.xr.max_validity_duration.as_ref().map_or(0, timestamp::duration_nanos);
    if timestamp::duration_nanos(&validity) > longest {
        return Err(LedgerError::unregistered("validity_duration is above the maximum"));
    }
    let sides = [
        (message.base_asset_type(), message.base_asset.as_str()),
        (message.quote_asset_type(), message.quote_asset.as_str()),
    ];
    for (kind, asset) in sides {
        let has_supply = exec.state.supply.get(&asset.to_owned(), exec.gas).is_some_and(|supply| supply.0 > 0);
        if kind == PricingAssetType::Coin && !has_supply {
            return Err(LedgerError::unregistered(format!("denom {asset} has no supply on this chain")));
        }
    }
    let key = RatePairKey {
        base_type: message.base_asset_type,
        base: message.base_asset.clone(),
        quote_type: message.quote_asset_type,
        quote: message.quote_asset.clone(),
    };
    ensure(!exec.state.rate_index.contains(&key, exec.gas), "xr", 1106, || {
        format!("exchange rate pair exists: {} to {}", message.base_asset, message.quote_asset)
    })?;
    let (id, now) = (next_id(&mut exec.state.next_rate), exec.block_time());
    let rate = ExchangeRate {
        id,
        base_asset_type: message.base_asset_type,
        base_asset: message.base_asset,
        quote_asset_type: message.quote_asset_type,
        quote_asset: message.quote_asset,
        rate: message.rate,
        rate_scale: message.rate_scale,
        validity_duration: Some(validity),
        expires: Some(timestamp::add_duration(&now, &validity)),
        // Quirk: the `state` of the message is ignored.
        state: false,
        updated: Some(now),
    };
    exec.state.rate_index.put(key, PlainValue(id), exec.gas);
    exec.emit(
        "create_exchange_rate",
        [
            ("id", id.to_string()),
            ("authority", message.authority),
            ("base_asset_type", rate.base_asset_type().as_str_name().to_owned()),
            ("base_asset", rate.base_asset.clone()),
            ("quote_asset_type", rate.quote_asset_type().as_str_name().to_owned()),
            ("quote_asset", rate.quote_asset.clone()),
            ("rate", rate.rate.clone()),
            ("rate_scale", rate.rate_scale.to_string()),
            ("validity_duration", go_duration(&validity)),
            ("expires", rate.expires.as_ref().map(timestamp::go_time_text).unwrap_or_default()),
        ],
    );
    exec.state.rates.put(id, rate, exec.gas);
    Ok(MsgCreateExchangeRateResponse { id })
}

/// Formats whole seconds as Go does, for example `720h0m0s`.
fn go_duration(span: &Duration) -> String {
    let (hours, minutes, seconds) = (span.seconds / 3600, span.seconds / 60 % 60, span.seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn load_rate(exec: &ExecContext<'_>, id: u64) -> Result<ExchangeRate, LedgerError> {
    let found = exec.state.rates.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::new("xr", 1108, format!("exchange rate not found: {id}")))
}

pub fn validate_update(chain: &ChainConfig, message: &MsgUpdateExchangeRate) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "operator", &message.operator)?;
    ensure_valid_rate(&message.rate)
}

pub fn update(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateExchangeRate,
) -> Result<MsgUpdateExchangeRateResponse, LedgerError> {
    let mut rate = load_rate(exec, message.id)?;
    let key = (message.id, message.operator.clone());
    let authorization = exec.state.rate_authorizations.get(&key, exec.gas).cloned().ok_or_else(|| {
        LedgerError::new("xr", 1113, format!("exchange rate authorization not found: {}", message.operator))
    })?;
    let now = exec.block_time();
    let is_over = authorization.expiration.as_ref().is_none_or(|until| timestamp::is_at_or_before(until, &now));
    ensure(!is_over, "xr", 1114, || "exchange rate authorization expired".to_owned())?;
    ensure(rate.state, "xr", 1109, || format!("exchange rate not active: {}", message.id))?;
    if let (Some(interval), Some(updated)) = (&authorization.min_interval, &rate.updated) {
        let next = timestamp::add_duration(updated, interval);
        ensure(timestamp::is_at_or_before(&next, &now), "xr", 1115, || {
            format!("update too soon: next at {}", timestamp::rfc3339_nanos(&next))
        })?;
    }
    let (Some(old), Some(new)) = (parse_positive(&rate.rate), parse_positive(&message.rate)) else {
        return Err(LedgerError::new("xr", 1103, format!("invalid stored rate: {}", rate.rate)));
    };
    let change = if new > old { &new - &old } else { &old - &new };
    let bps = authorization.max_deviation_bps;
    ensure(change * MAX_BPS <= old * bps, "xr", 1116, || {
        format!("rate deviation exceeded: at most {bps} basis points")
    })?;
    rate.rate = message.rate.clone();
    rate.expires = rate.validity_duration.as_ref().map(|validity| timestamp::add_duration(&now, validity));
    rate.updated = Some(now);
    exec.state.rates.put(message.id, rate, exec.gas);
    exec.emit(
        "update_exchange_rate",
        [("id", message.id.to_string()), ("operator", message.operator), ("rate", message.rate)],
    );
    Ok(MsgUpdateExchangeRateResponse {})
}

pub fn set_state(
    exec: &mut ExecContext<'_>,
    message: MsgSetExchangeRateState,
) -> Result<MsgSetExchangeRateStateResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("xr", 1100))?;
    let mut rate = load_rate(exec, message.id)?;
    rate.state = message.state;
    exec.state.rates.put(message.id, rate, exec.gas);
    exec.emit(
        "set_exchange_rate_state",
        [("id", message.id.to_string()), ("authority", message.authority), ("state", message.state.to_string())],
    );
    Ok(MsgSetExchangeRateStateResponse {})
}

pub fn grant(
    exec: &mut ExecContext<'_>,
    message: MsgGrantExchangeRateAuthorization,
) -> Result<MsgGrantExchangeRateAuthorizationResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("xr", 1100))?;
    validate::address(&exec.chain.prefix, "operator", &message.operator)?;
    load_rate(exec, message.xr_id)?;
    let now = exec.block_time();
    let is_future = message.expiration.as_ref().is_some_and(|until| !timestamp::is_at_or_before(until, &now));
    ensure(is_future, "xr", 1117, || "expiration must be in the future".to_owned())?;
    let is_positive = message.min_interval.as_ref().is_none_or(|interval| timestamp::duration_nanos(interval) > 0);
    ensure(is_positive, "xr", 1119, || "min_interval must be positive".to_owned())?;
    ensure(message.max_deviation_bps <= MAX_BPS, "xr", 1118, || {
        format!("max_deviation_bps must be at most {MAX_BPS}")
    })?;
    let authorization = ExchangeRateAuthorization {
        xr_id: message.xr_id,
        operator: message.operator.clone(),
        expiration: message.expiration,
        min_interval: message.min_interval,
        max_deviation_bps: message.max_deviation_bps,
    };
    exec.state.rate_authorizations.put((message.xr_id, message.operator.clone()), authorization, exec.gas);
    exec.emit("grant_exchange_rate_authz", [("xr_id", message.xr_id.to_string()), ("operator", message.operator)]);
    Ok(MsgGrantExchangeRateAuthorizationResponse {})
}

pub fn revoke(
    exec: &mut ExecContext<'_>,
    message: MsgRevokeExchangeRateAuthorization,
) -> Result<MsgRevokeExchangeRateAuthorizationResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("xr", 1100))?;
    let removed = exec.state.rate_authorizations.remove(&(message.xr_id, message.operator.clone()), exec.gas);
    ensure(removed.is_some(), "xr", 1113, || format!("exchange rate authorization not found: {}", message.operator))?;
    exec.emit("revoke_exchange_rate_authz", [("xr_id", message.xr_id.to_string()), ("operator", message.operator)]);
    Ok(MsgRevokeExchangeRateAuthorizationResponse {})
}

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("xr", 1100))?;
    let params = message.params.unwrap_or_default();
    if params.max_validity_duration.as_ref().map_or(0, timestamp::duration_nanos) < MIN_VALIDITY_NANOS {
        return Err(LedgerError::unregistered("max_validity_duration must be at least one minute"));
    }
    exec.state.params.xr = params;
    Ok(MsgUpdateParamsResponse {})
}
