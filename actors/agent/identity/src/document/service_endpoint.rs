//! The endpoint of a service: a URI, an object, or several of these.

use fluent_uri::Uri;
use serde_json::Value;
use svc_agent_core::error::{Refusal, RefusalCode};
use svc_didcomm::json_shape::levels;
use svc_net::host_policy::{HostError, HostPolicy};

const MAX_URI_BYTES: usize = 2_048;
const MAX_ENDPOINTS: usize = 16;
/// Levels of an object, its own included.
const MAX_LEVELS: usize = 16;
/// Schemes that run code or read files in the program of a reader.
const REFUSED_SCHEMES: [&str; 5] = ["javascript", "data", "file", "blob", "vbscript"];

/// Checks the endpoint of an entry.
pub(super) fn check_endpoint(endpoint: &Value, hosts: HostPolicy) -> Result<(), Refusal> {
    let checked = match endpoint {
        Value::Array(several) if (1..=MAX_ENDPOINTS).contains(&several.len()) => {
            several.iter().enumerate().try_for_each(|(index, one)| {
                check_one(one, hosts).map_err(|(path, rule)| (format!("[{index}]{path}"), rule))
            })
        }
        Value::Array(_) => Err((String::new(), format!("an array has 1 to {MAX_ENDPOINTS} members"))),
        one => check_one(one, hosts),
    };
    checked.map_err(|(path, rule)| {
        Refusal::of_member(RefusalCode::InvalidServiceEndpoint, &format!("serviceEndpoint{path}"), rule)
    })
}

/// Fails with the path of the offending member, and the rule.
fn check_one(endpoint: &Value, hosts: HostPolicy) -> Result<(), (String, String)> {
    match endpoint {
        Value::String(text) => check_uri(text, hosts).map_err(|rule| (String::new(), rule)),
        Value::Object(members) if members.is_empty() => Err((String::new(), "an object has a member".to_owned())),
        Value::Object(_) if levels(endpoint) > MAX_LEVELS => {
            Err((String::new(), format!("an object has at most {MAX_LEVELS} levels")))
        }
        Value::Object(members) => match members.get("uri") {
            None => Ok(()),
            Some(Value::String(text)) => check_uri(text, hosts).map_err(|rule| (".uri".to_owned(), rule)),
            Some(_) => Err((".uri".to_owned(), "a URI is a text".to_owned())),
        },
        _ => Err((String::new(), "allowed is an absolute URI, an object, or an array of these".to_owned())),
    }
}

fn check_uri(text: &str, hosts: HostPolicy) -> Result<(), String> {
    if text.len() > MAX_URI_BYTES {
        return Err(format!("a URI has at most {MAX_URI_BYTES} bytes"));
    }
    let uri = Uri::parse(text).map_err(|_| "it is no absolute URI (RFC 3986)".to_owned())?;
    let scheme = uri.scheme().as_str().to_ascii_lowercase();
    if REFUSED_SCHEMES.contains(&scheme.as_str()) {
        return Err(format!("the scheme {scheme} is not allowed"));
    }
    if scheme != "http" && scheme != "https" {
        return Ok(());
    }
    let url = url::Url::parse(text).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() || text.contains('@') && uri.authority().is_none() {
        return Err("a URI has no user name and no password".to_owned());
    }
    if hosts == HostPolicy::AllowPrivate {
        return Ok(());
    }
    // The policy takes https only; the scheme of an endpoint is the business of its reader.
    let as_https = format!("https{}", &text[scheme.len()..]);
    match hosts.check_url(&as_https) {
        Ok(_) => Ok(()),
        Err(error @ (HostError::PrivateAddress(_) | HostError::PrivateName(_))) => Err(error.to_string()),
        Err(HostError::NotHttpsUrl(_)) => Err("it is no URL of a web server".to_owned()),
    }
}
