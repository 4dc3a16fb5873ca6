//! x/auth: accounts.

use svc_wire::proto::cosmos::auth::v1beta1::BaseAccount;

use crate::{gas::GasMeter, state::LedgerState};

/// Creates an account unless it exists.
pub fn ensure_account(state: &mut LedgerState, address: &str, gas: &GasMeter) {
    let key = address.to_owned();
    if state.accounts.contains(&key, gas) {
        return;
    }
    let account_number = state.next_account_number;
    state.next_account_number += 1;
    let account = BaseAccount { address: key.clone(), pub_key: None, account_number, sequence: 0 };
    state.accounts.put(key, account, gas);
}
