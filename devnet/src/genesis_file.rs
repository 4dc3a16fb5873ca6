//! A genesis document that another chain wrote, and with which a devnet begins.

use std::path::{Path, PathBuf};

use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::timestamp;

/// A genesis document, with the names that a node needs before it reads the state.
#[derive(Debug, Clone)]
pub struct GenesisFile {
    /// Chain id.
    pub chain_id: String,
    /// Prefix of the accounts' addresses, which is the namespace of a registry.
    pub namespace: String,
    /// Bond denom.
    pub denom: String,
    /// Time of the genesis.
    pub time: Timestamp,
    /// Genesis state of each module.
    pub app_state: Value,
}

/// A file is no genesis document.
#[derive(Debug, thiserror::Error)]
pub enum GenesisFileError {
    /// The file cannot be read.
    #[error("{path}: {cause}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        cause: std::io::Error,
    },
    /// The file is no JSON.
    #[error("the genesis is no JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// A member is absent, or has another form.
    #[error("the genesis has no {0}")]
    Member(&'static str),
}

impl GenesisFile {
    /// Loads a file.
    pub fn load(path: &Path) -> Result<Self, GenesisFileError> {
        let text =
            std::fs::read_to_string(path).map_err(|cause| GenesisFileError::Read { path: path.to_owned(), cause })?;
        Self::from_document(serde_json::from_str(&text)?)
    }

    /// Takes a document. Its initial height is not taken over: every devnet begins at height 1.
    pub fn from_document(mut document: Value) -> Result<Self, GenesisFileError> {
        let text = |value: &Value, name: &'static str| {
            value.as_str().filter(|text| !text.is_empty()).map(str::to_owned).ok_or(GenesisFileError::Member(name))
        };
        let app_state = document.get_mut("app_state").map(Value::take).unwrap_or_default();
        let address = text(&app_state["bank"]["balances"][0]["address"], "app_state.bank.balances with an address")?;
        let (prefix, _) = address.rsplit_once('1').ok_or(GenesisFileError::Member("address with a prefix"))?;
        let time = text(&document["genesis_time"], "genesis_time")?;
        Ok(Self {
            chain_id: text(&document["chain_id"], "chain_id")?,
            namespace: prefix.to_owned(),
            denom: text(&app_state["staking"]["params"]["bond_denom"], "app_state.staking.params.bond_denom")?,
            time: timestamp::parse_rfc3339(&time).ok_or(GenesisFileError::Member("genesis_time in RFC 3339"))?,
            app_state,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_names_its_chain_or_the_member_that_is_absent() {
        let whole = json!({
            "chain_id": "a-1", "genesis_time": "2026-01-02T03:04:05Z", "initial_height": "7",
            "app_state": {
                "bank": {"balances": [{"address": "word1qqq"}]}, "staking": {"params": {"bond_denom": "uword"}},
            },
        });
        let read = GenesisFile::from_document(whole.clone()).expect("a genesis");
        assert_eq!((read.namespace.as_str(), read.denom.as_str()), ("word", "uword"));
        assert_eq!(read.time.seconds, 1_767_323_045);
        for pointer in ["/chain_id", "/genesis_time", "/app_state/bank", "/app_state/staking"] {
            let mut broken = whole.clone();
            *broken.pointer_mut(pointer).expect("a member") = Value::Null;
            let error = GenesisFile::from_document(broken).expect_err("incomplete").to_string();
            let name = pointer.rsplit('/').next().expect("a name");
            assert!(error.contains(name), "{pointer}: {error}");
        }
    }
}
