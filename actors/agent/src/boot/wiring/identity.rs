//! Credentials of the DID, the rotation of its keys, and the resolution of its document.

use svc_agent_identity::{
    credential_settings::CredentialSettings,
    credentials::{CredentialHandle, CredentialKeeperArgs, IssuerParts},
    rotation::{RotationHandle, RotationPauses},
};
use svc_kit::supervision::ChildSpec;

use crate::boot::opening::OpenParts;

/// The settings of these actors.
pub(in crate::boot) struct IdentitySettings<'a> {
    pub(in crate::boot) credentials: &'a CredentialSettings,
    pub(in crate::boot) rotation_pauses: RotationPauses,
    /// Whether events of the registry withdraw credentials.
    pub(in crate::boot) handles_events: bool,
    /// Whether a change of the document has it resolved again.
    pub(in crate::boot) resolves_changes: bool,
}

/// The handles, and the actors in the order of their start.
pub(in crate::boot) struct IdentityWiring {
    pub(in crate::boot) issuer: IssuerParts,
    pub(in crate::boot) credentials: CredentialHandle,
    pub(in crate::boot) rotation: RotationHandle,
    pub(in crate::boot) children: [ChildSpec; 3],
}

/// Describes credential keeper, key rotator and resolution trigger.
pub(in crate::boot) fn describe(open: &OpenParts, settings: IdentitySettings<'_>) -> IdentityWiring {
    let (store, keeper) = (&open.store, &open.keeper);
    let credentials = CredentialHandle::default();
    let issuer =
        IssuerParts::new((store.clone(), keeper.clone()), open.own(), settings.credentials, open.fetcher.clone());
    let credential_child = credentials.child_spec(CredentialKeeperArgs {
        issuer: issuer.clone(),
        base_url: open.base_url.clone(),
        settings: settings.credentials.clone(),
        handles_events: settings.handles_events,
    });
    let (rotation, rotation_child) =
        RotationHandle::child_spec(store.clone(), keeper.clone(), credentials.clone(), settings.rotation_pauses);
    let own = (store.clone(), open.did.clone());
    let resolution_child = open.resolution.child_spec(own, open.corporation_id, settings.resolves_changes);
    IdentityWiring { issuer, credentials, rotation, children: [credential_child, rotation_child, resolution_child] }
}
