//! `tx_search` and `block_search`: the event query language over all blocks.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_wire::comet::RpcError;

use super::{
    core::{BlockRecord, Core},
    encode,
    events::{self, Query},
    rpc::{Params, internal},
};

const PAGE: u64 = 30;
const MAX_PAGE: u64 = 100;

/// Transactions that match, oldest first.
pub fn transactions<'a>(core: &'a Core, query: &Query) -> Vec<(&'a Arc<BlockRecord>, usize)> {
    core.blocks()
        .iter()
        .flat_map(|block| (0..block.txs.len()).map(move |position| (block, position)))
        .filter(|(block, position)| query.matches(&events::of_indexed_tx(block, *position)))
        .collect()
}

/// One page of what was found. A page beyond the last is an error.
pub fn page<T>(mut found: Vec<T>, params: &Params) -> Result<(Vec<T>, usize), RpcError> {
    match params.text("order_by").unwrap_or_default() {
        "" | "asc" => {}
        "desc" => found.reverse(),
        _ => return Err(internal("expected order_by to be either `asc` or `desc` or empty")),
    }
    let per_page = match params.number("per_page")?.unwrap_or(PAGE) {
        0 => PAGE,
        size => size.min(MAX_PAGE),
    };
    let pages = (found.len() as u64).div_ceil(per_page).max(1);
    let page = params.number("page")?.unwrap_or(1);
    if page == 0 || page > pages {
        return Err(internal(format!("page should be within [1, {pages}] range, given {page}")));
    }
    let total = found.len();
    let at = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Ok((found.into_iter().skip(at((page - 1) * per_page)).take(at(per_page)).collect(), total))
}

fn query(params: &Params) -> Result<Query, RpcError> {
    match params.text("query").unwrap_or_default() {
        "" => Err(internal("query cannot be empty")),
        text => Query::parse(text).map_err(|error| internal(format!("failed to parse query: {error}"))),
    }
}

pub fn tx_search(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let (found, total) = page(transactions(core, &query(params)?), params)?;
    let txs: Vec<Value> = found.into_iter().map(|(block, position)| encode::tx(block, position)).collect();
    Ok(json!({"txs": txs, "total_count": total.to_string()}))
}

pub fn block_search(core: &Core, params: &Params) -> Result<Value, RpcError> {
    let query = query(params)?;
    let found = core.blocks().iter().filter(|block| query.matches(&events::of_indexed_block(block))).collect();
    let (found, total) = page(found, params)?;
    let blocks: Vec<Value> = found.into_iter().map(|block| encode::block(core, block)).collect();
    Ok(json!({"blocks": blocks, "total_count": total.to_string()}))
}
