//! The `app_state` of a genesis document: the genesis state of each module, in the JSON of the Cosmos SDK.

use prost::Message;
use serde_json::{Map, Value, json};
use svc_wire::{
    proto::{
        cosmos::{auth, bank, feegrant, gov, group},
        svc::{co, cs, de, di, ec, gf, pp, td, xr},
    },
    proto_registry::ProtoRegistry,
};

use super::generation_form;
use crate::{chain::ChainConfig, values::decimal::LegacyDec};

/// An `app_state` cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum AppStateError {
    /// The part of a module is not its genesis state.
    #[error("app_state.{module}: {reason}")]
    Module {
        /// Key of the module.
        module: &'static str,
        /// The reason.
        reason: String,
    },
    /// The parts contradict each other.
    #[error("app_state: {0}")]
    Inconsistent(String),
}

/// The genesis states of the modules that the ledger has.
#[derive(Debug, Default)]
pub(super) struct AppState {
    pub auth: auth::v1beta1::GenesisState,
    pub bank: bank::v1beta1::GenesisState,
    pub feegrant: feegrant::v1beta1::GenesisState,
    pub group: group::v1::GenesisState,
    pub gov: gov::v1::GenesisState,
    /// Bond denom, and delegator address with its bonded amount.
    pub bond_denom: String,
    pub delegations: Vec<(String, u128)>,
    pub co: co::v1::GenesisState,
    pub cs: cs::v1::GenesisState,
    pub de: de::v1::GenesisState,
    pub di: di::v1::GenesisState,
    pub ec: ec::v1::GenesisState,
    pub gf: gf::v1::GenesisState,
    pub pp: pp::v1::GenesisState,
    pub td: td::v1::GenesisState,
    pub xr: xr::v1::GenesisState,
}

/// Declares the modules once: the key in the document, and the package of the message.
macro_rules! modules {
    ($visit:ident) => {
        $visit! {
            auth "cosmos.auth.v1beta1", bank "cosmos.bank.v1beta1", feegrant "cosmos.feegrant.v1beta1",
            group "cosmos.group.v1", gov "cosmos.gov.v1",
        }
    };
}

macro_rules! registry_modules {
    ($visit:ident) => {
        $visit! { co, cs, de, di, ec, gf, pp, td, xr, }
    };
}

/// The messages of the ledger have the numbers of the first generation; those of the chain may be others.
fn compiled_registry(chain: &ChainConfig) -> Result<ProtoRegistry, AppStateError> {
    ProtoRegistry::compiled(chain.namespace()).map_err(|error| AppStateError::Inconsistent(error.to_string()))
}

fn read_part<M: Message + Default>(
    registry: &ProtoRegistry,
    module: &'static str,
    name: &str,
    value: Option<Value>,
) -> Result<M, AppStateError> {
    let Some(value) = value else { return Ok(M::default()) };
    let bytes = registry.encode(name, &value);
    let bytes = bytes.map_err(|error| AppStateError::Module { module, reason: error.to_string() })?;
    M::decode(bytes.as_slice()).map_err(|error| AppStateError::Module { module, reason: error.to_string() })
}

fn write_part(
    registry: &ProtoRegistry,
    module: &'static str,
    name: &str,
    message: &impl Message,
) -> Result<Value, AppStateError> {
    registry
        .decode(name, &message.encode_to_vec())
        .map_err(|error| AppStateError::Module { module, reason: error.to_string() })
}

impl AppState {
    /// Reads a document. A module without a part has its default state; modules that the ledger lacks are ignored.
    pub fn from_json(app_state: &Value, chain: &ChainConfig) -> Result<Self, AppStateError> {
        let registry = &compiled_registry(chain)?;
        let mut read = Self::default();
        let part = |module: &str| {
            let mut value = app_state.get(module).cloned()?;
            generation_form::to_first(module, &mut value, chain.generation);
            Some(value)
        };
        macro_rules! read_modules {
            ($($module:ident $package:literal,)*) => {
                $(read.$module = read_part(
                    registry, stringify!($module), concat!($package, ".GenesisState"), part(stringify!($module)),
                )?;)*
            };
        }
        modules!(read_modules);
        macro_rules! read_registry_modules {
            ($($module:ident,)*) => {
                $({
                    let name = registry.namespace().full_name(stringify!($module), "GenesisState");
                    let value = part(stringify!($module)).map(|mut value| {
                        convert_decimals(&mut value, stringify!($module), |text| {
                            LegacyDec::from_text(text).map(|decimal| decimal.to_wire())
                        })?;
                        Ok(value)
                    });
                    read.$module = read_part(registry, stringify!($module), &name, value.transpose()?)?;
                })*
            };
        }
        registry_modules!(read_registry_modules);
        let staking = &app_state["staking"];
        staking["params"]["bond_denom"].as_str().unwrap_or_default().clone_into(&mut read.bond_denom);
        for delegation in staking["delegations"].as_array().into_iter().flatten() {
            let shares = delegation["shares"].as_str().and_then(LegacyDec::from_text);
            let amount = shares.and_then(|shares| shares.truncate());
            let pair = delegation["delegator_address"].as_str().map(str::to_owned).zip(amount);
            read.delegations.push(pair.ok_or_else(|| AppStateError::Module {
                module: "staking",
                reason: format!("{delegation} is not a delegation"),
            })?);
        }
        Ok(read)
    }

    /// Writes the document.
    pub fn to_json(&self, chain: &ChainConfig) -> Result<Value, AppStateError> {
        let registry = &compiled_registry(chain)?;
        let mut parts = Map::new();
        macro_rules! write_modules {
            ($($module:ident $package:literal,)*) => {
                $(parts.insert(
                    stringify!($module).to_owned(),
                    write_part(registry, stringify!($module), concat!($package, ".GenesisState"), &self.$module)?,
                );)*
            };
        }
        modules!(write_modules);
        macro_rules! write_registry_modules {
            ($($module:ident,)*) => {
                $({
                    let name = registry.namespace().full_name(stringify!($module), "GenesisState");
                    let mut value = write_part(registry, stringify!($module), &name, &self.$module)?;
                    convert_decimals(&mut value, stringify!($module), |text| {
                        LegacyDec::from_wire(text).map(|decimal| decimal.to_string())
                    })?;
                    generation_form::of_generation(stringify!($module), &mut value, chain.generation);
                    parts.insert(stringify!($module).to_owned(), value);
                })*
            };
        }
        registry_modules!(write_registry_modules);
        let delegations = self.delegations.iter().map(|(delegator, amount)| {
            json!({"delegator_address": delegator, "validator_address": "", "shares": format!("{amount}.000000000000000000")})
        });
        parts.insert(
            "staking".to_owned(),
            json!({"params": {"bond_denom": self.bond_denom}, "delegations": delegations.collect::<Vec<_>>()}),
        );
        Ok(Value::Object(parts))
    }
}

/// Parameters of trust deposits that are no decimals.
const TEXT_PARAMETERS: [&str; 1] = ["yield_intermediate_pool"];

/// Converts the decimals of a part: they are text with a point in JSON, and scaled integers in bytes.
fn convert_decimals(
    part: &mut Value,
    module: &'static str,
    convert: impl Fn(&str) -> Option<String>,
) -> Result<(), AppStateError> {
    if module != "td" {
        return Ok(());
    }
    let mut decimals: Vec<(&str, &mut Value)> = Vec::new();
    if let Some(members) = part.as_object_mut() {
        for (name, member) in members {
            match (name.as_str(), member) {
                ("params", Value::Object(params)) => decimals.extend(
                    params
                        .iter_mut()
                        .map(|(name, value)| (name.as_str(), value))
                        .filter(|(name, _)| !TEXT_PARAMETERS.contains(name)),
                ),
                ("trust_deposits", Value::Array(deposits)) => {
                    decimals.extend(deposits.iter_mut().filter_map(|one| Some(("share", one.get_mut("share")?))));
                }
                _ => {}
            }
        }
    }
    for (name, decimal) in decimals {
        let converted = decimal.as_str().and_then(&convert);
        let reason = || format!("{name}: {decimal} is not a decimal");
        let converted = converted.ok_or_else(|| AppStateError::Module { module, reason: reason() })?;
        *decimal = converted.into();
    }
    Ok(())
}
