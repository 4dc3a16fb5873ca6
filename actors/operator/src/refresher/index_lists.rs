//! Lists of the indexer, which are read page after page to their end.

use serde_json::Value;
use svc_net::upstream::{UpstreamError, UpstreamKind};

use crate::clients::indexer::IndexerClient;

/// Largest page of a list.
const PAGE_SIZE: usize = 1_024;
/// Pages of one list that are read.
const MAX_PAGES: usize = 64;

/// The page after a page, which has descending ids.
#[derive(Debug, PartialEq, Eq)]
enum NextPage {
    /// There is none.
    End,
    /// It has the entries below an id.
    Below(u64),
    /// It cannot be asked for: the ids do not descend.
    Unreachable,
}

fn next_page(page: &[Value], below: Option<u64>) -> NextPage {
    if page.len() < PAGE_SIZE {
        return NextPage::End;
    }
    match page.last().and_then(|row| row["id"].as_u64()) {
        Some(id) if below.is_none_or(|below| id < below) => NextPage::Below(id),
        _ => NextPage::Unreachable,
    }
}

/// Reads the list `key` at `path` with a filter. Fails when it cannot be read to its end: a list that may be cut is not used.
pub(super) async fn read_list(
    indexer: &IndexerClient,
    (operation, path, key): (&str, &str, &str),
    filter: &[(&str, &str)],
) -> Result<Vec<Value>, UpstreamError> {
    let protocol_error = |reason: String| {
        let kind = UpstreamKind::Indexer;
        UpstreamError::Protocol { kind, reason: format!("{path}: {reason}"), body: String::new() }
    };
    let mut rows = Vec::new();
    let mut below = None;
    for _ in 0..MAX_PAGES {
        let filter = filter.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let limit = std::iter::once(("limit".to_owned(), PAGE_SIZE.to_string()));
        let page = below.map(|below: u64| ("max_id".to_owned(), below.to_string()));
        let query: Vec<(String, String)> = filter.chain(limit).chain(page).collect();
        let mut answer = indexer.get(operation, path, &query, None).await?;
        let Some(Value::Array(page)) = answer.get_mut(key).map(Value::take) else {
            return Err(protocol_error(format!("its answer has no list {key:?}")));
        };
        let next = next_page(&page, below);
        rows.extend(page);
        match next {
            NextPage::End => return Ok(rows),
            NextPage::Below(id) => below = Some(id),
            NextPage::Unreachable => {
                return Err(protocol_error("the list may be cut, its ids do not descend".to_owned()));
            }
        }
    }
    Err(protocol_error(format!("the list has more than {} entries", MAX_PAGES * PAGE_SIZE)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_full_page_is_followed_by_the_entries_below_its_last_id() {
        let page = |first: u64, len: usize| (0..len as u64).map(|row| json!({"id": first - row})).collect::<Vec<_>>();
        for (page, below, expected) in [
            (page(9, 0), None, NextPage::End),
            (page(2_000, 1_023), None, NextPage::End),
            (page(5_000, 1_024), None, NextPage::Below(3_977)),
            (page(3_976, 1_024), Some(3_977), NextPage::Below(2_953)),
            // A server that ignores the bound would be read for ever.
            (page(5_000, 1_024), Some(3_977), NextPage::Unreachable),
            (vec![json!({}); 1_024], None, NextPage::Unreachable),
        ] {
            assert_eq!(next_page(&page, below), expected, "{} below {below:?}", page.len());
        }
    }
}
