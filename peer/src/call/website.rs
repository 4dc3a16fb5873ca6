//! A page of a website.

use http::{HeaderMap, Method};
use serde_json::json;
use url::Url;

use super::{
    http_call::{HttpCaller, is_same_origin},
    outcome::{CallAnswer, CallFault, answer_of, failed},
    proof::CallProof,
};
use crate::error::{PeerError, PeerFailure};

/// Reads a page below the URL of the entry.
pub(super) async fn get_page(
    http: &HttpCaller,
    entry: &Url,
    proof: &CallProof,
    path: &str,
) -> Result<CallAnswer, CallFault> {
    let url = page_url(entry, path)?;
    let answer = http.send((Method::GET, &url), proof, HeaderMap::new(), None).await?;
    let text = String::from_utf8_lossy(&answer.body).into_owned();
    let content =
        json!({"url": url.as_str(), "status": answer.status, "contentType": answer.content_type, "body": text});
    Ok(answer_of(content, text))
}

/// The URL of a page. The path is appended to that of the entry, and does not leave it.
fn page_url(entry: &Url, path: &str) -> Result<Url, PeerError> {
    if path.is_empty() {
        return Ok(entry.clone());
    }
    let base = entry.path().trim_end_matches('/');
    let whole = format!("{}{base}/{}", &entry[..url::Position::BeforePath], path.trim_start_matches('/'));
    let within = Url::parse(&whole).ok().filter(|url| {
        is_same_origin(url, entry) && url.username().is_empty() && url.path().starts_with(&format!("{base}/"))
    });
    within.ok_or_else(|| {
        let message = format!("the path {path:?} leads out of {entry}");
        failed(PeerFailure::Usage, "INVALID_PATH", message, "give a path below the URL of the entry")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_stays_below_the_entry() {
        for (entry, path, expected) in [
            ("https://a/site", "", Some("https://a/site")),
            ("https://a/site/", "x/y?z=1", Some("https://a/site/x/y?z=1")),
            ("https://a/site", "/x", Some("https://a/site/x")),
            ("https://a:444", "x", Some("https://a:444/x")),
            ("https://a/site", "../x", None),
            ("https://a/site", "%2e%2e/x", None),
            ("https://a/site", "..", None),
            ("https://a/", "//b/x", Some("https://a/b/x")),
            ("https://a/site", "https://b/", Some("https://a/site/https://b/")),
            ("https://a/site", "@b", Some("https://a/site/@b")),
        ] {
            let found = page_url(&Url::parse(entry).expect("a URL"), path).ok();
            assert_eq!(found.as_ref().map(Url::as_str), expected, "{entry} and {path}");
        }
    }
}
