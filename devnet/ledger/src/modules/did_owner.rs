//! The owner of a DID, from the second generation on: one corporation over corporations, ecosystems and participants.

use crate::{context::ExecContext, error::LedgerError};

/// The holder of a DID that is not this corporation's: its corporation and the thing that has the DID.
fn other_holder(exec: &ExecContext<'_>, did: &str, corporation_id: Option<u64>) -> Option<(u64, String)> {
    let is_other = |owner: u64| Some(owner) != corporation_id;
    exec.gas.charge_read(did.len());
    if let Some(owner) = exec.state.corporation_by_did.peek(&did.to_owned()).map(|owner| owner.0)
        && is_other(owner)
    {
        return Some((owner, format!("corporation {owner}")));
    }
    let range = || (did.to_owned(), 0)..=(did.to_owned(), u64::MAX);
    let ecosystem = exec.state.ecosystem_by_did.range(range()).find(|(_, owner)| is_other(owner.0));
    if let Some(((_, id), owner)) = ecosystem {
        return Some((owner.0, format!("ecosystem {id}")));
    }
    let participant = exec.state.participant_by_did.range(range()).find(|(_, owner)| is_other(owner.0));
    participant.map(|((_, id), owner)| (owner.0, format!("participant {id}")))
}

/// Fails where another corporation has the DID, with the error of the module that asks. A new corporation has no id yet.
pub fn ensure_did_is_own(
    exec: &ExecContext<'_>,
    did: &str,
    corporation_id: Option<u64>,
    (codespace, code): (&'static str, u32),
) -> Result<(), LedgerError> {
    match other_holder(exec, did, corporation_id) {
        None => Ok(()),
        Some((owner, holder)) => {
            let text = format!("{did} belongs to corporation {owner}, which has it in {holder}");
            Err(LedgerError::new(codespace, code, text))
        }
    }
}
