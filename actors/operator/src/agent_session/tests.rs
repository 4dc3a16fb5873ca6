//! The decisions of an agent session, in tables.

use std::time::Duration;

use tokio::time::Instant;

use super::{AgentCallError, core::*};

type AgentSessionEffects = Vec<AgentSessionEffect<&'static str>>;

fn call(core: &mut AgentSessionCore, now: Instant) -> (AgentCallId, AgentSessionEffects) {
    core.on_call(now).expect("room")
}

#[test]
fn callers_share_one_login_and_the_token_serves_until_its_end() {
    let (mut core, now) = (AgentSessionCore::default(), Instant::now());
    assert_eq!(call(&mut core, now), (1, vec![AgentSessionEffect::LogIn]));
    assert_eq!(call(&mut core, now), (2, vec![]));
    let until = now + Duration::from_secs(900);
    assert_eq!(
        core.on_login(Ok(until), now),
        AgentSessionEffects::from([AgentSessionEffect::Send(1), AgentSessionEffect::Send(2)])
    );
    assert_eq!(core.on_response(1, AgentResponse::Answered("a"), now), [AgentSessionEffect::Answer(1, Ok("a"))]);
    assert_eq!(call(&mut core, now), (3, vec![AgentSessionEffect::Send(3)]));
    assert!(core.is_logged_in(now) && !core.is_logged_in(until));
    assert_eq!(call(&mut core, until), (4, vec![AgentSessionEffect::LogIn]), "not a moment longer");
    assert_eq!(core.pending_count(), 3);
}

#[test]
fn a_refused_token_is_renewed_once_and_a_newer_one_is_not_thrown_away() {
    let (mut core, now) = (AgentSessionCore::default(), Instant::now());
    let until = now + Duration::from_secs(900);
    call(&mut core, now);
    call(&mut core, now);
    core.on_login::<&str>(Ok(until), now);
    assert_eq!(
        core.on_response(1, AgentResponse::TokenRefused, now),
        AgentSessionEffects::from([AgentSessionEffect::LogIn])
    );
    assert_eq!(core.on_login(Ok(until), now), AgentSessionEffects::from([AgentSessionEffect::Send(1)]));
    assert_eq!(
        core.on_response(2, AgentResponse::TokenRefused, now),
        AgentSessionEffects::from([AgentSessionEffect::Send(2)]),
        "with the new token"
    );
    let second: AgentSessionEffects = core.on_response(1, AgentResponse::TokenRefused, now);
    assert!(matches!(&second[..], [AgentSessionEffect::Answer(1, Err(AgentCallError::Login { .. }))]), "{second:?}");
}

#[test]
fn a_failed_login_is_everybodys_answer_and_the_next_call_tries_again() {
    let (mut core, now) = (AgentSessionCore::default(), Instant::now());
    call(&mut core, now);
    call(&mut core, now);
    let refused = AgentCallError::NoAdminApi("no".into());
    let effects: AgentSessionEffects = core.on_login(Err(refused.clone()), now);
    assert_eq!(
        effects,
        [AgentSessionEffect::Answer(1, Err(refused.clone())), AgentSessionEffect::Answer(2, Err(refused))]
    );
    assert_eq!(call(&mut core, now), (3, vec![AgentSessionEffect::LogIn]));
}

#[test]
fn a_token_that_has_ended_when_it_comes_is_an_answer_and_no_reason_to_log_in_again() {
    let (mut core, now) = (AgentSessionCore::default(), Instant::now());
    call(&mut core, now);
    let effects: AgentSessionEffects = core.on_login(Ok(now), now);
    assert!(matches!(&effects[..], [AgentSessionEffect::Answer(1, Err(AgentCallError::Login { .. }))]), "{effects:?}");
}

#[test]
fn beyond_the_limit_a_call_is_refused() {
    let (mut core, now) = (AgentSessionCore::default(), Instant::now());
    for _ in 0..MAX_PENDING_CALLS {
        call(&mut core, now);
    }
    assert!(matches!(core.on_call::<()>(now), Err(AgentCallError::Overloaded { limit: MAX_PENDING_CALLS })));
}
