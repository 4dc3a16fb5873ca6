//! `svc peer call`: a call of an endpoint in the protocol of its type.

use std::time::Duration;

use clap::Args;
use serde_json::Map;
use svc_peer::{
    CallOptions, EndpointProtocol, PeerCall, PeerClient, PeerEndpoint, PeerError, PeerFailure, PeerStep, not_spoken,
};
use tokio::time::{Instant, timeout};

use crate::cli::{
    arguments::{parse_arguments, read_words},
    output::{print_json, print_line},
};

#[derive(Debug, Args)]
pub struct CallArgs {
    /// DID URL of the endpoint, for example did:web:peer.example#mcp.
    endpoint: String,
    /// MCP: a tool, and its arguments as JSON, @FILE, - for standard input, or name=value. A2A: a text. Website: a path, or nothing.
    words: Vec<String>,
    /// List the tools of an MCP server.
    #[arg(long, conflicts_with = "words")]
    list: bool,
    /// Scopes to ask for, separated by commas; those of the endpoint by default.
    #[arg(long, value_delimiter = ',')]
    scopes: Option<Vec<String>>,
    /// Do not ask the peer for access: its endpoint is called plainly. For endpoints that need nothing.
    #[arg(long, conflicts_with = "scopes")]
    no_session: bool,
    /// Seconds that all of it may take: the decision about the DID, the peer's grant, and the endpoint. By default the endpoint may take
    /// two minutes, and the grant as long as the own agent waits for peers.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=600))]
    timeout: Option<u64>,
}

/// Calls the endpoint and prints its answer.
pub(super) async fn run(client: &PeerClient, args: CallArgs, as_json: bool) -> anyhow::Result<()> {
    if args.endpoint.split_once('#').is_none_or(|(did, fragment)| !did.starts_with("did:") || fragment.is_empty()) {
        let message = format!("{:?} is no DID URL of an endpoint", args.endpoint);
        let hint = "an endpoint is named like did:web:peer.example#mcp; `svc peer trust DID` lists them";
        let step = (PeerStep::Trust, PeerFailure::Usage);
        return Err(PeerError::new(step, "INVALID_ENDPOINT", message, hint).into());
    }
    let (started, longest) = (Instant::now(), args.timeout.map(Duration::from_secs));
    let found = client.find_endpoint(&args.endpoint);
    let endpoint = match longest {
        None => found.await,
        Some(longest) => timeout(longest, found).await.unwrap_or_else(|_| {
            let message = format!("nothing was decided about the DID within {} s", longest.as_secs());
            let step = (PeerStep::Trust, PeerFailure::VerdictUnknown);
            Err(PeerError::new(step, "TIMEOUT", message, "the document of the DID or the index may be slow: try again"))
        }),
    }?;
    let left = longest.map(|longest| longest.saturating_sub(started.elapsed()));
    // It may read standard input, whose time is not the peer's.
    let call = call_of(&endpoint, &args)?;
    let options = CallOptions { scopes: args.scopes, without_session: args.no_session, timeout: left };
    let answer = client.call(&endpoint, &call, &options).await?;
    if as_json {
        print_json(&answer.content)?
    } else {
        print_line(answer.text.trim_end())
    }
    Ok(())
}

/// The call that the words mean for the type of the endpoint.
fn call_of(endpoint: &PeerEndpoint, args: &CallArgs) -> anyhow::Result<PeerCall> {
    let Some(protocol) = EndpointProtocol::of_type(&endpoint.kind) else { return Err(not_spoken(endpoint).into()) };
    let usage = |message: &str| {
        let step = (PeerStep::Trust, PeerFailure::Usage);
        let hint = "`svc peer call --help` shows the forms";
        Err(PeerError::new(step, "INVALID_CALL", format!("{}: {message}", endpoint.id), hint).into())
    };
    match (protocol, args.list, args.words.as_slice()) {
        (EndpointProtocol::Mcp, true, _) => Ok(PeerCall::ListTools),
        (_, true, _) => usage("--list is for endpoints of type MCP"),
        (EndpointProtocol::Mcp, _, []) => usage("a call of type MCP needs a tool, or --list"),
        (EndpointProtocol::Mcp, _, [tool, rest @ ..]) => {
            let words = match read_words(rest).and_then(|words| parse_arguments(&words, &Map::new())) {
                Ok(arguments) => arguments,
                Err(error) => return usage(&format!("{error:#}")),
            };
            Ok(PeerCall::Tool { name: tool.clone(), arguments: words })
        }
        (EndpointProtocol::A2a, _, [text]) => Ok(PeerCall::Text(text.clone())),
        (EndpointProtocol::A2a, ..) => usage("a call of type A2A needs one text, in quotes"),
        (EndpointProtocol::Website, _, []) => Ok(PeerCall::Page(String::new())),
        (EndpointProtocol::Website, _, [path]) => Ok(PeerCall::Page(path.clone())),
        (EndpointProtocol::Website, ..) => usage("a call of type Website needs one path, or none"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn words_mean_what_the_type_of_the_endpoint_says() {
        let call = |kind: &str, words: &[&str], list: bool| -> anyhow::Result<PeerCall> {
            let endpoint: PeerEndpoint = serde_json::from_value(json!({"id": "did:web:a#x", "type": kind,
                "url": "https://a", "material": "none", "scopes": [], "defaultScopes": [], "schemaId": null, "issuer": null}))?;
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            let args = CallArgs {
                endpoint: "did:web:a#x".into(),
                words,
                list,
                scopes: None,
                no_session: false,
                timeout: None,
            };
            call_of(&endpoint, &args)
        };
        let tool = |arguments: Value| PeerCall::Tool {
            name: "t".into(),
            arguments: arguments.as_object().cloned().expect("an object"),
        };
        assert_eq!(call("MCP", &["t"], false).expect("a call"), tool(json!({})));
        assert_eq!(call("MCP", &["t", "{\"a\": 1}"], false).expect("a call"), tool(json!({"a": 1})));
        assert_eq!(call("MCP", &["t", "a=1", "b=x"], false).expect("a call"), tool(json!({"a": 1, "b": "x"})));
        assert_eq!(call("MCP", &[], true).expect("a call"), PeerCall::ListTools);
        assert_eq!(call("A2A", &["hello"], false).expect("a call"), PeerCall::Text("hello".into()));
        assert_eq!(call("Website", &[], false).expect("a call"), PeerCall::Page(String::new()));
        assert_eq!(call("Website", &["a/b"], false).expect("a call"), PeerCall::Page("a/b".into()));
        for (kind, words, list, expected) in [
            ("MCP", &[][..], false, PeerFailure::Usage),
            ("MCP", &["t", "nonsense"], false, PeerFailure::Usage),
            ("A2A", &[], false, PeerFailure::Usage),
            ("A2A", &["a", "b"], false, PeerFailure::Usage),
            ("A2A", &[], true, PeerFailure::Usage),
            ("Website", &["a", "b"], false, PeerFailure::Usage),
            ("LinkedDomains", &[], false, PeerFailure::NotSpoken),
        ] {
            let error = call(kind, words, list).expect_err("no call");
            let failed = error.downcast_ref::<PeerError>().expect("a step");
            assert_eq!(failed.failure, expected, "{kind} {words:?}: {failed}");
        }
    }
}
