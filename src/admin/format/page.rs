//! Pages of a list, and the cursors between them.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use svc_agent::{Refusal, RefusalCode};

use crate::admin::format::schema::Page;

/// Longest cursor, in bytes.
const MAX_CURSOR_BYTES: usize = 1_024;
const VERSION: u8 = 1;

/// A cursor: the list with its filters, and the key of the last item.
#[derive(Serialize, Deserialize)]
struct Cursor {
    v: u8,
    s: String,
    k: String,
}

/// The first 16 hex digits of the hash of a list and its filters.
fn list_digest(list: &str) -> String {
    hex::encode(&Sha256::digest(list)[..8])
}

/// Returns the key behind which a page begins. `list` names the list and its filters.
pub(in crate::admin) fn parse_cursor(text: Option<&str>, list: &str) -> Result<Option<String>, Refusal> {
    let Some(text) = text else { return Ok(None) };
    let refused = |rule: &str| Refusal::of_member(RefusalCode::InvalidCursor, "cursor", rule);
    if text.len() > MAX_CURSOR_BYTES {
        return Err(refused("it is longer than 1024 bytes"));
    }
    let decoded = URL_SAFE_NO_PAD.decode(text).ok().and_then(|bytes| serde_json::from_slice::<Cursor>(&bytes).ok());
    match decoded {
        Some(Cursor { v: VERSION, s, k }) if s == list_digest(list) => Ok(Some(k)),
        Some(_) => Err(refused("it is of another list, or of a list with other filters")),
        None => Err(refused("it is none of this API; begin without one")),
    }
}

/// Makes a page of a list that goes on growing: its cursor leads behind the last item, also where there are no more, and that of an empty
/// page is the one before.
pub(in crate::admin) fn growing_page<T, U: From<T>>(
    rest: Vec<T>,
    limit: usize,
    (list, before): (&str, Option<String>),
    key: impl Fn(&T) -> String,
) -> Page<U> {
    let last = rest.get(..limit).unwrap_or(&rest).last().map(|last| make_cursor(list, key(last)));
    let page = page(rest, limit, list, key);
    Page { next_cursor: last.or(before), ..page }
}

fn make_cursor(list: &str, key: String) -> String {
    let cursor = Cursor { v: VERSION, s: list_digest(list), k: key };
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(&cursor).unwrap_or_default())
}

/// Makes a page of items in the order of their keys. `rest` has at most one item more than the page.
pub(in crate::admin) fn page<T, U: From<T>>(
    mut rest: Vec<T>,
    limit: usize,
    list: &str,
    key: impl Fn(&T) -> String,
) -> Page<U> {
    let has_more = rest.len() > limit;
    rest.truncate(limit);
    let cursor = |last: &T| make_cursor(list, key(last));
    let next_cursor = if has_more { rest.last().map(cursor) } else { None };
    Page { items: rest.into_iter().map(U::from).collect(), next_cursor }
}
