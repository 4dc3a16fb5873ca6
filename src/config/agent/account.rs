//! The chain of an agent, and its account there.

use svc_agent::{AnchorForm, ChainConfig};
use svc_pipeline::{ChainExpectation, JournalPlace};
use svc_wire::account_key::AccountKey;

use super::store::{AgentPaths, read_secret};
use crate::{
    config::{
        environment::{Environment, EnvironmentReader},
        serve::{read_chain_names, read_fees, read_min_free_disk},
    },
    secrets::ProcessSecrets,
    settings::{
        agent::{self, SVC_ACCOUNT_MNEMONIC, SVC_ACCOUNT_MNEMONIC_FILE},
        chain,
    },
};

/// Reads the chain and the account.
pub(super) fn read_chain<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
    secrets: &mut ProcessSecrets,
    paths: Option<&AgentPaths>,
) -> Option<ChainConfig> {
    let key = read_account(reader, secrets);
    let corporation_id = reader.read_number(agent::SVC_CORPORATION_ID);
    let rpc = reader.read_origins(agent::SVC_RPC_ENDPOINT_URL);
    let allows_plaintext_node = reader.read_flag(chain::SVC_ALLOW_PLAINTEXT_NODE);
    let (chain_id, denom) = read_chain_names(reader);
    let fees = read_fees(reader);
    let gas_adjustment = reader.read(agent::SVC_GAS_ADJUSTMENT, parse_adjustment);
    let tx_timeout = reader.read_millis(chain::SVC_TX_TIMEOUT_MS);
    let resolves_changes = reader.read_flag(agent::SVC_AUTO_TRIGGER_RESOLVER);
    let anchors = reader.read(agent::ANCHOR_DIGESTS, AnchorForm::parse);
    let min_free_space = read_min_free_disk(reader);
    let (fees, set_price) = fees?;
    let journal = paths?.journal.to_str().map(str::to_owned);
    if journal.is_none() {
        reader.refuse(chain::SVC_JOURNAL, "a path that is no text");
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
    let settings = (SVC_ACCOUNT_MNEMONIC, SVC_ACCOUNT_MNEMONIC_FILE);
    let Some((phrase, source)) = read_secret(reader, secrets, settings, Some("svc-account-mnemonic")) else {
        if !reader.has_problem(SVC_ACCOUNT_MNEMONIC_FILE) {
            let allowed = format!("{}; or {}", SVC_ACCOUNT_MNEMONIC.kind.allowed(), SVC_ACCOUNT_MNEMONIC_FILE.name);
            reader.add_problem(SVC_ACCOUNT_MNEMONIC.name, "not set", allowed);
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
