//! The snapshot of the bound corporation: one immutable value, read without a message and without a wait.

pub mod publisher;

use prost_types::Timestamp;
use serde_json::Value;
use svc_pipeline::{FeeAllowance, FeeBudget};
use svc_wire::timestamp;

/// An authorization of this operator.
#[derive(Debug, Clone, PartialEq)]
pub struct OperatorAuthorization {
    /// Id on chain.
    pub id: u64,
    /// Message types as type URLs.
    pub msg_types: Vec<String>,
    /// End of validity; `None` without an end.
    pub expiration: Option<Timestamp>,
    /// Whether it renews itself when it has expired.
    pub renews: bool,
    /// As the indexer shows it.
    pub body: Value,
}

/// An agent of the corporation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CorporationAgent {
    /// DID of its participants.
    pub did: String,
    /// Account it acts with.
    pub vs_operator: String,
    /// Ids of its participants.
    pub participants: Vec<u64>,
}

/// The corporation at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CorporationSnapshot {
    /// The corporation as the indexer shows it.
    pub corporation: Value,
    /// Its ecosystems as the indexer shows them.
    pub ecosystems: Vec<Value>,
    /// Authorizations of this operator.
    pub authorizations: Vec<OperatorAuthorization>,
    /// Authorizations of its VS operators, as the indexer shows them.
    pub vs_authorizations: Vec<Value>,
    /// Agents: participants with a DID and a VS operator that the corporation authorizes, by DID and operator.
    pub agents: Vec<CorporationAgent>,
    /// Account of this operator.
    pub operator: String,
    /// Whether the indexer answers trust reads.
    pub serves_trust: bool,
    /// Fee allowance to this operator.
    pub allowance: KnownAllowance,
    /// Number of the operator's account; `None` while the account does not exist.
    pub account_number: Option<u64>,
    /// Its sequence in the newest block.
    pub sequence: u64,
    /// Time of the read, RFC 3339.
    pub refreshed_at: String,
    /// Height that the indexer had when the read began.
    pub as_of_height: u64,
}

/// The answer of the node about a fee allowance.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum KnownAllowance {
    /// There is none.
    #[default]
    Absent,
    /// There is this one.
    Given(FeeAllowance),
    /// The node has not said whether there is one.
    Unknown(UnknownPayer),
}

impl KnownAllowance {
    /// The allowance, where the node has shown one.
    pub fn given(&self) -> Option<&FeeAllowance> {
        match self {
            Self::Given(allowance) => Some(allowance),
            Self::Absent | Self::Unknown(_) => None,
        }
    }

    /// The reason for which it is not known.
    pub fn unknown(&self) -> Option<&UnknownPayer> {
        match self {
            Self::Unknown(unknown) => Some(unknown),
            Self::Absent | Self::Given(_) => None,
        }
    }
}

/// The corporation may pay a fee, or may not: the node has not said it. The operator does not pay in its place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("whether the corporation pays the fee is not known: {0}")]
pub struct UnknownPayer(pub String);

/// Whether the corporation grants a message type to this operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GrantStatus {
    /// It does.
    Granted,
    /// An authorization names it, but has expired.
    Expired(String),
    /// No authorization names it.
    NotGranted,
}

impl CorporationSnapshot {
    /// Account of the corporation.
    pub fn policy_address(&self) -> &str {
        self.corporation["policy_address"].as_str().unwrap_or_default()
    }

    /// Whether the corporation grants a message type to this operator now.
    pub fn grant_status(&self, msg_type: &str, now: &Timestamp) -> GrantStatus {
        let mut gate = self.record_grant_status(msg_type, now);
        if gate == GrantStatus::Granted {
            return gate;
        }
        for authorization in
            self.authorizations.iter().filter(|one| one.msg_types.iter().any(|listed| listed == msg_type))
        {
            match &authorization.expiration {
                Some(until) if timestamp::is_at_or_before(until, now) && !authorization.renews => {
                    gate = GrantStatus::Expired(timestamp::iso_millis(until));
                }
                Some(_) | None => return GrantStatus::Granted,
            }
        }
        gate
    }

    /// Records of this operator as the VS operator of participants, with the id of their authorization.
    pub fn own_vs_records(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let own = self.vs_authorizations.iter().filter(|one| one["vs_operator"] == self.operator.as_str());
        own.flat_map(|one| one["records"].as_array().into_iter().flatten().map(move |record| (&one["id"], record)))
    }

    /// The grant that this operator has as the VS operator of a participant. The oldest nodes refuse a record without an end in simulation;
    /// to all others it does not expire.
    fn record_grant_status(&self, msg_type: &str, now: &Timestamp) -> GrantStatus {
        let mut gate = GrantStatus::NotGranted;
        for (_, record) in self.own_vs_records().filter(|(_, record)| {
            record["msg_types"].as_array().is_some_and(|listed| listed.iter().any(|one| one == msg_type))
        }) {
            let Some(until) = record["expiration"].as_str().and_then(timestamp::parse_rfc3339) else {
                return GrantStatus::Granted;
            };
            if !timestamp::is_at_or_before(&until, now) || record["period"].is_string() {
                return GrantStatus::Granted;
            }
            gate = GrantStatus::Expired(timestamp::iso_millis(&until));
        }
        gate
    }

    /// Budget of the fee allowance for a message type now; `None` when no allowance pays for it.
    ///
    /// # Errors
    /// While the allowance is not known.
    pub fn fee_budget(&self, msg_type: &str, now: &Timestamp) -> Result<Option<FeeBudget>, UnknownPayer> {
        match &self.allowance {
            KnownAllowance::Absent => Ok(None),
            KnownAllowance::Given(allowance) => Ok(allowance.budget_for(msg_type, now)),
            KnownAllowance::Unknown(unknown) => Err(unknown.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn snapshot(expiration: Option<i64>, renews: bool) -> CorporationSnapshot {
        let authorization = OperatorAuthorization {
            id: 1,
            msg_types: vec!["/a".into()],
            expiration: expiration.map(at),
            renews,
            body: Value::Null,
        };
        CorporationSnapshot { authorizations: vec![authorization], ..CorporationSnapshot::default() }
    }

    #[test]
    fn the_grant_status_mirrors_the_chain() {
        for (expiration, renews, msg_type, expected) in [
            (None, false, "/a", "granted"),
            (None, false, "/b", "not"),
            (Some(11), false, "/a", "granted"),
            (Some(10), false, "/a", "expired"),
            (Some(10), true, "/a", "granted"),
        ] {
            let found = match snapshot(expiration, renews).grant_status(msg_type, &at(10)) {
                GrantStatus::Granted => "granted",
                GrantStatus::Expired(_) => "expired",
                GrantStatus::NotGranted => "not",
            };
            assert_eq!(found, expected, "{expiration:?} {renews} {msg_type}");
        }
    }

    #[test]
    fn a_record_of_a_vs_operator_counts_for_its_own_account_until_its_end() {
        let record = |expiration: Value| serde_json::json!({"msg_types": ["/s"], "expiration": expiration});
        for (owner, expiration, is_granted) in [
            ("me", Value::from("1970-01-01T00:00:11Z"), true),
            ("me", Value::from("1970-01-01T00:00:10Z"), false),
            ("me", Value::Null, true),
            ("you", Value::Null, false),
            ("you", Value::from("1970-01-01T00:00:11Z"), false),
        ] {
            let authorization = serde_json::json!({"vs_operator": owner, "records": [record(expiration.clone())]});
            let snapshot = CorporationSnapshot {
                operator: "me".into(),
                vs_authorizations: vec![authorization],
                ..CorporationSnapshot::default()
            };
            assert_eq!(
                snapshot.grant_status("/s", &at(10)) == GrantStatus::Granted,
                is_granted,
                "{owner} {expiration}"
            );
        }
    }
}
