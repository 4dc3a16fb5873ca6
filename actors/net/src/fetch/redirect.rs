//! Decisions about redirects.

use http::{HeaderMap, StatusCode, header};
use url::Url;

use super::error::FetchError;
use crate::{excerpt::excerpt, host_policy::HostError};

/// Longest `Location` header.
const MAX_LOCATION_BYTES: usize = 2048;

/// Returns the target of a redirect; `None` when the answer is no redirect.
pub(super) fn redirect_target(
    from: &Url,
    status: StatusCode,
    headers: &HeaderMap,
    check: impl FnOnce(&str) -> Result<Url, HostError>,
) -> Result<Option<Url>, FetchError> {
    let (true, Some(location)) =
        (matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308), headers.get(header::LOCATION))
    else {
        return Ok(None);
    };
    let target = String::from_utf8_lossy(location.as_bytes());
    let refused =
        |reason: String| FetchError::RedirectRefused { url: excerpt(from.as_str()), target: excerpt(&target), reason };
    if target.len() > MAX_LOCATION_BYTES {
        return Err(refused(format!("it is longer than {MAX_LOCATION_BYTES} bytes")));
    }
    let mut url = from.join(&target).map_err(|error| refused(error.to_string()))?;
    url.set_fragment(None);
    check(url.as_str()).map(Some).map_err(|error| refused(error.to_string()))
}
