//! What a fresh devnet holds, as data: accounts of the genesis, and steps that are sent as real transactions.
//!
//! A scenario is a TOML file; `docs/devnet.md` describes its format. Four are shipped, one of which is made of two files.

mod run;

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

pub use run::{Account, GAS_PRICE_MICROS, Runner, SeedError, delegable, foreign_use};

use crate::services::{EcosystemPart, Phase, SchemaPart, ServicePart};

const MARKETPLACE: &str = include_str!("../../scenarios/marketplace.toml");
const SERVICES: &str = include_str!("../../scenarios/services.toml");

/// Scenarios that come with the devnet, by name: each a file, or several that are joined.
pub const SHIPPED: [(&str, &[&str]); 4] = [
    ("empty", &[include_str!("../../scenarios/empty.toml")]),
    ("corporation", &[include_str!("../../scenarios/corporation.toml")]),
    ("marketplace", &[MARKETPLACE, SERVICES]),
    ("services", &[SERVICES]),
];

/// A parsed scenario.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// One sentence for people.
    pub description: String,
    /// What the chain begins with, besides accounts.
    #[serde(default)]
    pub genesis: GenesisPart,
    /// Accounts with keys.
    #[serde(default, rename = "account")]
    pub accounts: Vec<AccountPart>,
    /// Whose place the tool server takes; without it there is no tool server.
    pub seat: Option<SeatPart>,
    /// The ecosystem the services live in.
    pub ecosystem: Option<EcosystemPart>,
    /// Its credential schemas.
    #[serde(default, rename = "schema")]
    pub schemas: Vec<SchemaPart>,
    /// Services with DIDs and credentials.
    #[serde(default, rename = "service")]
    pub services: Vec<ServicePart>,
    /// Transactions, in order.
    #[serde(default, rename = "step")]
    pub steps: Vec<Step>,
}

/// Settings of the genesis.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GenesisPart {
    /// Coins in the pool that yield is paid from.
    pub yield_pool: u64,
    /// Voting period of governance proposals, in seconds; 30 when left out.
    pub gov_voting_seconds: Option<i64>,
}

/// An account whose key the devnet knows.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AccountPart {
    /// Name by which steps refer to it.
    pub name: String,
    /// A public test phrase, worth nothing anywhere.
    pub mnemonic: String,
    /// Coins by denom; `FEE` stands for the fee denom.
    #[serde(default)]
    pub coins: BTreeMap<String, u64>,
    /// Bonded stake: its weight in governance votes.
    #[serde(default)]
    pub bonded: u64,
}

/// The corporation and the operator of the tool server.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeatPart {
    /// Name of the operator's account.
    pub operator: String,
    /// Name under which the corporation's id was saved.
    pub corporation_id: String,
    /// Name under which its policy address was saved.
    pub policy_address: String,
}

/// One transaction, or a move of the clock.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What it is for; errors name it.
    pub name: String,
    /// Seconds the clock moves before.
    #[serde(default)]
    pub advance: u32,
    /// Account that signs.
    pub signer: Option<String>,
    /// Saved address that pays the fee.
    pub granter: Option<String>,
    /// Saved policy address whose group runs the messages as a proposal.
    pub proposal: Option<String>,
    /// Runs the messages as a governance proposal, with the signer's vote, and waits out the voting period.
    #[serde(default)]
    pub governance: bool,
    /// Messages, in order.
    #[serde(default)]
    pub messages: Vec<MessagePart>,
    /// What is done for all services at once, behind the messages.
    pub services: Option<Phase>,
    /// Names to keep: from the last response (`field`), or from an event (`event.attribute`).
    #[serde(default)]
    pub save: BTreeMap<String, String>,
}

/// A message in the JSON mapping of protobuf.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MessagePart {
    /// `pp.MsgCreateRootParticipant`, or a complete type URL.
    pub r#type: String,
    /// Its fields. Texts may refer to saved names (`$name`), to the fee denom (`$FEE`), to type URLs (`$type:co.MsgX`) and to
    /// the header time (`$now+30s`); the list `["$delegable"]` has all type URLs an operator can be granted.
    pub value: Value,
}

/// Why a scenario cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// Neither shipped nor a readable file.
    #[error("scenario {name:?} is neither one of {shipped} nor a readable file: {cause}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names of those that come with the devnet.
        shipped: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// It is not a scenario.
    #[error("scenario {name:?}: {cause}")]
    Format {
        /// Which.
        name: String,
        /// What is wrong, with its place.
        cause: Box<toml::de::Error>,
    },
}

impl Scenario {
    /// A shipped scenario by name, or a file.
    pub fn load(name: &str) -> Result<Self, ScenarioError> {
        let texts = match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            Some((_, texts)) => texts.iter().map(|text| (*text).to_owned()).collect(),
            None => vec![std::fs::read_to_string(Path::new(name)).map_err(|cause| {
                let shipped = SHIPPED.map(|(shipped, _)| shipped).join(", ");
                ScenarioError::Unknown { name: name.to_owned(), shipped, cause }
            })?],
        };
        let parse = |text: &String| {
            let cause = |cause| ScenarioError::Format { name: name.to_owned(), cause: Box::new(cause) };
            toml::from_str::<Self>(text).map_err(cause)
        };
        let mut parts = texts.iter().map(parse).collect::<Result<Vec<_>, _>>()?.into_iter();
        let first = parts.next().unwrap_or_default();
        Ok(parts.fold(first, Self::then))
    }

    /// This one, and another behind it. What there can be only one of is the first one's.
    fn then(mut self, other: Self) -> Self {
        self.accounts.extend(other.accounts);
        self.seat = self.seat.or(other.seat);
        self.ecosystem = self.ecosystem.or(other.ecosystem);
        self.schemas.extend(other.schemas);
        self.services.extend(other.services);
        self.steps.extend(other.steps);
        self
    }

    /// Seconds the clock moves while it runs: how old the chain must begin to be, to end at the present.
    pub fn age_seconds(&self) -> u64 {
        let voting = self.genesis.gov_voting_seconds.unwrap_or(30).unsigned_abs();
        let governed = self.steps.iter().filter(|step| step.governance).count() as u64;
        self.steps.iter().map(|step| u64::from(step.advance)).sum::<u64>() + governed * voting
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shipped_scenarios_parse_and_others_are_refused_with_their_place() {
        for (name, _) in SHIPPED {
            Scenario::load(name).expect(name);
        }
        assert!(matches!(Scenario::load("no/such/file.toml"), Err(ScenarioError::Unknown { .. })));
        let bad = toml::from_str::<Scenario>("description = 'x'\n[[step]]\nname = 'a'\nsinger = 'b'\n");
        assert!(bad.expect_err("refused").to_string().contains("singer"));
        let service = |rest: &str| {
            let text = format!("description = 'x'\n[[service]]\nname = 'a'\nshows = 'b'\n{rest}\n");
            toml::from_str::<Scenario>(&text).map(|found| found.services.len()).map_err(|error| error.to_string())
        };
        assert_eq!(service("expect = 'trusted'"), Ok(1));
        for (rest, named) in [
            ("expect = 'nonsense'", "\"nonsense\" is neither `trusted` nor a reason"),
            ("expect = 'trusted'\nfault = 'bad_hair'", "bad_hair"),
            ("expect = 'trusted'\nissues = { service = { fee = 1 } }", "fee"),
        ] {
            let error = service(rest).expect_err("refused");
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn the_marketplace_is_its_file_with_the_services_behind_it() {
        let (whole, services) =
            (Scenario::load("marketplace").expect("whole"), Scenario::load("services").expect("part"));
        let alone: Scenario = toml::from_str(MARKETPLACE).expect("alone");
        assert_eq!(whole.steps.len(), alone.steps.len() + services.steps.len());
        assert!(alone.services.is_empty() && whole.services.len() == services.services.len());
        assert_eq!(whole.age_seconds(), alone.age_seconds() + services.age_seconds());
        assert!(whole.seat.is_some() && services.seat.is_none());
    }
}
