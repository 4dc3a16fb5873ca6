//! The minimum price of gas of a node.

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::proto::cosmos::base::node::v1beta1::{ConfigRequest, ConfigResponse};

/// The price below which the node refuses transactions, in millionths of the fee denom, rounded up. `None` where it states none in that
/// denom, or does not answer the question.
pub async fn query_minimum_price(node: &NodeClient, denom: &str) -> Option<u64> {
    match query_config(node).await {
        Ok(config) => parse_minimum_price(&config.minimum_gas_price, denom),
        Err(error) => {
            tracing::info!(%error, "the node does not state its minimum price of gas");
            None
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
