//! Reads of corporations, ecosystems and their governance frameworks.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    Ask, ReadError, Reader,
    scan::{Row, with_trust},
    wrapped,
};
use crate::{
    derive::{
        measures::{Measures, Metric, Scope, number},
        state::ParticipantState,
    },
    project::public,
    store::{Filter, Kind},
};

/// Figures a corporation shows of its trust deposit; zero when it has none yet.
const DEPOSIT: [&str; 6] = ["deposit", "share", "refunded", "slashed_deposit", "repaid_deposit", "slash_count"];

impl Reader {
    pub(super) async fn corporation(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let id = ask.params.required("id")?;
        let body = self.one(ask, Kind::Corporation, id).await?;
        let figures = self.store.measures(Scope::Corporation(id), ask.height).await?;
        Ok(wrapped("corporation", self.show_corporation(ask, Row { id, body, figures }).await?))
    }

    pub(super) async fn corporations(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let addresses = ask.params.list("policy_address");
        let one_address = addresses.and_then(|list| list.first().filter(|_| list.len() == 1));
        let filter =
            Filter { did: ask.params.text("did").map(str::to_owned), name: one_address.cloned(), ..Filter::default() };
        let is_wanted = |row: &Row| {
            let is_it = |address: &String| row.body["policy_address"] == address.as_str();
            addresses.is_none_or(|list| list.iter().any(is_it))
        };
        let rows = self.scan(ask, Kind::Corporation, &filter, Some(Scope::Corporation), is_wanted).await?;
        let mut shown = Vec::with_capacity(rows.len());
        for row in rows {
            shown.push(self.show_corporation(ask, row).await?);
        }
        Ok(wrapped("corporations", shown))
    }

    async fn show_corporation(&self, ask: &Ask<'_>, row: Row) -> Result<Value, ReadError> {
        let deposit = self.store.entity(Kind::TrustDeposit, row.id, ask.height).await?.unwrap_or_default();
        let mut body = with_framework(ask, row.body);
        if let Some(object) = body.as_object_mut() {
            let ecosystems = row.figures.get(Metric::ActiveEcosystems) + row.figures.get(Metric::ArchivedEcosystems);
            object.insert("controlled_ecosystems".to_owned(), number(ecosystems));
            row.figures.put(object, "", Metric::COUNTS);
            for key in DEPOSIT {
                let figure = deposit.get(key).cloned().unwrap_or_else(|| 0.into());
                object.insert(key.to_owned(), figure);
            }
            for key in ["last_slashed", "last_repaid"] {
                object.insert(key.to_owned(), deposit.get(key).cloned().unwrap_or_default());
            }
        }
        Ok(with_trust(ask, public(body)))
    }

    pub(super) async fn ecosystem(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let id = ask.params.required("id")?;
        let body = self.one(ask, Kind::Ecosystem, id).await?;
        let figures = self.store.measures(Scope::Ecosystem(id), ask.height).await?;
        Ok(wrapped("ecosystem", show_ecosystem(ask, Row { id, body, figures })))
    }

    pub(super) async fn ecosystems(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let Some(filter) = self.owned(ask, Filter::default()).await? else {
            return Ok(wrapped("ecosystems", Vec::<Value>::new()));
        };
        let archived = archived(ask);
        let joined = self.joined(ask, "ecosystem_id").await?;
        let is_wanted = |row: &Row| {
            archived.is_none_or(|archived| archived != row.body["archived"].is_null())
                && joined.as_ref().is_none_or(|(corporation, active)| {
                    row.body["corporation_id"] == *corporation || active.contains(&row.id)
                })
        };
        let rows = self.scan(ask, Kind::Ecosystem, &filter, Some(Scope::Ecosystem), is_wanted).await?;
        let shown: Vec<Value> = rows.into_iter().map(|row| show_ecosystem(ask, row)).collect();
        Ok(wrapped("ecosystems", shown))
    }

    /// Narrows a filter to an owner, by `corporation_id` or by the policy address in `corporation`; none when nobody is both.
    pub(super) async fn owned(&self, ask: &Ask<'_>, filter: Filter) -> Result<Option<Filter>, ReadError> {
        let wanted = ask.params.number("corporation_id");
        let Some(address) = ask.params.text("corporation") else {
            return Ok(Some(Filter { corporation_id: wanted, ..filter }));
        };
        let by_address = Filter { name: Some(address.to_owned()), ..Filter::default() };
        let owner = self.store.find(Kind::Corporation, &by_address, ask.height).await?.map(|stored| stored.id);
        let owner = owner.filter(|owner| wanted.is_none_or(|wanted| wanted == *owner));
        Ok(owner.map(|owner| Filter { corporation_id: Some(owner), ..filter }))
    }

    /// `participant_corporation_id`, and the ids under `key` of its participants that are active.
    pub(super) async fn joined(&self, ask: &Ask<'_>, key: &str) -> Result<Option<(u64, HashSet<u64>)>, ReadError> {
        let Some(corporation) = ask.params.number("participant_corporation_id") else { return Ok(None) };
        let filter = Filter { corporation_id: Some(corporation), ..Filter::default() };
        let all = self.store.all(Kind::Participant, ask.height, &filter).await?;
        let active =
            all.iter().filter(|stored| ParticipantState::at(&stored.body, ask.now) == ParticipantState::Active);
        Ok(Some((corporation, active.filter_map(|stored| stored.body[key].as_u64()).collect())))
    }

    pub(super) async fn framework_version(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let version = self.one(ask, Kind::FrameworkVersion, ask.params.required("id")?).await?;
        Ok(wrapped("version", with_owner(with_language(version, ask.params.text("preferred_language")))))
    }

    pub(super) async fn framework_versions(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let (kind, id, filter) = match (params.number("ecosystem_id"), params.number("corporation_id")) {
            (Some(id), None) => (Kind::Ecosystem, id, Filter { parent_id: Some(id), ..Filter::default() }),
            (None, Some(id)) => (Kind::Corporation, id, Filter { corporation_id: Some(id), ..Filter::default() }),
            _ => {
                let text = "ecosystem_id, corporation_id: exactly one of the two is required";
                return Err(ReadError::Parameter(text.to_owned()));
            }
        };
        let owner = self.one(ask, kind, id).await?;
        let is_active_only = params.flag("active_only").unwrap_or(false);
        let is_wanted = |row: &Row| !is_active_only || row.body["version"] == owner["active_version"];
        let rows = self.scan(ask, Kind::FrameworkVersion, &filter, None, is_wanted).await?;
        let language = params.text("preferred_language");
        let shown: Vec<Value> = rows.into_iter().map(|row| with_owner(with_language(row.body, language))).collect();
        Ok(wrapped("versions", shown))
    }
}

/// The `archived` filter; `only_active` is its inverse.
pub(super) fn archived(ask: &Ask<'_>) -> Option<bool> {
    ask.params.flag("archived").or_else(|| ask.params.flag("only_active").filter(|only| *only).map(|_| false))
}

/// Counts, schemas and aggregates, as ecosystems and schemas show them.
pub(super) fn put_figures(object: &mut Map<String, Value>, figures: &Measures) {
    figures.put(object, "", Metric::COUNTS);
    figures.put(object, "", Metric::AGGREGATES);
}

fn show_ecosystem(ask: &Ask<'_>, row: Row) -> Value {
    let mut body = with_framework(ask, row.body);
    if let Some(object) = body.as_object_mut() {
        put_figures(object, &row.figures);
        row.figures.put(object, "", &[Metric::ActiveSchemas, Metric::ArchivedSchemas]);
    }
    with_trust(ask, public(body))
}

/// Keeps the framework versions `gf_data` asks for.
fn with_framework(ask: &Ask<'_>, mut body: Value) -> Value {
    let language = ask.params.text("preferred_language");
    let wanted = match ask.params.flag("active_gf_only") {
        Some(true) => "only_active",
        _ => ask.params.text("gf_data").unwrap_or("only_active"),
    };
    let active = body["active_version"].clone();
    let Some(object) = body.as_object_mut() else { return body };
    let versions = object.remove("versions").and_then(|versions| match versions {
        Value::Array(versions) => Some(versions),
        _ => None,
    });
    if wanted != "none" {
        let kept = versions.into_iter().flatten().filter(|version| wanted == "all" || version["version"] == active);
        let shown = kept.map(|version| ordered(version, language)).collect();
        object.insert("versions".to_owned(), shown);
    }
    body
}

fn is_in(document: &Value, language: &str) -> bool {
    document["language"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(language))
}

/// Documents in the preferred language come first.
fn ordered(mut version: Value, language: Option<&str>) -> Value {
    if let (Some(language), Some(documents)) = (language, version["documents"].as_array_mut()) {
        documents.sort_by_key(|document| !is_in(document, language));
    }
    version
}

/// With a preferred language each version carries one document: that language, else the one with the lowest id.
fn with_language(mut version: Value, language: Option<&str>) -> Value {
    let Some(language) = language else { return version };
    let documents = version["documents"].as_array().cloned().unwrap_or_default();
    let chosen = documents
        .iter()
        .find(|document| is_in(document, language))
        .or_else(|| documents.iter().min_by_key(|document| document["id"].as_u64().unwrap_or(u64::MAX)));
    version["documents"] = chosen.cloned().into_iter().collect();
    version
}

/// A version that stands alone names both owners, one of them null; each key once.
fn with_owner(version: Value) -> Value {
    let mut version = public(version);
    for owner in ["ecosystem_id", "corporation_id"] {
        if version.get(owner).is_none() {
            version[owner] = Value::Null;
        }
    }
    if let Some(object) = version.as_object_mut() {
        object.remove("gfv_id");
    }
    for document in version["documents"].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
        document.remove("gfd_id");
    }
    version
}
