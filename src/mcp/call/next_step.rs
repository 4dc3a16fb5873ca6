//! The words for the next step after a failure: the tool, resource, prompt or setting of this server that performs it.

use svc_wire::error_envelope::{ErrorEnvelope, NextStep};

/// Adds the next step of an error to its hint, in the words of this server.
pub(super) fn spell_out(mut error: ErrorEnvelope) -> ErrorEnvelope {
    if let Some(next_step) = error.next_step.take() {
        error.hint = format!("{}; {}", error.hint, words(next_step));
    }
    error
}

fn words(next_step: NextStep) -> &'static str {
    match next_step {
        NextStep::LookUpTransaction => {
            "svc.cosmos.tx.getTx for this hash or svc://own/transactions shows the outcome (prompt reconcile-transaction)"
        }
        NextStep::ListTransactions => "svc://own/transactions shows the write",
        NextStep::ListAuthorizations => {
            "svc.wallet.listAuthorizations shows the granted message types (prompt delegate-operator)"
        }
        NextStep::RenewAuthorization => "the prompt delegate-operator has the steps",
        NextStep::ShowFeeAllowance => "the resource svc://own/fee-grant shows the allowance",
        NextStep::ShowAddress => "svc.wallet.getAddress shows the address of the account",
        NextStep::ListAgents => "svc.wallet.listVSAgents shows the agents",
        NextStep::ShowSchema => "tools/list shows the schema",
        NextStep::ConfigureNode => "SVC_RPC takes several nodes",
        NextStep::ConfigureIndexer => "SVC_INDEXER takes several indexers",
        NextStep::ConfigureGraph => "SVC_GRAPH is the setting",
        NextStep::RaiseMaxGas => "SVC_MAX_GAS is the setting",
        NextStep::RaiseMaxFee => "SVC_MAX_FEE is the setting",
        NextStep::RaiseMaxFeePerDay => "SVC_MAX_FEE_PER_DAY is the setting",
        NextStep::RaiseGasPrice => "SVC_GAS_PRICE is the setting",
        NextStep::ServeAdminApi => "ADMIN_API_AUTH_MODE=corporation is the setting of the agent",
        NextStep::RaisePrincipalLimit => {
            "max_fee and max_fee_per_day of the principal are in the file of SVC_PRINCIPALS"
        }
    }
}

#[cfg(test)]
mod tests {
    use svc_wire::error_envelope::FailureCode;

    use super::*;

    #[test]
    fn the_next_step_becomes_a_part_of_the_hint_and_leaves_the_envelope() {
        let error = ErrorEnvelope::new(FailureCode::TxExpired, "m", "h");
        assert_eq!(spell_out(error.clone()), error);
        let spelled = spell_out(error.with_next_step(NextStep::ListTransactions));
        assert_eq!(spelled.hint, "h; svc://own/transactions shows the write");
        assert_eq!(spelled.next_step, None);
    }
}
