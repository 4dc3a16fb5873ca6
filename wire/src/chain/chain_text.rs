//! The text of a failure without the frame that a node puts around it.
//!
//! `Simulate` answers `rpc error: code = Unknown desc = TEXT [PATH:LINE] with gas used: 'N': unknown request`; in TEXT the wrap of the
//! message stands before the sentence of the chain, and a panic has a hundred lines of a Go stack behind it.

use super::chain_error::ChainError;

/// Beginning of the text of a message that has failed.
const OF_MESSAGE: &str = "failed to execute message; message index: ";
/// Characters of the raw text that are passed on.
const MAX_RAW: usize = 1_000;

impl ChainError {
    /// The sentence of the chain.
    pub fn sentence(&self) -> String {
        let text = split_gas(self.described()).0;
        let text = text.trim_start_matches("recovered: ");
        let text = match text.strip_prefix(OF_MESSAGE) {
            Some(rest) => rest.split_once(": ").map_or(rest, |(_, sentence)| sentence),
            None => text,
        };
        without_places(text).trim().to_owned()
    }

    /// Whether the frame of a simulation names the message that has failed, or a panic: the checks before a message have passed.
    pub(super) fn is_of_message(&self) -> bool {
        let text = self.described();
        text.starts_with(OF_MESSAGE) || text.starts_with("recovered: ")
    }

    /// The text without the stack of a panic and the name of a gRPC status.
    fn described(&self) -> &str {
        after_status(without_stack(&self.raw_log))
    }

    /// The gas that the message had used, where the text names it.
    pub fn gas_used(&self) -> Option<u64> {
        split_gas(&self.raw_log).1
    }

    /// The raw text without stack and places in source files, cut to a bound.
    pub fn bounded_text(&self) -> String {
        let text = without_places(without_stack(&self.raw_log));
        match text.char_indices().nth(MAX_RAW) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text,
        }
    }
}

impl ChainError {
    /// The amounts of a refusal for too small a fee: `insufficient fees; got: 1usvc required: 2usvc: insufficient fee` — x/auth, DeductFeeDecorator. Nothing where the text is another,
    /// or has amounts of several denoms.
    pub fn fee_shortage(&self) -> Option<FeeShortage> {
        let sentence = self.sentence();
        let (offered, rest) = sentence.strip_prefix("insufficient fees; got: ")?.split_once(" required: ")?;
        let required = rest.split(':').next()?;
        let (required, denom) = coin_of(required)?;
        let (offered, offered_denom) = if offered.is_empty() { (0, denom) } else { coin_of(offered)? };
        (offered_denom == denom).then_some(FeeShortage { offered, required })
    }
}

/// A fee that is too small for the node's price of gas. Amounts are in the fee denom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeeShortage {
    /// The fee of the transaction.
    pub offered: u128,
    /// The fee that the node wants for its gas.
    pub required: u128,
}

/// Amount and denom of one coin; nothing for several.
fn coin_of(coins: &str) -> Option<(u128, &str)> {
    let (amount, denom) = coins.split_at(coins.find(|one: char| !one.is_ascii_digit())?);
    (!denom.contains(',')).then_some((amount.parse().ok()?, denom))
}

/// The text before the Go stack of a panic.
fn without_stack(text: &str) -> &str {
    text.split("\nstack:").next().unwrap_or(text).trim_end()
}

/// The text behind the name of a gRPC status.
fn after_status(text: &str) -> &str {
    let rest = text.strip_prefix("rpc error: code = ").and_then(|rest| rest.split_once(" desc = "));
    rest.map_or(text, |(_, described)| described)
}

/// The text before the gas, and the gas.
fn split_gas(text: &str) -> (&str, Option<u64>) {
    let Some((before, behind)) = text.rsplit_once(" with gas used: '") else { return (text, None) };
    (before, behind.split('\'').next().and_then(|gas| gas.parse().ok()))
}

/// The text without the brackets that name a line of a Go source file.
fn without_places(text: &str) -> String {
    let mut rest = text;
    let mut kept = String::with_capacity(text.len());
    while let Some(open) = rest.find('[') {
        let Some(length) = rest[open..].find(']') else { break };
        let inner = &rest[open + 1..open + length];
        let is_place = inner
            .rsplit_once(':')
            .is_some_and(|(file, line)| file.ends_with(".go") && line.bytes().all(|byte| byte.is_ascii_digit()));
        let end = open + length + 1;
        kept.push_str(if is_place { rest[..open].trim_end() } else { &rest[..end] });
        rest = &rest[end..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(raw_log: &str) -> ChainError {
        ChainError { codespace: "sdk".into(), code: 6, raw_log: raw_log.into() }
    }

    #[test]
    fn a_refusal_for_too_small_a_fee_names_both_amounts() {
        let shortage = |offered, required| Some(FeeShortage { offered, required });
        for (text, expected) in [
            ("insufficient fees; got: 7500usvc required: 75000usvc: insufficient fee", shortage(7_500, 75_000)),
            ("insufficient fees; got:  required: 75000usvc: insufficient fee", shortage(0, 75_000)),
            ("insufficient fees; got: 1usvc required: 2other,3usvc: insufficient fee", None),
            ("insufficient fees; got: 7500usvc required: 7500other: insufficient fee", None),
            ("spendable balance 0usvc is smaller than 10usvc: insufficient funds", None),
            ("insufficient fees; got: x", None),
        ] {
            assert_eq!(error(text).fee_shortage(), expected, "{text}");
        }
    }

    #[test]
    fn the_frame_of_a_node_is_taken_off() {
        let place = "[cosmos/cosmos-sdk@v0.53.4/baseapp/baseapp.go:1051]";
        let built = "[/home/builder/src/chain/x/pp/keeper/msg_server.go:77]";
        let stack = "stack:\ngoroutine 1 [running]:\nruntime/debug.Stack()\n\t/usr/local/go/src/runtime/debug/stack.go:26 +0x5e";
        for (raw, sentence, gas) in [
            (
                format!(
                    "rpc error: code = Unknown desc = failed to execute message; message index: 0: 7 [a]: not found {place} with gas \
                     used: '71914': unknown request"
                ),
                "7 [a]: not found",
                Some(71_914),
            ),
            (
                format!(
                    "rpc error: code = Unknown desc = invalid DID: invalid DID syntax {built} with gas used: '0': unknown request"
                ),
                "invalid DID: invalid DID syntax",
                Some(0),
            ),
            (
                format!(
                    "rpc error: code = Unknown desc = recovered: runtime error: nil pointer dereference\n{stack}\n{place} with gas \
                     used: '9': unknown request"
                ),
                "runtime error: nil pointer dereference",
                Some(9),
            ),
            (format!("recovered: boom\n{stack}\n: panic"), "boom", None),
            ("failed to execute message; message index: 12: a: b".to_owned(), "a: b", None),
            (
                "insufficient fees; got: 1usvc required: 2usvc: insufficient fee".to_owned(),
                "insufficient fees; got: 1usvc required: 2usvc: insufficient fee",
                None,
            ),
            (String::new(), "", None),
            ("an open [bracket.go:1".to_owned(), "an open [bracket.go:1", None),
        ] {
            let error = error(&raw);
            assert_eq!((error.sentence().as_str(), error.gas_used()), (sentence, gas), "{raw}");
            let bounded = error.bounded_text();
            assert!(!bounded.contains(".go:") || raw.contains("open ["), "{bounded}");
            assert!(!bounded.contains("goroutine"), "{bounded}");
        }
        let long = error(&"ä".repeat(5_000)).bounded_text();
        assert_eq!(long.chars().count(), MAX_RAW + 1);
    }
}
