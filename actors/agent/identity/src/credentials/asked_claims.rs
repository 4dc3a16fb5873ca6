//! The claims of an agent whose service credential another one issues: they are judged before it is asked, so that a person reads of a
//! problem while there is time.

use svc_trust::EssentialCredential;

use super::{
    pass::Pass,
    report::{OwnEnd, OwnStop},
};
use crate::{
    credential_settings::{ConfiguredClaims, claims_for, plain_name},
    registry::name_of,
};

const SERVICE: EssentialCredential = EssentialCredential::Service;

impl Pass<'_> {
    /// Compares the claims of the service credential with its schema, and the documents that they name with their digests. Judges
    /// nothing once the credential is held. A missing schema is a separate step of the setup.
    pub(super) async fn judge_asked(&self, configured: &ConfiguredClaims) -> Result<OwnEnd, OwnStop> {
        let account = &self.issuer.account;
        if account.store.held_credentials().await?.iter().any(|one| plain_name(&one.name) == name_of(SERVICE)) {
            return Ok(OwnEnd::Done);
        }
        let known = &self.issuer.judge.essential_schemas;
        let ecosystems = &self.settings.trusted_ecosystems;
        let source = self.issuer.sources.essential(account, ecosystems, (SERVICE, known), None).await?;
        let Some(source) = source else { return Ok(OwnEnd::Done) };
        let found = claims_for(&source.schema.schema.json_schema, SERVICE, configured).map_err(OwnStop::Claims)?;
        self.issuer.documents.check(&found).await?;
        Ok(OwnEnd::Done)
    }
}
