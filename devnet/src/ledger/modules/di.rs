//! Digests.

use svc_wire::{
    instant,
    proto::svc::di::v1::{Digest, MsgStoreDigest, MsgStoreDigestResponse, MsgUpdateParams, MsgUpdateParamsResponse},
};

use super::{authority, de};
use crate::ledger::{
    error::LedgerError,
    exec::{Chain, Exec},
    validate::{self, ensure},
};

const MAX_DIGEST_BYTES: usize = 256;

/// Who stores a digest: the last attribute of the event differs.
pub enum Source<'a> {
    Message {
        operator: &'a str,
    },
    /// Another module, on behalf of a participant session.
    ModuleCall,
}

pub fn validate_store(chain: &Chain, message: &MsgStoreDigest) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "authority", &message.authority)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    ensure(!message.digest.is_empty(), "di", 1101, || "digest is empty".to_owned())?;
    if message.digest.len() > MAX_DIGEST_BYTES {
        return Err(LedgerError::sdk(18, format!("digest is longer than {MAX_DIGEST_BYTES} bytes")));
    }
    if !validate::is_digest_sri(&message.digest) {
        return Err(LedgerError::sdk(18, format!("invalid digest SRI: {:?}", message.digest)));
    }
    Ok(())
}

pub fn store(exec: &mut Exec<'_>, message: MsgStoreDigest) -> Result<MsgStoreDigestResponse, LedgerError> {
    let url = de::url(exec, "di", "MsgStoreDigest");
    de::registered(exec, &message.authority, ("co", 1101))
        .and_then(|_| de::authorize(exec, &message.authority, &message.operator, &url))
        .map_err(|error| error.wrap("authorization check failed"))?;
    put(exec, &message.authority, &message.digest, &Source::Message { operator: &message.operator });
    Ok(MsgStoreDigestResponse {})
}

/// Quirk: a digest that is there already is a success without effect and without event, whoever stored it.
pub fn put(exec: &mut Exec<'_>, corporation: &str, digest: &str, source: &Source<'_>) {
    if exec.state.digests.contains(&digest.to_owned(), exec.gas) {
        return;
    }
    let now = exec.now();
    let stored = Digest { digest: digest.to_owned(), created: Some(now) };
    exec.state.digests.put(digest.to_owned(), stored, exec.gas);
    let (kind, operator) = match source {
        Source::Message { operator } => ("msg", Some((*operator).to_owned())),
        Source::ModuleCall => ("module_call", None),
    };
    let mut attributes = vec![
        ("corporation", corporation.to_owned()),
        ("digest", digest.to_owned()),
        ("source", kind.to_owned()),
        ("timestamp", instant::rfc3339_nanos(&now)),
    ];
    attributes.extend(operator.map(|operator| ("operator", operator)));
    exec.emit_all("store_digest", attributes);
}

pub fn update_params(exec: &mut Exec<'_>, message: MsgUpdateParams) -> Result<MsgUpdateParamsResponse, LedgerError> {
    authority(exec, &message.authority, ("di", 1100))?;
    Ok(MsgUpdateParamsResponse {})
}
