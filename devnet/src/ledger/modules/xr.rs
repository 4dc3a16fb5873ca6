//! Exchange rates: what prices in trust units, fiat money and other coins are worth in the fee denom.

use num_bigint::BigUint;
use prost_types::Duration;
use svc_wire::{
    instant,
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
};

use super::authority;
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    state::{State, next},
    table::Plain,
    validate::{self, ensure},
};

const MAX_SCALE: u32 = 18;
const MIN_VALIDITY_NANOS: i128 = 60 * 1_000_000_000;
const MAX_BPS: u32 = 10_000;

/// Why a conversion is not possible, as the gRPC status the chain answers with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoPrice {
    Missing,
    Disabled,
    Expired,
    Unusable,
}

impl NoPrice {
    pub fn text(self) -> &'static str {
        match self {
            Self::Missing => "rpc error: code = NotFound desc = exchange rate not found",
            Self::Disabled => "rpc error: code = FailedPrecondition desc = exchange rate is not active",
            Self::Expired => "rpc error: code = FailedPrecondition desc = exchange rate has expired",
            Self::Unusable => "rpc error: code = Internal desc = price does not fit",
        }
    }
}

/// `floor(amount x rate / 10^scale)` of a stored pair; no inverse, no chain of pairs.
pub fn price(
    state: &State,
    now: &prost_types::Timestamp,
    base: (PricingAssetType, &str),
    quote: (PricingAssetType, &str),
    amount: &BigUint,
) -> Result<BigUint, NoPrice> {
    let key = (base.0.into(), base.1.to_owned(), quote.0.into(), quote.1.to_owned());
    let id = state.rate_index.peek(&key).ok_or(NoPrice::Missing)?.0;
    let rate = state.rates.peek(&id).ok_or(NoPrice::Missing)?;
    if !rate.state {
        return Err(NoPrice::Disabled);
    }
    if rate.expires.as_ref().is_none_or(|until| instant::at_or_before(until, now)) {
        return Err(NoPrice::Expired);
    }
    let number: BigUint = rate.rate.parse().map_err(|_| NoPrice::Unusable)?;
    Ok(amount * number / BigUint::from(10u32).pow(rate.rate_scale))
}

/// What `amount` of an asset is worth in the fee denom. Nothing is worth nothing, whatever the rate.
pub fn to_fee_denom(exec: &Exec<'_>, asset: (PricingAssetType, &str), amount: u64) -> Result<u64, LedgerError> {
    if amount == 0 {
        return Ok(0);
    }
    let quote = (PricingAssetType::Coin, exec.chain.denom.as_str());
    exec.gas.read(asset.1.len());
    price(exec.state, &exec.now(), asset, quote, &BigUint::from(amount))
        .and_then(|worth| i64::try_from(worth).map_err(|_| NoPrice::Unusable))
        .map(i64::unsigned_abs)
        .map_err(|cause| LedgerError::plain(format!("failed to convert {amount} {}: {}", asset.1, cause.text())))
}

/// A positive integer of at most 256 bits.
fn positive(text: &str) -> Option<BigUint> {
    let is_digits = !text.is_empty() && text.len() <= 78 && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|rate: &BigUint| is_digits && rate.bits() > 0 && rate.bits() <= 256)
}

fn valid_rate(text: &str) -> Result<(), LedgerError> {
    match positive(text) {
        Some(_) => Ok(()),
        None => Err(LedgerError::plain(format!("rate must be a positive integer, got {text:?}"))),
    }
}

/// Whether an asset's text fits its type.
pub fn is_asset(kind: PricingAssetType, asset: &str) -> bool {
    match kind {
        PricingAssetType::Tu => asset == "tu",
        PricingAssetType::Coin => validate::is_denom(asset),
        PricingAssetType::Fiat => validate::is_currency(asset),
        PricingAssetType::Unspecified => false,
    }
}

fn valid_side(side: &str, kind: PricingAssetType, asset: &str) -> Result<(), LedgerError> {
    if is_asset(kind, asset) {
        Ok(())
    } else {
        Err(LedgerError::plain(format!("invalid {side} asset: {kind:?} {asset:?}")))
    }
}

pub fn validate_create(chain: &Chain, message: &MsgCreateExchangeRate) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "authority", &message.authority)?;
    valid_side("base", message.base_asset_type(), &message.base_asset)?;
    valid_side("quote", message.quote_asset_type(), &message.quote_asset)?;
    if (message.base_asset_type, &message.base_asset) == (message.quote_asset_type, &message.quote_asset) {
        return Err(LedgerError::plain("base and quote must differ"));
    }
    valid_rate(&message.rate)?;
    if message.rate_scale > MAX_SCALE {
        return Err(LedgerError::plain(format!("rate_scale must be at most {MAX_SCALE}")));
    }
    if message.validity_duration.as_ref().map_or(0, instant::span_nanos) < MIN_VALIDITY_NANOS {
        return Err(LedgerError::plain("validity_duration must be at least one minute"));
    }
    Ok(())
}

pub fn create(
    exec: &mut Exec<'_>,
    message: MsgCreateExchangeRate,
) -> Result<MsgCreateExchangeRateResponse, LedgerError> {
    authority(exec, &message.authority, ("xr", 1100))?;
    let validity = message.validity_duration.unwrap_or_default();
    let longest = exec.state.params.xr.max_validity_duration.as_ref().map_or(0, instant::span_nanos);
    if instant::span_nanos(&validity) > longest {
        return Err(LedgerError::plain("validity_duration is above the maximum"));
    }
    let sides = [
        (message.base_asset_type(), message.base_asset.as_str()),
        (message.quote_asset_type(), message.quote_asset.as_str()),
    ];
    for (kind, asset) in sides {
        let has_supply = exec.state.supply.get(&asset.to_owned(), exec.gas).is_some_and(|supply| supply.0 > 0);
        if kind == PricingAssetType::Coin && !has_supply {
            return Err(LedgerError::plain(format!("denom {asset} has no supply on this chain")));
        }
    }
    let key =
        (message.base_asset_type, message.base_asset.clone(), message.quote_asset_type, message.quote_asset.clone());
    ensure(!exec.state.rate_index.contains(&key, exec.gas), "xr", 1106, || {
        format!("exchange rate pair exists: {} to {}", message.base_asset, message.quote_asset)
    })?;
    let (id, now) = (next(&mut exec.state.next_rate), exec.now());
    let rate = ExchangeRate {
        id,
        base_asset_type: message.base_asset_type,
        base_asset: message.base_asset,
        quote_asset_type: message.quote_asset_type,
        quote_asset: message.quote_asset,
        rate: message.rate,
        rate_scale: message.rate_scale,
        validity_duration: Some(validity),
        expires: Some(instant::later(&now, &validity)),
        // Quirk: the message's own `state` is not looked at.
        state: false,
        updated: Some(now),
    };
    exec.state.rate_index.put(key, Plain(id), exec.gas);
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
            ("expires", rate.expires.as_ref().map(instant::go_text).unwrap_or_default()),
        ],
    );
    exec.state.rates.put(id, rate, exec.gas);
    Ok(MsgCreateExchangeRateResponse { id })
}

/// `720h0m0s`, as Go prints whole seconds.
fn go_duration(span: &Duration) -> String {
    let (hours, minutes, seconds) = (span.seconds / 3600, span.seconds / 60 % 60, span.seconds % 60);
    match (hours, minutes) {
        (0, 0) => format!("{seconds}s"),
        (0, _) => format!("{minutes}m{seconds}s"),
        _ => format!("{hours}h{minutes}m{seconds}s"),
    }
}

fn load(exec: &Exec<'_>, id: u64) -> Result<ExchangeRate, LedgerError> {
    let found = exec.state.rates.get(&id, exec.gas).cloned();
    found.ok_or_else(|| LedgerError::new("xr", 1108, format!("exchange rate not found: {id}")))
}

pub fn validate_update(chain: &Chain, message: &MsgUpdateExchangeRate) -> Result<(), LedgerError> {
    validate::address(&chain.prefix, "operator", &message.operator)?;
    valid_rate(&message.rate)
}

pub fn update(
    exec: &mut Exec<'_>,
    message: MsgUpdateExchangeRate,
) -> Result<MsgUpdateExchangeRateResponse, LedgerError> {
    let mut rate = load(exec, message.id)?;
    let key = (message.id, message.operator.clone());
    let authorization = exec.state.rate_authorizations.get(&key, exec.gas).cloned().ok_or_else(|| {
        LedgerError::new("xr", 1113, format!("exchange rate authorization not found: {}", message.operator))
    })?;
    let now = exec.now();
    let is_over = authorization.expiration.as_ref().is_none_or(|until| instant::at_or_before(until, &now));
    ensure(!is_over, "xr", 1114, || "exchange rate authorization expired".to_owned())?;
    ensure(rate.state, "xr", 1109, || format!("exchange rate not active: {}", message.id))?;
    if let (Some(interval), Some(updated)) = (&authorization.min_interval, &rate.updated) {
        let next = instant::later(updated, interval);
        ensure(instant::at_or_before(&next, &now), "xr", 1115, || {
            format!("update too soon: next at {}", instant::rfc3339_nanos(&next))
        })?;
    }
    let (Some(old), Some(new)) = (positive(&rate.rate), positive(&message.rate)) else {
        return Err(LedgerError::new("xr", 1103, format!("invalid stored rate: {}", rate.rate)));
    };
    let change = if new > old { &new - &old } else { &old - &new };
    let bps = authorization.max_deviation_bps;
    ensure(change * MAX_BPS <= old * bps, "xr", 1116, || {
        format!("rate deviation exceeded: at most {bps} basis points")
    })?;
    rate.rate = message.rate.clone();
    rate.expires = rate.validity_duration.as_ref().map(|validity| instant::later(&now, validity));
    rate.updated = Some(now);
    exec.state.rates.put(message.id, rate, exec.gas);
    exec.emit(
        "update_exchange_rate",
        [("id", message.id.to_string()), ("operator", message.operator), ("rate", message.rate)],
    );
    Ok(MsgUpdateExchangeRateResponse {})
}

pub fn set_state(
    exec: &mut Exec<'_>,
    message: MsgSetExchangeRateState,
) -> Result<MsgSetExchangeRateStateResponse, LedgerError> {
    authority(exec, &message.authority, ("xr", 1100))?;
    let mut rate = load(exec, message.id)?;
    rate.state = message.state;
    exec.state.rates.put(message.id, rate, exec.gas);
    exec.emit(
        "set_exchange_rate_state",
        [("id", message.id.to_string()), ("authority", message.authority), ("state", message.state.to_string())],
    );
    Ok(MsgSetExchangeRateStateResponse {})
}

pub fn grant(
    exec: &mut Exec<'_>,
    message: MsgGrantExchangeRateAuthorization,
) -> Result<MsgGrantExchangeRateAuthorizationResponse, LedgerError> {
    authority(exec, &message.authority, ("xr", 1100))?;
    validate::address(&exec.chain.prefix, "operator", &message.operator)?;
    load(exec, message.xr_id)?;
    let now = exec.now();
    let is_future = message.expiration.as_ref().is_some_and(|until| !instant::at_or_before(until, &now));
    ensure(is_future, "xr", 1117, || "expiration must be in the future".to_owned())?;
    let is_positive = message.min_interval.as_ref().is_none_or(|interval| instant::span_nanos(interval) > 0);
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
    exec: &mut Exec<'_>,
    message: MsgRevokeExchangeRateAuthorization,
) -> Result<MsgRevokeExchangeRateAuthorizationResponse, LedgerError> {
    authority(exec, &message.authority, ("xr", 1100))?;
    let removed = exec.state.rate_authorizations.remove(&(message.xr_id, message.operator.clone()), exec.gas);
    ensure(removed.is_some(), "xr", 1113, || format!("exchange rate authorization not found: {}", message.operator))?;
    exec.emit("revoke_exchange_rate_authz", [("xr_id", message.xr_id.to_string()), ("operator", message.operator)]);
    Ok(MsgRevokeExchangeRateAuthorizationResponse {})
}

pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("xr", 1100))?;
    let params = message.params.unwrap_or_default();
    if params.max_validity_duration.as_ref().map_or(0, instant::span_nanos) < MIN_VALIDITY_NANOS {
        return Err(LedgerError::plain("max_validity_duration must be at least one minute"));
    }
    exec.state.params.xr = params;
    Ok(MsgUpdateParamsResponse {})
}
