//! The signing account.

use svc_net::upstream::{NodeClient, NodeClientError};
use svc_wire::{
    account_key::{AccountKey, PublicKey},
    address::{Address, AddressError},
    proto::cosmos::{
        auth::v1beta1::{QueryAccountInfoRequest, QueryAccountInfoResponse},
        bank::v1beta1::{QueryBalanceRequest, QueryBalanceResponse},
    },
};

/// Address and public key of the signing account.
#[derive(Debug, Clone)]
pub struct AccountIdentity {
    /// Address.
    pub address: Address,
    /// Public key.
    pub public_key: PublicKey,
}

impl AccountIdentity {
    /// The identity of a key on a chain with this address prefix.
    pub fn new(key: &AccountKey, prefix: &str) -> Result<Self, AddressError> {
        let public_key = key.public_key();
        Ok(Self { address: public_key.address(prefix)?, public_key })
    }
}

/// Account number and sequence in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountState {
    /// Account number.
    pub number: u64,
    /// Sequence of the next transaction.
    pub sequence: u64,
    /// Height of the block after which the account has this state.
    pub height: u64,
}

/// State of an account in the newest block; `None` when the account does not exist.
pub async fn query_account(node: &NodeClient, address: &str) -> Result<Option<AccountState>, NodeClientError> {
    let request = QueryAccountInfoRequest { address: address.to_owned() };
    let path = "/cosmos.auth.v1beta1.Query/AccountInfo";
    match node.query_with_height::<_, QueryAccountInfoResponse>(path, &request, 0).await {
        Ok((reply, height)) => {
            Ok(reply.info.map(|info| AccountState { number: info.account_number, sequence: info.sequence, height }))
        }
        Err(error) if error.is_absence() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Coins of an account in a denom, in the newest block.
pub async fn query_balance(node: &NodeClient, address: &str, denom: &str) -> Result<u128, NodeClientError> {
    let request = QueryBalanceRequest { address: address.to_owned(), denom: denom.to_owned() };
    let path = "/cosmos.bank.v1beta1.Query/Balance";
    let reply: QueryBalanceResponse = node.query(path, &request, 0).await?;
    let amount = reply.balance.map(|coin| coin.amount).unwrap_or_default();
    amount.parse().map_err(|_| NodeClientError::unreadable(format!("{amount:?} is no amount of coins")))
}
