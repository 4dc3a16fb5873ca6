//! Reads of verdicts: one DID with its sections, all DIDs, what changed. All of them are about judged heights.

use serde_json::{Map, Value, json};
use svc_wire::trust::{Channels, Counts, DidChange};

use super::{Ask, ReadError, Reader, params::bad, trust_sections::selector};
use crate::store::{ChangeQuery, Filter, Kind, Range};

/// Rows of changes read at once.
const CHUNK: usize = 4_096;

impl Reader {
    /// `vt.resolve`
    pub(super) async fn resolve(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let did = ask.params.text("did").unwrap_or_default();
        if !did.starts_with("did:") {
            return Err(bad("did", did, "a DID"));
        }
        let participations = selector::Participations::read(ask.params)?;
        let presentations = selector::Presentations::read(ask.params)?;
        let ecosystems = selector::Ecosystems::read(ask.params)?;
        let mut verdict = self.store.verdict(did, ask.height).await?.ok_or(ReadError::NotFound("DID"))?;

        let mut answer = json!({});
        for member in [
            "did",
            "trusted",
            "evaluatedAtTime",
            "evaluatedAtBlock",
            "expiresAtTime",
            "corporationId",
            "pattern",
            "parents",
            "reasons",
        ] {
            answer[member] = verdict[member].take();
        }
        let is_wanted = |name: &str| ask.params.flag(name) == Some(true);
        for member in ["ecsCredentials", "services"] {
            if is_wanted(member) {
                answer[member] = verdict[member].take();
            }
        }
        if let Some(wanted) = presentations {
            answer["presentations"] = wanted.of(verdict["presentations"].take());
        }
        if is_wanted("corporation") {
            let corporation_id = answer["corporationId"].as_u64().unwrap_or(0);
            if let Some(section) = self.corporation_section(did, corporation_id, ask.height).await? {
                answer["corporation"] = section;
            }
        }
        if let Some(wanted) = participations {
            let section = self.participations_section(did, &wanted.states, ask.height, ask.now).await?;
            answer["participations"] = section.into();
        }
        if let Some(wanted) = ecosystems {
            answer["ecosystems"] = self.ecosystems_section(did, &wanted, ask.height).await?.into();
        }
        Ok(answer)
    }

    /// `vt.listIndexedDids`: in the order in which they were first judged, which no later one disturbs. The pages of one list are
    /// about one height.
    pub(super) async fn dids(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let cursor = ask.params.text("cursor").and_then(|cursor| {
            let (height, last) = cursor.split_once('.')?;
            Some((height.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
        });
        let (height, last) = match cursor {
            Some((height, last)) if height <= ask.height => (height, last),
            Some((height, _)) => {
                let text = format!("cursor: it is about height {height}, the question about {}", ask.height);
                return Err(ReadError::Parameter(text));
            }
            None => (ask.height, 0),
        };
        let limit = usize::try_from(ask.params.number("limit").unwrap_or(1_000)).unwrap_or(usize::MAX);
        let filter = Filter { corporation_id: ask.params.number("corporation_id"), ..Filter::default() };
        let first =
            last.checked_add(1).ok_or_else(|| ReadError::Parameter("cursor: is not one this indexer gave".into()))?;
        let range = Range { min_id: Some(first), ..Range::default() };
        let mut found = self.store.chunk(Kind::Verdict, height, &filter, range, limit + 1).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|last| format!("{height}.{}", last.id));
        let dids: Vec<Value> = found.into_iter().map(|mut stored| stored.body["did"].take()).collect();
        Ok(json!({"dids": dids, "atBlock": height, "nextCursor": next}))
    }

    /// `vt.listChanges`: heights at which something wanted changed, the oldest first.
    pub(super) async fn trust_changes(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let from = ask.params.required("fromBlock")?;
        let channels = channels(ask)?;
        let limit = usize::try_from(ask.params.number("limit").unwrap_or(100)).unwrap_or(usize::MAX);
        let dids = ask.params.list("dids");
        let mut query = ChangeQuery {
            dids: dids.unwrap_or_default().to_vec(),
            corporation_id: ask.params.number("corporation_id"),
            from,
            until: ask.height,
            limit: CHUNK,
        };
        let mut blocks: Vec<Value> = Vec::new();
        let mut next = None;
        while query.from <= query.until {
            let mut found = self.store.trust_changes(&query).await?;
            let rows: usize = found.iter().map(|block| block.changes.len()).sum();
            let is_last = rows < query.limit;
            let last = found.last().map_or(query.until, |block| block.block);
            if !is_last && found.len() == 1 {
                // One height with more changes than that: all of them, or none.
                query.limit *= 2;
                continue;
            }
            if !is_last {
                found.pop();
            }
            for block in found {
                let shown: Vec<DidChange> = block.changes.iter().filter_map(|change| change.shown(&channels)).collect();
                if shown.is_empty() {
                    continue;
                }
                if blocks.len() == limit {
                    next = Some(block.block);
                    break;
                }
                blocks.push(json!({"block": block.block, "blockTime": block.block_time, "changes": shown}));
            }
            if is_last || next.is_some() {
                break;
            }
            query.from = last;
        }
        Ok(json!({"blocks": blocks, "currentBlock": ask.height, "fromBlock": from, "nextFromBlock": next}))
    }
}

fn channels(ask: &Ask<'_>) -> Result<Channels, ReadError> {
    let mut counts = Counts::default();
    for flag in Counts::NAMES {
        if ask.params.flag(flag) == Some(true) {
            counts.include(flag);
        }
    }
    let Some(names) = ask.params.list("channels") else { return Ok(Channels::all(counts)) };
    let mut channels = Channels::default();
    for name in names {
        if !channels.enable(name, counts) {
            return Err(bad("channels", name, &format!("one of {}", Channels::NAMES.join(", "))));
        }
    }
    Ok(channels)
}

/// Every object of an answer that wants `trust_data`.
fn wanting<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Map<String, Value>>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| wanting(item, found)),
        Value::Object(members) => {
            if members.contains_key("trust_data") {
                found.push(members);
            } else {
                members.values_mut().for_each(|inner| wanting(inner, found));
            }
        }
        _ => {}
    }
}

impl Reader {
    /// Puts verdicts beside the DIDs of an answer; null stays where a DID was never judged.
    pub(super) async fn fill_trust(&self, ask: &Ask<'_>, body: &mut Value) -> Result<(), ReadError> {
        let members: &[&str] = match ask.params.text("trust_data") {
            Some("summary") => &FULL[..FULL.len() - 1],
            Some("full") => &FULL,
            _ => return Ok(()),
        };
        let mut wanting_it = Vec::new();
        wanting(body, &mut wanting_it);
        for object in wanting_it {
            let Some(did) = object.get("did").and_then(Value::as_str) else { continue };
            let Some(mut verdict) = self.store.verdict(did, ask.height).await? else { continue };
            let shown = members.iter().map(|member| ((*member).to_owned(), verdict[*member].take()));
            object.insert("trust_data".to_owned(), shown.collect::<Map<_, _>>().into());
        }
        Ok(())
    }
}

/// What `trust_data` holds; all but the last in a summary.
const FULL: [&str; 7] =
    ["did", "trusted", "evaluatedAtTime", "evaluatedAtBlock", "expiresAtTime", "corporationId", "ecsCredentials"];
