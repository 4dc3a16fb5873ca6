//! The actor around challenges and tokens.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, wall_clock};
use svc_otel::metrics;
use svc_wire::secret::SecretString;

use super::{
    AccessToken, Msg,
    core::{LoginCore, LoginRules},
};

/// The actor that knows the tokens.
pub struct TokenIssuer;

fn random<const N: usize>() -> Result<[u8; N], ActorFailure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ActorFailure(format!("no random bytes: {error}")))?;
    Ok(bytes)
}

impl ActorBehaviour for TokenIssuer {
    const KIND: &'static str = "token_issuer";
    type Msg = Msg;
    type Args = LoginRules;
    type State = LoginCore;

    async fn start(_: &ActorContext<Msg>, rules: &Arc<LoginRules>) -> Result<LoginCore, ActorFailure> {
        Ok(LoginCore::new(LoginRules::clone(rules), random()?))
    }

    async fn handle(_: &ActorContext<Msg>, message: Msg, core: &mut LoginCore) -> Result<(), ActorFailure> {
        let now = wall_clock::now().seconds;
        match message {
            Msg::Challenge { account, reply } => reply.send(core.challenge(&account, random()?, now)),
            Msg::Redeem { proof, reply } => {
                let value = URL_SAFE_NO_PAD.encode(random::<32>()?);
                let redeemed = core.redeem(&proof, &value, now);
                let token = |expires_at| AccessToken { value: SecretString::new(value), expires_at };
                metrics::record_login(redeemed.is_ok());
                if let Err(refusal) = &redeemed {
                    tracing::warn!(code = refusal.code.on_wire().0, "a login to the admin API failed");
                }
                reply.send(redeemed.map(token));
            }
            Msg::Check { token, reply } => reply.send(core.check(token.expose_secret(), now)),
        }
        Ok(())
    }

    fn observe(core: &LoginCore) -> Value {
        let (tokens, nonces) = core.sizes();
        json!({"tokens": tokens, "presented_nonces": nonces})
    }
}
