//! The steps of a setup. Pure.

use prost_types::Timestamp;
use serde_json::json;
use svc_wire::timestamp;

use super::{
    facts::{AccountFacts, CredentialFacts, CredentialProgress, SchemaCredentialFacts, SetupFacts},
    options::SetupOptions,
    participation::{first_open_step, participation_steps},
    source::SESSION,
    step::{Setup, SetupStep, StepActor, StepState},
};
use crate::credential_settings::{ClaimProblem, plain_name};

/// Compares the node with the needs of the DID.
pub(super) fn plan(facts: &SetupFacts, options: &SetupOptions) -> Setup {
    let mut steps = vec![account_step(facts)];
    for wanted in &facts.wanted {
        steps.extend(participation_steps(facts, options, wanted));
    }
    steps.push(fees_step(facts));
    steps.extend(facts.not_taken.iter().map(|(message, reason)| message_step(message, reason)));
    for credential in &facts.credentials {
        let own = facts.agent.corporation_id;
        steps
            .extend(credential.claims.iter().enumerate().map(|(place, one)| claim_step(credential, (place, one), own)));
        steps.push(credential_step(credential, own, open_step(&steps, &credential.name, (facts, options)).as_ref()));
    }
    steps.extend(facts.schema_credentials.iter().map(|one| schema_step(one, facts)));
    Setup { steps }
}

fn account_step(facts: &SetupFacts) -> SetupStep {
    let AccountFacts { exists, operator_of, serves, .. } = &facts.account;
    let (address, own) = (&facts.agent.address, facts.agent.corporation_id);
    let missing = |reason: String| SetupStep::new("account", StepState::Missing, reason);
    if !exists {
        // A grant with a fee allowance to an account without state fails at a real node.
        let reason = format!(
            "{address} has no state at the node: it has to be sent a coin, by a wallet, before it is granted anything"
        );
        return missing(reason).by_other();
    }
    if let Some(corporation) = operator_of.first() {
        let reason = format!(
            "{address} is an operator of corporation {corporation}, and no account is both: use one of the agent's own, or revoke that"
        );
        return missing(reason).of(*corporation, own);
    }
    if let Some(corporation) = serves {
        let reason = format!("{address} acts for corporation {corporation} already; an account serves one");
        return missing(reason).of(*corporation, own);
    }
    SetupStep::new("account", StepState::Done, format!("{address} exists")).of(own, own)
}

fn fees_step(facts: &SetupFacts) -> SetupStep {
    let AccountFacts { coins, corporation, corporation_coins, has_allowance, .. } = &facts.account;
    let (address, denom, own) = (&facts.agent.address, &facts.denom, facts.agent.corporation_id);
    let (state, reason) = match has_allowance {
        Some(true) if *corporation_coins > 0 => (StepState::Done, "the corporation's allowance pays".to_owned()),
        _ if *coins > 0 => (StepState::Done, format!("the account pays: it has {coins}{denom}")),
        None if *corporation_coins > 0 => {
            (StepState::Done, format!("the corporation has {corporation_coins}{denom} for them"))
        }
        Some(false) => (
            StepState::Missing,
            format!("no allowance of the corporation pays, and {address} has no {denom}: send it some"),
        ),
        _ => (
            StepState::Missing,
            format!("neither the corporation ({corporation}) nor {address} has any {denom}: send them some"),
        ),
    };
    SetupStep::new("fees", state, reason).of(own, own)
}

/// A message that the agent does not sign before the node runs another release.
fn message_step(message: &str, reason: &str) -> SetupStep {
    let reason = format!(
        "the node reads this message otherwise, so that the agent does not sign it: {reason}; it ends when the node is upgraded"
    );
    SetupStep::new(format!("message-{message}"), StepState::Waiting, reason).by_other()
}

/// A setting without which the agent does not issue a credential.
fn claim_step(credential: &CredentialFacts, (place, problem): (usize, &ClaimProblem), own: u64) -> SetupStep {
    let id = format!("{}-claim-{}", credential.name, place + 1);
    let reason = format!("{problem}; the agent reads its settings when it starts");
    let step = SetupStep::new(id, StepState::Waiting, reason).of(own, own);
    SetupStep { setting: Some(problem.setting.clone()), ..step }
}

/// The first step before the agent can issue a credential to itself.
fn open_step(
    steps: &[SetupStep],
    credential: &str,
    (facts, options): (&SetupFacts, &SetupOptions),
) -> Option<SetupStep> {
    let open = |id: &str| steps.iter().find(|step| step.id == id && step.state != StepState::Done).cloned();
    let issuer = format!("{}-issuer", plain_name(credential));
    let issuer = facts.wanted.iter().find(|wanted| wanted.id == issuer);
    let of_issuer = issuer.and_then(|wanted| first_open_step(facts, options, wanted));
    open("account").or(of_issuer).or_else(|| open("fees")).or_else(|| open(&format!("message-{SESSION}")))
}

/// The step of a credential. `open` is the first one before it that is not done.
fn credential_step(credential: &CredentialFacts, own: u64, open: Option<&SetupStep>) -> SetupStep {
    let id = format!("{}-credential", credential.name);
    match &credential.state {
        CredentialProgress::Presented(until) => {
            let until = until.map(|seconds| timestamp::iso_seconds(&Timestamp { seconds, nanos: 0 }));
            let reason = until.map_or("presented".to_owned(), |until| format!("presented, until {until}"));
            SetupStep::new(id, StepState::Done, reason).of(own, own)
        }
        CredentialProgress::Issuing(_) if !credential.claims.is_empty() => {
            let reason = "the agent issues it once its claims can be signed: the steps before name the settings";
            SetupStep::new(id, StepState::Missing, reason).of(own, own)
        }
        CredentialProgress::Issuing(reason) => match open {
            // The agent has seen less than the node shows now.
            None => SetupStep::new(id, StepState::Waiting, reason).of(own, own).by_agent(),
            Some(open) => {
                let ends_alone = open.state == StepState::Waiting && open.by == StepActor::Operator;
                let state = if ends_alone { StepState::Waiting } else { StepState::Missing };
                let reason = format!("the agent issues it once {} is done", open.id);
                SetupStep { ends_in: open.ends_in, ..SetupStep::new(id, state, reason).of(own, own) }
            }
        },
        CredentialProgress::Awaited { issuer, corporation_id } => {
            let issuer = issuer.as_deref().unwrap_or("the issuer of the HOLDER participant");
            let reason = format!(
                "{issuer} issues it: by a flow, which `svc agent flows list` shows, or as a file, which `svc agent credential import FILE` \
                 presents"
            );
            let step = SetupStep::new(id, StepState::Missing, reason).by_other();
            SetupStep { corporation_id: *corporation_id, ..step }
        }
    }
}

fn schema_step(one: &SchemaCredentialFacts, facts: &SetupFacts) -> SetupStep {
    let own = facts.agent.corporation_id;
    let id = format!("schema-{}", one.name);
    let waiting = |reason| SetupStep::new(&id, StepState::Waiting, reason).of(own, own).by_agent();
    if one.is_archived {
        return waiting("the schema is archived: the agent takes its credential away");
    }
    if one.is_presented {
        return SetupStep::new(id, StepState::Done, "the digest of its credential is at the node").of(own, own);
    }
    if one.is_anchored {
        return waiting("the digest of its credential is at the node: the agent presents it");
    }
    let Some(digest) = &one.digest else {
        return waiting("the agent signs its credential");
    };
    let message = json!({"digest": digest, "idempotency_key": facts.step_key(&id, digest)});
    SetupStep::new(id, StepState::Missing, "the digest of its credential is to be stored")
        .of(own, own)
        .with_message("svc.ledger.di.storeDigest", message)
}
