//! The reads: what the REST front end serves, as JSON, at the newest or any past height.

use serde_json::{Value, json};
use svc_kit::Handle;
use svc_wire::{
    comet::NodeInfo,
    event::{Event, EventsPage},
    instant,
};

use crate::{
    follower::{self, FollowerState},
    store::{EventQuery, Kind, Range, Store, StoreError},
};

/// A read that cannot be answered.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// A parameter is not usable; the text names it.
    #[error("{0}")]
    Parameter(String),
    /// There is no such thing.
    #[error("{0} not found")]
    NotFound(&'static str),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sort {
    /// By id, ascending.
    Ascending,
    /// By id, descending.
    Descending,
}

/// Which part of a list.
#[derive(Debug, Clone, Copy)]
pub struct Page {
    /// 1 to 1024.
    pub limit: usize,
    /// Inclusive.
    pub min_id: Option<u64>,
    /// Exclusive.
    pub max_id: Option<u64>,
    /// Order.
    pub sort: Sort,
}

impl Page {
    fn range(&self) -> Range {
        Range { min_id: self.min_id, max_id: self.max_id, is_descending: self.sort == Sort::Descending }
    }
}

/// Which governance framework versions are nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Framework {
    /// No `versions` at all.
    None,
    /// The active one.
    Active,
    /// All.
    All,
}

impl Framework {
    /// Reads `gf_data`.
    pub fn parse(text: Option<&str>) -> Result<Self, ReadError> {
        match text {
            None | Some("only_active") => Ok(Self::Active),
            Some("none") => Ok(Self::None),
            Some("all") => Ok(Self::All),
            Some(other) => {
                Err(ReadError::Parameter(format!("gf_data: {other:?} is not one of none, only_active, all")))
            }
        }
    }
}

/// What of an owner's governance framework is shown.
#[derive(Debug, Clone, Copy)]
pub struct Show<'a> {
    /// Which versions.
    pub framework: Framework,
    /// Keeps one document per version, in this language if there is one.
    pub language: Option<&'a str>,
}

/// Lists of the delegation module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delegations {
    /// `de.listOperatorAuthorizations`
    OperatorAuthorizations,
    /// `de.listVSOperatorAuthorizations`
    VsOperatorAuthorizations,
    /// `de.listFeeGrants`
    FeeGrants,
}

/// The reads of one indexer.
#[derive(Clone)]
pub struct Reader {
    store: Store,
    follower: Handle<follower::Msg>,
    node: std::sync::Arc<NodeInfo>,
    rpc: std::sync::Arc<str>,
}

impl Reader {
    pub(crate) fn new(store: Store, follower: Handle<follower::Msg>, node: NodeInfo, rpc: String) -> Self {
        Self { store, follower, node: node.into(), rpc: rpc.into() }
    }

    /// Newest height and its time.
    pub async fn checkpoint(&self) -> Result<(u64, String), ReadError> {
        let checkpoint = self.store.checkpoint().await?;
        Ok((checkpoint.height, checkpoint.time))
    }

    /// The height a read is about: the one asked for, if the indexer has it, or the newest.
    pub async fn height(&self, asked: Option<u64>) -> Result<u64, ReadError> {
        let newest = self.store.checkpoint().await?.height;
        match asked {
            Some(height) if height > newest => Err(ReadError::Parameter(format!(
                "At-Block-Height: {height} is above the newest indexed height {newest}"
            ))),
            Some(height) => Ok(height),
            None => Ok(newest),
        }
    }

    /// `indexer.getBlockHeight`
    pub async fn block_height(&self) -> Result<Value, ReadError> {
        let (height, time) = self.checkpoint().await?;
        let stamp = instant::parse_rfc3339(&time).map(|time| instant::iso_seconds(&time));
        Ok(json!({"type": "block-indexed", "height": height, "timestamp": stamp}))
    }

    /// `indexer.getStatus`
    pub async fn status(&self) -> Value {
        let observed =
            self.follower.observe().await.and_then(|value| serde_json::from_value::<FollowerState>(value).ok());
        match observed {
            Some(state) => {
                let mut status = json!({"is_running": true, "is_crawling": state.last_error.is_none()});
                if let Some(error) = state.last_error {
                    status["last_error"] = json!({"message": error, "service": "follower"});
                }
                status
            }
            None => json!({"is_running": false, "is_crawling": false, "stopped_reason": "the follower is restarting"}),
        }
    }

    /// `indexer.getVersion`
    pub fn version(&self) -> Value {
        json!({
            "app_version": env!("CARGO_PKG_VERSION"),
            "environment": {"network": {
                "chain_id": self.node.network, "rpc_endpoint": &*self.rpc, "lcd_endpoint": "", "cosmos_sdk_version": "",
                "node_version": self.node.version, "app_name": "svc",
            }},
        })
    }

    /// `co.getCorporation`
    pub async fn corporation(&self, id: u64, height: u64, show: Show<'_>) -> Result<Value, ReadError> {
        let body = self.store.entity(Kind::Corporation, id, height).await?.ok_or(ReadError::NotFound("Corporation"))?;
        Ok(json!({"corporation": self.with_framework(body, show), "block_height": height}))
    }

    /// `co.listCorporations`
    pub async fn corporations(
        &self,
        height: u64,
        page: Page,
        show: Show<'_>,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        self.owners(Kind::Corporation, "corporations", height, page, show, is_wanted).await
    }

    /// `es.getEcosystem`
    pub async fn ecosystem(&self, id: u64, height: u64, show: Show<'_>) -> Result<Value, ReadError> {
        let body = self.store.entity(Kind::Ecosystem, id, height).await?.ok_or(ReadError::NotFound("Ecosystem"))?;
        Ok(json!({"ecosystem": self.with_framework(body, show)}))
    }

    /// `es.listEcosystems`
    pub async fn ecosystems(
        &self,
        height: u64,
        page: Page,
        show: Show<'_>,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        self.owners(Kind::Ecosystem, "ecosystems", height, page, show, is_wanted).await
    }

    async fn owners(
        &self,
        kind: Kind,
        wrapper: &str,
        height: u64,
        page: Page,
        show: Show<'_>,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        let bodies = self.store.entities(kind, height, page.range(), page.limit, is_wanted).await?;
        let shown: Vec<Value> = bodies.into_iter().map(|body| self.with_framework(body, show)).collect();
        Ok(json!({ wrapper: shown }))
    }

    /// `gf.getGovernanceFrameworkVersion`
    pub async fn framework_version(&self, id: u64, height: u64, language: Option<&str>) -> Result<Value, ReadError> {
        let holds = |body: &Value| versions(body).iter().any(|version| version["id"] == id);
        let all = Page { limit: 1, min_id: None, max_id: None, sort: Sort::Ascending };
        for kind in [Kind::Ecosystem, Kind::Corporation] {
            for owner in self.store.entities(kind, height, all.range(), 1, holds).await? {
                if let Some(version) = versions(&owner).iter().find(|version| version["id"] == id) {
                    return Ok(json!({"version": with_owner(with_language(version.clone(), language))}));
                }
            }
        }
        Err(ReadError::NotFound("GovernanceFrameworkVersion"))
    }

    /// `gf.listGovernanceFrameworkVersions`; exactly one owner.
    pub async fn framework_versions(
        &self,
        owner: (Option<u64>, Option<u64>),
        height: u64,
        page: Page,
        is_active_only: bool,
        language: Option<&str>,
    ) -> Result<Value, ReadError> {
        let body = match owner {
            (Some(id), None) => {
                self.store.entity(Kind::Ecosystem, id, height).await?.ok_or(ReadError::NotFound("Ecosystem"))?
            }
            (None, Some(id)) => {
                self.store.entity(Kind::Corporation, id, height).await?.ok_or(ReadError::NotFound("Corporation"))?
            }
            _ => {
                return Err(ReadError::Parameter(
                    "exactly one of ecosystem_id and corporation_id is required".to_owned(),
                ));
            }
        };
        let id_of = |version: &Value| version["id"].as_u64().unwrap_or(0);
        let mut shown: Vec<Value> = versions(&body)
            .iter()
            .filter(|version| !is_active_only || version["version"] == body["active_version"])
            .filter(|version| page.min_id.is_none_or(|low| id_of(version) >= low))
            .filter(|version| page.max_id.is_none_or(|high| id_of(version) < high))
            .map(|version| with_owner(with_language(version.clone(), language)))
            .collect();
        shown.sort_by_key(id_of);
        if page.sort == Sort::Descending {
            shown.reverse();
        }
        shown.truncate(page.limit);
        Ok(json!({"versions": shown}))
    }

    /// `de.getOperatorAuthorization`
    pub async fn operator_authorization(&self, id: u64, height: u64) -> Result<Value, ReadError> {
        let found = self.store.entity(Kind::OperatorAuthorization, id, height).await?;
        Ok(json!({"authorization": found.ok_or(ReadError::NotFound("OperatorAuthorization"))?}))
    }

    /// `de.getVSOperatorAuthorization`
    pub async fn vs_operator_authorization(&self, id: u64, height: u64) -> Result<Value, ReadError> {
        let found = self.store.entity(Kind::VsOperatorAuthorization, id, height).await?;
        Ok(json!({"authorization": found.ok_or(ReadError::NotFound("VSOperatorAuthorization"))?}))
    }

    /// A list of the delegation module.
    pub async fn delegations(
        &self,
        which: Delegations,
        height: u64,
        page: Page,
        is_wanted: impl Fn(&Value) -> bool,
    ) -> Result<Value, ReadError> {
        let (kind, wrapper) = match which {
            Delegations::OperatorAuthorizations => (Kind::OperatorAuthorization, "authorizations"),
            Delegations::VsOperatorAuthorizations => (Kind::VsOperatorAuthorization, "authorizations"),
            Delegations::FeeGrants => (Kind::FeeGrant, "fee_grants"),
        };
        let found = self.store.entities(kind, height, page.range(), page.limit, is_wanted).await?;
        Ok(json!({ wrapper: found }))
    }

    /// `indexer.listEvents`. `after` is a height, or a position inside one from an earlier page's cursor.
    pub async fn events(
        &self,
        dids: Vec<String>,
        corporation_id: Option<u64>,
        after_block_height: u64,
        cursor: Option<(u64, u64)>,
        limit: usize,
    ) -> Result<EventsPage, ReadError> {
        let after = cursor.map_or((after_block_height, None), |(height, position)| (height, Some(position)));
        let query = EventQuery { dids, corporation_id, after, limit };
        let found = self.store.events(&query).await?;
        let last = found.last().map(|(height, position, _)| format!("{height}.{position}"));
        let next_cursor = last.filter(|_| found.len() == limit);
        let events: Vec<Event> = found.into_iter().map(|(_, _, event)| event).collect();
        Ok(EventsPage { count: events.len(), events, after_block_height, next_cursor })
    }

    /// Time of a block, for answers about the past.
    pub async fn block_time(&self, height: u64) -> Result<Option<String>, ReadError> {
        Ok(self.store.block_time(height).await?)
    }

    fn with_framework(&self, mut body: Value, show: Show<'_>) -> Value {
        let Show { framework, language } = show;
        let active = body["active_version"].clone();
        let kept: Option<Vec<Value>> = match framework {
            Framework::None => None,
            Framework::Active => {
                Some(versions(&body).iter().filter(|version| version["version"] == active).cloned().collect())
            }
            Framework::All => Some(versions(&body).to_vec()),
        };
        match (kept, body.as_object_mut()) {
            (Some(kept), Some(object)) => {
                let shown = kept.into_iter().map(|version| with_language(version, language)).collect();
                object.insert("versions".to_owned(), shown);
            }
            (None, Some(object)) => {
                object.remove("versions");
            }
            (_, None) => {}
        }
        body
    }
}

fn versions(body: &Value) -> &[Value] {
    body["versions"].as_array().map_or(&[], Vec::as_slice)
}

/// With a preferred language each version carries one document: that language, else the one with the lowest id.
fn with_language(mut version: Value, language: Option<&str>) -> Value {
    let Some(language) = language else { return version };
    let documents = version["documents"].as_array().cloned().unwrap_or_default();
    let is_preferred =
        |document: &&Value| document["language"].as_str().is_some_and(|own| own.eq_ignore_ascii_case(language));
    let chosen = documents
        .iter()
        .find(is_preferred)
        .or_else(|| documents.iter().min_by_key(|document| document["id"].as_u64().unwrap_or(u64::MAX)));
    version["documents"] = chosen.cloned().into_iter().collect();
    version
}

/// A version that stands alone names both owners; one of them is null.
fn with_owner(mut version: Value) -> Value {
    for owner in ["ecosystem_id", "corporation_id"] {
        if version.get(owner).is_none() {
            version[owner] = Value::Null;
        }
    }
    version
}
