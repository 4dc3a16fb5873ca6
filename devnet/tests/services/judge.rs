//! Whoever judges services: what an evaluation needs, fetched with a plain client and read from the chain.

use std::{collections::BTreeSet, sync::Arc};

use didwebvh_rs::DIDWebVHState;
use serde_json::{Value, json};
use svc_devnet::Devnet;
use svc_trust::{Code, EssentialSchemas, Failure, Known, Need, Participant, Rules, Schema, State, Verdict, evaluate};
use svc_wire::instant;

pub struct Judge<'a> {
    devnet: &'a Devnet,
    participants: Value,
    rules: Rules,
    pub known: Known,
}

pub fn ask(devnet: &Devnet, path: &str, request: &Value) -> Option<Value> {
    devnet.node.inspect(|core| {
        let full = format!("/svc.{}", path.replacen('.', ".v1.Query/", 1));
        let (_, input, output) = core.chain.registry.rpcs().find(|(name, _, _)| *name == full).expect("a query");
        let request = core.chain.registry.encode(input.full_name(), request).expect("encodes");
        let reply = svc_devnet::ledger::query(core.state(), &core.chain, core.context(), &full, &request).ok()?;
        Some(core.chain.registry.decode(output.full_name(), &reply).expect("decodes"))
    })
}

fn nanos(value: &Value) -> Option<i128> {
    value.as_str().and_then(instant::parse_rfc3339).map(|instant| instant::nanos(&instant))
}

fn failure<T>(code: Code, message: impl ToString) -> Result<T, Failure> {
    Err(Failure { code, message: message.to_string() })
}

impl<'a> Judge<'a> {
    pub fn new(devnet: &'a Devnet) -> Self {
        let now = devnet.node.inspect(|core| instant::nanos(&core.latest().expect("a block").time));
        Self {
            devnet,
            participants: ask(devnet, "pp.ListParticipants", &json!({"response_max_size": 1024})).expect("answered"),
            rules: Rules {
                schema_prefix: "vpr:svc:svc-devnet-1:cs:".into(),
                essential: EssentialSchemas::default(),
                ecosystems: BTreeSet::new(),
                now,
            },
            known: Known::default(),
        }
    }

    pub async fn verdict(&mut self, did: &str) -> Verdict {
        loop {
            match evaluate(did, &self.known, &self.rules) {
                Ok(verdict) => return verdict,
                Err(needs) => {
                    for need in needs {
                        self.find_out(need).await;
                    }
                }
            }
        }
    }

    async fn find_out(&mut self, need: Need) {
        match need {
            Need::Document(did) => {
                let found = document(&did).await.map(Arc::new);
                self.known.documents.insert(did, found);
            }
            Need::Resource(url) => {
                let found = fetch(&url).await.map(Arc::from);
                self.known.resources.insert(url, found);
            }
            Need::Participants(did) => {
                let all = self.participants["participants"].as_array().expect("a list");
                let own = all.iter().filter(|one| one["did"] == *did).map(|one| self.participant(one)).collect();
                self.known.participants.insert(did, own);
            }
            Need::Schema(id) => {
                let found = self.schema(id).map(Arc::new);
                self.known.schemas.insert(id, found);
            }
            Need::Digest(digest) => {
                let found = ask(self.devnet, "di.GetDigest", &json!({"digest": digest}));
                self.known.digests.insert(digest, found.and_then(|found| nanos(&found["digest"]["created"])));
            }
        }
    }

    fn schema(&self, id: u64) -> Option<Schema> {
        let schema = ask(self.devnet, "cs.GetCredentialSchema", &json!({"id": id.to_string()}))?["schema"].take();
        let ecosystem = ask(self.devnet, "ec.GetEcosystem", &json!({"id": schema["ecosystem_id"]})).expect("there");
        Some(Schema {
            id,
            ecosystem_id: number(&schema["ecosystem_id"]),
            ecosystem_did: ecosystem["ecosystem"]["did"].as_str().expect("a DID").into(),
            json_schema: schema["json_schema"].as_str().expect("a text").into(),
            digest_algorithm: schema["digest_algorithm"].as_str().expect("a text").into(),
            is_open_to_holders: schema["holder_onboarding_mode"].as_str().expect("a mode").contains("PERMISSIONLESS"),
        })
    }

    fn participant(&self, one: &Value) -> Participant {
        let (from, until) = (nanos(&one["effective_from"]), nanos(&one["effective_until"]));
        let state = if nanos(&one["repaid"]).is_some() {
            State::Repaid
        } else if nanos(&one["slashed"]).is_some() {
            State::Slashed
        } else if nanos(&one["revoked"]).is_some() {
            State::Revoked
        } else if until.is_some_and(|until| until <= self.rules.now) {
            State::Expired
        } else {
            match from {
                None => State::Inactive,
                Some(from) if from > self.rules.now => State::Future,
                Some(_) => State::Active,
            }
        };
        Participant {
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

/// What is behind a URL of the services. Other hosts are not contacted.
pub async fn fetch(url: &str) -> Result<String, Failure> {
    if !url.starts_with("http://localhost:") {
        return failure(Code::HostRefused, url);
    }
    // Connections are not kept: each test has a runtime of its own, which takes them along when it ends.
    static CLIENT: std::sync::LazyLock<reqwest::Client> = std::sync::LazyLock::new(reqwest::Client::new);
    let answer = CLIENT.get(url).header("connection", "close").send().await.expect("answers");
    if answer.status().as_u16() == 404 {
        return failure(Code::NotFetched, url);
    }
    assert_eq!(answer.headers()["cache-control"], "no-cache", "{url}");
    let kind = if url.ends_with(".jsonl") { "text/jsonl" } else { "application/json" };
    assert_eq!(answer.headers()["content-type"], kind, "{url}");
    Ok(answer.text().await.expect("a text"))
}

/// A DID Document, as the methods say.
pub async fn document(did: &str) -> Result<Value, Failure> {
    let unresolvable = |failure: Failure| Failure { code: Code::DidUnresolvable, ..failure };
    let place = |rest: &str| rest.replace(':', "/").replace("%3A", ":");
    if let Some(rest) = did.strip_prefix("did:web:") {
        let url = format!("http://{}/did.json", place(rest));
        let document: Value = serde_json::from_str(&fetch(&url).await.map_err(unresolvable)?).expect("JSON");
        return if document["id"] == did { Ok(document) } else { failure(Code::DidDocumentInvalid, url) };
    }
    let Some(rest) = did.strip_prefix("did:webvh:") else { return failure(Code::DidMethodUnsupported, did) };
    let (scid, rest) = rest.split_once(':').expect("a place");
    let log = fetch(&format!("http://{}/did.jsonl", place(rest))).await.map_err(unresolvable)?;
    let first: Value = serde_json::from_str(log.lines().next().expect("an entry")).expect("JSON");
    if first["parameters"]["scid"] != scid {
        return failure(Code::DidScidMismatch, scid);
    }
    let mut state = DIDWebVHState::default();
    if let Err(error) = state.resolve_log(did, &log, None).await {
        return failure(Code::DidLogInvalid, error);
    }
    if state.deactivated() {
        return failure(Code::DidDeactivated, did);
    }
    Ok(state.log_entries().last().expect("an entry").get_state().clone())
}
