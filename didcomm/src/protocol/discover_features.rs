//! discover-features/2.0: which protocols an agent serves.

use serde_json::{Value, json};

use super::{body::ContentError, served::PROTOCOLS};
use crate::message::Message;

/// A question.
pub const QUERIES: &str = "https://didcomm.org/discover-features/2.0/queries";
/// The answer.
pub const DISCLOSURES: &str = "https://didcomm.org/discover-features/2.0/disclosures";

/// Queries of one message that are answered, and disclosures that are read.
const MAX_ENTRIES: usize = 64;

/// One question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    /// `protocol`, `goal-code` and others.
    pub feature_type: String,
    /// An id, with `*` at its end for all ids that begin so.
    pub matching: String,
}

/// A feature that is served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disclosure {
    /// `protocol`.
    pub feature_type: String,
    /// URI of the protocol.
    pub id: String,
}

/// Makes a question about all protocols that begin with a text.
pub fn query_message(id: &str, matching: &str) -> Message {
    Message::new(id, QUERIES, json!({"queries": [{"feature-type": "protocol", "match": matching}]}))
}

/// Answers a question with the protocols that are served.
pub fn answer(queries: &[Query]) -> Vec<Disclosure> {
    let served = PROTOCOLS.iter().flat_map(|(_, protocols)| *protocols);
    let asked = |protocol: &str| {
        queries.iter().filter(|query| query.feature_type == "protocol").any(|query| {
            query.matching.strip_suffix('*').map_or(query.matching == protocol, |start| protocol.starts_with(start))
        })
    };
    let disclosure = |protocol: &&str| Disclosure { feature_type: "protocol".to_owned(), id: (*protocol).to_owned() };
    served.filter(|protocol| asked(protocol)).map(disclosure).collect()
}

/// Makes the message of an answer.
pub fn disclosures_message(id: &str, thid: &str, disclosures: &[Disclosure]) -> Message {
    let entry = |one: &Disclosure| json!({"feature-type": one.feature_type, "id": one.id});
    let entries: Vec<Value> = disclosures.iter().map(entry).collect();
    Message::new(id, DISCLOSURES, json!({"disclosures": entries})).in_thread(thid)
}

pub(super) fn read_queries(message: &Message) -> Result<Vec<Query>, ContentError> {
    let entry = |entry: &Value| Query {
        feature_type: entry["feature-type"].as_str().unwrap_or_default().to_owned(),
        matching: entry["match"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(entries(message, "queries")?.iter().map(entry).collect())
}

pub(super) fn read_disclosures(message: &Message) -> Result<Vec<Disclosure>, ContentError> {
    let entry = |entry: &Value| Disclosure {
        feature_type: entry["feature-type"].as_str().unwrap_or_default().to_owned(),
        id: entry["id"].as_str().unwrap_or_default().to_owned(),
    };
    Ok(entries(message, "disclosures")?.iter().map(entry).collect())
}

fn entries<'a>(message: &'a Message, name: &str) -> Result<&'a [Value], ContentError> {
    match message.body.get(name) {
        Some(Value::Array(entries)) if entries.len() <= MAX_ENTRIES => Ok(entries),
        Some(Value::Array(_)) => Err(ContentError::member(name, &format!("has more than {MAX_ENTRIES} entries"))),
        _ => Err(ContentError::member(name, "is not a list")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::Content;

    #[test]
    fn a_question_is_answered_with_what_it_asks_for() {
        let ask = |matching: &str| {
            let Ok(Content::Queries(queries)) = Content::read(&query_message("1", matching)) else { panic!("queries") };
            answer(&queries).into_iter().map(|one| one.id).collect::<Vec<_>>()
        };
        assert_eq!(ask("https://didcomm.org/basicmessage/*"), ["https://didcomm.org/basicmessage/2.0"]);
        assert_eq!(ask("https://didcomm.org/empty/1.0"), ["https://didcomm.org/empty/1.0"]);
        assert_eq!(ask("https://didcomm.org/trust-ping/2.0"), [""; 0]);
        assert_eq!(ask("*").len(), PROTOCOLS.iter().map(|(_, protocols)| protocols.len()).sum::<usize>());
        let other = [Query { feature_type: "capability".into(), matching: "*".into() }];
        assert_eq!(answer(&other), [], "no feature of another type is claimed");
        let answered =
            disclosures_message("2", "1", &answer(&[Query { feature_type: "protocol".into(), matching: "*".into() }]));
        let Ok(Content::Disclosures(disclosures)) = Content::read(&answered) else { panic!("disclosures") };
        assert_eq!((disclosures.len(), answered.thread()), (7, "1"));
    }
}
