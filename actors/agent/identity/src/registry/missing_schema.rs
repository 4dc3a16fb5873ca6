//! The reasons for which no trusted ecosystem gives an essential schema, in words for the operator.

use svc_trust::{EssentialCredential, EssentialSchemas};

use super::node_registry::{NodeRegistry, SchemaOnChain};

/// A reason for which no trusted ecosystem gives an essential schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MissingSchema {
    /// The agent's corporation has no ecosystem with the agent's DID.
    #[error(
        "the registry has no ecosystem with this agent's DID yet, which is to have a schema of {kind}: the operator sends \
         svc.ledger.es.createEcosystem"
    )]
    NoEcosystem { kind: &'static str },
    /// The agent's ecosystem lacks the schema.
    #[error(
        "the ecosystem is this agent's own, and has no schema of {kind} yet: the operator sends svc.ledger.cs.createCredentialSchema"
    )]
    Own { kind: &'static str },
    /// The agent's ecosystem has the schema, and its document does not present the schema's credential.
    #[error(
        "the ecosystem is this agent's own, and the credential of its schema {schema} is not presented yet: step schema-{schema}"
    )]
    Unpresented { schema: u64 },
    /// No trusted ecosystem has the schema.
    #[error("no ecosystem of TRUSTED_ECS_ECOSYSTEM_DIDS has a schema of {kind} in use")]
    Foreign { kind: &'static str },
}

impl NodeRegistry<'_> {
    /// The reason for which none of these ecosystems gives an essential schema.
    pub(crate) async fn missing_schema(
        &self,
        ecosystems: &[String],
        (essential, known): (EssentialCredential, &EssentialSchemas),
    ) -> MissingSchema {
        let kind = essential.as_str();
        let is_own = ecosystems.contains(&self.0.did);
        if is_own
            && let Ok(own) = self.own_ecosystems().await
            && let Ok(schemas) = self.own_schemas().await
        {
            if own.is_empty() {
                return MissingSchema::NoEcosystem { kind };
            }
            let is_wanted = |one: &&SchemaOnChain| {
                let content = known.content(&one.schema.json_schema);
                one.schema.archived.is_none() && content.is_some_and(|(content, _)| content == essential)
            };
            let newest = schemas.iter().filter(is_wanted).map(|one| one.schema.id).max();
            return newest.map_or(MissingSchema::Own { kind }, |schema| MissingSchema::Unpresented { schema });
        }
        MissingSchema::Foreign { kind }
    }
}
