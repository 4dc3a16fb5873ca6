//! The rotation of keys, for trusted callers.

use axum::{
    Extension,
    extract::{Request, State},
    response::Response,
};
use svc_agent::{Refusal, RefusalCode, RotationAnswer, RotationKind, RotationRequest};

use crate::admin::{
    api::AdminApi,
    caller::Caller,
    format::{
        answer::{Answer, to_response},
        request::{BodyMembers, QueryParameters},
        schema::{BodyRefusals, ReadRefusals},
    },
    identity::key_bodies::{KeyRotation, RotatedKeys, RotationRefusals},
};

/// Gives the log, the document or the store other keys. The answer comes with the first version; the further steps of a rotation of the
/// document's keys follow by themselves.
#[utoipa::path(post, path = "/v2/agent/keys/rotate", operation_id = "rotateKeys", tag = "agent",
    request_body = KeyRotation,
    responses((status = 200, body = RotatedKeys), ReadRefusals, BodyRefusals, RotationRefusals))]
pub(in crate::admin) async fn rotate(
    State(api): State<AdminApi>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Response {
    let answer = async || -> Answer<RotatedKeys> {
        if caller != Caller::Trusted {
            let message = "keys are rotated by callers of ADMIN_API_TRUSTED_NETWORKS alone; svc agent rotate is one";
            return Err(Refusal::new(RefusalCode::Forbidden, message));
        }
        QueryParameters::parse(request.uri().query())?.finish("none")?;
        let mut members = BodyMembers::read(request).await?;
        let kind = match members.require_text("kind")?.as_str() {
            "update" => RotationKind::Update,
            "document" => RotationKind::Document,
            "store" => RotationKind::Store,
            _ => {
                let rule = "allowed are update, document and store";
                return Err(Refusal::of_member(RefusalCode::InvalidInput, "kind", rule));
            }
        };
        let is_compromised = members.take_flag("compromised")?.unwrap_or(false);
        let reissue = members.take_flag("reissue")?.unwrap_or(false);
        members.finish("kind, compromised, reissue")?;
        let rotated: RotationAnswer =
            api.agent.rotation().rotate(RotationRequest { kind, is_compromised, reissue }).await?;
        Ok(rotated.into())
    };
    to_response(answer().await)
}
