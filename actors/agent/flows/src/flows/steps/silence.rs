//! The words for a peer that does not answer. Pure.

use svc_didcomm::{
    flow::{AwaitedAnswer, PATIENCE_MILLIS},
    protocol::credential_format::CredentialFormat,
};

/// The words for a silence: its likely reason, and the way on. The format is that of the offer.
pub(super) fn silence_text(awaited: AwaitedAnswer, format: &str) -> String {
    let minutes = PATIENCE_MILLIS / 60_000;
    // A request that comes again is answered with the same offer: another round has another one.
    let way_on = "when its corporation renews the participant, a round begins with an offer of its own";
    if awaited == AwaitedAnswer::Acknowledgement {
        return format!("the peer has not acknowledged its credential for {minutes} minutes; {way_on}");
    }
    let is_newer = CredentialFormat::of_offer(format) == Some(CredentialFormat::DataIntegrity);
    let other = if is_newer { ", and FLOW_ISSUE_FORMAT=ld-proof has later rounds offer the older one" } else { "" };
    format!(
        "the peer has not answered the offer for {minutes} minutes; it may not take the format {format}{other}; {way_on}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_name_the_answer_the_format_and_the_way_on() {
        let offer = |format: CredentialFormat| silence_text(AwaitedAnswer::Request, format.offer_name());
        let newer = offer(CredentialFormat::DataIntegrity);
        assert!(
            newer.contains("has not answered the offer for 5 minutes") && newer.contains("FLOW_ISSUE_FORMAT=ld-proof")
        );
        assert!(newer.contains(CredentialFormat::DataIntegrity.offer_name()), "{newer}");
        let older = offer(CredentialFormat::LdProof);
        assert!(
            older.contains(CredentialFormat::LdProof.offer_name()) && !older.contains("FLOW_ISSUE_FORMAT"),
            "{older}"
        );
        let delivered = silence_text(AwaitedAnswer::Acknowledgement, "");
        assert!(delivered.contains("has not acknowledged its credential for 5 minutes"), "{delivered}");
        for text in [newer, older, delivered] {
            assert!(text.contains("when its corporation renews the participant"), "{text}");
        }
    }
}
