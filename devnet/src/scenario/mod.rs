//! What a fresh devnet holds, as data: accounts of the genesis, and steps that are sent as real transactions.
//!
//! A scenario is a TOML file; `docs/devnet.md` describes its format. Three are shipped.

mod run;

use std::{collections::BTreeMap, path::Path};

use serde::Deserialize;
use serde_json::Value;

pub use run::{Account, GAS_PRICE_MICROS, Runner, SeedError, delegable, foreign_use};

/// Scenarios that come with the devnet, by name.
pub const SHIPPED: [(&str, &str); 3] = [
    ("empty", include_str!("../../scenarios/empty.toml")),
    ("corporation", include_str!("../../scenarios/corporation.toml")),
    ("marketplace", include_str!("../../scenarios/marketplace.toml")),
];

/// A parsed scenario.
#[derive(Debug, Clone, Deserialize)]
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
        let text = match SHIPPED.iter().find(|(shipped, _)| *shipped == name) {
            Some((_, text)) => (*text).to_owned(),
            None => std::fs::read_to_string(Path::new(name)).map_err(|cause| {
                let shipped = SHIPPED.map(|(shipped, _)| shipped).join(", ");
                ScenarioError::Unknown { name: name.to_owned(), shipped, cause }
            })?,
        };
        toml::from_str(&text).map_err(|cause| ScenarioError::Format { name: name.to_owned(), cause: Box::new(cause) })
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
    }
}
