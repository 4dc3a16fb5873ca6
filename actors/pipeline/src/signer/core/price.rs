//! A node that takes a fee for too small: its price is asked again, once for each write.

use super::{SignerCore, SignerPhase};
use crate::{
    signer::effects::{FeeOffer, InFlightView, SignerEffect},
    write::{error::SubmitError, fee::FeePolicy, submission::SubmissionId},
};

impl SignerCore {
    /// The price of gas as it is now.
    pub fn set_fees(&mut self, fees: FeePolicy) {
        self.fees = fees;
    }

    /// The node refused the transaction of the current write for its fee.
    pub(super) fn ask_price(&mut self, hash: &str, sequence: u64, gas_limit: u64) -> Vec<SignerEffect> {
        let Some(write) = self.current_write.as_mut() else { return Vec::new() };
        (write.has_asked_price, write.required_sequence) = (true, Some(sequence));
        self.phase = SignerPhase::AskingPrice { sequence, gas_limit, hash: hash.to_owned() };
        vec![SignerEffect::AskPrice { id: write.id }]
    }

    /// The node was asked for its price. A higher one than that of the refused transaction is paid, at the same sequence.
    pub fn on_price(&mut self, id: SubmissionId, live: &dyn InFlightView) -> Vec<SignerEffect> {
        let SignerPhase::AskingPrice { sequence, gas_limit, hash } = self.phase.clone() else { return Vec::new() };
        let Some(write) = self.current_write.as_mut().filter(|write| write.id == id) else { return Vec::new() };
        if write.is_withdrawn || self.fees.fee(gas_limit) <= write.offered_fee {
            return self.answer_signed(&hash, live);
        }
        let fee = match self.fees.fee_below_ceiling(gas_limit, live.spent_today(&write.principal), write.fee_limits) {
            Ok(fee) => fee,
            Err(exceeded) => return self.refuse_current(SubmitError::AboveCeiling(exceeded), live),
        };
        if write.granter.is_some_and(|budget| !budget.covers(fee)) {
            write.granter = None;
            self.phase = SignerPhase::Simulating { sequence };
            return vec![SignerEffect::Simulate { id, sequence, with_granter: false }];
        }
        write.offered_fee = fee;
        let offer = FeeOffer { gas_limit, fee, with_granter: write.granter.is_some() };
        self.phase = SignerPhase::Broadcasting { sequence, gas_limit };
        vec![SignerEffect::SignAndBroadcast { id, sequence, offer }]
    }
}
