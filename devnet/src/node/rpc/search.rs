//! `tx_search` and `block_search`: event queries over all blocks, and paging.

use serde_json::{Value, json};
use svc_wire::comet_rpc::RpcError;

use super::{
    encode,
    params::{RpcParams, internal_error},
};
use crate::node::chain::{
    NodeCore,
    pubsub_query::{self, PubsubQuery},
};

const DEFAULT_PAGE_SIZE: u64 = 30;
const MAX_PAGE_SIZE: u64 = 100;

/// Returns one page and the total count; fails for a page beyond the last.
pub fn paginate<T>(mut found: Vec<T>, params: &RpcParams) -> Result<(Vec<T>, usize), RpcError> {
    match params.text("order_by").unwrap_or_default() {
        "" | "asc" => {}
        "desc" => found.reverse(),
        _ => return Err(internal_error("expected order_by to be either `asc` or `desc` or empty")),
    }
    let per_page = match params.number("per_page")?.unwrap_or(DEFAULT_PAGE_SIZE) {
        0 => DEFAULT_PAGE_SIZE,
        size => size.min(MAX_PAGE_SIZE),
    };
    let pages = (found.len() as u64).div_ceil(per_page).max(1);
    let page = params.number("page")?.unwrap_or(1);
    if page == 0 || page > pages {
        return Err(internal_error(format!("page should be within [1, {pages}] range, given {page}")));
    }
    let total = found.len();
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((found.into_iter().skip(at((page - 1) * per_page)).take(at(per_page)).collect(), total))
}

fn parse_query(params: &RpcParams) -> Result<PubsubQuery, RpcError> {
    match params.text("query").unwrap_or_default() {
        "" => Err(internal_error("query cannot be empty")),
        text => PubsubQuery::parse(text).map_err(|error| internal_error(format!("failed to parse query: {error}"))),
    }
}

pub fn tx_search(core: &NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
    let (found, total) = paginate(core.matching_txs(&parse_query(params)?), params)?;
    let is_proven = params.flag("prove");
    let txs: Vec<Value> = found.into_iter().map(|(block, position)| encode::tx(block, position, is_proven)).collect();
    Ok(json!({"txs": txs, "total_count": total.to_string()}))
}

pub fn block_search(core: &NodeCore, params: &RpcParams) -> Result<Value, RpcError> {
    let query = parse_query(params)?;
    let found =
        core.blocks().iter().filter(|block| query.matches(&pubsub_query::indexed_block_attributes(block))).collect();
    let (found, total) = paginate(found, params)?;
    let blocks: Vec<Value> = found.into_iter().map(|block| encode::block(core, block)).collect();
    Ok(json!({"blocks": blocks, "total_count": total.to_string()}))
}
