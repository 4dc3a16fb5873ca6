//! Whether an indexer follows the chain of the node. Pure.

use std::time::Duration;

use serde::Serialize;

use crate::timestamp::{iso_millis, iso_seconds, parse_rfc3339};

/// A block as a server states it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockMark {
    /// Height.
    pub height: u64,
    /// Hash in upper-case hex, where the server states it.
    pub hash: Option<String>,
    /// Time of its header, RFC 3339 in any precision, where the server states it.
    pub time: Option<String>,
}

/// The statement of an indexer about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IndexStatement {
    /// Chain id, where the indexer states one.
    pub chain_id: Option<String>,
    /// Newest height of the indexer.
    pub height: u64,
    /// A block that the node should have too.
    pub block: Option<BlockMark>,
    /// Time for which the indexer has been far above the node.
    pub leads_for: Duration,
}

/// The statement of the node that the indexer is compared with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeStatement {
    /// Chain id.
    pub chain_id: String,
    /// Newest height.
    pub height: u64,
    /// The node's block at the height of [`IndexStatement::block`].
    pub block: Option<BlockMark>,
}

/// The standing of an indexer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "standing", content = "reason", rename_all = "snake_case")]
pub enum IndexStanding {
    /// It has a block of the node.
    Followed,
    /// It could not be compared with the node. It serves reads with a note, and its heights do not count.
    Unverified(String),
    /// It follows another chain, or another history of this one. It is not used.
    LeftOut(String),
}

/// Blocks that an indexer may be above the node while both are in order.
const MAX_LEAD: u64 = 20;
/// Time for which an indexer may be further above the node: the node may catch up.
const MAX_LEAD_TIME: Duration = Duration::from_secs(60);

impl IndexStanding {
    /// Bounded label.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Followed => "followed",
            Self::Unverified(_) => "unverified",
            Self::LeftOut(_) => "left_out",
        }
    }

    /// The reason for every standing but `Followed`.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Followed => None,
            Self::Unverified(reason) | Self::LeftOut(reason) => Some(reason),
        }
    }

    /// Time after which the comparison is repeated.
    pub fn lasts(&self) -> Duration {
        match self {
            Self::Followed => Duration::from_secs(3_600),
            // Its operator may have mended it.
            Self::LeftOut(_) => Duration::from_secs(60),
            Self::Unverified(_) => Duration::from_secs(1),
        }
    }

    /// Compares an indexer with the node. A statement that is missing on one side is never compared.
    pub fn judge(index: &IndexStatement, node: &NodeStatement) -> Self {
        if let Some(chain_id) = index.chain_id.as_ref().filter(|id| **id != node.chain_id) {
            return Self::LeftOut(format!("it indexes {chain_id}, and the node runs {}", node.chain_id));
        }
        match (&index.block, &node.block) {
            (Some(mine), Some(theirs)) if mine.height == theirs.height => compare(mine, theirs),
            (Some(mine), _) => Self::Unverified(format!("no node has block {} any more", mine.height)),
            (None, _) if is_leading(index.height, node.height) && index.leads_for >= MAX_LEAD_TIME => {
                let (height, lead) = (index.height, index.height - node.height);
                Self::LeftOut(format!("it is at block {height}, {lead} above the node, and shows no block of the node"))
            }
            (None, _) => Self::Unverified("it shows no block that could be compared".to_owned()),
        }
    }
}

/// Whether an indexer is further above the node than the two can be while both are in order.
pub fn is_leading(index_height: u64, node_height: u64) -> bool {
    index_height > node_height.saturating_add(MAX_LEAD)
}

fn compare(index: &BlockMark, node: &BlockMark) -> IndexStanding {
    let height = index.height;
    if let (Some(mine), Some(theirs)) = (&index.hash, &node.hash) {
        return if mine.eq_ignore_ascii_case(theirs) {
            IndexStanding::Followed
        } else {
            IndexStanding::LeftOut(format!("its block {height} has the hash {mine}, and the node's {theirs}"))
        };
    }
    let (Some(mine), Some(theirs)) = (&index.time, &node.time) else {
        return IndexStanding::Unverified(format!("neither hash nor time of block {height} can be compared"));
    };
    match (at_precision(mine, mine), at_precision(theirs, mine)) {
        (Some(one), Some(other)) if one == other => IndexStanding::Followed,
        (Some(_), Some(_)) => {
            IndexStanding::LeftOut(format!("its block {height} is of {mine}, and the node's of {theirs}"))
        }
        _ => IndexStanding::Unverified(format!("the time of block {height} cannot be read")),
    }
}

/// A time in the precision of another one: seconds, or milliseconds.
fn at_precision(time: &str, other: &str) -> Option<String> {
    let instant = parse_rfc3339(time)?;
    Some(if other.contains('.') { iso_millis(&instant) } else { iso_seconds(&instant) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE_TIME: &str = "2026-01-02T03:04:05.678901234Z";

    fn mark(height: u64, hash: Option<&str>, time: Option<&str>) -> Option<BlockMark> {
        Some(BlockMark { height, hash: hash.map(str::to_owned), time: time.map(str::to_owned) })
    }

    #[test]
    fn only_an_indexer_with_a_block_of_the_node_is_followed() {
        let (own, other) = (Some("svc-1"), Some("svc-2"));
        let (same_ms, same_s, later) = ("2026-01-02T03:04:05.678Z", "2026-01-02T03:04:05Z", "2026-01-02T03:04:06.678Z");
        let (long, short) = (Duration::from_secs(60), Duration::from_secs(59));
        let none = None::<BlockMark>;
        for (chain_id, height, block, leads_for, node_block, expected) in [
            // Another chain id decides alone, and the same one proves nothing.
            (other, 9, mark(9, Some("AA"), None), short, mark(9, Some("AA"), None), "left_out"),
            (own, 9, none.clone(), short, none.clone(), "unverified"),
            (None, 9, none.clone(), short, none.clone(), "unverified"),
            // A hash goes before a time.
            (own, 9, mark(9, Some("aa"), Some(later)), short, mark(9, Some("AA"), Some(NODE_TIME)), "followed"),
            (own, 9, mark(9, Some("AB"), Some(same_ms)), short, mark(9, Some("AA"), Some(NODE_TIME)), "left_out"),
            (None, 9, mark(9, Some("AB"), None), short, mark(9, Some("AA"), None), "left_out"),
            // A missing hash is not compared.
            (own, 9, mark(9, None, Some(same_ms)), short, mark(9, Some("AA"), Some(NODE_TIME)), "followed"),
            (own, 9, mark(9, Some("AB"), Some(same_ms)), short, mark(9, None, Some(NODE_TIME)), "followed"),
            (own, 9, mark(9, None, Some(same_s)), short, mark(9, Some("AA"), Some(NODE_TIME)), "followed"),
            (own, 9, mark(9, None, Some(later)), short, mark(9, Some("AA"), Some(NODE_TIME)), "left_out"),
            (own, 9, mark(9, None, Some("then")), short, mark(9, None, Some(NODE_TIME)), "unverified"),
            (own, 9, mark(9, Some("AB"), None), short, mark(9, None, Some(NODE_TIME)), "unverified"),
            // Blocks of different heights say nothing.
            (own, 9, mark(9, Some("AA"), None), short, mark(8, Some("AB"), None), "unverified"),
            (own, 9, mark(9, Some("AA"), None), short, none.clone(), "unverified"),
            // Far above the node for long, without a block of it: no index of this chain.
            (own, 121, none.clone(), long, none.clone(), "left_out"),
            (own, 121, none.clone(), short, none.clone(), "unverified"),
            (own, 120, none.clone(), long, none.clone(), "unverified"),
            // The node is behind.
            (own, 1_000, mark(100, Some("AA"), None), long, mark(100, Some("AA"), None), "followed"),
        ] {
            let case = format!("{chain_id:?} {height} {block:?} {leads_for:?} {node_block:?}");
            let index = IndexStatement { chain_id: chain_id.map(str::to_owned), height, block, leads_for };
            let node = NodeStatement { chain_id: "svc-1".to_owned(), height: 100, block: node_block };
            assert_eq!(IndexStanding::judge(&index, &node).as_str(), expected, "{case}");
        }
    }

    #[test]
    fn a_standing_is_shown_with_its_reason() {
        let shown = |standing: IndexStanding| serde_json::to_value(standing).expect("JSON");
        assert_eq!(shown(IndexStanding::Followed), serde_json::json!({"standing": "followed"}));
        let left_out = IndexStanding::LeftOut("it indexes another chain".to_owned());
        assert_eq!(left_out.reason(), Some("it indexes another chain"));
        assert_eq!(shown(left_out), serde_json::json!({"standing": "left_out", "reason": "it indexes another chain"}));
    }
}
