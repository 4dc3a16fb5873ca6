//! The denom of fees as it was set, compared with the coins that the node states.

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::proto::cosmos::bank::v1beta1::{QuerySupplyOfRequest, QuerySupplyOfResponse};

use super::{gas_price::query_price_denoms, params::query_bond_denom};

/// The statements of a node about the coins of its chain. A question without an answer is an error with its reason.
#[derive(Debug, Clone)]
pub(super) struct DenomFacts {
    /// The bond denom; empty where the chain has none.
    pub bond: Result<String, String>,
    /// The denoms in which the node states a minimum price of gas. It takes fees in these alone, unless there are none.
    pub priced: Result<Vec<String>, String>,
    /// Coins of the configured denom that exist.
    pub supply: Result<u128, String>,
}

/// The meaning of these statements for a configured denom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DenomVerdict {
    /// The node takes fees in it.
    Confirmed,
    /// Nothing contradicts it, and the reason why nothing confirms it.
    Unconfirmed(String),
    /// No fee in it can be paid.
    Contradicted {
        /// The reason.
        reason: String,
        /// The denoms of fees, as the node states them.
        allowed: Vec<String>,
    },
}

/// Reads the statements of a node about a denom.
pub(super) async fn query_denom_facts(node: &NodeClient, denom: &str) -> DenomFacts {
    let in_words = |error: NodeClientError| error.to_string();
    DenomFacts {
        bond: query_bond_denom(node).await.map_err(in_words),
        priced: query_price_denoms(node).await.map_err(in_words),
        supply: query_supply(node, denom).await.map_err(in_words),
    }
}

async fn query_supply(node: &NodeClient, denom: &str) -> Result<u128, NodeClientError> {
    let request = QuerySupplyOfRequest { denom: denom.to_owned() };
    let reply: QuerySupplyOfResponse = node.query("/cosmos.bank.v1beta1.Query/SupplyOf", &request, 0).await?;
    let amount = reply.amount.map(|coin| coin.amount).unwrap_or_default();
    amount.parse().map_err(|_| NodeClientError::unreadable(format!("{amount:?} is no amount of coins")))
}

/// Compares a configured denom with the statements of a node. Pure.
pub(super) fn judge_denom(denom: &str, facts: &DenomFacts) -> DenomVerdict {
    let priced: &[String] = facts.priced.as_deref().unwrap_or_default();
    let bond = facts.bond.as_deref().ok().filter(|bond| !bond.is_empty());
    let mut allowed: Vec<String> = priced.to_vec();
    if allowed.is_empty() {
        allowed.extend(bond.map(str::to_owned));
    }
    if !priced.is_empty() && !priced.iter().any(|one| one == denom) {
        let reason = format!("the node takes fees in {} alone", priced.join(", "));
        return DenomVerdict::Contradicted { reason, allowed };
    }
    if facts.supply == Ok(0) {
        let reason = "no coin of it exists on the chain".to_owned();
        return DenomVerdict::Contradicted { reason, allowed };
    }
    if !priced.is_empty() || bond == Some(denom) {
        return DenomVerdict::Confirmed;
    }
    let of_price = match &facts.priced {
        Ok(_) => "the node states no minimum price of gas".to_owned(),
        Err(error) => format!("its minimum price of gas could not be read ({error})"),
    };
    let of_bond = match &facts.bond {
        Ok(bond) => format!("the bond denom is {bond:?}"),
        Err(error) => format!("the bond denom could not be read ({error})"),
    };
    let of_supply = match &facts.supply {
        Ok(supply) => format!("{supply} coins of it exist"),
        Err(error) => format!("its supply could not be read ({error})"),
    };
    DenomVerdict::Unconfirmed(format!(
        "whether the node takes fees in {denom:?} is not known: {of_price}, {of_bond}, {of_supply}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_denom_is_confirmed_contradicted_or_not_known() {
        let unread = || "timed out".to_owned();
        let priced = |denoms: &[&str]| Ok(denoms.iter().map(|denom| (*denom).to_owned()).collect::<Vec<_>>());
        for (bond, priced, supply, expected) in [
            (Ok("usvc"), priced(&["usvc"]), Ok(5), "confirmed"),
            (Ok("usvc"), priced(&[]), Ok(5), "confirmed"),
            (Ok("stake"), priced(&["other", "usvc"]), Ok(5), "confirmed"),
            (Err(unread()), priced(&["usvc"]), Err(unread()), "confirmed"),
            (Ok("usvc"), Err(unread()), Err(unread()), "confirmed"),
            (Ok("stake"), priced(&[]), Ok(5), "the bond denom is \"stake\", 5 coins of it exist"),
            (Ok(""), priced(&[]), Ok(5), "the bond denom is \"\""),
            (Err(unread()), priced(&[]), Err(unread()), "could not be read (timed out)"),
            (Ok("stake"), Err(unread()), Ok(5), "its minimum price of gas could not be read (timed out)"),
            (Ok("stake"), priced(&[]), Ok(0), "no coin of it exists on the chain: stake"),
            (Err(unread()), Err(unread()), Ok(0), "no coin of it exists on the chain: "),
            (
                Ok("stake"),
                priced(&["other", "third"]),
                Ok(5),
                "the node takes fees in other, third alone: other, third",
            ),
            (Ok("usvc"), priced(&["other"]), Err(unread()), "the node takes fees in other alone: other"),
        ] {
            let facts = DenomFacts { bond: bond.map(str::to_owned), priced, supply };
            let found = match judge_denom("usvc", &facts) {
                DenomVerdict::Confirmed => "confirmed".to_owned(),
                DenomVerdict::Unconfirmed(reason) => reason,
                DenomVerdict::Contradicted { reason, allowed } => format!("{reason}: {}", allowed.join(", ")),
            };
            assert!(found.contains(expected), "{facts:?}: {found}");
        }
    }
}
