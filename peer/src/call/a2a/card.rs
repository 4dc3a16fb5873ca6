//! The Agent Card of A2A 1.0 and 0.3. Pure.

use serde_json::Value;
use url::Url;

const CARD_PATH: &str = ".well-known/agent-card.json";
const JSON_RPC: &str = "JSONRPC";

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum A2aVersion {
    V03,
    V1,
}

/// An interface that is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct A2aInterface {
    pub url: Url,
    pub version: A2aVersion,
}

/// The places of the card: the entry itself where it is a JSON file, else the well-known path below the entry, and that of its host.
pub(super) fn card_urls(entry: &Url) -> (Url, Option<Url>) {
    if entry.path().ends_with(".json") {
        return (entry.clone(), None);
    }
    let mut base = entry.clone();
    base.set_query(None);
    base.set_fragment(None);
    base.set_path(&format!("{}/", entry.path().trim_end_matches('/')));
    let own = base.join(CARD_PATH).unwrap_or_else(|_| base.clone());
    let of_host = base.join(&format!("/{CARD_PATH}")).ok().filter(|of_host| *of_host != own);
    (own, of_host)
}

/// The newest JSON-RPC interface of a card. Fails with the bindings that it offers.
pub(super) fn read_card(card: &Value) -> Result<A2aInterface, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let card_version = text(&card["protocolVersion"]);
    let listed = card["supportedInterfaces"].as_array().into_iter().flatten();
    let listed = listed.map(|one| (text(&one["protocolBinding"]), text(&one["url"]), text(&one["protocolVersion"])));
    let older = card["additionalInterfaces"].as_array().into_iter().flatten();
    let older = older.map(|one| (text(&one["transport"]), text(&one["url"]), card_version.clone()));
    // The main one of 0.3 is JSON-RPC where the card does not say.
    let preferred = card["preferredTransport"].as_str().unwrap_or(JSON_RPC).to_owned();
    let main = card["url"].as_str().map(|url| (preferred, url.to_owned(), card_version.clone()));
    let offered: Vec<(String, String, String)> = listed.chain(main).chain(older).take(64).collect();
    let spoken = offered.iter().filter_map(|(binding, url, version)| {
        let version = match version.split('.').collect::<Vec<_>>().as_slice() {
            ["1", ..] => A2aVersion::V1,
            ["0", "3", ..] => A2aVersion::V03,
            _ => return None,
        };
        (binding == JSON_RPC).then_some(A2aInterface { url: Url::parse(url).ok()?, version })
    });
    // The first of equals: the card lists the preferred one first.
    let best = spoken.fold(None, |best: Option<A2aInterface>, one| match best {
        Some(best) if best.version >= one.version => Some(best),
        _ => Some(one),
    });
    best.ok_or_else(|| match offered.as_slice() {
        [] => "none".to_owned(),
        offered => {
            offered.iter().map(|(binding, _, version)| format!("{binding} {version}")).collect::<Vec<_>>().join(", ")
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_card_is_looked_for_below_the_entry_and_at_its_host() {
        let urls = |entry: &str| -> Vec<String> {
            let (own, of_host) = card_urls(&Url::parse(entry).expect("a URL"));
            [Some(own), of_host].into_iter().flatten().map(String::from).collect()
        };
        assert_eq!(urls("https://a/x/card.json"), ["https://a/x/card.json"]);
        assert_eq!(
            urls("https://a/agents/one?x#y"),
            ["https://a/agents/one/.well-known/agent-card.json", "https://a/.well-known/agent-card.json"]
        );
        assert_eq!(urls("https://a"), ["https://a/.well-known/agent-card.json"]);
    }

    #[test]
    fn the_newest_json_rpc_interface_of_a_card_is_called() {
        let interface = |binding: &str, url: &str, version: &str| json!({"protocolBinding": binding, "url": url, "protocolVersion": version});
        for (card, expected) in [
            (
                json!({"supportedInterfaces": [interface("GRPC", "https://a/g", "1.0"),
                interface("JSONRPC", "https://a/old", "0.3"), interface("JSONRPC", "https://a/rpc", "1.0"),
                interface("JSONRPC", "https://a/second", "1.0")]}),
                Ok(("https://a/rpc", A2aVersion::V1)),
            ),
            (
                json!({"supportedInterfaces": [interface("JSONRPC", "https://a/old", "0.3.0")]}),
                Ok(("https://a/old", A2aVersion::V03)),
            ),
            (json!({"url": "https://a/rpc", "protocolVersion": "0.3.0"}), Ok(("https://a/rpc", A2aVersion::V03))),
            (
                json!({"url": "https://a/g", "protocolVersion": "0.3.0", "preferredTransport": "GRPC",
                "additionalInterfaces": [{"transport": "JSONRPC", "url": "https://a/rpc"}]}),
                Ok(("https://a/rpc", A2aVersion::V03)),
            ),
            (json!({"url": "https://a/g", "protocolVersion": "0.2.5"}), Err("JSONRPC 0.2.5")),
            (json!({"supportedInterfaces": [interface("HTTP+JSON", "https://a/r", "1.0")]}), Err("HTTP+JSON 1.0")),
            (json!({"supportedInterfaces": [interface("JSONRPC", "no URL", "1.0")]}), Err("JSONRPC 1.0")),
            (json!({}), Err("none")),
            (json!([7]), Err("none")),
        ] {
            let found = read_card(&card).map(|one| (one.url.to_string(), one.version));
            let expected = expected.map(|(url, version)| (url.to_owned(), version)).map_err(str::to_owned);
            assert_eq!(found, expected, "{card}");
        }
    }
}
