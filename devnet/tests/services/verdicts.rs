//! Tests of the verdict about every service.

use std::collections::BTreeSet;

use svc_devnet::services::ExpectedVerdict;
use svc_trust::{RejectionCode, TrustPattern};
use svc_wire::timestamp;

use super::trust_checker::TrustChecker;
use crate::node::harness::devnet;

#[tokio::test]
async fn every_service_has_its_expected_verdict() {
    let devnet = devnet("services").await;
    let services = devnet.services.as_ref().expect("services");
    let mut judge = TrustChecker::new(&devnet);
    let mut wrong = Vec::new();
    for (name, service) in services.all() {
        let verdict = judge.evaluate_did(&service.identity.did).await;
        let codes: Vec<RejectionCode> = verdict.reasons.iter().map(|reason| reason.code).collect();
        let is_as_meant = match service.expect {
            ExpectedVerdict::Trusted => {
                let expires = verdict.expires_at.map(|at| timestamp::iso_seconds(&timestamp::from_unix_nanos(at)));
                verdict.is_trusted() && codes.is_empty() && expires == service.expires_at
            }
            // The cause comes before its consequences.
            ExpectedVerdict::Untrusted(RejectionCode::TrustCycle | RejectionCode::TrustChainTooLong) => {
                codes.first() == Some(&RejectionCode::ParentNotTrusted)
            }
            ExpectedVerdict::Untrusted(code) => !verdict.is_trusted() && codes.first() == Some(&code),
        };
        let is_named = !matches!(service.expect, ExpectedVerdict::Untrusted(code) if !codes.contains(&code));
        if !is_as_meant || !is_named {
            wrong.push(format!("{name}: {:?} {:?} {:#?}", service.expect, service.expires_at, verdict.reasons));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test]
async fn every_reason_has_a_service() {
    let devnet = devnet("services").await;
    let expected = devnet.services.as_ref().expect("services").all().values().map(|service| match service.expect {
        ExpectedVerdict::Trusted => None,
        ExpectedVerdict::Untrusted(code) => Some(code),
    });
    let expected: BTreeSet<RejectionCode> = expected.flatten().collect();
    // The checker relies on the ecosystem of the services, so no service can show `EcosystemNotAllowed`. No service serves a status
    // list, or a proof of the future: the table of the evaluation in `trust` has them.
    let missing: Vec<_> = RejectionCode::ALL.iter().filter(|code| !expected.contains(code)).copied().collect();
    let without_service = [
        RejectionCode::EvaluationAbandoned,
        RejectionCode::ProofOfFuture,
        RejectionCode::CredentialRevoked,
        RejectionCode::CredentialSuspended,
        RejectionCode::StatusUnsupported,
        RejectionCode::StatusListInvalid,
        RejectionCode::EcosystemNotAllowed,
    ];
    assert_eq!(missing, without_service);
}

#[tokio::test]
async fn both_patterns_are_trusted_until_the_earliest_end() {
    let devnet = devnet("services").await;
    let services = devnet.services.as_ref().expect("services");
    let mut judge = TrustChecker::new(&devnet);
    let mut ends = Vec::new();
    for (name, pattern, parents) in [
        ("chamber", TrustPattern::SelfVouched, 0),
        ("harbor", TrustPattern::SelfVouched, 0),
        ("mill", TrustPattern::SelfVouched, 0),
        ("ferry", TrustPattern::Parent, 1),
        ("dinghy", TrustPattern::Parent, 2),
        ("buoy", TrustPattern::Parent, 4),
    ] {
        let service = services.get(name).expect("known");
        let verdict = judge.evaluate_did(&service.identity.did).await;
        assert_eq!((verdict.pattern, verdict.parents.len()), (Some(pattern), parents), "{name}");
        ends.push(service.expires_at.clone());
    }
    assert_eq!(ends[0], None);
    assert!(ends[1] > ends[3], "a child ends before its parent");
    assert_eq!(ends[3], ends[4], "and with it");
    assert!(ends[2].is_some());
}
