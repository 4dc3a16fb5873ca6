//! The state as a query sees it, and the paging of lists.

use prost_types::Timestamp;
use svc_wire::{
    proto::cosmos::base::query::v1beta1::{PageRequest, PageResponse},
    timestamp,
};

use crate::{
    chain::{BlockContext, ChainConfig},
    error::{LedgerError, QueryStatus},
    state::LedgerState,
};

const DEFAULT_PAGE_SIZE: u32 = 64;
const MAX_PAGE_SIZE: u32 = 1024;
/// Default page size of the SDK's lists.
const SDK_PAGE_SIZE: u64 = 100;

/// The state, chain and block of a query.
pub struct QueryContext<'a> {
    pub state: &'a LedgerState,
    pub chain: &'a ChainConfig,
    pub block: BlockContext,
}

pub fn not_found(text: impl std::fmt::Display) -> LedgerError {
    LedgerError::from_query(QueryStatus::NotFound, text)
}

/// Returns the page size for a `response_max_size`: 0 means 64; fails above 1024.
pub fn page_size(size: u32) -> Result<usize, LedgerError> {
    match size {
        0 => Ok(DEFAULT_PAGE_SIZE as usize),
        1..=MAX_PAGE_SIZE => Ok(size as usize),
        _ => {
            let text = format!("response_max_size must be between 1 and {MAX_PAGE_SIZE}");
            Err(LedgerError::from_query(QueryStatus::InvalidArgument, text))
        }
    }
}

/// Tells whether an entity passes the filter `modified_after`, which is exclusive.
pub fn is_after(modified: Option<Timestamp>, after: Option<Timestamp>) -> bool {
    let nanos = |instant: Option<Timestamp>| instant.as_ref().map_or(0, timestamp::unix_nanos);
    after.is_none() || nanos(modified) > nanos(after)
}

/// Returns a page, cut as the SDK does. The key of the next page is its offset.
pub fn paginate<T>(
    items: impl DoubleEndedIterator<Item = T>,
    request: Option<PageRequest>,
) -> Result<(Vec<T>, Option<PageResponse>), LedgerError> {
    let request = request.unwrap_or(PageRequest { count_total: true, ..PageRequest::default() });
    let invalid = |text: &str| LedgerError::from_query(QueryStatus::InvalidArgument, text);
    if request.offset > 0 && !request.key.is_empty() {
        return Err(invalid("invalid request, either offset or key is expected, got both"));
    }
    let offset = if request.key.is_empty() {
        request.offset
    } else {
        let key = request.key.as_slice().try_into().map_err(|_| invalid("invalid pagination key"))?;
        u64::from_be_bytes(key)
    };
    let limit = if request.limit == 0 { SDK_PAGE_SIZE } else { request.limit };
    let mut all: Vec<T> = items.collect();
    if request.reverse {
        all.reverse();
    }
    let total = all.len() as u64;
    let next = offset.saturating_add(limit);
    let next_key = if next < total { next.to_be_bytes().to_vec() } else { Vec::new() };
    let position = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    let page = all.into_iter().skip(position(offset)).take(position(limit)).collect();
    let counted = if request.count_total && request.key.is_empty() { total } else { 0 };
    Ok((page, Some(PageResponse { next_key, total: counted })))
}
