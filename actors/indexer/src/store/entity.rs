//! Versions of entities: each holds from a height until, exclusively, another.

use serde_json::Value;
use sqlx::{AnyConnection, AssertSqlSafe, Row};

use super::{Store, StoreError, column_time, key, signed, unsigned};

/// What an entity is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    Corporation,
    Ecosystem,
    Schema,
    Participant,
    Session,
    TrustDeposit,
    Digest,
    ExchangeRate,
    OperatorAuthorization,
    VsOperatorAuthorization,
    FeeGrant,
    /// One version of a governance framework; the parent is its ecosystem, if it has one.
    FrameworkVersion,
    Group,
    Proposal,
    Vote,
    /// Parameters of a module.
    Params,
    /// What the evaluation of trust says of a DID.
    Verdict,
}

impl Kind {
    const ALL: [Self; 17] = [
        Self::Corporation,
        Self::Ecosystem,
        Self::Schema,
        Self::Participant,
        Self::Session,
        Self::TrustDeposit,
        Self::Digest,
        Self::ExchangeRate,
        Self::OperatorAuthorization,
        Self::VsOperatorAuthorization,
        Self::FeeGrant,
        Self::FrameworkVersion,
        Self::Group,
        Self::Proposal,
        Self::Vote,
        Self::Params,
        Self::Verdict,
    ];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Corporation => "corporation",
            Self::Ecosystem => "ecosystem",
            Self::Schema => "schema",
            Self::Participant => "participant",
            Self::Session => "session",
            Self::TrustDeposit => "trust_deposit",
            Self::Digest => "digest",
            Self::ExchangeRate => "exchange_rate",
            Self::OperatorAuthorization => "operator_authorization",
            Self::VsOperatorAuthorization => "vs_operator_authorization",
            Self::FeeGrant => "fee_grant",
            Self::FrameworkVersion => "framework_version",
            Self::Group => "group",
            Self::Proposal => "proposal",
            Self::Vote => "vote",
            Self::Params => "params",
            Self::Verdict => "verdict",
        }
    }

    /// By the name of its column.
    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }

    /// Name in activity logs and events.
    pub fn entity_type(self) -> &'static str {
        match self {
            Self::Corporation => "Corporation",
            Self::Ecosystem => "Ecosystem",
            Self::Schema => "CredentialSchema",
            Self::Participant => "Participant",
            Self::Session => "ParticipantSession",
            Self::TrustDeposit => "TrustDeposit",
            Self::Digest => "DigitalIdentityDigest",
            Self::ExchangeRate => "ExchangeRate",
            Self::OperatorAuthorization => "OperatorAuthorization",
            Self::VsOperatorAuthorization => "VSOperatorAuthorization",
            Self::FeeGrant => "FeeGrant",
            Self::FrameworkVersion => "GovernanceFrameworkVersion",
            Self::Group => "CorporationGroup",
            Self::Proposal => "GroupProposal",
            Self::Vote => "GroupVote",
            Self::Params => "GlobalVariables",
            Self::Verdict => "TrustVerdict",
        }
    }

    /// Whether its JSON carries an `id`; the others are known by a name.
    fn shows_id(self) -> bool {
        !matches!(self, Self::Session | Self::TrustDeposit | Self::Digest | Self::Group | Self::Params | Self::Verdict)
    }
}

/// What a block does to one entity.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    pub kind: Kind,
    /// The ledger's id; `None` for what is known by its name (with its corporation or parent) and gets an id of the store's.
    pub id: Option<u64>,
    pub corporation_id: Option<u64>,
    /// Schema of a participant, ecosystem of a schema, proposal of a vote, group id of a group.
    pub parent_id: Option<u64>,
    /// Policy address, operator, grantee, voter, uuid, digest, module.
    pub name: Option<String>,
    pub did: Option<String>,
    /// New state; `None` when the entity is gone.
    pub body: Option<Value>,
}

impl Change {
    /// A change of an entity with an id and nothing else to be found by.
    pub fn new(kind: Kind, id: Option<u64>, body: Option<Value>) -> Self {
        Self { kind, id, corporation_id: None, parent_id: None, name: None, did: None, body }
    }
}

/// A version as read.
#[derive(Debug, Clone)]
pub struct Stored {
    pub id: u64,
    pub body: Value,
}

/// Which ids a list covers, in which order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Range {
    /// Inclusive.
    pub min_id: Option<u64>,
    /// Exclusive.
    pub max_id: Option<u64>,
    pub is_descending: bool,
}

/// What the database itself looks for; everything else is looked for in the bodies.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    pub corporation_id: Option<u64>,
    pub parent_id: Option<u64>,
    pub name: Option<String>,
    pub did: Option<String>,
}

pub(super) async fn write(connection: &mut AnyConnection, height: u64, change: &Change) -> Result<(), StoreError> {
    let id = match change.id {
        Some(id) => id,
        None => key_of(connection, change).await?,
    };
    let kind = change.kind.as_str();
    // A second change in the same block replaces the first; otherwise the version before ends here.
    for statement in [
        "DELETE FROM entity WHERE kind = $1 AND id = $2 AND from_height = $3",
        "UPDATE entity SET until_height = $3 WHERE kind = $1 AND id = $2 AND until_height IS NULL",
    ] {
        sqlx::query(statement).bind(kind).bind(signed(id)).bind(signed(height)).execute(&mut *connection).await?;
    }
    let Some(body) = &change.body else { return Ok(()) };
    let mut body = body.clone();
    if change.kind.shows_id() {
        body["id"] = id.into();
    }
    sqlx::query(
        "INSERT INTO entity (kind, id, from_height, until_height, corporation_id, parent_id, name, did, body) \
         VALUES ($1, $2, $3, NULL, $4, $5, $6, $7, $8)",
    )
    .bind(kind)
    .bind(signed(id))
    .bind(signed(height))
    .bind(change.corporation_id.map(signed))
    .bind(change.parent_id.map(signed))
    .bind(change.name.as_deref().map(|name| key(name).into_owned()))
    .bind(change.did.as_deref().map(|did| key(did).into_owned()))
    .bind(body.to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// The id of what is known by name: its own, or the next free one of its kind.
async fn key_of(connection: &mut AnyConnection, change: &Change) -> Result<u64, StoreError> {
    let known = sqlx::query(
        "SELECT id FROM entity WHERE kind = $1 AND name = $2 AND COALESCE(corporation_id, 0) = $3 \
         AND COALESCE(parent_id, 0) = $4 LIMIT 1",
    )
    .bind(change.kind.as_str())
    .bind(change.name.as_deref().map(|name| key(name).into_owned()))
    .bind(change.corporation_id.map_or(0, signed))
    .bind(change.parent_id.map_or(0, signed))
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(row) = known {
        return Ok(unsigned(row.try_get(0)?));
    }
    let highest: i64 = sqlx::query("SELECT COALESCE(MAX(id), 0) FROM entity WHERE kind = $1")
        .bind(change.kind.as_str())
        .fetch_one(connection)
        .await?
        .try_get(0)?;
    Ok(unsigned(highest) + 1)
}

pub(super) async fn schedule(connection: &mut AnyConnection, due: i128, kind: Kind, id: u64) -> Result<(), StoreError> {
    sqlx::query("INSERT INTO schedule (due, kind, id) VALUES ($1, $2, $3) ON CONFLICT (due, kind, id) DO NOTHING")
        .bind(column_time(due))
        .bind(kind.as_str())
        .bind(signed(id))
        .execute(connection)
        .await?;
    Ok(())
}

fn parse(row: &sqlx::any::AnyRow) -> Result<Stored, StoreError> {
    let (id, text): (i64, String) = (row.try_get(0)?, row.try_get(1)?);
    let body = serde_json::from_str(&text).map_err(|error| StoreError::Corrupt(error.to_string()))?;
    Ok(Stored { id: unsigned(id), body })
}

impl Store {
    /// The version of an entity that holds at `height`.
    pub async fn entity(&self, kind: Kind, id: u64, height: u64) -> Result<Option<Value>, StoreError> {
        let row = sqlx::query(
            "SELECT id, body FROM entity WHERE kind = $1 AND id = $2 AND from_height <= $3 \
             AND (until_height IS NULL OR until_height > $3)",
        )
        .bind(kind.as_str())
        .bind(signed(id))
        .bind(signed(height))
        .fetch_optional(&self.pool)
        .await?;
        row.map(|row| parse(&row).map(|stored| stored.body)).transpose()
    }

    /// The first entity of a kind that a filter finds at `height`.
    pub async fn find(&self, kind: Kind, filter: &Filter, height: u64) -> Result<Option<Stored>, StoreError> {
        Ok(self.chunk(kind, height, filter, Range::default(), 1).await?.pop())
    }

    /// Up to `limit` entities that hold at `height` and pass the filter, in id order.
    pub async fn chunk(
        &self,
        kind: Kind,
        height: u64,
        filter: &Filter,
        range: Range,
        limit: usize,
    ) -> Result<Vec<Stored>, StoreError> {
        let mut statement = String::from(
            "SELECT id, body FROM entity WHERE kind = $1 AND from_height <= $2 \
             AND (until_height IS NULL OR until_height > $2) AND id >= $3 AND id < $4",
        );
        let mut place = 4;
        let mut condition = |is_wanted: bool, column: &str| {
            if is_wanted {
                place += 1;
                statement += &format!(" AND {column} = ${place}");
            }
        };
        condition(filter.corporation_id.is_some(), "corporation_id");
        condition(filter.parent_id.is_some(), "parent_id");
        condition(filter.name.is_some(), "name");
        condition(filter.did.is_some(), "did");
        let order = if range.is_descending { "DESC" } else { "ASC" };
        statement += &format!(" ORDER BY id {order} LIMIT {limit}");
        let mut query = sqlx::query(AssertSqlSafe(statement))
            .bind(kind.as_str())
            .bind(signed(height))
            .bind(signed(range.min_id.unwrap_or(0)))
            .bind(signed(range.max_id.unwrap_or(u64::MAX)));
        for id in [filter.corporation_id, filter.parent_id].into_iter().flatten() {
            query = query.bind(signed(id));
        }
        for text in [&filter.name, &filter.did].into_iter().flatten() {
            query = query.bind(key(text).into_owned());
        }
        query.fetch_all(&self.pool).await?.iter().map(parse).collect()
    }

    /// Everything a filter finds at `height`, in id order.
    pub async fn all(&self, kind: Kind, height: u64, filter: &Filter) -> Result<Vec<Stored>, StoreError> {
        const CHUNK: usize = 1_024;
        let mut found: Vec<Stored> = Vec::new();
        loop {
            let range = Range { min_id: found.last().map(|last| last.id + 1), ..Range::default() };
            let chunk = self.chunk(kind, height, filter, range, CHUNK).await?;
            let is_last = chunk.len() < CHUNK;
            found.extend(chunk);
            if is_last {
                return Ok(found);
            }
        }
    }

    /// Entities that change by themselves in `(after, until]`.
    pub async fn due(&self, after: i128, until: i128) -> Result<Vec<(Kind, u64)>, StoreError> {
        let rows = sqlx::query("SELECT DISTINCT kind, id FROM schedule WHERE due > $1 AND due <= $2 ORDER BY kind, id")
            .bind(column_time(after))
            .bind(column_time(until))
            .fetch_all(&self.pool)
            .await?;
        let mut found = Vec::new();
        for row in &rows {
            let (name, id): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
            found.push((
                Kind::named(&name).ok_or_else(|| StoreError::Corrupt(format!("schedule of {name:?}")))?,
                unsigned(id),
            ));
        }
        Ok(found)
    }

    /// First height after `height` at which anything was done to an entity.
    pub async fn next_change_after(&self, height: u64) -> Result<Option<u64>, StoreError> {
        let row = sqlx::query("SELECT MIN(height) FROM activity WHERE height > $1")
            .bind(signed(height))
            .fetch_one(&self.pool)
            .await?;
        Ok(row.try_get::<Option<i64>, _>(0)?.map(unsigned))
    }
}
