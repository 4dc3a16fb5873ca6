//! CometBFT's event query language: conditions joined by AND over `type.key` values.

use std::collections::BTreeMap;

use svc_wire::{instant, tx};

use super::core::BlockRecord;
use crate::ledger::Event;

/// Values of every indexed `type.key` of one event message.
pub type Attributes = BTreeMap<String, Vec<String>>;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub struct Query(Vec<Condition>);

#[derive(Debug, Clone, PartialEq)]
struct Condition {
    key: String,
    test: Test,
}

#[derive(Debug, Clone, PartialEq)]
enum Test {
    Exists,
    Contains(String),
    Equals(String),
    Number(Order, f64),
    Time(Order, i128),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Order {
    Equal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Order {
    fn holds<T: PartialOrd>(self, left: &T, right: &T) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}

impl Query {
    /// Parses a query; the error says what was expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        let mut conditions = Vec::new();
        loop {
            let (condition, after) = condition(rest)?;
            conditions.push(condition);
            rest = after.trim_start();
            if rest.is_empty() {
                return Ok(Self(conditions));
            }
            rest = rest.strip_prefix("AND ").ok_or_else(|| format!("expected AND at {rest:?}"))?.trim_start();
        }
    }

    /// Whether every condition holds for some value of its key.
    pub fn matches(&self, attributes: &Attributes) -> bool {
        self.0.iter().all(|condition| {
            attributes.get(&condition.key).is_some_and(|values| values.iter().any(|value| condition.test.holds(value)))
        })
    }
}

impl Test {
    fn holds(&self, value: &str) -> bool {
        match self {
            Self::Exists => true,
            Self::Contains(part) => value.contains(part),
            Self::Equals(text) => value == text,
            // A value such as `10usvc` counts by its leading number.
            Self::Number(order, number) => leading_number(value).is_some_and(|found| order.holds(&found, number)),
            Self::Time(order, moment) => {
                instant::parse_rfc3339(value).is_some_and(|found| order.holds(&instant::nanos(&found), moment))
            }
        }
    }
}

fn leading_number(text: &str) -> Option<f64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.' && c != '-').unwrap_or(text.len());
    text[..end].parse().ok()
}

fn condition(text: &str) -> Result<(Condition, &str), String> {
    let end = text.find(|c: char| c.is_whitespace() || "=<>".contains(c)).unwrap_or(text.len());
    let (key, rest) = text.split_at(end);
    if key.is_empty() {
        return Err(format!("expected a key at {text:?}"));
    }
    let rest = rest.trim_start();
    let with = |test, after| Ok((Condition { key: key.to_owned(), test }, after));
    if let Some(after) = rest.strip_prefix("EXISTS") {
        return with(Test::Exists, after);
    }
    if let Some(after) = rest.strip_prefix("CONTAINS") {
        let (part, after) = quoted(after.trim_start())?;
        return with(Test::Contains(part), after);
    }
    let operators = [
        ("<=", Order::LessOrEqual),
        (">=", Order::GreaterOrEqual),
        ("=", Order::Equal),
        ("<", Order::Less),
        (">", Order::Greater),
    ];
    let (order, operand) = operators
        .into_iter()
        .find_map(|(sign, order)| rest.strip_prefix(sign).map(|after| (order, after.trim_start())))
        .ok_or_else(|| format!("expected an operator at {rest:?}"))?;
    if operand.starts_with('\'') {
        let (text, after) = quoted(operand)?;
        return if order == Order::Equal {
            with(Test::Equals(text), after)
        } else {
            Err(format!("text can only be compared with = or CONTAINS at {operand:?}"))
        };
    }
    let end = operand.find(" AND ").unwrap_or(operand.len());
    let (literal, after) = (operand[..end].trim(), &operand[end..]);
    if let Some(moment) = literal.strip_prefix("TIME ") {
        let moment = instant::parse_rfc3339(moment.trim()).ok_or_else(|| format!("{moment:?} is not a time"))?;
        return with(Test::Time(order, instant::nanos(&moment)), after);
    }
    if let Some(date) = literal.strip_prefix("DATE ") {
        let midnight = format!("{}T00:00:00Z", date.trim());
        let moment = instant::parse_rfc3339(&midnight).ok_or_else(|| format!("{date:?} is not a date"))?;
        return with(Test::Time(order, instant::nanos(&moment)), after);
    }
    let number = literal.parse().map_err(|_| format!("{literal:?} is neither a number nor quoted text"))?;
    with(Test::Number(order, number), after)
}

fn quoted(text: &str) -> Result<(String, &str), String> {
    let inner = text.strip_prefix('\'').ok_or_else(|| format!("expected quoted text at {text:?}"))?;
    let (value, after) = inner.split_once('\'').ok_or_else(|| format!("the text at {text:?} does not end"))?;
    Ok((value.to_owned(), after))
}

fn put(attributes: &mut Attributes, key: &str, value: impl Into<String>) {
    attributes.entry(key.to_owned()).or_default().push(value.into());
}

fn put_events(attributes: &mut Attributes, events: &[Event]) {
    for event in events {
        for (key, value) in &event.attributes {
            put(attributes, &format!("{}.{key}", event.kind), value.as_str());
        }
    }
}

/// Attributes of a transaction's event message.
pub fn of_tx(block: &BlockRecord, position: usize) -> Attributes {
    let mut attributes = Attributes::new();
    put(&mut attributes, "tm.event", "Tx");
    put(&mut attributes, "tx.hash", tx::hash(&block.txs[position]));
    put(&mut attributes, "tx.height", block.height.to_string());
    put_events(&mut attributes, &block.outcomes[position].events);
    attributes
}

/// Attributes a transaction is searched by.
pub fn of_indexed_tx(block: &BlockRecord, position: usize) -> Attributes {
    let mut attributes = of_tx(block, position);
    attributes.remove("tm.event");
    attributes
}

/// Attributes of one of a block's event messages.
pub fn of_block(block: &BlockRecord, kind: &str) -> Attributes {
    let mut attributes = Attributes::new();
    put(&mut attributes, "tm.event", kind);
    // A header's message comes without the events.
    if kind != "NewBlockHeader" {
        put_events(&mut attributes, &block.events);
    }
    attributes
}

/// Attributes a block is searched by.
pub fn of_indexed_block(block: &BlockRecord) -> Attributes {
    let mut attributes = Attributes::new();
    put(&mut attributes, "block.height", block.height.to_string());
    put_events(&mut attributes, &block.events);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attributes() -> Attributes {
        let mut attributes = Attributes::new();
        put(&mut attributes, "tm.event", "Tx");
        put(&mut attributes, "tx.acc_seq", "svc1abc/7");
        put(&mut attributes, "tx.height", "12");
        put(&mut attributes, "transfer.amount", "10usvc");
        put(&mut attributes, "block.time", "2026-03-02T08:00:00Z");
        attributes
    }

    #[test]
    fn every_operator_decides() {
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
            assert_eq!(Query::parse(query).expect(query).matches(&attributes()), expected, "{query}");
        }
    }

    #[test]
    fn what_is_no_query_is_refused_with_its_place() {
        for query in ["", "tm.event", "tm.event='Tx", "tm.event='Tx' OR a='b'", "a<'b'", "a=b", "a CONTAINS 1"] {
            assert!(Query::parse(query).is_err(), "{query}");
        }
    }
}
