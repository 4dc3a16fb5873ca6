//! The agent with its keys, its inbox and its account on the chain.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use svc_didcomm::{
    Message,
    endpoint::{Transport, endpoints},
    envelope::{Envelope, KeyAgreementKey, seal},
    protocol::{issue_credential, problem_report::PROBLEM_REPORT},
};
use svc_net::{
    did::DidResolver,
    didcomm::{OutboundClient, SendResult},
    host_policy::HostPolicy,
};
use svc_wire::{
    proto_registry::NodeGeneration,
    timestamp,
    verification_method::{KeyKind, KeyRelation, did_of_url, method_key, methods_of},
};
use tokio::{sync::mpsc, time::timeout};

use super::FirstAgentError;
use crate::{
    devnet::Devnet,
    services::{DevnetServices, ServiceForm, ServiceIdentity, first_form},
};

/// Longest wait for a message.
const PATIENCE: Duration = Duration::from_secs(60);

/// A scripted agent of the first generation.
pub struct FirstAgent<'a> {
    pub(super) devnet: &'a Devnet,
    pub(super) services: &'a DevnetServices,
    pub(super) identity: ServiceIdentity,
    agreement: KeyAgreementKey,
    inbox: mpsc::Receiver<Bytes>,
    resolver: DidResolver,
    client: OutboundClient,
}

impl<'a> FirstAgent<'a> {
    /// Starts the agent of a service: its messages arrive from now on.
    ///
    /// # Errors
    /// When the devnet has no such service, or the service has another form.
    pub fn start(devnet: &'a Devnet, name: &str) -> Result<Self, FirstAgentError> {
        let missing = |wanted: &str| FirstAgentError::Missing(wanted.to_owned());
        let services = devnet.services.as_ref().ok_or_else(|| missing("services"))?;
        let identity = services.get(name)?.identity.clone();
        if identity.form != ServiceForm::FirstGeneration {
            return Err(FirstAgentError::Missing(format!("agent of the first generation named {name:?}")));
        }
        let unusable = |error: &dyn std::fmt::Display| FirstAgentError::Message(error.to_string());
        Ok(Self {
            devnet,
            services,
            agreement: first_form::agreement_key(name),
            inbox: services.open_inbox(&first_form::inbox_path(name)),
            resolver: DidResolver::new(HostPolicy::AllowPrivate).map_err(|error| unusable(&error))?,
            client: OutboundClient::new(HostPolicy::AllowPrivate).map_err(|error| unusable(&error))?,
            identity,
        })
    }

    /// The DID of the agent.
    pub fn did(&self) -> &str {
        &self.identity.did
    }

    /// Returns a value that the scenario saved for the agent, such as `permit.issuer`.
    ///
    /// # Errors
    /// When no step saved it.
    pub fn saved(&self, name: &str) -> Result<&str, FirstAgentError> {
        let name = format!("{}.{name}", self.identity.name);
        let value = self.devnet.saved_values.get(&name);
        value.map(String::as_str).ok_or(FirstAgentError::Missing(name))
    }

    /// Returns the form in which it anchors a digest at this node.
    pub(super) fn anchored_form(&self, digest: &str) -> String {
        first_form::anchored_form(digest, self.generation())
    }

    fn generation(&self) -> NodeGeneration {
        self.devnet.node.read_core(|core| core.chain.generation)
    }

    /// The time of the chain, in RFC 3339.
    pub(super) fn chain_time(&self) -> String {
        let time = self.devnet.node.read_core(|core| core.latest().map(|block| block.time)).unwrap_or_default();
        timestamp::iso_seconds(&time)
    }

    /// Sends a message to the chain as the operator of the agent's corporation; returns the response. `account` signs and pays.
    pub(super) async fn transact(
        &self,
        account: &str,
        kind: &'static str,
        mut value: Value,
    ) -> Result<Value, FirstAgentError> {
        let sender = if kind.starts_with("di.") { "authority" } else { "corporation" };
        value[sender] = format!("${}.corporation", self.identity.name).into();
        value["operator"] = format!("${account}").into();
        let answers = self.devnet.send_messages(account, &[(kind, value)]).await?;
        Ok(answers.into_iter().next().unwrap_or_default())
    }

    /// The account that operates the corporations of the scenario's services.
    pub(super) fn clerk(&self) -> Result<&'a str, FirstAgentError> {
        let clerk = self.devnet.ecosystem_clerk();
        clerk.ok_or_else(|| FirstAgentError::Missing("ecosystem of services".to_owned()))
    }

    /// The agent's own account, the VS operator of its participants.
    pub(super) fn account(&self) -> String {
        format!("{}_agent", self.identity.name)
    }

    /// Resolves the document of a peer.
    pub(super) async fn document_of(&self, did: &str) -> Result<Arc<Value>, FirstAgentError> {
        Ok(self.resolver.resolve(did).await?)
    }

    /// Sends a message to a peer.
    pub(super) async fn send(&self, peer: &str, message: Message) -> Result<(), FirstAgentError> {
        let refused = |reason: String| FirstAgentError::Message(format!("{}: {reason}", message.kind));
        let document = self.document_of(peer).await?;
        let id = methods_of(&document, KeyRelation::KeyAgreement).into_iter().next();
        let id = id.ok_or_else(|| refused("the peer has no key for messages".to_owned()))?;
        let key = method_key(&document, &id, KeyRelation::KeyAgreement, KeyKind::X25519, 0);
        let key = key.map_err(|error| refused(format!("{error:?}")))?;
        let endpoint = endpoints(&document, true).into_iter().find(|one| one.transport == Transport::Http);
        let endpoint = endpoint.ok_or_else(|| refused("the peer has no endpoint".to_owned()))?;
        let kind = message.kind.clone();
        let message = Message { from: Some(self.did().to_owned()), to: vec![peer.to_owned()], ..message };
        let envelope = seal(&message, (&first_form::agreement_method(self.did()), &self.agreement), (&id, &key))?;
        match self.client.post(&endpoint.uri, &envelope).await {
            SendResult::Status { status: 200..=299, .. } => Ok(()),
            other => Err(FirstAgentError::Message(format!("{kind}: the peer has answered {other:?}"))),
        }
    }

    /// Returns the next message of a kind; messages of other protocols are dropped, as by software that does not know them.
    pub(super) async fn receive(&mut self, kind: &str) -> Result<Message, FirstAgentError> {
        timeout(PATIENCE, self.await_message(kind))
            .await
            .unwrap_or_else(|_| Err(FirstAgentError::Silence(kind.to_owned())))
    }

    async fn await_message(&mut self, kind: &str) -> Result<Message, FirstAgentError> {
        while let Some(body) = self.inbox.recv().await {
            let message = self.open(&body).await?;
            if message.kind == kind {
                return Ok(message);
            }
            if [PROBLEM_REPORT, issue_credential::PROBLEM].contains(&message.kind.as_str()) {
                return Err(FirstAgentError::Ended(json!(message.body["description"]).to_string()));
            }
        }
        Err(FirstAgentError::Silence(kind.to_owned()))
    }

    async fn open(&self, body: &[u8]) -> Result<Message, FirstAgentError> {
        let refused = |reason: &dyn std::fmt::Display| FirstAgentError::Message(reason.to_string());
        let envelope = Envelope::read(body).map_err(|refusal| refused(&refusal))?;
        let sender = envelope.sender_key_id().ok_or_else(|| refused(&"it names no sender"))?;
        let document = self.document_of(did_of_url(sender)).await?;
        let now = svc_kit::wall_clock::now().seconds;
        let key_id = first_form::agreement_method(self.did());
        let opened = envelope.open(&key_id, &self.agreement, self.did(), Some(&document), now);
        Ok(opened.map_err(|refusal| refused(&refusal))?.message)
    }
}
