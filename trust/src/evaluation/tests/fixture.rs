//! Fixture of the tests: an ecosystem with the essential schemas, an issuer and services. A test changes one part of it.

use std::{collections::BTreeMap, sync::Arc};

use ed25519_dalek::SigningKey;
use multibase::Base;
use serde_json::{Value, json};
use svc_wire::participant_state::ParticipantInstants;

use crate::{
    EssentialCredential, EssentialSchemas, EvaluationRules, Evidence, EvidenceFailure, EvidenceRequest,
    RegistryParticipant, RegistrySchema, TrustVerdict,
    did_document::ProofPurpose,
    digest::{DigestAlgorithm, digest_jcs, sri_digest},
    evaluate_did,
    proof::{ProofKey, ProofSuite, add_proof},
};

/// An instant: seconds after the start of the fixture, as nanoseconds since the epoch.
pub fn at(seconds: i128) -> i128 {
    (1_767_225_600 + seconds) * 1_000_000_000
}

/// The same instant as text.
pub fn text(seconds: i128) -> String {
    svc_wire::timestamp::iso_millis(&svc_wire::timestamp::from_unix_nanos(at(seconds)))
}

pub const ECOSYSTEM: &str = "did:web:ecosystem";
pub const REGISTRAR: &str = "did:web:registrar";
pub const HARBOR: &str = "did:web:harbor";
pub const DESK: &str = "did:web:desk";
/// Ids of the schemas.
pub const SERVICE: u64 = 1;
pub const ORGANIZATION: u64 = 2;
pub const BADGE: u64 = 3;
pub const USER_AGENT: u64 = 4;

/// The key of a DID.
pub fn prover(did: &str) -> ProofKey {
    let mut seed = [7; 32];
    for (place, byte) in did.bytes().enumerate() {
        seed[place % 32] ^= byte.rotate_left((place / 32) as u32);
    }
    ProofKey { verification_method: format!("{did}#key"), key: SigningKey::from_bytes(&seed) }
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
            "logoUri": "https://service.example/logo", "logoDigestSri": "sha384-logo",
            "termsAndConditionsUri": "https://service.example/terms", "termsAndConditionsDigestSri": "sha384-terms",
            "privacyPolicyUri": "https://service.example/privacy", "privacyPolicyDigestSri": "sha384-privacy",
        }),
        BADGE => json!({"badgeNumber": "7", "name": "Ada", "photo": "data:image/png;base64,AAAA"}),
        USER_AGENT => json!({"version": "1"}),
        _ => json!({
            "name": "Harbor Ltd", "logoUri": "https://harbor.example/logo", "logoDigestSri": "sha384-logo",
            "registryId": "7", "address": "Quay 1", "countryCode": "DE",
        }),
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

pub fn sign(mut body: Value, signer: &ProofKey, purpose: ProofPurpose) -> Value {
    add_proof(&mut body, signer, ProofSuite::EddsaJcs2022, purpose, &text(10)).expect("proved");
    body
}

pub fn presentation(holder: &str, credentials: &[Value]) -> Value {
    json!({"@context": ["https://www.w3.org/ns/credentials/v2"], "type": "VerifiablePresentation", "holder": holder,
        "verifiableCredential": credentials})
}

/// Documents, participants and digests that an evaluation can request.
pub struct TrustFixture {
    pub documents: BTreeMap<String, Value>,
    pub resources: BTreeMap<String, String>,
    pub participants: BTreeMap<String, Vec<RegistryParticipant>>,
    pub digests: BTreeMap<String, i128>,
    pub failures: BTreeMap<EvidenceRequest, EvidenceFailure>,
    pub rules: EvaluationRules,
    next: u64,
}

impl TrustFixture {
    /// The ecosystem with its schemas.
    pub fn new() -> Self {
        let mut fixture = Self {
            documents: BTreeMap::new(),
            resources: BTreeMap::new(),
            participants: BTreeMap::new(),
            digests: BTreeMap::new(),
            failures: BTreeMap::new(),
            rules: EvaluationRules {
                schema_prefix: "vpr:svc:net:cs:".into(),
                essential_schemas: EssentialSchemas::default().in_ecosystems([ECOSYSTEM]),
                now: at(1_000),
            },
            next: 1,
        };
        fixture.documents.insert(ECOSYSTEM.into(), document(ECOSYSTEM, &[]));
        for id in [SERVICE, ORGANIZATION, BADGE, USER_AGENT] {
            let signed = sign(schema_credential(ECOSYSTEM, id), &prover(ECOSYSTEM), ProofPurpose::AssertionMethod);
            fixture.resources.insert(schema_url(id), signed.to_string());
        }
        fixture
    }

    /// Adds a service that vouches for itself, and the registrar of its organisation credential.
    pub fn harbor() -> Self {
        let mut fixture = Self::new();
        fixture.documents.insert(REGISTRAR.into(), document(REGISTRAR, &[]));
        fixture.documents.insert(HARBOR.into(), document(HARBOR, &["service", "org"]));
        fixture.add_participant(REGISTRAR, "ISSUER", ORGANIZATION, 0, None);
        fixture.add_participant(HARBOR, "ISSUER", SERVICE, 0, None);
        fixture.add_participant(HARBOR, "HOLDER", SERVICE, 0, Some(5_000));
        fixture.add_participant(HARBOR, "HOLDER", ORGANIZATION, 0, Some(4_000));
        fixture.issue_credential(HARBOR, HARBOR, SERVICE);
        fixture.issue_credential(REGISTRAR, HARBOR, ORGANIZATION);
        fixture
    }

    /// Adds a second service, for which the first one vouches.
    pub fn desk() -> Self {
        let mut fixture = Self::harbor();
        fixture.documents.insert(DESK.into(), document(DESK, &["service"]));
        fixture.add_participant(DESK, "HOLDER", SERVICE, 0, None);
        fixture.issue_credential(HARBOR, DESK, SERVICE);
        fixture
    }

    pub fn add_participant(&mut self, did: &str, role: &str, schema_id: u64, from: i128, until: Option<i128>) {
        let instants = ParticipantInstants { from: Some(at(from)), until: until.map(at), ..Default::default() };
        let participant = RegistryParticipant::at(self.rules.now, self.next, (role, schema_id), &instants);
        self.next += 1;
        self.participants.entry(did.into()).or_default().push(participant);
    }

    /// Makes a participant one without a beginning, as the oldest nodes store it.
    pub fn unset_beginning(&mut self, did: &str, role: &str, schema_id: u64, until: Option<i128>) {
        let now = self.rules.now;
        let instants = ParticipantInstants { until: until.map(at), ..Default::default() };
        let participant = self.participant(did, role, schema_id);
        *participant = RegistryParticipant::at(now, participant.id, (role, schema_id), &instants);
    }

    /// Signs, anchors and presents a credential.
    pub fn issue_credential(&mut self, issuer: &str, holder: &str, schema: u64) {
        self.present_credential(
            holder,
            schema,
            sign(credential(issuer, holder, schema), &prover(issuer), ProofPurpose::AssertionMethod),
        );
    }

    /// Anchors and presents a credential without a change.
    pub fn present_credential(&mut self, holder: &str, schema: u64, credential: Value) {
        self.anchor(&credential, 100);
        let shown = sign(presentation(holder, &[credential]), &prover(holder), ProofPurpose::Authentication);
        self.put_presentation(holder, schema, &shown);
    }

    pub fn put_presentation(&mut self, holder: &str, schema: u64, presentation: &Value) {
        self.resources.insert(url(holder, presentation_name(schema)), presentation.to_string());
    }

    pub fn anchor(&mut self, credential: &Value, seconds: i128) {
        let digest = digest_jcs(credential, DigestAlgorithm::Sha384).expect("canonical");
        self.digests.insert(format!("sha384-{digest}"), at(seconds));
    }

    pub fn credential_of(&self, holder: &str, schema: u64) -> Value {
        let shown: Value =
            serde_json::from_str(&self.resources[&url(holder, presentation_name(schema))]).expect("JSON");
        shown["verifiableCredential"][0].clone()
    }

    pub fn participant(&mut self, did: &str, role: &str, schema: u64) -> &mut RegistryParticipant {
        let found = self.participants.get_mut(did).expect("participants");
        found.iter_mut().find(|one| one.role == role && one.schema_id == schema).expect("a participant")
    }

    /// Evaluates a DID and answers its requests, as a caller does.
    pub fn evaluate(&self, did: &str) -> TrustVerdict {
        let mut evidence = Evidence::default();
        for _ in 0..32 {
            match evaluate_did(did, &evidence, &self.rules) {
                Ok(verdict) => return verdict,
                Err(requests) => requests.iter().for_each(|request| self.answer_request(request, &mut evidence)),
            }
        }
        panic!("{did}: the requests do not end");
    }

    fn answer_request(&self, request: &EvidenceRequest, evidence: &mut Evidence) {
        let missing = || {
            let unknown = EvidenceFailure::new(crate::RejectionCode::ResourceUnavailable, "no answer");
            self.failures.get(request).cloned().unwrap_or(unknown)
        };
        match request {
            EvidenceRequest::Document(did) => {
                let found = self.documents.get(did).filter(|_| !self.failures.contains_key(request));
                let found = found.map(|document| Arc::new(document.clone())).ok_or_else(missing);
                assert!(evidence.documents.insert(did.clone(), found).is_none(), "requested once");
            }
            EvidenceRequest::Resource(url) => {
                let found = self.resources.get(url).filter(|_| !self.failures.contains_key(request));
                let found = found.map(|text| text.as_str().into()).ok_or_else(missing);
                assert!(evidence.resources.insert(url.clone(), found).is_none(), "requested once");
            }
            EvidenceRequest::Participants(did) => {
                let found = self.participants.get(did).cloned().unwrap_or_default();
                evidence.participants.insert(did.clone(), found.into());
            }
            EvidenceRequest::Schema(id) => {
                let schema = essential_of(*id).map(|essential| {
                    Arc::new(RegistrySchema {
                        id: *id,
                        ecosystem_id: 3,
                        ecosystem_did: ECOSYSTEM.into(),
                        json_schema: essential.schema().into(),
                        digest_algorithm: "sha384".into(),
                        is_open_to_holders: false,
                    })
                });
                evidence.schemas.insert(*id, schema);
            }
            EvidenceRequest::Digest(digest) => {
                evidence.digest_anchors.insert(digest.clone(), self.digests.get(digest).copied());
            }
        }
    }
}

pub fn presentation_name(schema: u64) -> &'static str {
    match schema {
        SERVICE => "service",
        ORGANIZATION => "org",
        _ => "more",
    }
}

fn essential_of(schema: u64) -> Option<EssentialCredential> {
    match schema {
        SERVICE => Some(EssentialCredential::Service),
        ORGANIZATION => Some(EssentialCredential::Organization),
        BADGE => Some(EssentialCredential::Badge),
        USER_AGENT => Some(EssentialCredential::UserAgent),
        _ => None,
    }
}

/// An unsigned credential of a schema.
pub fn schema_credential(issuer: &str, id: u64) -> Value {
    let reference = format!("vpr:svc:net:cs:{id}");
    let essential = essential_of(id).expect("an essential schema");
    json!({
        "@context": ["https://www.w3.org/ns/credentials/v2"], "type": ["VerifiableCredential", "JsonSchemaCredential"],
        "id": schema_url(id), "issuer": issuer, "credentialSubject": {"id": reference, "type": "JsonSchema",
            "jsonSchema": {"$ref": reference}, "digestSRI": sri_digest(essential.schema().as_bytes(), DigestAlgorithm::Sha384)},
    })
}
