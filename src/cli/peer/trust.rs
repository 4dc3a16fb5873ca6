//! `svc peer trust`: the decision about a DID, and its endpoints.

use svc_peer::{PeerClient, PeerError, PeerFailure, PeerResolution, PeerStep};

use crate::cli::output::{print_json, print_line, render_table};

/// Shows the decision. Fails when the DID is not trusted.
pub(super) async fn run(client: &PeerClient, did: &str, as_json: bool) -> anyhow::Result<()> {
    let peer = client.trust(did).await?;
    if as_json {
        print_json(&peer)?;
    } else {
        print_line(describe(&peer).trim_end());
    }
    match (peer.trusted, as_json) {
        (true, _) => Ok(()),
        // The resolution has said it all.
        (false, true) => Err(NotTrusted.into()),
        (false, false) => {
            let hint = "nothing of it can be used; its operator can see the steps with `svc agent init`";
            let step = (PeerStep::Trust, PeerFailure::NotTrusted);
            Err(PeerError::new(step, "NOT_TRUSTED", format!("{did} is not trusted"), hint).into())
        }
    }
}

/// The exit status of a DID that is not trusted, where the output has the reasons.
#[derive(Debug, thiserror::Error)]
#[error("the DID is not trusted")]
pub(crate) struct NotTrusted;

pub(in crate::cli) fn describe(peer: &PeerResolution) -> String {
    let mut rows = vec![("did".to_owned(), peer.did.clone())];
    let row = |rows: &mut Vec<(String, String)>, name: &str, text: String| rows.push((name.to_owned(), text));
    match (peer.trusted, &peer.participant_id) {
        (true, participant) => {
            let until = peer.expires_at.as_ref().map(|end| format!(", until {end}")).unwrap_or_default();
            let participant = participant.as_deref().unwrap_or("unknown");
            row(&mut rows, "trusted", format!("yes: participant {participant} is active at the node{until}"));
            let access =
                if peer.can_be_asked { "over DIDComm" } else { "it cannot be asked: no endpoint of DIDComm v2" };
            row(&mut rows, "access", access.to_owned());
        }
        (false, _) => row(&mut rows, "trusted", "no".to_owned()),
    }
    for reason in &peer.reasons {
        row(&mut rows, "reason", format!("{}: {}", reason.code, reason.message));
    }
    for problem in [&peer.document_problem, &peer.requirements_problem].into_iter().flatten() {
        row(&mut rows, "problem", problem.clone());
    }
    for endpoint in &peer.endpoints {
        let url = endpoint.url.as_deref().unwrap_or("no URL");
        row(&mut rows, "endpoint", format!("{}  {}  {url}", endpoint.id, endpoint.kind));
        row(&mut rows, "", format!("requires: {}", endpoint.requirement()));
    }
    render_table(&rows)
}

#[cfg(test)]
mod tests {
    use svc_peer::{PeerEndpoint, TrustReason};

    use super::*;

    #[test]
    fn a_description_has_the_decision_the_reasons_and_the_requirements() {
        let endpoint = PeerEndpoint {
            id: "did:web:a#mcp".into(),
            kind: "MCP\u{1b}[2J".into(),
            url: Some("https://a/mcp".into()),
            material: Some("bearer".into()),
            scopes: vec!["mcp:read".into()],
            default_scopes: Vec::new(),
            schema_id: None,
            issuer: None,
        };
        let trusted = PeerResolution {
            did: "did:web:a".into(),
            trusted: true,
            participant_id: Some("12".into()),
            reasons: Vec::new(),
            expires_at: Some("2027-01-15T08:00:00.000Z".into()),
            can_be_asked: true,
            endpoints: vec![endpoint],
            document_problem: None,
            requirements_problem: None,
        };
        let shown = describe(&trusted);
        assert_eq!(
            shown,
            "did       did:web:a\ntrusted   yes: participant 12 is active at the node, until 2027-01-15T08:00:00.000Z\n\
             access    over DIDComm\nendpoint  did:web:a#mcp  MCP\\u{1b}[2J  https://a/mcp\n          requires: bearer [mcp:read]\n"
        );
        let reason = TrustReason { code: "unknown_did".into(), message: "the registry does not name the DID".into() };
        let refused = PeerResolution { trusted: false, reasons: vec![reason], endpoints: Vec::new(), ..trusted };
        let shown = describe(&refused);
        assert!(shown.contains("trusted  no\n") && shown.contains("unknown_did: the registry"), "{shown}");
    }
}
