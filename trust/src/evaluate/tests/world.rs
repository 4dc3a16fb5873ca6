//! A small world in which everything can be made to go wrong: an ecosystem with the essential schemas, an issuer, services.

use std::{collections::BTreeMap, sync::Arc};

use ed25519_dalek::SigningKey;
use multibase::Base;
use serde_json::{Value, json};

use crate::{
    Essential, EssentialSchemas, Failure, Known, Need, Participant, Rules, Schema, State, Verdict,
    digest::{Algorithm, digest_jcs, sri},
    document::Purpose,
    evaluate,
    proof::{Prover, Suite, prove},
};

/// Seconds after the beginning of the world, as nanoseconds since the epoch.
pub fn at(seconds: i128) -> i128 {
    (1_767_225_600 + seconds) * 1_000_000_000
}

/// The same as text.
pub fn text(seconds: i128) -> String {
    svc_wire::instant::iso_millis(&svc_wire::instant::from_nanos(at(seconds)))
}

pub const ECOSYSTEM: &str = "did:web:ecosystem";
pub const REGISTRAR: &str = "did:web:registrar";
pub const HARBOR: &str = "did:web:harbor";
pub const DESK: &str = "did:web:desk";
/// Ids of the schemas.
pub const SERVICE: u64 = 1;
pub const ORGANIZATION: u64 = 2;

/// The key of a DID.
pub fn prover(did: &str) -> Prover {
    let mut seed = [7; 32];
    for (place, byte) in did.bytes().enumerate() {
        seed[place % 32] ^= byte.rotate_left((place / 32) as u32);
    }
    Prover { method: format!("{did}#key"), key: SigningKey::from_bytes(&seed) }
}

/// The document of a DID that links to presentations at `<did>/<name>`.
pub fn document(did: &str, presentations: &[&str]) -> Value {
    let key: Vec<u8> = [0xed, 0x01].into_iter().chain(prover(did).key.verifying_key().to_bytes()).collect();
    let link = |name: &&str| {
        json!({"id": format!("{did}#vpr-schemas-{name}-vtc-vp"), "type": "LinkedVerifiablePresentation",
            "serviceEndpoint": url(did, name)})
    };
    let mut services: Vec<Value> = presentations.iter().map(link).collect();
    services.push(json!({"id": "#mcp", "type": "MCP", "serviceEndpoint": "https://service.example/mcp"}));
    json!({
        "id": did, "service": services,
        "verificationMethod": [{"id": "#key", "type": "Multikey", "controller": did,
            "publicKeyMultibase": multibase::encode(Base::Base58Btc, key)}],
        "assertionMethod": ["#key"], "authentication": ["#key"],
    })
}

pub fn url(did: &str, name: &str) -> String {
    format!("https://{}.example/{name}", did.trim_start_matches("did:web:"))
}

/// An unsigned credential of an essential schema.
pub fn credential(issuer: &str, holder: &str, schema: u64) -> Value {
    let mut subject = match schema {
        SERVICE => json!({
            "name": "A desk", "type": "Desk", "description": "Answers.", "minimumAgeRequired": 0,
            "termsAndConditions": "https://service.example/terms", "privacyPolicy": "https://service.example/privacy",
        }),
        _ => json!({"name": "Harbor Ltd", "registryId": "7", "address": "Quay 1", "countryCode": "DE"}),
    };
    subject["id"] = holder.into();
    let schema = schema_url(schema);
    json!({
        "@context": ["https://www.w3.org/ns/credentials/v2"], "id": format!("urn:{issuer}:{holder}:{schema}"),
        "type": ["VerifiableCredential"], "issuer": issuer, "validFrom": text(0), "validUntil": text(9_000),
        "credentialSchema": {"id": schema, "type": "JsonSchemaCredential"}, "credentialSubject": subject,
    })
}

pub fn schema_url(schema: u64) -> String {
    format!("https://ecosystem.example/schemas/{schema}")
}

pub fn sign(mut body: Value, signer: &Prover, purpose: Purpose) -> Value {
    prove(&mut body, signer, Suite::EddsaJcs2022, purpose, &text(10)).expect("proved");
    body
}

pub fn presentation(holder: &str, credentials: &[Value]) -> Value {
    json!({"@context": ["https://www.w3.org/ns/credentials/v2"], "type": "VerifiablePresentation", "holder": holder,
        "verifiableCredential": credentials})
}

/// A world under construction.
pub struct World {
    pub documents: BTreeMap<String, Value>,
    pub resources: BTreeMap<String, String>,
    pub participants: BTreeMap<String, Vec<Participant>>,
    pub digests: BTreeMap<String, i128>,
    pub failures: BTreeMap<Need, Failure>,
    pub rules: Rules,
    next: u64,
}

impl World {
    /// The ecosystem with its schemas, and nobody else.
    pub fn new() -> Self {
        let mut world = Self {
            documents: BTreeMap::new(),
            resources: BTreeMap::new(),
            participants: BTreeMap::new(),
            digests: BTreeMap::new(),
            failures: BTreeMap::new(),
            rules: Rules {
                schema_prefix: "vpr:svc:net:cs:".into(),
                essential: EssentialSchemas::default(),
                ecosystems: [].into(),
                now: at(1_000),
            },
            next: 1,
        };
        world.documents.insert(ECOSYSTEM.into(), document(ECOSYSTEM, &[]));
        for id in [SERVICE, ORGANIZATION] {
            let signed = sign(schema_credential(ECOSYSTEM, id), &prover(ECOSYSTEM), Purpose::AssertionMethod);
            world.resources.insert(schema_url(id), signed.to_string());
        }
        world
    }

    /// With a service that vouches for itself, and a registrar that says who answers for it.
    pub fn harbor() -> Self {
        let mut world = Self::new();
        world.documents.insert(REGISTRAR.into(), document(REGISTRAR, &[]));
        world.documents.insert(HARBOR.into(), document(HARBOR, &["service", "org"]));
        world.participate(REGISTRAR, "ISSUER", ORGANIZATION, 0, None);
        world.participate(HARBOR, "ISSUER", SERVICE, 0, None);
        world.participate(HARBOR, "HOLDER", SERVICE, 0, Some(5_000));
        world.participate(HARBOR, "HOLDER", ORGANIZATION, 0, Some(4_000));
        world.issue(HARBOR, HARBOR, SERVICE);
        world.issue(REGISTRAR, HARBOR, ORGANIZATION);
        world
    }

    /// With a second service that the first vouches for.
    pub fn desk() -> Self {
        let mut world = Self::harbor();
        world.documents.insert(DESK.into(), document(DESK, &["service"]));
        world.participate(DESK, "HOLDER", SERVICE, 0, None);
        world.issue(HARBOR, DESK, SERVICE);
        world
    }

    pub fn participate(&mut self, did: &str, role: &str, schema_id: u64, from: i128, until: Option<i128>) {
        let (id, until) = (self.next, until.map(at));
        self.next += 1;
        let participant = Participant {
            id,
            role: role.into(),
            schema_id,
            effective_from: Some(at(from)),
            effective_until: until,
            state: if until.is_some_and(|until| until <= self.rules.now) { State::Expired } else { State::Active },
        };
        self.participants.entry(did.into()).or_default().push(participant);
    }

    /// Signs, anchors and shows a credential.
    pub fn issue(&mut self, issuer: &str, holder: &str, schema: u64) {
        self.show(holder, schema, sign(credential(issuer, holder, schema), &prover(issuer), Purpose::AssertionMethod));
    }

    /// Anchors and shows a credential as it is.
    pub fn show(&mut self, holder: &str, schema: u64, credential: Value) {
        self.anchor(&credential, 100);
        let shown = sign(presentation(holder, &[credential]), &prover(holder), Purpose::Authentication);
        self.put(holder, schema, &shown);
    }

    pub fn put(&mut self, holder: &str, schema: u64, presentation: &Value) {
        self.resources.insert(url(holder, place(schema)), presentation.to_string());
    }

    pub fn anchor(&mut self, credential: &Value, seconds: i128) {
        let digest = digest_jcs(credential, Algorithm::Sha384).expect("canonical");
        self.digests.insert(format!("sha384-{digest}"), at(seconds));
    }

    pub fn credential_of(&self, holder: &str, schema: u64) -> Value {
        let shown: Value = serde_json::from_str(&self.resources[&url(holder, place(schema))]).expect("JSON");
        shown["verifiableCredential"][0].clone()
    }

    pub fn participant(&mut self, did: &str, role: &str, schema: u64) -> &mut Participant {
        let found = self.participants.get_mut(did).expect("participants");
        found.iter_mut().find(|one| one.role == role && one.schema_id == schema).expect("a participant")
    }

    /// Judges a DID, finding out what is asked for, as a shell does.
    pub fn judge(&self, did: &str) -> Verdict {
        let mut known = Known::default();
        for _ in 0..32 {
            match evaluate(did, &known, &self.rules) {
                Ok(verdict) => return verdict,
                Err(needs) => needs.iter().for_each(|need| self.find_out(need, &mut known)),
            }
        }
        panic!("{did}: asks without end");
    }

    fn find_out(&self, need: &Need, known: &mut Known) {
        let missing = || {
            let unknown = Failure { code: crate::Code::NotFetched, message: "nobody answers".into() };
            self.failures.get(need).cloned().unwrap_or(unknown)
        };
        match need {
            Need::Document(did) => {
                let found = self.documents.get(did).filter(|_| !self.failures.contains_key(need));
                let found = found.map(|document| Arc::new(document.clone())).ok_or_else(missing);
                assert!(known.documents.insert(did.clone(), found).is_none(), "asked once");
            }
            Need::Resource(url) => {
                let found = self.resources.get(url).filter(|_| !self.failures.contains_key(need));
                let found = found.map(|text| text.as_str().into()).ok_or_else(missing);
                assert!(known.resources.insert(url.clone(), found).is_none(), "asked once");
            }
            Need::Participants(did) => {
                let found = self.participants.get(did).cloned().unwrap_or_default();
                known.participants.insert(did.clone(), found.into());
            }
            Need::Schema(id) => {
                let essential = match *id {
                    SERVICE => Some(Essential::Service),
                    ORGANIZATION => Some(Essential::Organization),
                    _ => None,
                };
                let schema = essential.map(|essential| {
                    Arc::new(Schema {
                        id: *id,
                        ecosystem_id: 3,
                        ecosystem_did: ECOSYSTEM.into(),
                        json_schema: essential.schema().into(),
                        digest_algorithm: "sha384".into(),
                        is_open_to_holders: false,
                    })
                });
                known.schemas.insert(*id, schema);
            }
            Need::Digest(digest) => {
                known.digests.insert(digest.clone(), self.digests.get(digest).copied());
            }
        }
    }
}

fn place(schema: u64) -> &'static str {
    if schema == SERVICE { "service" } else { "org" }
}

/// An unsigned credential of a schema.
pub fn schema_credential(issuer: &str, id: u64) -> Value {
    let reference = format!("vpr:svc:net:cs:{id}");
    let essential = if id == SERVICE { Essential::Service } else { Essential::Organization };
    json!({
        "@context": ["https://www.w3.org/ns/credentials/v2"], "type": ["VerifiableCredential", "JsonSchemaCredential"],
        "id": schema_url(id), "issuer": issuer, "credentialSubject": {"id": reference, "type": "JsonSchema",
            "jsonSchema": {"$ref": reference}, "digestSRI": sri(essential.schema().as_bytes(), Algorithm::Sha384)},
    })
}
