//! Flows with a peer that follows a script: an applicant that repeats everything, and a validator whose credentials prove nothing.

use std::time::Duration;

use serde_json::{Value, json};
use svc_agent::{CredentialTerms, FlowRequest, IssueRequest};
use svc_didcomm::{
    Message,
    protocol::{
        Attachment, AttachmentData, Content,
        credential_format::issued_credential,
        issue_credential::{ACK, FormatAttachment, ISSUE, IssueCredential, OFFER, PROBLEM, REQUEST},
        problem_report::PROBLEM_REPORT,
        vt_flow::{FlowRequest as RequestBody, ONBOARDING_REQUEST, VALIDATING, VtFlow},
    },
};
use uuid::Uuid;

use crate::e2e::{
    agent::{
        credentials::identity::{start_agents, start_agents_with},
        messages::scripted_peer::{ScriptedPeer, apply, next_message},
        validation::flows::{APPLICANT, VALIDATOR},
    },
    harness::TestNetwork,
};

/// An applicant of another corporation for the service credential of the first agent, with its participant.
pub(in crate::e2e::agent) async fn start_applicant(world: &TestNetwork) -> (ScriptedPeer, String) {
    let mut peer = ScriptedPeer::start(&world.agent_did(VALIDATOR)).await;
    peer.go_public(&peer.endpoint());
    let issuers = json!({"did": world.agent_did(VALIDATOR), "role": "ISSUER"});
    let listed = world.call_ok("svc.idx.pp.listParticipants", issuers).await;
    let schema: u64 = world.network.devnet.address("service.schema").parse().expect("a number");
    let rows = listed["participants"].as_array().expect("a list");
    let issuer = rows.iter().find(|one| one["schema_id"] == schema).expect("an issuer")["id"].clone();
    let id = apply(world, &issuer, &peer.keys.did).await;
    (peer, id.to_string())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applicant_that_repeats_everything_gets_one_credential_that_is_paid_once() {
    let world = start_agents("peers").await;
    let (mut peer, participant) = start_applicant(&world).await;
    let claims = world.issue_request(&peer.keys.did, "Scripted").claims;
    let opening = |peer: &ScriptedPeer, session: &str, thread: &str| {
        let request =
            RequestBody { participant_session_id: session.to_owned(), claims: Some(claims.clone()), proofs: None };
        let open = VtFlow::OnboardingRequest { participant_id: participant.clone(), request };
        let message = open.to_message(thread, Some(thread));
        Message { from: Some(peer.keys.did.clone()), to: vec![world.agent_did(VALIDATOR)], ..message }
    };
    let step = |peer: &ScriptedPeer, step: IssueCredential, thread: &str, parent: &str| {
        let message = step.to_message(&Uuid::new_v4().to_string(), thread, Some(parent));
        Message { from: Some(peer.keys.did.clone()), to: vec![world.agent_did(VALIDATOR)], ..message }
    };
    let ack = || IssueCredential::Ack { status: "OK".to_owned() };
    // A session without the form of one is refused with its code, and the applicant may come again.
    assert_eq!(peer.post(peer.seal(&opening(&peer, "session", "wrong"))).await, 202);
    let refused = peer.next(PROBLEM_REPORT).await;
    assert_eq!(
        (refused.body["description"]["code"].as_str(), refused.thread()),
        (Some("vt-flow.invalid-participant-session-id"), "wrong")
    );
    let session = Uuid::new_v4().to_string();
    let request = peer.seal(&opening(&peer, &session, "first"));
    for _ in 0..3 {
        assert_eq!(peer.post(request.clone()).await, 202, "the same envelope is handled once");
    }
    assert_eq!(peer.next(VALIDATING).await.thread(), "first");
    // An acknowledgement of nothing, and one in a thread that is not its own.
    for thread in ["first", "of another"] {
        assert_eq!(peer.post(peer.seal(&step(&peer, ack(), thread, "first"))).await, 202);
    }
    let shown = async || world.agent(VALIDATOR).flows().get(&session).await.expect("a flow").record;
    assert_eq!(shown().await["flowState"], "VALIDATING");
    let call = json!({"agent_did": world.agent_did(VALIDATOR), "participantSessionId": session});
    world.call_ok("svc.vsa.flow.validateFlow", call).await;
    let mut offer = peer.next(OFFER).await;
    assert_eq!(offer.pthid.as_deref(), Some("first"));
    // It begins again and again, each time in a thread of its own: the offer comes again, and nothing is signed.
    for number in 0..20 {
        let thread = format!("again {number}");
        assert_eq!(peer.post(peer.seal(&opening(&peer, &session, &thread))).await, 202);
        offer = peer.next(OFFER).await;
        assert_eq!(offer.pthid.as_deref(), Some(thread.as_str()));
    }
    let (exchange, parent) = (offer.thread().to_owned(), offer.pthid.clone().expect("a thread"));
    for _ in 0..3 {
        let message = step(&peer, IssueCredential::Request(Vec::new()), &exchange, &parent);
        let message = Message { body: request_body(&offer), ..message };
        assert_eq!(peer.post(peer.seal(&message)).await, 202);
    }
    let issued = peer.next(ISSUE).await;
    assert_eq!(world.records_of(&session).await, 1, "it was paid before it came");
    let credential = credential_of(&issued);
    assert_eq!(credential["credentialSubject"]["id"], peer.keys.did);
    assert_eq!(shown().await["flowState"], "CRED_OFFERED", "until it is acknowledged in its own thread");
    assert_eq!(peer.post(peer.seal(&step(&peer, ack(), "of another", &parent))).await, 202);
    assert_eq!(shown().await["flowState"], "CRED_OFFERED");
    for _ in 0..2 {
        assert_eq!(peer.post(peer.seal(&step(&peer, ack(), &exchange, &parent))).await, 202);
    }
    assert_eq!(shown().await["flowState"], "COMPLETED");
    // Another session for the same validation is refused; the same one gets the same bytes.
    assert_eq!(peer.post(peer.seal(&opening(&peer, &Uuid::new_v4().to_string(), "other"))).await, 202);
    let refused = peer.next(PROBLEM_REPORT).await;
    assert_eq!(refused.body["description"]["code"], "vt-flow.invalid-participant-id");
    assert_eq!(peer.post(peer.seal(&opening(&peer, &session, "later"))).await, 202);
    let offer = peer.next(OFFER).await;
    let message = step(&peer, IssueCredential::Request(Vec::new()), offer.thread(), "later");
    assert_eq!(peer.post(peer.seal(&Message { body: request_body(&offer), ..message })).await, 202);
    assert_eq!(credential_of(&peer.next(ISSUE).await), credential);
    let of_peer = world.sessions().await.into_iter().filter(|(id, _)| *id == session).collect::<Vec<_>>();
    assert_eq!(of_peer, [(session, 1)]);
    world.await_verdict_on(&peer.keys.did, |verdict| verdict["did"] == peer.keys.did).await;
}

/// The body of a request for an offered credential, as the first generation writes it: the offer itself.
fn request_body(offer: &Message) -> serde_json::Map<String, Value> {
    let mut body = offer.body.clone();
    body.remove("credential_preview");
    if let Some(attached) = body.remove("offers~attach") {
        body.insert("requests~attach".to_owned(), attached);
    }
    body
}

pub(in crate::e2e::agent) fn credential_of(message: &Message) -> Value {
    match Content::read(message).expect("read") {
        Content::IssueCredential(IssueCredential::Issue(attachments)) => {
            issued_credential(&attachments).expect("a credential").1
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_without_proof_is_neither_stored_nor_acknowledged() {
    let world = start_agents_with("peers", |agents| agents.flows.verify_time = Duration::from_secs(2)).await;
    let (mut peer, prior) = ScriptedPeer::take_over(&world, VALIDATOR, APPLICANT).await;
    let (participant, session) = world.apply("HOLDER", "flows.license.issuer").await;
    let mut opening = peer.next(ONBOARDING_REQUEST).await;
    assert_eq!(
        (opening.body["participant_id"].as_str(), opening.body["participant_session_id"].as_str()),
        (Some(participant.to_string().as_str()), Some(session.as_str()))
    );
    assert_eq!((&opening.body["agent_participant_id"], opening.thread()), (&json!("0"), opening.id.as_str()));
    let from_script = |message: Message, peer: &ScriptedPeer| Message {
        from: Some(peer.keys.did.clone()),
        to: vec![world.agent_did(APPLICANT)],
        from_prior: Some(prior.clone()),
        ..message
    };
    // A link is a text that the applicant does not fetch.
    let link = VtFlow::OobLink {
        url: "http://10.0.0.1/\u{202e}upload".to_owned(),
        description: "\u{202e}Pay".to_owned(),
        expires_time: Some(1),
    };
    let link = from_script(link.to_message(&Uuid::new_v4().to_string(), Some(opening.thread())), &peer);
    assert_eq!(peer.post(peer.seal(&link)).await, 202);
    let waiting = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "OOB_PENDING").await;
    assert_eq!(waiting["pendingAction"], "VALIDATOR", "the link has ended");
    let long = VtFlow::Validating { comment: Some("x".repeat(100_000)) };
    let long = from_script(long.to_message(&Uuid::new_v4().to_string(), Some(opening.thread())), &peer);
    assert_eq!(peer.post(peer.seal(&long)).await, 202);
    // An offer before the validation waits, and is declined when the node does not show it in time.
    let attached = |format: &str, json: Value| {
        let data = AttachmentData::Json(json);
        vec![FormatAttachment { format: format.into(), attachment: Attachment { id: "a".into(), data } }]
    };
    let offer = |format: &str, content: Value, exchange: &str, thread: &str| {
        let offer = IssueCredential::Offer { attachments: attached(format, content), comment: None };
        offer.to_message(&Uuid::new_v4().to_string(), exchange, Some(thread))
    };
    let wanted = json!({"credentialSubject": {"id": world.agent_did(APPLICANT), "grade": "A"}});
    let early = offer("didcomm/w3c-di-vc-offer@v0.1", json!({"credential": wanted}), "early", opening.thread());
    assert_eq!(peer.post(peer.seal(&from_script(early, &peer))).await, 202);
    assert_eq!(peer.next(PROBLEM).await.thread(), "early");
    let given = json!({"id": participant, "effective_until": "2027-01-01T00:00:00Z"});
    world.call_ok("svc.ledger.pp.setParticipantOpToValidated", given).await;
    world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "VALIDATED").await;
    // A credential of the right issuer that was paid under another session, and ones that its proof does not fit.
    let request = IssueRequest {
        did: world.agent_did(APPLICANT),
        schema_id: world.id_of("flows.license.schema"),
        claims: wanted["credentialSubject"]
            .as_object()
            .map(|one| {
                let mut claims = one.clone();
                claims.remove("id");
                claims
            })
            .expect("claims"),
        valid_until: None,
        terms: CredentialTerms::default(),
    };
    let paid_elsewhere = world.agent(VALIDATOR).credentials().issue(request).await.expect("issued");
    let good: Value = serde_json::from_str(&paid_elsewhere.body).expect("JSON");
    let changed = |path: &str, value: Value| {
        let mut credential = good.clone();
        *credential.pointer_mut(path).expect("a member") = value;
        credential
    };
    let presented = world.presented(APPLICANT);
    for (name, format, credential) in [
        ("paid under another session", "didcomm/w3c-di-vc@v0.1", good.clone()),
        ("of another issuer", "didcomm/w3c-di-vc@v0.1", changed("/issuer", json!("did:web:issuer.example"))),
        ("about another", "didcomm/w3c-di-vc@v0.1", changed("/credentialSubject/id", json!("did:web:a.example"))),
        ("with other claims", "didcomm/w3c-di-vc@v0.1", changed("/credentialSubject/grade", json!("F"))),
        ("of another schema", "didcomm/w3c-di-vc@v0.1", changed("/credentialSchema/id", json!("https://a.example/x"))),
        ("without a proof", "didcomm/w3c-di-vc@v0.1", changed("/proof", json!({}))),
        ("of no format", "anoncreds/credential@v1.0", json!({"x": 1})),
    ] {
        let exchange = Uuid::new_v4().to_string();
        // Either generation may offer; the older one gets its offer back.
        let detail = json!({"credential": wanted, "options": {"proofType": "Ed25519Signature2020"}});
        let offered = offer("aries/ld-proof-vc-detail@v1.0", detail, &exchange, opening.thread());
        assert_eq!(peer.post(peer.seal(&from_script(offered, &peer))).await, 202);
        let requested = peer.next(REQUEST).await;
        assert_eq!(
            (requested.thread(), requested.pthid.as_deref()),
            (exchange.as_str(), Some(opening.thread())),
            "{name}"
        );
        let issue = IssueCredential::Issue(attached(format, json!({"credential": credential})));
        let issue = issue.to_message(&Uuid::new_v4().to_string(), &exchange, Some(opening.thread()));
        assert_eq!(peer.post(peer.seal(&from_script(issue, &peer))).await, 202);
        let answer = next_message(&mut peer.inbox, name).await;
        assert_ne!(answer.kind, ACK, "{name}");
        assert_eq!((answer.kind.as_str(), answer.thread()), (PROBLEM, exchange.as_str()), "{name}");
        let session = opening.body["participant_session_id"].as_str().expect("a session").to_owned();
        let ended = world.await_flow(APPLICANT, &session, |flow| flow["flowState"] == "ERROR").await;
        assert!(ended["credentialId"].is_null() && ended["errorMessage"].is_string(), "{name}: {ended:#}");
        assert_eq!(world.presented(APPLICANT), presented, "{name}");
        let request = FlowRequest { participant_id: Some(participant), ..FlowRequest::default() };
        world.agent(APPLICANT).flows().open(request).await.expect(name);
        opening = peer.next(ONBOARDING_REQUEST).await;
    }
    let held = world.agent(APPLICANT).store().held_credentials().await.expect("read");
    assert!(held.iter().all(|one| one.id != paid_elsewhere.id), "nothing is stored");
}
