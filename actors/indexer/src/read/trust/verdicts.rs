//! Reads of verdicts: one DID with its sections, all DIDs, and changes. All of them are about evaluated heights.

use serde_json::{Map, Value, json};
use svc_wire::trust_stream::{DidChange, MeasureFlags, TrustChannels};

use super::sections::selectors;
use crate::{
    read::{
        arguments::params::invalid_value,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind, IdRange, TrustChangeQuery},
    trust::patience::open_evaluation::OpenEvaluation,
};

/// Changes of one database query.
const CHUNK: usize = 4_096;

impl IndexReader {
    /// Answers `vt.resolve`.
    pub(in crate::read) async fn resolve(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let did = request.params.text("did").unwrap_or_default();
        if !did.starts_with("did:") {
            return Err(invalid_value("did", did, "a DID"));
        }
        let participations = selectors::ParticipationSelector::parse(request.params)?;
        let presentations = selectors::PresentationSelector::parse(request.params)?;
        let ecosystems = selectors::EcosystemSelector::parse(request.params)?;
        let mut verdict = self.store.verdict(did, request.height).await?.ok_or(ReadError::NotFound("DID"))?;

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
        if let Some(pending) = self.pending_evaluation(did, &answer, request.height).await? {
            answer["pending"] = pending;
        }
        let is_wanted = |name: &str| request.params.flag(name) == Some(true);
        for member in ["ecsCredentials", "services"] {
            if is_wanted(member) {
                answer[member] = verdict[member].take();
            }
        }
        if let Some(wanted) = presentations {
            answer["presentations"] = wanted.select(verdict["presentations"].take());
        }
        if is_wanted("corporation") {
            let corporation_id = answer["corporationId"].as_u64().unwrap_or(0);
            if let Some(section) = self.corporation_section(did, corporation_id, request.height).await? {
                answer["corporation"] = section;
            }
        }
        if let Some(wanted) = participations {
            let section = self.participations_section(did, &wanted.states, request.height, request.block_time).await?;
            answer["participations"] = section.into();
        }
        if let Some(wanted) = ecosystems {
            answer["ecosystems"] = self.ecosystems_section(did, &wanted, request.height).await?.into();
        }
        Ok(answer)
    }

    /// Returns the open evaluation of a DID, or that of a service that vouches for it: until that one is finished, the verdict on
    /// the DID may change with it.
    async fn pending_evaluation(&self, did: &str, verdict: &Value, height: u64) -> Result<Option<Value>, ReadError> {
        let parents = verdict["parents"].as_array().into_iter().flatten().filter_map(Value::as_str);
        for subject in std::iter::once(did).chain(parents) {
            let row = self.store.find_open_evaluation(subject).await?;
            let open = row.as_ref().and_then(OpenEvaluation::from_row).filter(|open| open.height <= height);
            if let Some(open) = open {
                return Ok(Some(open.pending_json()));
            }
        }
        Ok(None)
    }

    /// Answers `vt.listIndexedDids`, in the order of the first evaluations, so that a new DID does not move the others.
    /// All pages of a list are about one height.
    pub(in crate::read) async fn indexed_dids(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let cursor = request.params.text("cursor").and_then(|cursor| {
            let (height, last) = cursor.split_once('.')?;
            Some((height.parse::<u64>().ok()?, last.parse::<u64>().ok()?))
        });
        let (height, last) = match cursor {
            Some((height, last)) if height <= request.height => {
                self.require_indexed(height).await?;
                (height, last)
            }
            Some((height, _)) => {
                let text = format!("cursor: it is about height {height}, the request about {}", request.height);
                return Err(ReadError::InvalidParameter(text));
            }
            None => (request.height, 0),
        };
        let limit = usize::try_from(request.params.number("limit").unwrap_or(1_000)).unwrap_or(usize::MAX);
        let filter =
            EntityFilter { corporation_id: request.params.number("corporation_id"), ..EntityFilter::default() };
        let first = last
            .checked_add(1)
            .ok_or_else(|| ReadError::InvalidParameter("cursor: is not one this indexer gave".into()))?;
        let range = IdRange { min_id: Some(first), ..IdRange::default() };
        let mut found = self.store.list_page(EntityKind::Verdict, height, &filter, range, limit + 1).await?;
        let has_more = found.len() > limit;
        found.truncate(limit);
        let next = found.last().filter(|_| has_more).map(|last| format!("{height}.{}", last.id));
        let dids: Vec<Value> = found.into_iter().map(|mut stored| stored.body["did"].take()).collect();
        Ok(json!({"dids": dids, "atBlock": height, "nextCursor": next}))
    }

    /// Answers `vt.listChanges`: the heights with matching changes, the oldest first.
    pub(in crate::read) async fn trust_changes(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let from = request.params.required_number("fromBlock")?;
        let late_start = self.late_start().await?.map(|oldest| oldest.height);
        // 0 and 1 begin with the oldest block.
        if from > 1 {
            self.require_indexed(from).await?;
        }
        let channels = parse_channels(request)?;
        let limit = usize::try_from(request.params.number("limit").unwrap_or(100)).unwrap_or(usize::MAX);
        let dids = request.params.list("dids");
        let mut query = TrustChangeQuery {
            dids: dids.unwrap_or_default().to_vec(),
            corporation_id: request.params.number("corporation_id"),
            from,
            until: request.height,
            limit: CHUNK,
        };
        let mut blocks: Vec<Value> = Vec::new();
        let mut next = None;
        while query.from <= query.until {
            let mut found = self.store.list_trust_changes(&query).await?;
            let rows: usize = found.iter().map(|block| block.changes.len()).sum();
            let is_last = rows < query.limit;
            let last = found.last().map_or(query.until, |block| block.block);
            if !is_last && found.len() == 1 {
                // One height has more changes than the limit; the answer contains all changes of a height.
                query.limit *= 2;
                continue;
            }
            if !is_last {
                found.pop();
            }
            for block in found {
                let shown: Vec<DidChange> =
                    block.changes.iter().filter_map(|change| change.filter_for(&channels)).collect();
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
        let mut answer =
            json!({"blocks": blocks, "currentBlock": request.height, "fromBlock": from, "nextFromBlock": next});
        if let Some(oldest) = late_start.filter(|_| from <= 1) {
            answer["oldest_block_height"] = oldest.into();
        }
        Ok(answer)
    }
}

fn parse_channels(request: &ReadRequest<'_>) -> Result<TrustChannels, ReadError> {
    let names = request.params.list("channels");
    // The read has no parameters for deposits and weights: a client that catches up must not miss a change that its subscription shows.
    let mut measures = MeasureFlags { weights: true, deposits: true, ..MeasureFlags::default() };
    for flag in MeasureFlags::COUNT_NAMES {
        // Without a selection of channels the answer has all changes.
        if request.params.flag(flag).unwrap_or(names.is_none()) {
            measures.enable(flag);
        }
    }
    let Some(names) = names else { return Ok(TrustChannels::all(measures)) };
    let mut channels = TrustChannels::default();
    for name in names {
        if !channels.enable(name, measures) {
            return Err(invalid_value("channels", name, &format!("one of {}", TrustChannels::NAMES.join(", "))));
        }
    }
    Ok(channels)
}

/// Finds all objects of an answer with a `trust_data` member.
fn find_trust_slots<'a>(value: &'a mut Value, found: &mut Vec<&'a mut Map<String, Value>>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| find_trust_slots(item, found)),
        Value::Object(members) => {
            if members.contains_key("trust_data") {
                found.push(members);
            } else {
                members.values_mut().for_each(|inner| find_trust_slots(inner, found));
            }
        }
        _ => {}
    }
}

impl IndexReader {
    /// Fills the `trust_data` members of an answer with verdicts. The member of a DID without a verdict stays null.
    pub(in crate::read) async fn fill_trust_slots(
        &self,
        request: &ReadRequest<'_>,
        body: &mut Value,
    ) -> Result<(), ReadError> {
        let members: &[&str] = match request.params.text("trust_data") {
            Some("summary") => &TRUST_DATA_MEMBERS[..TRUST_DATA_MEMBERS.len() - 1],
            Some("full") => &TRUST_DATA_MEMBERS,
            _ => return Ok(()),
        };
        let mut slots = Vec::new();
        find_trust_slots(body, &mut slots);
        for object in slots {
            let Some(did) = object.get("did").and_then(Value::as_str) else { continue };
            let Some(mut verdict) = self.store.verdict(did, request.height).await? else { continue };
            let shown = members.iter().map(|member| ((*member).to_owned(), verdict[*member].take()));
            object.insert("trust_data".to_owned(), shown.collect::<Map<_, _>>().into());
        }
        Ok(())
    }
}

/// Members of `trust_data`; a summary has all but the last.
const TRUST_DATA_MEMBERS: [&str; 7] =
    ["did", "trusted", "evaluatedAtTime", "evaluatedAtBlock", "expiresAtTime", "corporationId", "ecsCredentials"];
