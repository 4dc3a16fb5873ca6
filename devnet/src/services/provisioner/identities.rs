//! DIDs, documents and corporations.

use serde_json::{Value, json};

use super::{FRAMEWORK_DIGEST, ProvisioningError, ServiceProvisioner, StepContext, rfc3339_text};
use crate::{
    scenario::SeedError,
    services::{
        DID_LOG_CONTENT_TYPE, DidLogWriteError, IntendedFlaw, JSON_CONTENT_TYPE, SchemaSpec, ServiceDidMethod,
        ServiceForm, ServiceIdentity, ServiceSpec, did_log::DidLogWriter, first_form, first_log::FirstLogWriter,
        identity, presentation_path,
    },
};

/// Coins that a corporation with payments gets.
const CORPORATION_FUNDS: &str = "1000000000";

impl ServiceProvisioner<'_> {
    /// Creates DID, document and corporation of every service, and makes the clerk the operator of those that send messages.
    pub(super) async fn create_identities(&mut self, mut work: StepContext<'_, '_>) -> Result<(), SeedError> {
        for part in self.services {
            let made =
                self.create_identity(part, work.block_seconds()).await.map_err(|error| work.step_error(error))?;
            work.save(part.name.clone(), made.did.clone());
            self.identities.insert(part.name.clone(), made);
        }
        let clerk = work.value(&self.ecosystem.clerk)?;
        let create = |part: &ServiceSpec| {
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
        let messages = self.services.iter().map(create).collect::<Result<Vec<_>, ProvisioningError>>();
        let answers = work.send(&self.ecosystem.clerk, messages.map_err(|error| work.step_error(error))?).await?;
        for (part, answer) in self.services.iter().zip(&answers) {
            for (name, field) in [("corporation", "policy_address"), ("id", "corporation_id")] {
                work.save(format!("{}.{name}", part.name), field_text(&answer[field]));
            }
        }
        self.fund_corporations(&mut work, &clerk).await?;
        self.grant_operator(&mut work, &clerk).await
    }

    /// Sends coins to the corporations that pay for a validation or stake a deposit.
    async fn fund_corporations(&self, work: &mut StepContext<'_, '_>, clerk: &str) -> Result<(), SeedError> {
        let fee = work.runner.denom().to_owned();
        let mut messages = Vec::new();
        for part in self.services.iter().filter(|part| self.needs_funds(part)) {
            let to = work.value(&format!("{}.corporation", part.name))?;
            let amount = json!([{"denom": fee, "amount": CORPORATION_FUNDS}]);
            let value = json!({"from_address": clerk, "to_address": to, "amount": amount});
            messages.push(("/cosmos.bank.v1beta1.MsgSend", value));
        }
        work.send(&self.ecosystem.clerk, messages).await?;
        Ok(())
    }

    fn needs_funds(&self, part: &ServiceSpec) -> bool {
        let is_validator = part.name == self.ecosystem.service || part.issues.values().any(|issuer| issuer.fees > 0);
        let is_issuer = |schema: &SchemaSpec| schema.fees > 0 && part.issues.contains_key(&schema.name);
        let is_holder = part.credentials.iter().any(|(schema, credential)| {
            let issuer = credential.by.as_deref().and_then(|by| self.service_spec(by).ok());
            issuer.and_then(|issuer| issuer.issues.get(schema)).is_some_and(|issuer| issuer.fees > 0)
        });
        is_validator || is_holder || self.schemas.iter().any(is_issuer)
    }

    /// Makes the clerk the operator of every corporation that sends messages, by a proposal of its group.
    async fn grant_operator(&self, work: &mut StepContext<'_, '_>, clerk: &str) -> Result<(), SeedError> {
        let types = work.runner.grantable_types();
        let is_issuer = |name: &str| {
            let named = self.services.iter().flat_map(|part| part.credentials.values());
            named.filter_map(|credential| credential.by.as_deref()).any(|by| by == name)
        };
        let acts =
            |part: &&ServiceSpec| !part.credentials.is_empty() || !part.issues.is_empty() || is_issuer(&part.name);
        let mut proposals = Vec::new();
        for part in self.services.iter().filter(acts) {
            let policy = work.value(&format!("{}.corporation", part.name))?;
            let grant = json!({"corporation": policy, "operator": policy, "grantee": clerk, "msg_types": types});
            proposals.push((policy, ("de.MsgGrantOperatorAuthorization", grant)));
        }
        work.runner.submit_group_proposals(work.step, &self.ecosystem.clerk, proposals).await
    }

    /// Creates the DID of a service and publishes its document or log.
    async fn create_identity(&self, part: &ServiceSpec, now: i64) -> Result<ServiceIdentity, DidLogWriteError> {
        let (name, method, form) = (part.name.clone(), part.method, part.form);
        let domain = format!("localhost%3A{}:{name}", self.port);
        let at = rfc3339_text(now - 1);
        let did = match method {
            ServiceDidMethod::Web => format!("did:web:{domain}"),
            ServiceDidMethod::Webvh => format!("did:webvh:{{SCID}}:{domain}"),
            ServiceDidMethod::Example => format!("did:example:{name}"),
        };
        let entries = self.service_entries(part, &did);
        if form == ServiceForm::FirstGeneration {
            let inbox = format!("{}{}", self.origin(), first_form::inbox_path(&name));
            let document = first_form::build_document(&did, &name, &inbox, &entries);
            let (did, log) = FirstLogWriter::for_service(&name).create_log(&document, &at)?;
            let identity = ServiceIdentity { name, did, method, form };
            self.pages.put(identity.document_path(), DID_LOG_CONTENT_TYPE, log);
            return Ok(identity);
        }
        let mut document = identity::build_document(&did, &name, &entries, part.fault, &at);
        if method == ServiceDidMethod::Webvh {
            let (did, log) = self.create_did_log(part, &document, now).await?;
            let identity = ServiceIdentity { name, did, method, form };
            self.pages.put(identity.document_path(), DID_LOG_CONTENT_TYPE, log);
            return Ok(identity);
        }
        if part.fault == Some(IntendedFlaw::OtherId) {
            document["id"] = format!("{did}-of-another").into();
        }
        let identity = ServiceIdentity { name, did, method, form };
        if method == ServiceDidMethod::Web && part.fault != Some(IntendedFlaw::Absent) {
            self.pages.put(identity.document_path(), JSON_CONTENT_TYPE, document.to_string());
        }
        Ok(identity)
    }

    /// Creates the log of a service with its flaw; returns (DID, log).
    async fn create_did_log(
        &self,
        part: &ServiceSpec,
        document: &Value,
        now: i64,
    ) -> Result<(String, String), DidLogWriteError> {
        let updater = DidLogWriter::for_service(&part.name);
        let (at, then) = (rfc3339_text(now - 1), rfc3339_text(now));
        let (did, mut log) = updater.create_log(document, &at).await?;
        let changed = |line: &str| -> Result<Value, DidLogWriteError> {
            let mut entry: Value = serde_json::from_str(line)?;
            entry["state"]["alsoKnownAs"] = json!([format!("https://{}.devnet.example", part.name)]);
            Ok(entry)
        };
        match part.fault {
            Some(IntendedFlaw::OtherScid) => {
                let (other, _) =
                    updater.create_log(&changed(&json!({"state": document}).to_string())?["state"], &at).await?;
                return Ok((other, log));
            }
            Some(IntendedFlaw::BrokenLog) => {
                let state = changed(&log)?["state"].take();
                log = updater.append_entry(&log, &state, &then, false).await?;
                let (first, second) = log.rsplit_once('\n').unwrap_or_default();
                let mut entry: Value = serde_json::from_str(second)?;
                entry["state"]["alsoKnownAs"] = json!(["https://elsewhere.devnet.example"]);
                log = format!("{first}\n{entry}");
            }
            Some(IntendedFlaw::Deactivated) => {
                let entry: Value = serde_json::from_str(&log)?;
                log = updater.append_entry(&log, &entry["state"], &then, true).await?;
            }
            _ => {}
        }
        Ok((did, log))
    }

    /// Returns the service entries of a document.
    fn service_entries(&self, part: &ServiceSpec, did: &str) -> Vec<Value> {
        let link = |schema: &SchemaSpec, kind: &str, path: String, origin: &str| {
            json!({
                "id": format!("{did}#vpr-schemas-{}-{kind}-vp", schema.name), "type": "LinkedVerifiablePresentation",
                "serviceEndpoint": format!("{origin}{path}"),
            })
        };
        let own = self.origin();
        let held = self.held_schemas(part).map(|schema| {
            let is_over_http = self.credential_fault(part, schema) == Some(IntendedFlaw::PresentationOverHttp);
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

/// Returns the path of the presentation with the credential of a schema.
pub(super) fn schema_presentation_path(service: &str, schema: &SchemaSpec) -> String {
    format!("/{service}/vt/schemas/{}-vp.json", schema.name)
}

/// Converts a field of a response to text.
pub(super) fn field_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
