//! DIDs, documents and corporations.

use serde_json::{Value, json};

use super::{Estate, FRAMEWORK_DIGEST, Failure, Work, seconds_text};
use crate::{
    scenario::{SeedError, delegable},
    services::{
        Fault, Identity, JSON, LOG, LogError, Method, SchemaPart, ServicePart, identity, log::Updater,
        presentation_path,
    },
};

/// What a corporation that has to pay is given.
const FUNDS: &str = "1000000000";

impl Estate<'_> {
    /// Gives every service its DID, its document and its corporation, with the clerk as operator where it acts.
    pub(super) async fn found(&mut self, mut work: Work<'_, '_>) -> Result<(), SeedError> {
        for part in self.services {
            let made = self.identity(part, work.now()).await.map_err(|error| work.failed(error))?;
            work.save(part.name.clone(), made.did.clone());
            self.identities.insert(part.name.clone(), made);
        }
        let clerk = work.value(&self.ecosystem.clerk)?;
        let create = |part: &ServicePart| {
            let did = self.did(&part.name)?;
            let value = json!({
                "signer": clerk, "members": [{"address": clerk, "weight": "1"}], "did": did, "language": "en",
                "doc_url": format!("{}/{}/framework.pdf", self.origin(), part.name), "doc_digest_sri": FRAMEWORK_DIGEST,
                "decision_policy": {
                    "@type": "/cosmos.group.v1.ThresholdDecisionPolicy", "threshold": "1",
                    "windows": {"voting_period": "60s", "min_execution_period": "0s"},
                },
            });
            Ok(("co.MsgCreateCorporation", value))
        };
        let messages = self.services.iter().map(create).collect::<Result<Vec<_>, Failure>>();
        let answers = work.send(&self.ecosystem.clerk, messages.map_err(|error| work.failed(error))?).await?;
        for (part, answer) in self.services.iter().zip(&answers) {
            for (name, field) in [("corporation", "policy_address"), ("id", "corporation_id")] {
                work.save(format!("{}.{name}", part.name), text(&answer[field]));
            }
        }
        self.fund(&mut work, &clerk).await?;
        self.appoint(&mut work, &clerk).await
    }

    /// Money for those who pay for a validation, and for those who stake the same.
    async fn fund(&self, work: &mut Work<'_, '_>, clerk: &str) -> Result<(), SeedError> {
        let fee = work.runner.denom().to_owned();
        let mut messages = Vec::new();
        for part in self.services.iter().filter(|part| self.pays(part)) {
            let to = work.value(&format!("{}.corporation", part.name))?;
            let amount = json!([{"denom": fee, "amount": FUNDS}]);
            let value = json!({"from_address": clerk, "to_address": to, "amount": amount});
            messages.push(("/cosmos.bank.v1beta1.MsgSend", value));
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    fn pays(&self, part: &ServicePart) -> bool {
        let is_validator = part.name == self.ecosystem.service || part.issues.values().any(|issuer| issuer.fees > 0);
        let is_issuer = |schema: &SchemaPart| schema.fees > 0 && part.issues.contains_key(&schema.name);
        let is_holder = part.credentials.iter().any(|(schema, credential)| {
            let issuer = credential.by.as_deref().and_then(|by| self.part(by).ok());
            issuer.and_then(|issuer| issuer.issues.get(schema)).is_some_and(|issuer| issuer.fees > 0)
        });
        is_validator || is_holder || self.schemas.iter().any(is_issuer)
    }

    /// The clerk becomes operator of every corporation that acts, each by a proposal of its group.
    async fn appoint(&self, work: &mut Work<'_, '_>, clerk: &str) -> Result<(), SeedError> {
        let types = delegable(work.runner.namespace());
        let is_issuer = |name: &str| {
            let named = self.services.iter().flat_map(|part| part.credentials.values());
            named.filter_map(|credential| credential.by.as_deref()).any(|by| by == name)
        };
        let acts =
            |part: &&ServicePart| !part.credentials.is_empty() || !part.issues.is_empty() || is_issuer(&part.name);
        let mut proposals = Vec::new();
        for part in self.services.iter().filter(acts) {
            let policy = work.value(&format!("{}.corporation", part.name))?;
            let grant = json!({"corporation": policy, "operator": policy, "grantee": clerk, "msg_types": types});
            proposals.push((policy, ("de.MsgGrantOperatorAuthorization", grant)));
        }
        work.runner.propose_all(work.step, &self.ecosystem.clerk, proposals).await
    }

    /// The DID of a service, and its document or log where it is served.
    async fn identity(&self, part: &ServicePart, now: i64) -> Result<Identity, LogError> {
        let (name, method) = (part.name.clone(), part.method);
        let place = format!("localhost%3A{}:{name}", self.port);
        let at = seconds_text(now - 1);
        let did = match method {
            Method::Web => format!("did:web:{place}"),
            Method::Webvh => format!("did:webvh:{{SCID}}:{place}"),
            Method::Example => format!("did:example:{name}"),
        };
        let mut document = identity::document(&did, &name, &self.links(part, &did), part.fault, &at);
        if method == Method::Webvh {
            let (did, log) = self.log(part, &document, now).await?;
            let identity = Identity { name, did, method };
            self.pages.put(identity.path(), LOG, log);
            return Ok(identity);
        }
        if part.fault == Some(Fault::OtherId) {
            document["id"] = format!("{did}-of-another").into();
        }
        let identity = Identity { name, did, method };
        if method == Method::Web && part.fault != Some(Fault::Absent) {
            self.pages.put(identity.path(), JSON, document.to_string());
        }
        Ok(identity)
    }

    /// The log of a service, with what is wrong with it, and its DID.
    async fn log(&self, part: &ServicePart, document: &Value, now: i64) -> Result<(String, String), LogError> {
        let updater = Updater::of(&part.name);
        let (at, then) = (seconds_text(now - 1), seconds_text(now));
        let (did, mut log) = updater.begin(document, &at).await?;
        let changed = |line: &str| -> Result<Value, LogError> {
            let mut entry: Value = serde_json::from_str(line)?;
            entry["state"]["alsoKnownAs"] = json!([format!("https://{}.devnet.example", part.name)]);
            Ok(entry)
        };
        match part.fault {
            Some(Fault::OtherScid) => {
                let (other, _) =
                    updater.begin(&changed(&json!({"state": document}).to_string())?["state"], &at).await?;
                return Ok((other, log));
            }
            Some(Fault::BrokenLog) => {
                let state = changed(&log)?["state"].take();
                log = updater.append(&log, &state, &then, false).await?;
                let (first, second) = log.rsplit_once('\n').unwrap_or_default();
                let mut entry: Value = serde_json::from_str(second)?;
                entry["state"]["alsoKnownAs"] = json!(["https://elsewhere.devnet.example"]);
                log = format!("{first}\n{entry}");
            }
            Some(Fault::Deactivated) => {
                let entry: Value = serde_json::from_str(&log)?;
                log = updater.append(&log, &entry["state"], &then, true).await?;
            }
            _ => {}
        }
        Ok((did, log))
    }

    /// What a document links to, and what else it offers.
    fn links(&self, part: &ServicePart, did: &str) -> Vec<Value> {
        let link = |schema: &SchemaPart, kind: &str, path: String, origin: &str| {
            json!({
                "id": format!("{did}#vpr-schemas-{}-{kind}-vp", schema.name), "type": "LinkedVerifiablePresentation",
                "serviceEndpoint": format!("{origin}{path}"),
            })
        };
        let own = self.origin();
        let held = self.held(part).map(|schema| {
            let is_over_http = self.fault(part, schema) == Some(Fault::PresentationOverHttp);
            let origin = if is_over_http { "http://files.devnet.example" } else { &own };
            link(schema, "vtc", presentation_path(&part.name, &schema.name), origin)
        });
        let is_ecosystem = part.name == self.ecosystem.service;
        let schemas = self.schemas.iter().filter(|_| is_ecosystem);
        let schemas = schemas.map(|schema| link(schema, "vtjsc", schema_presentation_path(&part.name, schema), &own));
        let offers = part.offers.iter().map(|offer| {
            json!({"id": format!("{did}#{}", offer.fragment), "type": offer.r#type, "serviceEndpoint": offer.endpoint})
        });
        held.chain(schemas).chain(offers).collect()
    }
}

/// Where an ecosystem shows the credential of a schema.
pub(super) fn schema_presentation_path(service: &str, schema: &SchemaPart) -> String {
    format!("/{service}/vt/schemas/{}-vp.json", schema.name)
}

/// A field of an answer.
pub(super) fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
