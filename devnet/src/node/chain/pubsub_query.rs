//! CometBFT's event query language: conditions joined by AND over `type.key` values.

use std::collections::BTreeMap;

use svc_wire::{timestamp, tx};

use super::history::BlockRecord;
use svc_ledger::LedgerEvent;

/// Values of every indexed `type.key` of one event message.
pub type EventAttributes = BTreeMap<String, Vec<String>>;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct PubsubQuery(Vec<QueryCondition>);

#[derive(Debug, Clone, PartialEq)]
struct QueryCondition {
    attribute_key: String,
    test: ConditionTest,
}

#[derive(Debug, Clone, PartialEq)]
enum ConditionTest {
    Exists,
    Contains(String),
    Equals(String),
    Number(ComparisonOperator, f64),
    Time(ComparisonOperator, i128),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ComparisonOperator {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl ComparisonOperator {
    fn compare<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl PubsubQuery {
    /// Parses a query; the error names the expected syntax and the position.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut conditions = Vec::new();
        loop {
            let (condition, after) = parse_condition(rest)?;
            conditions.push(condition);
            rest = after.trim_start();
            if rest.is_empty() {
                return Ok(Self(conditions));
            }
            rest = rest.strip_prefix("AND ").ok_or_else(|| format!("expected AND at {rest:?}"))?.trim_start();
        }
    }

    /// Tells whether every condition holds for at least one value of its key.
    pub fn matches(&self, attributes: &EventAttributes) -> bool {
        self.0.iter().all(|condition| {
            attributes
                .get(&condition.attribute_key)
                .is_some_and(|values| values.iter().any(|value| condition.test.accepts_value(value)))
        })
    }
}

impl ConditionTest {
    fn accepts_value(&self, value: &str) -> bool {
        match self {
            Self::Exists => true,
            Self::Contains(part) => value.contains(part),
            Self::Equals(text) => value == text,
            // A value such as `10usvc` is compared by its leading number.
            Self::Number(order, number) => leading_number(value).is_some_and(|found| order.compare(&found, number)),
            Self::Time(order, moment) => timestamp::parse_rfc3339(value)
                .is_some_and(|found| order.compare(&timestamp::unix_nanos(&found), moment)),
        }
    }
}

fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    text[..end].parse().ok()
}

fn parse_condition(text: &str) -> Result<(QueryCondition, &str), String> {
    let end = text.find(|c: char| c.is_whitespace() || "=<>".contains(c)).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    if key.is_empty() {
        return Err(format!("expected a key at {text:?}"));
    }
    let rest = rest.trim_start();
    let with = |test, after| Ok((QueryCondition { attribute_key: key.to_owned(), test }, after));
    if let Some(after) = rest.strip_prefix("EXISTS") {
        return with(ConditionTest::Exists, after);
    }
    if let Some(after) = rest.strip_prefix("CONTAINS") {
        let (part, after) = parse_quoted(after.trim_start())?;
        return with(ConditionTest::Contains(part), after);
    }
    let operators = [
        ("<=", ComparisonOperator::LessOrEqual),
        (">=", ComparisonOperator::GreaterOrEqual),
        ("=", ComparisonOperator::Equal),
        ("<", ComparisonOperator::Less),
        (">", ComparisonOperator::Greater),
    ];
    let (order, operand) = operators
        .into_iter()
        .find_map(|(sign, order)| rest.strip_prefix(sign).map(|after| (order, after.trim_start())))
        .ok_or_else(|| format!("expected an operator at {rest:?}"))?;
    if operand.starts_with('\'') {
        let (text, after) = parse_quoted(operand)?;
        return if order == ComparisonOperator::Equal {
            with(ConditionTest::Equals(text), after)
        } else {
            Err(format!("text can only be compared with = or CONTAINS at {operand:?}"))
        };
    }
    let end = operand.find(" AND ").unwrap_or(operand.len());
    let (literal, after) = (operand[..end].trim(), &operand[end..]);
    if let Some(moment) = literal.strip_prefix("TIME ") {
        let moment = timestamp::parse_rfc3339(moment.trim()).ok_or_else(|| format!("{moment:?} is not a time"))?;
        return with(ConditionTest::Time(order, timestamp::unix_nanos(&moment)), after);
    }
    if let Some(date) = literal.strip_prefix("DATE ") {
        let midnight = format!("{}T00:00:00Z", date.trim());
        let moment = timestamp::parse_rfc3339(&midnight).ok_or_else(|| format!("{date:?} is not a date"))?;
        return with(ConditionTest::Time(order, timestamp::unix_nanos(&moment)), after);
    }
    let number = literal.parse().map_err(|_| format!("{literal:?} is neither a number nor quoted text"))?;
    with(ConditionTest::Number(order, number), after)
}

fn parse_quoted(text: &str) -> Result<(String, &str), String> {
    let inner = text.strip_prefix('\'').ok_or_else(|| format!("expected quoted text at {text:?}"))?;
    let (value, after) = inner.split_once('\'').ok_or_else(|| format!("the text at {text:?} does not end"))?;
    Ok((value.to_owned(), after))
}

fn push_attribute(attributes: &mut EventAttributes, key: &str, value: impl Into<String>) {
    attributes.entry(key.to_owned()).or_default().push(value.into());
}

fn push_event_attributes(attributes: &mut EventAttributes, events: &[LedgerEvent]) {
    for event in events {
        for (key, value) in &event.attributes {
            push_attribute(attributes, &format!("{}.{key}", event.kind), value.as_str());
        }
    }
}

/// Returns the attributes of the event message of a transaction.
pub fn tx_attributes(block: &BlockRecord, position: usize) -> EventAttributes {
    let mut attributes = EventAttributes::new();
    push_attribute(&mut attributes, "tm.event", "Tx");
    push_attribute(&mut attributes, "tx.hash", tx::tx_hash(&block.txs[position]));
    push_attribute(&mut attributes, "tx.height", block.height.to_string());
    push_event_attributes(&mut attributes, &block.tx_outcomes[position].events);
    attributes
}

/// Returns the attributes that a transaction is indexed by.
pub fn indexed_tx_attributes(block: &BlockRecord, position: usize) -> EventAttributes {
    let mut attributes = tx_attributes(block, position);
    attributes.remove("tm.event");
    attributes
}

/// Returns the attributes of an event message of a block.
pub fn block_attributes(block: &BlockRecord, kind: &str) -> EventAttributes {
    let mut attributes = EventAttributes::new();
    push_attribute(&mut attributes, "tm.event", kind);
    // The message of a header has no events.
    if kind != "NewBlockHeader" {
        push_event_attributes(&mut attributes, &block.events);
    }
    attributes
}

/// Returns the attributes that a block is indexed by.
pub fn indexed_block_attributes(block: &BlockRecord) -> EventAttributes {
    let mut attributes = EventAttributes::new();
    push_attribute(&mut attributes, "block.height", block.height.to_string());
    push_event_attributes(&mut attributes, &block.events);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> EventAttributes {
        let mut attributes = EventAttributes::new();
        push_attribute(&mut attributes, "tm.event", "Tx");
        push_attribute(&mut attributes, "tx.acc_seq", "svc1abc/7");
        push_attribute(&mut attributes, "tx.height", "12");
        push_attribute(&mut attributes, "transfer.amount", "10usvc");
        push_attribute(&mut attributes, "block.time", "2026-03-02T08:00:00Z");
        attributes
    }

    #[test]
    fn every_operator_compares() {
        for (query, expected) in [
            ("tm.event='Tx'", true),
            ("tm.event = 'Tx' AND tx.acc_seq CONTAINS 'svc1abc/'", true),
            ("tm.event='Tx' AND tx.acc_seq CONTAINS 'svc1abd'", false),
            ("tm.event='Tx' AND tx.acc_seq='svc1abc/7' AND tx.height=12", true),
            ("tx.height>12", false),
            ("tx.height>=12 AND tx.height<13", true),
            ("transfer.amount >= 10", true),
            ("transfer.amount EXISTS", true),
            ("message.sender EXISTS", false),
            ("block.time > DATE 2026-03-01", true),
            ("block.time < TIME 2026-03-02T08:00:01Z", true),
        ] {
            assert_eq!(PubsubQuery::parse(query).expect(query).matches(&attributes()), expected, "{query}");
        }
    }

    #[test]
    fn malformed_queries_are_refused() {
        for query in ["", "tm.event", "tm.event='Tx", "tm.event='Tx' OR a='b'", "a<'b'", "a=b", "a CONTAINS 1"] {
            assert!(PubsubQuery::parse(query).is_err(), "{query}");
        }
    }
}
