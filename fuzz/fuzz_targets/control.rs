//! Feeds random texts to the block subscription as control messages. The parser must not panic, the text of a refusal fits a
//! close frame, and an accepted filter is parsed to the same filter from its plain form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_indexer::{ControlMessage, ReadArguments, normalize_did, read_endpoints};
use svc_wire::indexer_reads::HttpMethod;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match ControlMessage::<()>::parse(&text) {
        Err(reason) => assert!(!reason.is_empty() && reason.len() <= 123, "{reason}"),
        Ok(ControlMessage::Unsubscribe) => {}
        Ok(ControlMessage::Subscribe(filter)) => {
            assert!(filter.corporation_id != Some(0));
            // A DID that was percent-encoded twice is decoded once, so only those without a percent sign are stable.
            for did in filter.dids.iter().filter(|did| !did.contains('%')) {
                assert_eq!(normalize_did(did).as_deref(), Some(did.trim()), "{did:?}");
            }
            let plain = serde_json::json!({
                "action": "subscribe", "dids": filter.dids, "corporationId": filter.corporation_id,
            });
            if filter.dids.iter().all(|did| !did.contains('%') && did.trim() == did) {
                assert_eq!(ControlMessage::parse(&plain.to_string()), Ok(ControlMessage::Subscribe(filter)));
            }
        }
    }
    // The same bytes are the query or the body of a read.
    if let Some((first, query)) = data.split_first() {
        let endpoints = read_endpoints().expect("the table of reads");
        let endpoint = &endpoints[usize::from(*first) % endpoints.len()];
        let read = match endpoint.method {
            HttpMethod::Get => ReadArguments::from_query(endpoint, [], &String::from_utf8_lossy(query)),
            HttpMethod::Post => ReadArguments::from_body(endpoint, query),
        };
        if let Err(error) = read {
            assert!(error.to_string().len() < 1_024);
        }
    }
});
