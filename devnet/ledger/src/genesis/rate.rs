//! Exchange rates that a chain begins with.

use prost_types::{Duration, Timestamp};
use serde::{Deserialize, Serialize};
use svc_wire::proto::svc::{cs::v1::PricingAssetType, xr::v1::ExchangeRate};

use super::app_state::AppStateError;

/// An exchange rate of the genesis. It is in use.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GenesisRate {
    /// `TU`, `COIN` or `FIAT`.
    pub base_asset_type: String,
    /// The asset that is priced.
    pub base_asset: String,
    /// `TU`, `COIN` or `FIAT`.
    pub quote_asset_type: String,
    /// The asset that prices are in.
    pub quote_asset: String,
    /// A positive integer.
    pub rate: String,
    /// The price of an amount is `floor(amount x rate / 10^rate_scale)`.
    pub rate_scale: u32,
    /// Seconds for which an update is valid.
    pub validity_seconds: i64,
    /// End of its validity, in seconds since the epoch.
    pub expires: i64,
}

impl GenesisRate {
    pub(super) fn to_rate(&self, id: u64) -> Result<ExchangeRate, AppStateError> {
        let kind = |name: &str| {
            PricingAssetType::from_str_name(name).map(i32::from).ok_or_else(|| {
                AppStateError::Inconsistent(format!("{name:?} is no type of an asset of an exchange rate"))
            })
        };
        let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
        Ok(ExchangeRate {
            id,
            base_asset_type: kind(&self.base_asset_type)?,
            base_asset: self.base_asset.clone(),
            quote_asset_type: kind(&self.quote_asset_type)?,
            quote_asset: self.quote_asset.clone(),
            rate: self.rate.clone(),
            rate_scale: self.rate_scale,
            validity_duration: Some(Duration { seconds: self.validity_seconds, nanos: 0 }),
            expires: at(self.expires),
            state: true,
            updated: at(self.expires - self.validity_seconds),
        })
    }
}
