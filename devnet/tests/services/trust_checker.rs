//! A minimal trust checker: it fetches the evidence of an evaluation with a plain client and reads the chain.

use std::sync::Arc;

use didwebvh_rs::DIDWebVHState;
use serde_json::{Value, json};
use svc_devnet::Devnet;
use svc_trust::{
    EssentialSchemas, EvaluationRules, Evidence, EvidenceFailure, EvidenceRequest, RegistryParticipant, RegistrySchema,
    RejectionCode, TrustVerdict, evaluate_did,
};
use svc_wire::{participant_state::ParticipantState, timestamp};

pub struct TrustChecker<'a> {
    devnet: &'a Devnet,
    participants: Value,
    rules: EvaluationRules,
    pub evidence: Evidence,
}

pub fn query_chain(devnet: &Devnet, path: &str, request: &Value) -> Option<Value> {
    devnet.node.read_core(|core| {
        let full = format!("/svc.{}", path.replacen('.', ".v1.Query/", 1));
        let rpc = core.chain.registry.rpc_methods().find(|rpc| rpc.path == full).expect("a query");
        let request = core.chain.registry.encode(rpc.request.full_name(), request).expect("encodes");
        let reply = svc_ledger::query(core.state(), &core.chain, core.block_context(), &full, &request).ok()?;
        Some(core.chain.registry.decode(rpc.response.full_name(), &reply).expect("decodes"))
    })
}

fn nanos(value: &Value) -> Option<i128> {
    value.as_str().and_then(timestamp::parse_rfc3339).map(|instant| timestamp::unix_nanos(&instant))
}

fn failure<T>(code: RejectionCode, message: impl ToString) -> Result<T, EvidenceFailure> {
    Err(EvidenceFailure::new(code, message.to_string()))
}

impl<'a> TrustChecker<'a> {
    pub fn new(devnet: &'a Devnet) -> Self {
        let now = devnet.node.read_core(|core| timestamp::unix_nanos(&core.latest().expect("a block").time));
        Self {
            devnet,
            participants: query_chain(devnet, "pp.ListParticipants", &json!({"response_max_size": 1024}))
                .expect("answered"),
            rules: EvaluationRules {
                schema_prefix: "vpr:svc:svc-devnet-1:cs:".into(),
                essential_schemas: EssentialSchemas::default().in_ecosystems(devnet.ecosystem_did()),
                now,
            },
            evidence: Evidence::default(),
        }
    }

    pub async fn evaluate_did(&mut self, did: &str) -> TrustVerdict {
        loop {
            match evaluate_did(did, &self.evidence, &self.rules) {
                Ok(verdict) => return verdict,
                Err(needs) => {
                    for need in needs {
                        self.gather_evidence(need).await;
                    }
                }
            }
        }
    }

    async fn gather_evidence(&mut self, need: EvidenceRequest) {
        match need {
            EvidenceRequest::Document(did) => {
                let found = document(&did).await.map(Arc::new);
                self.evidence.documents.insert(did, found);
            }
            EvidenceRequest::Resource(url) => {
                let found = fetch(&url).await.map(Arc::from);
                self.evidence.resources.insert(url, found);
            }
            EvidenceRequest::Participants(did) => {
                let all = self.participants["participants"].as_array().expect("a list");
                let own = all.iter().filter(|one| one["did"] == *did).map(|one| self.participant(one)).collect();
                self.evidence.participants.insert(did, own);
            }
            EvidenceRequest::Schema(id) => {
                let found = self.schema(id).map(Arc::new);
                self.evidence.schemas.insert(id, found);
            }
            EvidenceRequest::Digest(digest) => {
                let found = query_chain(self.devnet, "di.GetDigest", &json!({"digest": digest}));
                self.evidence.digest_anchors.insert(digest, found.and_then(|found| nanos(&found["digest"]["created"])));
            }
        }
    }

    fn schema(&self, id: u64) -> Option<RegistrySchema> {
        let schema =
            query_chain(self.devnet, "cs.GetCredentialSchema", &json!({"id": id.to_string()}))?["schema"].take();
        let ecosystem =
            query_chain(self.devnet, "ec.GetEcosystem", &json!({"id": schema["ecosystem_id"]})).expect("there");
        Some(RegistrySchema {
            id,
            ecosystem_id: number(&schema["ecosystem_id"]),
            ecosystem_did: ecosystem["ecosystem"]["did"].as_str().expect("a DID").into(),
            json_schema: schema["json_schema"].as_str().expect("a text").into(),
            digest_algorithm: schema["digest_algorithm"].as_str().expect("a text").into(),
            is_open_to_holders: schema["holder_onboarding_mode"].as_str().expect("a mode").contains("PERMISSIONLESS"),
        })
    }

    fn participant(&self, one: &Value) -> RegistryParticipant {
        let (from, until) = (nanos(&one["effective_from"]), nanos(&one["effective_until"]));
        let state = if nanos(&one["repaid"]).is_some() {
            ParticipantState::Repaid
        } else if nanos(&one["slashed"]).is_some() {
            ParticipantState::Slashed
        } else if nanos(&one["revoked"]).is_some() {
            ParticipantState::Revoked
        } else if until.is_some_and(|until| until <= self.rules.now) {
            ParticipantState::Expired
        } else {
            match from {
                None => ParticipantState::Inactive,
                Some(from) if from > self.rules.now => ParticipantState::Future,
                Some(_) => ParticipantState::Active,
            }
        };
        RegistryParticipant {
            id: number(&one["id"]),
            role: one["role"].as_str().expect("a role").into(),
            schema_id: number(&one["schema_id"]),
            effective_from: from,
            effective_until: until,
            state,
        }
    }
}

fn number(value: &Value) -> u64 {
    value.as_str().expect("a text").parse().expect("a number")
}

/// Fetches a URL of the services; fails for other hosts without a request.
pub async fn fetch(url: &str) -> Result<String, EvidenceFailure> {
    if !url.starts_with("http://localhost:") {
        return failure(RejectionCode::HostRefused, url);
    }
    // No connection pool: each test has a runtime of its own, and its connections end with it.
    static CLIENT: std::sync::LazyLock<reqwest::Client> = std::sync::LazyLock::new(reqwest::Client::new);
    let answer = CLIENT.get(url).header("connection", "close").send().await.expect("answers");
    if answer.status().as_u16() == 404 {
        return failure(RejectionCode::ResourceUnavailable, url);
    }
    assert_eq!(answer.headers()["cache-control"], "no-cache", "{url}");
    let kind = if url.ends_with(".jsonl") { "text/jsonl" } else { "application/json" };
    assert_eq!(answer.headers()["content-type"], kind, "{url}");
    Ok(answer.text().await.expect("a text"))
}

/// Resolves a DID.
pub async fn document(did: &str) -> Result<Value, EvidenceFailure> {
    let unresolvable = |failure: EvidenceFailure| EvidenceFailure { code: RejectionCode::DidUnresolvable, ..failure };
    let place = |rest: &str| rest.replace(':', "/").replace("%3A", ":");
    if let Some(rest) = did.strip_prefix("did:web:") {
        let url = format!("http://{}/did.json", place(rest));
        let document: Value = serde_json::from_str(&fetch(&url).await.map_err(unresolvable)?).expect("JSON");
        return if document["id"] == did { Ok(document) } else { failure(RejectionCode::DidDocumentInvalid, url) };
    }
    let Some(rest) = did.strip_prefix("did:webvh:") else { return failure(RejectionCode::DidMethodUnsupported, did) };
    let (scid, rest) = rest.split_once(':').expect("a place");
    let log = fetch(&format!("http://{}/did.jsonl", place(rest))).await.map_err(unresolvable)?;
    let first: Value = serde_json::from_str(log.lines().next().expect("an entry")).expect("JSON");
    if first["parameters"]["scid"] != scid {
        return failure(RejectionCode::DidScidMismatch, scid);
    }
    let mut state = DIDWebVHState::default();
    if let Err(error) = state.resolve_log(did, &log, None).await {
        return failure(RejectionCode::DidLogInvalid, error);
    }
    if state.deactivated() {
        return failure(RejectionCode::DidDeactivated, did);
    }
    Ok(state.log_entries().last().expect("an entry").get_state().clone())
}
