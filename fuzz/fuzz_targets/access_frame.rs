//! Feeds random frames of access to their reader. It must not panic; a frame that is read is written again, and reads the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use svc_didcomm::protocol::endpoint_access::AccessFrame;

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    for content in [text.to_string(), format!("{{\"svc\":\"endpoint-access/1\",\"op\":{text}")] {
        let written = match AccessFrame::read(&content) {
            Some(AccessFrame::Request(request)) => request.to_content(),
            Some(AccessFrame::Grant(grant)) => grant.to_content().to_string(),
            Some(AccessFrame::Denial(denial)) => denial.to_content(),
            Some(AccessFrame::Revocation(revoked)) => revoked.to_content(),
            Some(AccessFrame::UnreadableRequest { .. } | AccessFrame::Unreadable(_)) | None => continue,
        };
        assert_eq!(AccessFrame::read(&written), AccessFrame::read(&content), "{content}");
    }
});
