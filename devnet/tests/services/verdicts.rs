//! Every service is what it is meant to be.

use std::collections::BTreeSet;

use svc_devnet::services::Expectation;
use svc_trust::{Code, Pattern};
use svc_wire::instant;

use super::judge::Judge;
use crate::node::harness::devnet;

#[tokio::test]
async fn every_service_is_trusted_or_not_for_the_reason_it_is_meant_to_show() {
    let devnet = devnet("services").await;
    let services = devnet.services.as_ref().expect("services");
    let mut judge = Judge::new(&devnet);
    let mut wrong = Vec::new();
    for (name, service) in services.all() {
        let verdict = judge.verdict(&service.identity.did).await;
        let codes: Vec<Code> = verdict.reasons.iter().map(|reason| reason.code).collect();
        let is_as_meant = match service.expect {
            Expectation::Trusted => {
                let expires = verdict.expires_at.map(|at| instant::iso_seconds(&instant::from_nanos(at)));
                verdict.is_trusted() && codes.is_empty() && expires == service.expires_at
            }
            // What is wrong comes before what follows from it.
            Expectation::Because(Code::Cycle | Code::TooDeep) => codes.first() == Some(&Code::ParentNotTrusted),
            Expectation::Because(code) => !verdict.is_trusted() && codes.first() == Some(&code),
        };
        let is_named = !matches!(service.expect, Expectation::Because(code) if !codes.contains(&code));
        if !is_as_meant || !is_named {
            wrong.push(format!("{name}: {:?} {:?} {:#?}", service.expect, service.expires_at, verdict.reasons));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn there_is_a_service_for_every_reason() {
    let devnet = devnet("services").await;
    let expected = devnet.services.as_ref().expect("services").all().values().map(|service| match service.expect {
        Expectation::Trusted => None,
        Expectation::Because(code) => Some(code),
    });
    let expected: BTreeSet<Code> = expected.flatten().collect();
    // Which ecosystems are relied on is said by whoever judges.
    let missing: Vec<_> = Code::ALL.iter().filter(|code| !expected.contains(code)).collect();
    assert_eq!(missing, [&Code::GivenUp, &Code::EcosystemNotAllowed]);
}

#[tokio::test]
async fn trust_comes_in_both_patterns_and_ends_with_the_earliest() {
    let devnet = devnet("services").await;
    let services = devnet.services.as_ref().expect("services");
    let mut judge = Judge::new(&devnet);
    let mut ends = Vec::new();
    for (name, pattern, parents) in [
        ("chamber", Pattern::Own, 0),
        ("harbor", Pattern::Own, 0),
        ("mill", Pattern::Own, 0),
        ("ferry", Pattern::Parent, 1),
        ("dinghy", Pattern::Parent, 2),
        ("buoy", Pattern::Parent, 4),
    ] {
        let service = services.get(name).expect("known");
        let verdict = judge.verdict(&service.identity.did).await;
        assert_eq!((verdict.pattern, verdict.parents.len()), (Some(pattern), parents), "{name}");
        ends.push(service.expires_at.clone());
    }
    assert_eq!(ends[0], None);
    assert!(ends[1] > ends[3], "a child ends before its parent");
    assert_eq!(ends[3], ends[4], "and with it");
    assert!(ends[2].is_some());
}
