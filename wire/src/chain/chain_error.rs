//! Classes of chain failures. The pair (codespace, code) identifies a failure; its text is read only where the node sends no
//! code of the module.

use serde::{Deserialize, Serialize};

pub use super::chain_text::FeeShortage;

/// A failure as the chain reports it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ChainError {
    /// Codespace: the two letters of a module, `sdk`, `feegrant` or `undefined`.
    pub codespace: String,
    /// Code within the codespace, never 0.
    pub code: u32,
    /// Text of the chain.
    pub raw_log: String,
}

/// Class of a failure: each one needs another reaction of the sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainErrorKind {
    /// The fee allowance cannot be used. The same transaction without a granter may pass.
    FeeAllowanceUnusable,
    /// Fee or balance too small.
    InsufficientFees,
    /// The sequence is not the one the node expects.
    WrongSequence {
        /// The sequence that the node expects, when its text contains it.
        expected: Option<u64>,
        /// The sequence of the transaction, when the text contains it.
        actual: Option<u64>,
    },
    /// The mempool has the same bytes already: the transaction counts as accepted.
    AlreadyInMempool,
    /// The mempool is full.
    MempoolFull,
    /// The node has just started and verifies signatures with account number 0 until its next block.
    NodeStarting,
    /// The timeout height has passed.
    TimeoutHeightPassed,
    /// Gas limit too low.
    OutOfGas,
    /// The operator authorization has expired (de/1106).
    AuthorizationExpired,
    /// The authorization is missing (de/1105, de/1114), lacks the type (de/1107), or is of a participant that is not active (de/1116).
    AuthorizationMissing,
    /// A spend limit forbids it (de/1108).
    SpendLimitExceeded,
    /// Anything else.
    OtherFailure,
}

/// Registered text of de/1116.
pub const PARTICIPANT_NOT_ACTIVE: &str = "participant is not an active participant";

/// Failures of later generations of nodes: codespace, code, registered text, and the way on. A simulation has the text and not the code.
const ADVICE: [(&str, u32, &str, &str); 14] = [
    (
        "co",
        1114,
        "did is claimed by an entity owned by a different corporation",
        "another corporation holds the DID, as its own, of an ecosystem or of a participant: take another DID",
    ),
    ("de", 1116, PARTICIPANT_NOT_ACTIVE, "the participant of the record is not active: begin, renew or repay it first"),
    (
        "de",
        1117,
        "fee_spend_limit must be set and strictly positive iff with_feegrant is true",
        "give a fee spend limit together with the fee grant, and none without it",
    ),
    ("poa", 2, "expected council authority as signer", "the council of validators alone sends it, by a proposal"),
    ("poa", 3, "address is not a council member", "the address has no seat in the council of validators"),
    ("poa", 4, "max validators reached", "the council removes a validator before it adds another one"),
    (
        "poa",
        5,
        "address already has a validator with bonded tokens",
        "the address is a validator: nothing has to be added",
    ),
    (
        "poa",
        6,
        "address has delegations",
        "an address with delegations cannot be a validator of the council: take another one",
    ),
    ("poa", 7, "address is not a validator", "the address has no validator that could be removed"),
    (
        "poa",
        8,
        "invalid validator status",
        "the status of the validator does not allow this step: read it, and send it later",
    ),
    (
        "poa",
        9,
        "staking message not allowed under proof of authority",
        "validators are the council's on this network: staking messages are refused, also inside of others",
    ),
    (
        "poa",
        10,
        "genesis validator bond must equal the fixed council bond",
        "the bond of a validator is fixed on this network, also in the genesis",
    ),
    ("poa", 11, "cannot remove the last bonded validator", "one bonded validator has to stay"),
    (
        "poa",
        12,
        "message would break the council's self-administration",
        "the council of validators has to stay in its own hands",
    ),
];

impl ChainError {
    /// The way on after a failure of a later generation of nodes.
    pub fn advice(&self) -> Option<&'static str> {
        let sentence = self.sentence();
        let is_this = |(codespace, code, text, _): &&(&str, u32, &str, &str)| {
            (self.codespace == *codespace && self.code == *code) || ends_with_error(&sentence, text)
        };
        ADVICE.iter().find(is_this).map(|(.., advice)| *advice)
    }

    /// Whether a node has no state at the height of a query any more. The text ends in "not found", and says nothing of the entity.
    pub fn is_pruned_state(&self) -> bool {
        (self.codespace.as_str(), self.code) == ("sdk", 38)
            && self.raw_log.starts_with("failed to load state at height ")
    }

    /// Whether CheckTx refused the transaction because its fee is below the node's minimum price of gas.
    pub fn is_below_minimum_price(&self) -> bool {
        (self.codespace.as_str(), self.code) == ("sdk", 13)
    }

    /// Classifies the failure.
    pub fn classify(&self) -> ChainErrorKind {
        match (self.codespace.as_str(), self.code) {
            ("feegrant", 2 | 3 | 7) | ("sdk", 38) => ChainErrorKind::FeeAllowanceUnusable,
            ("sdk", 5 | 13) => ChainErrorKind::InsufficientFees,
            ("sdk", 32) => parse_wrong_sequence(&self.raw_log),
            ("sdk", 19) => ChainErrorKind::AlreadyInMempool,
            ("sdk", 20) => ChainErrorKind::MempoolFull,
            ("sdk", 4) if is_node_starting_text(&self.raw_log) => ChainErrorKind::NodeStarting,
            ("sdk", 30 | 42) => ChainErrorKind::TimeoutHeightPassed,
            ("sdk", 11) => ChainErrorKind::OutOfGas,
            ("de", 1106) => ChainErrorKind::AuthorizationExpired,
            ("de", 1105 | 1107 | 1114 | 1116) => ChainErrorKind::AuthorizationMissing,
            ("de", 1108) => ChainErrorKind::SpendLimitExceeded,
            _ => ChainErrorKind::OtherFailure,
        }
    }

    /// Whether the node names a failure of a simulation by the code of the transaction. Elsewhere its sentence alone does, which a message
    /// may quote.
    pub fn has_sequence_code(&self) -> bool {
        (self.codespace.as_str(), self.code) == ("sdk", 32)
    }

    /// Classifies a failed simulation by its text.
    ///
    /// `Simulate` answers through `abci_query`. There the SDK turns every failure into a gRPC status of kind Unknown: the
    /// code is that of the query (sdk/6 or sdk/18), and only the sentence of the root error identifies the failure of the
    /// transaction. Sequence, allowance and fee are judged before a message runs, so that a sentence counts only where the frame names no
    /// message, and only as a whole: a message may quote it. Authorization failures are not recognised here: their wording is that of a
    /// module and may change, so the caller reads the authorizations again.
    pub fn classify_simulation(&self) -> ChainErrorKind {
        let sentence = self.sentence();
        if self.has_sequence_code() {
            // A node that answers with the code of the transaction.
            parse_wrong_sequence(&self.raw_log)
        } else if self.is_of_message() {
            ChainErrorKind::OtherFailure
        } else if is_wrong_sequence(&sentence) {
            parse_wrong_sequence(&sentence)
        } else if is_fee_allowance(&sentence) {
            ChainErrorKind::FeeAllowanceUnusable
        } else if is_insufficient_fees(&sentence) {
            ChainErrorKind::InsufficientFees
        } else {
            ChainErrorKind::OtherFailure
        }
    }

    /// Whether the text of a failed simulation has the registered text of a wrong sequence, outside of a message. Where its frame is unknown, the
    /// account has to be read.
    pub fn may_name_sequence(&self) -> bool {
        !self.is_of_message() && self.raw_log.contains(WRONG_SEQUENCE)
    }
}

/// Registered text of sdk/32.
const WRONG_SEQUENCE: &str = "incorrect account sequence";

/// `signature verification failed; please verify account number (0) and chain-id (ID): …` — x/auth, SigVerificationDecorator. The
/// check state has no height before the first block after a start, and at height 0 every account has number 0.
fn is_node_starting_text(text: &str) -> bool {
    text.contains("verify account number (0)")
}

/// Whether a sentence is a registered text, or ends with it as the root of its wraps.
fn ends_with_error(sentence: &str, registered: &str) -> bool {
    sentence.strip_suffix(registered).is_some_and(|wraps| wraps.is_empty() || wraps.ends_with(": "))
}

/// `account sequence mismatch, expected 5, got 6: incorrect account sequence` — x/auth, SigVerificationDecorator.
fn is_wrong_sequence(sentence: &str) -> bool {
    sentence.starts_with("account sequence mismatch") && ends_with_error(sentence, WRONG_SEQUENCE)
}

/// Root errors of x/feegrant, wrapped with the kind of the allowance, and the ante handler's wrap of all of them
/// (`<granter> does not allow to pay fees for <payer>: …`).
fn is_fee_allowance(sentence: &str) -> bool {
    const WRAPS: [&str; 7] = [
        "basic allowance",
        "period limit",
        "absolute limit",
        "fee limit exceeded",
        "fee allowance expired",
        "message does not exist in allowed messages",
        "message not allowed",
    ];
    const ROOTS: [&str; 3] = ["fee limit exceeded", "fee allowance expired", "message not allowed"];
    let is_wrapped_by_ante = sentence.split_once(" does not allow to pay fees for ").is_some_and(|(granter, rest)| {
        let payer = rest.split(": ").next().unwrap_or_default();
        [granter, payer].iter().all(|address| address.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    });
    let has_root = ROOTS.iter().any(|root| ends_with_error(sentence, root));
    (is_wrapped_by_ante && (has_root || ends_with_error(sentence, "not found")))
        || (has_root && WRAPS.iter().any(|wrap| sentence.starts_with(wrap)))
}

/// `spendable balance … is smaller than …: insufficient funds` — x/bank; `insufficient fees; got: …: insufficient fee` — x/auth.
fn is_insufficient_fees(sentence: &str) -> bool {
    (sentence.starts_with("insufficient fees; got: ") && ends_with_error(sentence, "insufficient fee"))
        || (sentence.starts_with("spendable balance ") && ends_with_error(sentence, "insufficient funds"))
}

fn parse_wrong_sequence(text: &str) -> ChainErrorKind {
    ChainErrorKind::WrongSequence { expected: number_after(text, "expected "), actual: number_after(text, "got ") }
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
    fn failures_of_later_generations_have_a_way_on_by_code_and_by_text() {
        let by_code = error("de", 1116, "anything").advice();
        let by_text = error(
            "sdk",
            6,
            "failed to execute message; message index: 0: participant is not an active participant [x.go:7]",
        );
        assert!(by_code.is_some() && by_code == by_text.advice());
        let contract: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/fixtures/errors.json")).expect("JSON");
        let of_council = contract["newer"].as_array().expect("a list").iter().filter(|row| row["codespace"] == "poa");
        let mut known = 0;
        for row in of_council {
            let code = u32::try_from(row["code"].as_u64().expect("a code")).expect("small");
            let text = row["text"].as_str().expect("a text");
            let by_code = error("poa", code, "x").advice();
            assert!(by_code.is_some(), "{row}");
            let simulated = error("sdk", 6, &format!("detail: {text}"));
            assert_eq!(simulated.advice(), by_code, "{row}");
            assert_eq!(simulated.classify_simulation(), ChainErrorKind::OtherFailure, "{row}");
            known += 1;
        }
        assert_eq!(known, 11);
        assert_eq!(error("poa", 77, "x").advice(), None, "never that of a neighbour");
    }

    #[test]
    fn a_failure_with_a_code_is_classified_by_the_code() {
        let sequence = "account sequence mismatch, expected 5, got 7: incorrect account sequence";
        for (given, meaning) in [
            (error("feegrant", 2, ""), ChainErrorKind::FeeAllowanceUnusable),
            (error("feegrant", 3, ""), ChainErrorKind::FeeAllowanceUnusable),
            (error("feegrant", 7, ""), ChainErrorKind::FeeAllowanceUnusable),
            (error("sdk", 38, ""), ChainErrorKind::FeeAllowanceUnusable),
            (error("sdk", 5, ""), ChainErrorKind::InsufficientFees),
            (error("sdk", 19, ""), ChainErrorKind::AlreadyInMempool),
            (error("sdk", 20, ""), ChainErrorKind::MempoolFull),
            (error("sdk", 32, sequence), ChainErrorKind::WrongSequence { expected: Some(5), actual: Some(7) }),
            (error("sdk", 32, ""), ChainErrorKind::WrongSequence { expected: None, actual: None }),
            (error("sdk", 4, "please verify account number (0) and chain-id (c)"), ChainErrorKind::NodeStarting),
            (error("sdk", 4, "please verify account number (7) and chain-id (c)"), ChainErrorKind::OtherFailure),
            (error("de", 1106, ""), ChainErrorKind::AuthorizationExpired),
            (error("de", 1107, ""), ChainErrorKind::AuthorizationMissing),
            (error("ec", 1106, "fee limit exceeded"), ChainErrorKind::OtherFailure),
            (error("undefined", 1, "any text"), ChainErrorKind::OtherFailure),
        ] {
            assert_eq!(given.classify(), meaning, "{given:?}");
        }
    }

    #[test]
    fn a_sentence_that_an_argument_quotes_does_not_classify_a_failure() {
        let input: serde_json::Value =
            serde_json::from_str(include_str!("../../tests/fixtures/error-sentences.json")).expect("JSON");
        let given: Vec<&str> =
            input["sentences"].as_array().expect("a list").iter().map(|one| one.as_str().expect("a text")).collect();
        let own = [
            "spendable balance 0usvc is smaller than 10usvc: insufficient funds",
            "svc1a does not allow to pay fees for svc1b: fee-grant not found: not found",
            "basic allowance: fee limit exceeded",
            "incorrect account sequence",
            "staking message not allowed under proof of authority",
        ];
        for sentence in given.into_iter().chain(own) {
            for text in [
                // A message fails whose argument is the sentence, at any place.
                format!("failed to execute message; message index: 0: {sentence}: invalid DID syntax"),
                format!("failed to execute message; message index: 0: no such name: {sentence}"),
                // A message that is refused before it runs.
                format!("invalid DID {sentence:?}: invalid DID syntax"),
                format!("{sentence}: invalid URL"),
                format!("name {sentence:?} is taken"),
            ] {
                let framed =
                    format!("rpc error: code = Unknown desc = {text} [a/b.go:7] with gas used: '9': unknown request");
                for text in [text, framed] {
                    let failure = error("sdk", 6, &text);
                    assert_eq!(failure.classify_simulation(), ChainErrorKind::OtherFailure, "{text}");
                    let is_root = failure.sentence().ends_with(&format!(": {sentence}"));
                    assert!(is_root || failure.advice().is_none(), "{text}");
                    // A doubt costs one question at the account, where no message is named.
                    assert!(!failure.may_name_sequence() || !text.contains("message index"), "{text}");
                }
            }
        }
        let unknown_frame =
            error("sdk", 6, "ante: account sequence mismatch, expected 9, got 8: incorrect account sequence!");
        assert!(unknown_frame.may_name_sequence());
    }

    #[test]
    fn a_simulation_failure_is_classified_by_the_sentence_of_its_root_error() {
        for (text, meaning) in [
            (
                "account sequence mismatch, expected 5, got 6: incorrect account sequence",
                ChainErrorKind::WrongSequence { expected: Some(5), actual: Some(6) },
            ),
            ("fee allowance expired: fee allowance expired", ChainErrorKind::FeeAllowanceUnusable),
            ("basic allowance: fee limit exceeded", ChainErrorKind::FeeAllowanceUnusable),
            (
                "svc1a does not allow to pay fees for svc1b: basic allowance: fee allowance expired",
                ChainErrorKind::FeeAllowanceUnusable,
            ),
            (
                "svc1a does not allow to pay fees for svc1b: fee-grant not found: not found",
                ChainErrorKind::FeeAllowanceUnusable,
            ),
            ("message does not exist in allowed messages: message not allowed", ChainErrorKind::FeeAllowanceUnusable),
            ("spendable balance 0usvc is smaller than 10usvc: insufficient funds", ChainErrorKind::InsufficientFees),
            (
                "spendable balance 0usvc is smaller than 10usvc: insufficient funds: insufficient funds",
                ChainErrorKind::InsufficientFees,
            ),
            ("insufficient fees; got: 1usvc required: 2usvc: insufficient fee", ChainErrorKind::InsufficientFees),
            ("failed to execute message; message index: 0: ecosystem not found", ChainErrorKind::OtherFailure),
        ] {
            let framed =
                format!("rpc error: code = Unknown desc = {text} [/x/y.go:7] with gas used: '9': unknown request");
            for text in [text, framed.as_str()] {
                assert_eq!(error("sdk", 6, text).classify_simulation(), meaning, "{text}");
            }
        }
    }
}
