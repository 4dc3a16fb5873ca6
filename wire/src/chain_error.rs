//! What a chain failure means. Identity is (codespace, code); text counts only where the node gives nothing else.

use serde::{Deserialize, Serialize};

/// A failure as the chain reports it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainError {
    /// Codespace: a module's two letters, `sdk`, `feegrant`, `undefined`.
    pub codespace: String,
    /// Code within the codespace; never 0.
    pub code: u32,
    /// Free text of the chain.
    pub raw_log: String,
}

/// What a failure asks of the one who sent the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// The fee allowance cannot be used; the same transaction without a granter may pass.
    FeeAllowance,
    /// Fee or balance too small.
    InsufficientFees,
    /// The sequence is not the one the node expects.
    WrongSequence {
        /// What the node expects, when its text says so.
        expected: Option<u64>,
        /// What it got, when its text says so.
        got: Option<u64>,
    },
    /// The very bytes are already in the mempool: as good as accepted.
    AlreadyInMempool,
    /// The mempool is full.
    MempoolFull,
    /// The timeout height has passed.
    TimeoutHeight,
    /// Gas limit too low.
    OutOfGas,
    /// The operator authorization has expired (de/1106).
    AuthorizationExpired,
    /// The authorization is missing (de/1105) or lacks the type (de/1107).
    AuthorizationMissing,
    /// A spend limit forbids it (de/1108).
    SpendLimit,
    /// Anything else.
    Refused,
}

impl ChainError {
    /// Classifies the failure.
    pub fn meaning(&self) -> Meaning {
        match (self.codespace.as_str(), self.code) {
            ("feegrant", 2 | 3 | 7) | ("sdk", 38) => Meaning::FeeAllowance,
            ("sdk", 5 | 13) => Meaning::InsufficientFees,
            ("sdk", 32) => wrong_sequence(&self.raw_log),
            ("sdk", 19) => Meaning::AlreadyInMempool,
            ("sdk", 20) => Meaning::MempoolFull,
            ("sdk", 30 | 42) => Meaning::TimeoutHeight,
            ("sdk", 11) => Meaning::OutOfGas,
            ("de", 1106) => Meaning::AuthorizationExpired,
            ("de", 1105 | 1107 | 1114) => Meaning::AuthorizationMissing,
            ("de", 1108) => Meaning::SpendLimit,
            _ => Meaning::Refused,
        }
    }

    /// Classifies a failed simulation. `Simulate` answers through `abci_query`, where the SDK turns every failure into a
    /// gRPC status of kind Unknown: the query's own code is sdk/6 or sdk/18 and the transaction's code survives only as
    /// the sentence of its root error. Authorization failures are therefore not recognised here: the caller re-reads the
    /// authorizations instead of trusting a module's wording.
    pub fn simulated_meaning(&self) -> Meaning {
        let text = self.raw_log.as_str();
        if is_wrong_sequence_text(text) {
            return wrong_sequence(text);
        }
        if is_fee_allowance_text(text) {
            return Meaning::FeeAllowance;
        }
        if is_insufficient_fees_text(text) {
            return Meaning::InsufficientFees;
        }
        Meaning::Refused
    }
}

/// `account sequence mismatch, expected 5, got 6: incorrect account sequence` — x/auth, SigVerificationDecorator.
fn is_wrong_sequence_text(text: &str) -> bool {
    text.contains("account sequence mismatch") || text.contains("incorrect account sequence")
}

/// Root errors of x/feegrant (`fee limit exceeded`, `fee allowance expired`, `message not allowed`) and the ante handler's
/// wrap of a missing allowance (`<granter> does not allow to pay fees for <payer>`).
fn is_fee_allowance_text(text: &str) -> bool {
    ["fee limit exceeded", "fee allowance expired", "message not allowed", "does not allow to pay fees for"]
        .iter()
        .any(|sentence| text.contains(sentence))
}

/// `spendable balance … is smaller than …: insufficient funds` — x/bank; `insufficient fees; got: …` — x/auth.
fn is_insufficient_fees_text(text: &str) -> bool {
    text.contains("insufficient fees")
        || (text.contains("insufficient funds") && !text.contains("failed to execute message"))
}

fn wrong_sequence(text: &str) -> Meaning {
    Meaning::WrongSequence { expected: number_after(text, "expected "), got: number_after(text, "got ") }
}

fn number_after(text: &str, label: &str) -> Option<u64> {
    let rest = &text[text.find(label)? + label.len()..];
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(codespace: &str, code: u32, raw_log: &str) -> ChainError {
        ChainError { codespace: codespace.into(), code, raw_log: raw_log.into() }
    }

    #[test]
    fn codes_decide_when_there_are_codes() {
        let sequence = "account sequence mismatch, expected 5, got 7: incorrect account sequence";
        for (given, meaning) in [
            (error("feegrant", 2, ""), Meaning::FeeAllowance),
            (error("feegrant", 3, ""), Meaning::FeeAllowance),
            (error("feegrant", 7, ""), Meaning::FeeAllowance),
            (error("sdk", 38, ""), Meaning::FeeAllowance),
            (error("sdk", 5, ""), Meaning::InsufficientFees),
            (error("sdk", 19, ""), Meaning::AlreadyInMempool),
            (error("sdk", 20, ""), Meaning::MempoolFull),
            (error("sdk", 32, sequence), Meaning::WrongSequence { expected: Some(5), got: Some(7) }),
            (error("sdk", 32, ""), Meaning::WrongSequence { expected: None, got: None }),
            (error("de", 1106, ""), Meaning::AuthorizationExpired),
            (error("de", 1107, ""), Meaning::AuthorizationMissing),
            (error("ec", 1106, "fee limit exceeded"), Meaning::Refused),
            (error("undefined", 1, "whatever"), Meaning::Refused),
        ] {
            assert_eq!(given.meaning(), meaning, "{given:?}");
        }
    }

    #[test]
    fn simulation_failures_are_told_apart_by_their_root_sentence() {
        for (text, meaning) in [
            (
                "account sequence mismatch, expected 5, got 6: incorrect account sequence",
                Meaning::WrongSequence { expected: Some(5), got: Some(6) },
            ),
            ("fee allowance expired: fee allowance expired", Meaning::FeeAllowance),
            ("svc1a does not allow to pay fees for svc1b: fee-grant not found: not found", Meaning::FeeAllowance),
            ("message does not exist in allowed messages: message not allowed", Meaning::FeeAllowance),
            ("spendable balance 0usvc is smaller than 10usvc: insufficient funds", Meaning::InsufficientFees),
            ("failed to execute message; message index: 0: ecosystem not found", Meaning::Refused),
        ] {
            assert_eq!(error("sdk", 6, text).simulated_meaning(), meaning, "{text}");
        }
    }
}
