//! The chain of an agent, and its account there.

use svc_agent::{AnchorForm, ChainConfig};
use svc_pipeline::{ChainExpectation, JournalPlace};
use svc_wire::account_key::AccountKey;

use super::store::{AgentPaths, read_secret};
use crate::{
    config::{
        environment::{Environment, EnvironmentReader, PHRASE},
        serve::{CHAIN_ID, DENOM, is_chain_id, is_denom, read_fees, read_min_free_disk},
    },
    secrets::ProcessSecrets,
};

/// Reads the chain and the account.
pub(super) fn read_chain<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    paths: Option<&AgentPaths>,
) -> Option<ChainConfig> {
    let key = read_account(reader, secrets);
    let corporation_id = reader.read_parsed("SVC_CORPORATION_ID", "a corporation id, 1 or more", None, |text| {
        text.parse().ok().filter(|id| *id > 0_u64)
    });
    let rpc = reader.read_origins("SVC_RPC_ENDPOINT_URL");
    let allows_plaintext_node = reader.read_flag("SVC_ALLOW_PLAINTEXT_NODE");
    let chain_id = reader.read_optional("SVC_CHAIN_ID", CHAIN_ID, is_chain_id);
    let denom = reader.read_optional("SVC_DENOM", DENOM, is_denom);
    let fees = read_fees(reader);
    let gas_adjustment = reader.read_parsed(
        "SVC_GAS_ADJUSTMENT",
        "a decimal from 1.0 to 5.0 with at most two digits behind the point",
        Some(150),
        parse_adjustment,
    );
    let tx_timeout = reader.read_millis("SVC_TX_TIMEOUT_MS", 30_000);
    let resolves_changes =
        reader.read_parsed("SVC_AUTO_TRIGGER_RESOLVER", "true or false", Some(true), |text| text.parse().ok());
    let anchors = reader.read_parsed("ANCHOR_DIGESTS", "sri, bare", Some(AnchorForm::default()), AnchorForm::parse);
    let min_free_space = read_min_free_disk(reader);
    let (fees, set_price) = fees?;
    let journal = paths?.journal.to_str().map(str::to_owned);
    if journal.is_none() {
        reader.add_problem("SVC_JOURNAL", "a path that is no text", "the path of a file");
    }
    Some(ChainConfig {
        corporation_id: corporation_id?,
        rpc: rpc?,
        allows_plaintext_node: allows_plaintext_node?,
        expected: ChainExpectation { chain_id, denom, set_price, fees, uses_live_descriptors: false },
        key: key?,
        journal: JournalPlace { file: journal, min_free_space: min_free_space? },
        tx_timeout: tx_timeout?,
        gas_adjustment: gas_adjustment?,
        resolves_changes: resolves_changes?,
        anchors: anchors?,
    })
}

fn read_account<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
) -> Option<AccountKey> {
    let variables = ("SVC_ACCOUNT_MNEMONIC", "SVC_ACCOUNT_MNEMONIC_FILE");
    let Some((phrase, source)) = read_secret(reader, secrets, variables, Some("svc-account-mnemonic")) else {
        if !reader.has_problem("SVC_ACCOUNT_MNEMONIC_FILE") {
            let allowed = format!("{PHRASE}; or SVC_ACCOUNT_MNEMONIC_FILE");
            reader.add_problem("SVC_ACCOUNT_MNEMONIC", "not set", allowed);
        }
        return None;
    };
    reader.parse_phrase(source, &phrase)
}

/// Parses a factor of the simulated gas, in percent.
fn parse_adjustment(text: &str) -> Option<u32> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 2 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let percent = whole.parse::<u32>().ok()?.checked_mul(100)? + format!("{fraction:0<2}").parse::<u32>().ok()?;
    Some(percent).filter(|percent| (100..=500).contains(percent))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gas_adjustment_is_a_decimal_with_two_digits() {
        for (text, expected) in [
            ("1.5", Some(150)),
            ("1", Some(100)),
            ("1.05", Some(105)),
            ("5.0", Some(500)),
            ("5.01", None),
            ("0.9", None),
            ("1.555", None),
            ("1e1", None),
            ("-1", None),
            (".5", None),
        ] {
            assert_eq!(parse_adjustment(text), expected, "{text}");
        }
    }
}
