//! The module di: digests.

use svc_wire::{
    proto::svc::di::v1::{Digest, MsgStoreDigest, MsgStoreDigestResponse, MsgUpdateParams, MsgUpdateParamsResponse},
    timestamp,
};

use super::{authority::ensure_authority, de};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    values::validate::{self, ensure},
};

const MAX_DIGEST_BYTES: usize = 256;

/// The origin of a digest; the attributes of the event depend on it.
pub enum DigestSource<'a> {
    /// A `MsgStoreDigest` of an operator.
    Message { operator: &'a str },
    /// A call of another module, for a participant session.
    ModuleCall,
}

pub fn validate_store(chain: &ChainConfig, message: &MsgStoreDigest) -> Result<(), LedgerError> {
    validate::plain_address(&chain.prefix, "authority", &message.authority)?;
    validate::plain_address(&chain.prefix, "operator", &message.operator)?;
    ensure(!message.digest.is_empty(), "di", 1101, || "digest is empty".to_owned())?;
    if message.digest.len() > MAX_DIGEST_BYTES {
        return Err(LedgerError::sdk(18, format!("digest is longer than {MAX_DIGEST_BYTES} bytes")));
    }
    if !validate::is_document_digest(chain, &message.digest) {
        return Err(LedgerError::sdk(18, format!("invalid digest SRI: {:?}", message.digest)));
    }
    Ok(())
}

pub fn store(exec: &mut ExecContext<'_>, message: MsgStoreDigest) -> Result<MsgStoreDigestResponse, LedgerError> {
    let url = de::message_url(exec, "di", "MsgStoreDigest");
    de::require_corporation(exec, &message.authority, ("co", 1101))
        .and_then(|_| de::authorize(exec, &message.authority, &message.operator, &url))
        .map_err(|error| error.wrap("authorization check failed"))?;
    record_digest(exec, &message.authority, &message.digest, &DigestSource::Message { operator: &message.operator });
    Ok(MsgStoreDigestResponse {})
}

/// Stores a digest. Quirk: a digest that is stored already is a success without effect and event, also for another corporation.
pub fn record_digest(exec: &mut ExecContext<'_>, corporation: &str, digest: &str, source: &DigestSource<'_>) {
    if exec.state.digests.contains(&digest.to_owned(), exec.gas) {
        return;
    }
    let now = exec.block_time();
    let stored = Digest { digest: digest.to_owned(), created: Some(now) };
    exec.state.digests.put(digest.to_owned(), stored, exec.gas);
    let (kind, operator) = match source {
        DigestSource::Message { operator } => ("msg", Some((*operator).to_owned())),
        DigestSource::ModuleCall => ("module_call", None),
    };
    let mut attributes = vec![
        ("corporation", corporation.to_owned()),
        ("digest", digest.to_owned()),
        ("source", kind.to_owned()),
        ("timestamp", timestamp::rfc3339_nanos(&now)),
    ];
    attributes.extend(operator.map(|operator| ("operator", operator)));
    exec.emit_attributes("store_digest", attributes);
}

pub fn update_params(
    exec: &mut ExecContext<'_>,
    message: MsgUpdateParams,
) -> Result<MsgUpdateParamsResponse, LedgerError> {
    ensure_authority(exec, &message.authority, ("di", 1100))?;
    Ok(MsgUpdateParamsResponse {})
}
