//! Feeds the block subscription what subscribers should not say. Nothing panics; a refusal fits a close frame; what is
//! accepted is a filter that means the same when it is said again in its plain form.
#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_indexer::{Control, Params, endpoints, normal_did};
use svc_wire::reads::Method;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    match Control::<()>::parse(&text) {
        Err(reason) => assert!(!reason.is_empty() && reason.len() <= 123, "{reason}"),
        Ok(Control::Unsubscribe) => {}
        Ok(Control::Subscribe(filter)) => {
            assert!(filter.corporation_id != Some(0));
            // A DID that was percent-encoded twice is decoded once, so only those without a percent sign are stable.
            for did in filter.dids.iter().filter(|did| !did.contains('%')) {
                assert_eq!(normal_did(did).as_deref(), Some(did.trim()), "{did:?}");
            }
            let plain = serde_json::json!({
                "action": "subscribe", "dids": filter.dids, "corporationId": filter.corporation_id,
            });
            if filter.dids.iter().all(|did| !did.contains('%') && did.trim() == did) {
                assert_eq!(Control::parse(&plain.to_string()), Ok(Control::Subscribe(filter)));
            }
        }
    }
    // The same bytes as the query or the body of a read.
    if let Some((first, query)) = data.split_first() {
        let endpoint = &endpoints()[usize::from(*first) % endpoints().len()];
        let read = match endpoint.method {
            Method::Get => Params::read(endpoint, [], &String::from_utf8_lossy(query)),
            Method::Post => Params::posted(endpoint, query),
        };
        if let Err(error) = read {
            assert!(error.to_string().len() < 1_024);
        }
    }
});
