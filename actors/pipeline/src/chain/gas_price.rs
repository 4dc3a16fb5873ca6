//! The price of gas: the minimum of the node in use, which is asked for again and again.

use std::sync::Arc;

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::proto::cosmos::base::node::v1beta1::{ConfigRequest, ConfigResponse};
use tokio::sync::watch;

use crate::write::fee::{FeePolicy, decimal_price};

/// The price of gas with the ceilings of a transaction. Where the price is not set, it follows the minimum of the node. Clones share it.
#[derive(Debug, Clone)]
pub struct GasPriceWatch(Arc<WatchedPrice>);

#[derive(Debug)]
struct WatchedPrice {
    /// As configured.
    fees: FeePolicy,
    is_set: bool,
    denom: String,
    /// Minimum of the node, in millionths of the fee denom; `None` where it states none.
    minimum: watch::Sender<Option<u64>>,
}

impl GasPriceWatch {
    /// A price that was set, or that follows the node's minimum in a denom.
    pub fn new(fees: FeePolicy, is_set: bool, denom: &str) -> Self {
        Self(Arc::new(WatchedPrice { fees, is_set, denom: denom.to_owned(), minimum: watch::Sender::new(None) }))
    }

    /// Price and ceilings of a transaction that is signed now. The minimum of a node raises the price and no ceiling.
    pub fn fees(&self) -> FeePolicy {
        let WatchedPrice { fees, is_set, .. } = *self.0;
        if is_set { fees } else { fees.at_least(self.minimum().unwrap_or_default()) }
    }

    /// The minimum that the node has stated last, in millionths of the fee denom.
    pub fn minimum(&self) -> Option<u64> {
        *self.0.minimum.borrow()
    }

    /// The reason for which the node refuses every transaction at this price, with both prices.
    pub fn problem(&self) -> Option<String> {
        let (price, denom) = (self.fees().gas_price_micros, &self.0.denom);
        let minimum = self.minimum().filter(|minimum| *minimum > price)?;
        Some(format!(
            "the node takes no fee below {}{denom} per gas, and the price is set to {}{denom}",
            decimal_price(minimum),
            decimal_price(price)
        ))
    }

    /// Asks the node for its minimum. Without an answer the last one stays.
    pub async fn refresh(&self, node: &NodeClient) {
        let minimum = match query_config(node).await {
            Ok(config) => parse_minimum_price(&config.minimum_gas_price, &self.0.denom),
            Err(error) => {
                tracing::info!(%error, "the node does not state its minimum price of gas");
                return;
            }
        };
        let before = self.0.minimum.send_replace(minimum);
        if before == minimum {
            return;
        }
        let in_words = |price: Option<u64>| price.map_or_else(|| "none".to_owned(), decimal_price);
        let (before, minimum) = (in_words(before), in_words(minimum));
        tracing::info!(origin = node.origin(), before, minimum, "the node states another minimum price of gas");
        if let Some(problem) = self.problem() {
            tracing::warn!(origin = node.origin(), "{problem}");
        }
    }
}

/// The denoms in which a node states a minimum price of gas; none where it takes any fee.
///
/// # Errors
/// When the node does not answer the question.
pub(super) async fn query_price_denoms(node: &NodeClient) -> Result<Vec<String>, NodeClientError> {
    Ok(parse_price_denoms(&query_config(node).await?.minimum_gas_price))
}

async fn query_config(node: &NodeClient) -> Result<ConfigResponse, NodeClientError> {
    node.query("/cosmos.base.node.v1beta1.Service/Config", &ConfigRequest {}, 0).await
}

fn parse_price_denoms(text: &str) -> Vec<String> {
    let denom = |coin: &str| {
        let denom = coin.trim().trim_start_matches(|one: char| one.is_ascii_digit() || one == '.');
        (!denom.is_empty()).then(|| denom.to_owned())
    };
    text.split(',').filter_map(denom).collect()
}

/// Parses decimal coins: `0.250000000000000000usvc,1.5other`.
fn parse_minimum_price(text: &str, denom: &str) -> Option<u64> {
    text.split(',').find_map(|coin| parse_price(coin.trim().strip_suffix(denom)?))
}

/// Parses a decimal number to millionths, rounded up.
fn parse_price(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(fraction) || fraction.len() > 18 {
        return None;
    }
    let parts: u64 = format!("{fraction:0<18}").parse().ok()?;
    whole.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(parts.div_ceil(1_000_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_that_is_not_set_follows_the_node_up_and_down_and_one_that_is_set_stays() {
        let usual = FeePolicy::at_price(25_000);
        let [free, set] = [false, true].map(|is_set| GasPriceWatch::new(usual, is_set, "usvc"));
        for (minimum, price) in [(None, 25_000), (Some(250_000), 250_000), (Some(1), 25_000), (Some(30_000), 30_000)] {
            for watch in [&free, &set] {
                watch.0.minimum.send_replace(minimum);
            }
            assert_eq!(free.fees(), FeePolicy { gas_price_micros: price, ..usual });
            assert_eq!((set.fees(), free.problem()), (usual, None));
        }
        let problem = set.problem().expect("below the minimum");
        assert!(problem.contains("below 0.03usvc") && problem.contains("set to 0.025usvc"), "{problem}");
    }

    #[test]
    fn decimal_coins_are_read_and_rounded_up() {
        for (text, micros) in [
            ("0.250000000000000000usvc", Some(250_000)),
            ("0.025usvc", Some(25_000)),
            ("1.5other,0.000000000000000001usvc", Some(1)),
            ("0.000001000000000001usvc", Some(2)),
            ("3usvc", Some(3_000_000)),
            ("0.000000000000000000usvc", Some(0)),
            ("", None),
            ("0.1other", None),
            ("0.1xusvc", None),
            ("0.1factory/addr/usvc,0.1xusvc,0.25usvc", Some(250_000)),
            ("-1usvc", None),
            ("1e3usvc", None),
            ("99999999999999999999usvc", None),
            ("0.1234567890123456789usvc", None),
        ] {
            assert_eq!(parse_minimum_price(text, "usvc"), micros, "{text:?}");
        }
        let denoms = parse_price_denoms("0.250000000000000000usvc, 1.5ibc/27AB");
        assert_eq!(denoms, ["usvc", "ibc/27AB"]);
        assert!(parse_price_denoms("").is_empty());
    }
}
