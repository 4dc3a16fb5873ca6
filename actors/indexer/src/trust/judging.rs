//! Judging one DID: the evaluation is asked again and again, and what it wants to know is found out, until it is content.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use futures::{StreamExt, stream};
use serde_json::Value;
use svc_kit::{
    did::{DidError, DidResolver},
    fetch::{ClientError, FetchError, Fetcher, Limits},
    weight,
};
use svc_trust::{Code, Failure, Known, Need, Participant, Rules, Schema, State, Verdict, evaluate};
use tokio::{sync::Semaphore, time::Instant};

use super::{
    TrustConfig,
    record::{self, Occasion, need_key},
    rounds::Finding,
};
use crate::{
    derive::state::{ParticipantState, instant_of},
    store::{Filter, Kind, Store, StoreError},
};

/// Longest time the web servers of one DID may take together.
const PATIENCE: Duration = Duration::from_secs(20);
/// Most material of one evaluation.
const MOST_FETCHES: usize = 128;
/// The memory it may take to read all of it.
const MOST_WEIGHT: usize = 8 * 1024 * 1024;
/// Longest time one evaluation may take a processor.
const LONGEST: Duration = Duration::from_secs(60);
/// Fetches of one evaluation at once.
const PARALLEL: usize = 4;
/// The longest way from a DID to its last need: that of the last parent's digests.
const MOST_ROUNDS: usize = 48;

/// What judging needs.
pub struct Judging {
    pub(super) store: Store,
    resolver: DidResolver,
    fetcher: Fetcher,
    rules: Rules,
    /// Signatures are verified on so many threads at once.
    cores: Arc<Semaphore>,
}

impl Judging {
    /// For the schemas of one registry, whose references begin with `schema_prefix`.
    pub fn new(config: &TrustConfig, schema_prefix: String, store: Store) -> Result<Self, ClientError> {
        let fetcher = Fetcher::new(config.hosts, Limits::default())?;
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Self {
            store,
            resolver: DidResolver::with(fetcher.clone()),
            fetcher,
            rules: Rules {
                schema_prefix,
                essential: config.essential.clone(),
                ecosystems: config.ecosystems.clone(),
                now: 0,
            },
            cores: Arc::new(Semaphore::new(cores)),
        })
    }
}

/// A verdict with what the store and the rounds need besides.
#[derive(Debug)]
pub struct Judgement {
    /// The verdict as it is stored.
    pub body: Value,
    /// None for a DID that nothing in the registry names.
    pub corporation_id: Option<u64>,
    /// Keys of what it depends on.
    pub inputs: Vec<String>,
    /// Keys of what was fetched on the way to it.
    pub fetched: Vec<String>,
    /// What it means for others.
    pub finding: Finding,
    /// What it was judged from, failures included; without the registry's word.
    pub material: Known,
}

/// The height a DID is judged at.
#[derive(Debug, Clone, Copy)]
pub struct At {
    pub height: u64,
    /// Nanoseconds since the epoch.
    pub time: i128,
    /// Whether everything is fetched again.
    pub is_fresh: bool,
}

/// What the evaluation said, and how long it took. That it had to wait for a processor is not its fault.
struct Asked {
    known: Known,
    outcome: Result<Verdict, BTreeSet<Need>>,
    took: Duration,
}

/// What one evaluation has taken so far.
struct Budget {
    /// Time left for web servers.
    left: Duration,
    /// Keys of what was fetched.
    fetched: Vec<String>,
    weight: usize,
}

impl Budget {
    fn new(material: &Known) -> Self {
        let documents = material.documents.values().flatten().map(|document| weight::of_value(document));
        let texts = material.resources.values().flatten().map(|text| weight::of_text(text.as_bytes()));
        Self { left: PATIENCE, fetched: Vec::new(), weight: documents.chain(texts).sum() }
    }

    /// Takes something up, if there is room for it.
    fn take(&mut self, body: Value) -> Result<Value, Failure> {
        self.weight += body.as_str().map_or_else(|| weight::of_value(&body), |text| weight::of_text(text.as_bytes()));
        let message = || format!("the material of one DID takes more than {MOST_WEIGHT} bytes of memory");
        if self.weight > MOST_WEIGHT { Err(Failure { code: Code::TooLarge, message: message() }) } else { Ok(body) }
    }
}

impl Judging {
    /// Judges a DID, beginning with material that was fetched for it before.
    pub async fn judge(&self, did: &str, at: At, material: Known) -> Result<Judgement, StoreError> {
        let rules = Rules { now: at.time, ..self.rules.clone() };
        let mut known = material;
        let mut budget = Budget::new(&known);
        let mut taken = Duration::ZERO;
        for _ in 0..MOST_ROUNDS {
            let looked_at = known.needs();
            let Some(Asked { known: back, outcome, took }) = self.ask(did, known, rules.clone()).await else {
                let verdict = Verdict::given_up(did, looked_at, "it breaks the evaluation");
                return self.judgement(did, at, &verdict, Known::default(), budget.fetched).await;
            };
            known = back;
            taken += took;
            match outcome {
                Ok(verdict) => {
                    let material = Known { documents: known.documents, resources: known.resources, ..Known::default() };
                    return self.judgement(did, at, &verdict, material, budget.fetched).await;
                }
                Err(_) if taken > LONGEST => break,
                Err(needs) => self.find_out(&needs, at, &mut known, &mut budget).await?,
            }
        }
        let verdict = Verdict::given_up(did, known.needs(), format!("it was not judged within {taken:?}"));
        self.judgement(did, at, &verdict, Known::default(), budget.fetched).await
    }

    async fn judgement(
        &self,
        did: &str,
        At { height, time, .. }: At,
        verdict: &Verdict,
        material: Known,
        fetched: Vec<String>,
    ) -> Result<Judgement, StoreError> {
        let corporation_id = self.store.corporation_of(did, height).await?;
        let occasion = Occasion { height, time, corporation_id: corporation_id.unwrap_or(0) };
        let body = record::body(did, verdict, occasion);
        let before = self.store.verdict(did, height).await?;
        // Other material can mean another verdict for whom it vouches, also where its own is the same.
        let is_new = !fetched.is_empty() || before.is_none_or(|before| !record::is_same(&before, &body));
        let finding = Finding {
            is_new,
            dependents: self.store.dependents(&[record::parent_key(did)]).await?,
            consulted: verdict.consulted.iter().cloned().collect(),
        };
        Ok(Judgement { body, corporation_id, inputs: record::inputs(verdict), fetched, finding, material })
    }

    /// Runs the evaluation where it may take its time. None if the material broke it.
    async fn ask(&self, did: &str, known: Known, rules: Rules) -> Option<Asked> {
        let permit = Arc::clone(&self.cores).acquire_owned().await;
        let did = did.to_owned();
        let run = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            let begun = Instant::now();
            let outcome = evaluate(&did, &known, &rules);
            Asked { known, outcome, took: begun.elapsed() }
        });
        run.await.ok()
    }

    async fn find_out(
        &self,
        needs: &BTreeSet<Need>,
        at: At,
        known: &mut Known,
        budget: &mut Budget,
    ) -> Result<(), StoreError> {
        let mut abroad = Vec::new();
        for need in needs {
            match need {
                Need::Document(_) | Need::Resource(_) => abroad.push(need),
                Need::Participants(did) => {
                    let found = self.participants(did, at).await?;
                    known.participants.insert(did.clone(), found.into());
                }
                Need::Schema(id) => {
                    known.schemas.insert(*id, self.schema(*id, at.height).await?.map(Arc::new));
                }
                Need::Digest(digest) => {
                    let filter = Filter { name: Some(digest.clone()), ..Filter::default() };
                    let found = self.store.find(Kind::Digest, &filter, at.height).await?;
                    known.digests.insert(digest.clone(), found.and_then(|stored| instant_of(&stored.body, "created")));
                }
            }
        }
        let mut wanted = Vec::new();
        for need in abroad {
            let kept = if at.is_fresh { None } else { self.store.material(&need_key(need)).await? };
            match kept {
                Some(body) => put(known, need, budget.take(body)),
                None => wanted.push(need.clone()),
            }
        }
        let (begun, left) = (Instant::now(), budget.left);
        let room = MOST_FETCHES.saturating_sub(budget.fetched.len());
        let too_many = wanted.split_off(room.min(wanted.len()));
        for need in too_many {
            let message = format!("more than {MOST_FETCHES} fetches for one DID");
            put(known, &need, Err(Failure { code: Code::TooLarge, message }));
        }
        budget.fetched.extend(wanted.iter().map(need_key));
        let mut fetches = stream::iter(wanted)
            .map(|need| async move {
                let fetched = tokio::time::timeout_at(begun + left, self.fetch(&need)).await;
                (need, fetched.ok())
            })
            .buffer_unordered(PARALLEL);
        while let Some((need, fetched)) = fetches.next().await {
            // What its server does not give is asked for again with the next occasion, by whomever. What is too much for this DID, or
            // comes too late for it, is nobody else's business.
            let fetched = match fetched {
                Some(fetched) => {
                    self.store.keep_material(&need_key(&need), fetched.as_ref().ok()).await?;
                    fetched.and_then(|body| budget.take(body))
                }
                None => {
                    let message = format!("the web servers of one DID took longer than {} s", PATIENCE.as_secs());
                    Err(Failure { code: Code::NotFetched, message })
                }
            };
            put(known, &need, fetched);
        }
        budget.left = left.saturating_sub(begun.elapsed());
        Ok(())
    }

    async fn fetch(&self, need: &Need) -> Result<Value, Failure> {
        match need {
            Need::Document(did) => match self.resolver.resolve_fresh(did).await {
                Ok(document) => Ok((*document).clone()),
                Err(error) => Err(unresolved(&error)),
            },
            Need::Resource(url) => {
                let fetched = self.fetcher.get(url).await.map_err(|error| unfetched(&error))?;
                let text = String::from_utf8(fetched.body.to_vec());
                let no_text = |_| Failure { code: Code::NotFetched, message: format!("{url} is no text in UTF-8") };
                text.map(Value::String).map_err(no_text)
            }
            _ => Err(Failure { code: Code::NotFetched, message: "the registry knows it".to_owned() }),
        }
    }

    async fn participants(&self, did: &str, at: At) -> Result<Vec<Participant>, StoreError> {
        let filter = Filter { did: Some(did.to_owned()), ..Filter::default() };
        let found = self.store.all(Kind::Participant, at.height, &filter).await?;
        Ok(found.into_iter().map(|stored| participant(&stored.body, at.time)).collect())
    }

    async fn schema(&self, id: u64, height: u64) -> Result<Option<Schema>, StoreError> {
        let Some(body) = self.store.entity(Kind::Schema, id, height).await? else { return Ok(None) };
        let ecosystem_id = body["ecosystem_id"].as_u64().unwrap_or(0);
        let ecosystem = self.store.entity(Kind::Ecosystem, ecosystem_id, height).await?.unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(Some(Schema {
            id,
            ecosystem_id,
            ecosystem_did: text(&ecosystem["did"]),
            json_schema: text(&body["json_schema"]),
            digest_algorithm: text(&body["digest_algorithm"]),
            is_open_to_holders: body["holder_onboarding_mode"] == "PERMISSIONLESS",
        }))
    }
}

fn participant(body: &Value, now: i128) -> Participant {
    let number = |key: &str| body[key].as_u64().unwrap_or(0);
    Participant {
        id: number("id"),
        role: body["role"].as_str().unwrap_or_default().to_owned(),
        schema_id: number("schema_id"),
        effective_from: instant_of(body, "effective_from"),
        effective_until: instant_of(body, "effective_until"),
        state: match ParticipantState::at(body, now) {
            ParticipantState::Active => State::Active,
            ParticipantState::Expired => State::Expired,
            ParticipantState::Future => State::Future,
            ParticipantState::Revoked => State::Revoked,
            ParticipantState::Slashed => State::Slashed,
            ParticipantState::Repaid => State::Repaid,
            ParticipantState::Inactive => State::Inactive,
        },
    }
}

fn put(known: &mut Known, need: &Need, found: Result<Value, Failure>) {
    match need {
        Need::Document(did) => {
            known.documents.insert(did.clone(), found.map(Arc::new));
        }
        Need::Resource(url) => {
            let text = found.map(|body| body.as_str().unwrap_or_default().into());
            known.resources.insert(url.clone(), text);
        }
        _ => {}
    }
}

fn unresolved(error: &DidError) -> Failure {
    let code = match error {
        DidError::Method { .. } => Code::DidMethodUnsupported,
        DidError::Fetch { error, .. } => match unfetched(error).code {
            Code::NotFetched => Code::DidUnresolvable,
            other => other,
        },
        DidError::Document { .. } => Code::DidDocumentInvalid,
        DidError::LogTooLong { .. } => Code::TooLarge,
        DidError::Scid { .. } => Code::DidScidMismatch,
        DidError::Log { .. } | DidError::Witness { .. } => Code::DidLogInvalid,
        DidError::Deactivated { .. } => Code::DidDeactivated,
        _ => Code::DidUnresolvable,
    };
    Failure { code, message: error.to_string() }
}

fn unfetched(error: &FetchError) -> Failure {
    let code = match error {
        FetchError::NotAUrl { .. } | FetchError::HostRefused { .. } | FetchError::RedirectRefused { .. } => {
            Code::HostRefused
        }
        FetchError::TooLong { .. } | FetchError::TooHeavy { .. } => Code::TooLarge,
        _ => Code::NotFetched,
    };
    Failure { code, message: error.to_string() }
}
