//! A model of an asker and an owner. The channel between them loses, doubles and reorders, the asker starts again, the owner revokes and
//! changes its conditions, and the clock goes on.

use std::collections::{BTreeMap, BTreeSet};

use svc_wire::endpoint_access::Material;

use super::{
    AllowedPeers, AskerTable, Denied, EndpointTerms, GrantCounts, GrantLimits, HeardAnswer, KnownGrant, OpenRequest,
    RequestFacts, TermsMaterial, judge_request, judge_row,
};
use crate::{
    protocol::endpoint_access::{
        AccessDenial, AccessFrame, AccessGrant, AccessRequest, AccessRevocation, GrantedMaterial, MaterialSecret,
    },
    tests::random::Random,
};

const OWNER: &str = "did:web:owner";
const ASKER: &str = "did:web:asker";
const LIMITS: GrantLimits = GrantLimits { per_peer: 3, all: 4 };
const TOKEN_SECONDS: i64 = 100;

fn endpoint(number: u64) -> String {
    format!("{OWNER}#e{number}")
}

/// A row of the owner's store.
#[derive(Clone)]
struct Row {
    grant: AccessGrant,
    is_revoked: bool,
}

struct World {
    random: Random,
    now: i64,
    asker: AskerTable,
    /// Requests that were made and not given up, with their deadlines.
    live: BTreeMap<String, i64>,
    /// Revocations that have reached the asker.
    seen_revoked: BTreeSet<String>,
    requests_made: u64,
    rows: BTreeMap<String, Row>,
    is_trusted: bool,
    terms: EndpointTerms,
    urls: [Option<String>; 2],
    /// Contents on their way, with whether the owner is to hear them.
    channel: Vec<(bool, String)>,
    /// The first text of each grant.
    texts: BTreeMap<String, String>,
    settled: u64,
    denied: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let scopes = vec!["a".to_owned(), "b".to_owned()];
        Self {
            random: Random::new(seed),
            now: 1_000,
            asker: AskerTable::default(),
            live: BTreeMap::new(),
            seen_revoked: BTreeSet::new(),
            requests_made: 0,
            rows: BTreeMap::new(),
            is_trusted: true,
            terms: EndpointTerms {
                material: TermsMaterial::Bearer,
                scopes: scopes.clone(),
                default_scopes: vec!["a".to_owned()],
                allowed: AllowedPeers { everyone: Some(scopes), named: BTreeMap::new() },
                token_seconds: TOKEN_SECONDS,
            },
            urls: [Some("https://owner/0".to_owned()), Some("https://owner/1".to_owned())],
            channel: Vec::new(),
            texts: BTreeMap::new(),
            settled: 0,
            denied: 0,
        }
    }

    fn ask(&mut self) {
        self.requests_made += 1;
        let id = format!("018f4c5e-7a2b-4c3d-8e9f-{:012x}", self.requests_made);
        let request = AccessRequest {
            id: id.clone(),
            endpoint: endpoint(self.random.below(3)),
            scopes: match self.random.below(3) {
                0 => None,
                1 => Some(vec!["b".to_owned()]),
                _ => Some(vec!["c".to_owned()]),
            },
            accept: (self.random.below(4) == 0).then(|| vec![Material::None]),
        };
        let deadline = self.now + 45;
        let content = request.to_content();
        self.asker.ask(OpenRequest { request, deadline }, self.now).expect("room");
        self.live.insert(id, deadline);
        self.channel.push((true, content));
    }

    fn owner_hears(&mut self, content: &str) {
        let Some(AccessFrame::Request(request)) = AccessFrame::read(content) else { panic!("{content} is no request") };
        let place =
            request.endpoint.strip_prefix(OWNER).and_then(|rest| rest.strip_prefix("#e")?.parse::<usize>().ok());
        let url = place.and_then(|place| self.urls.get(place)?.clone());
        let too_early = (self.random.below(20) == 0).then_some(7);
        let facts = RequestFacts {
            peer: ASKER,
            is_trusted: self.is_trusted,
            url: url.as_deref(),
            terms: &self.terms,
            too_early,
        };
        let answer = judge_request(&request, facts).and_then(|terms| {
            let is_active = |row: &&Row| !row.is_revoked && row.grant.expires_at.is_some_and(|end| end > self.now);
            let active: Vec<&Row> = self.rows.values().filter(is_active).collect();
            let of_peer = active.iter().filter(|row| row.grant.endpoint == request.endpoint).count();
            let counts = GrantCounts { of_peer: of_peer as u64, first_end: 1, all: active.len() as u64 };
            let known = self
                .rows
                .get(&request.id)
                .map(|row| KnownGrant { endpoint: row.grant.endpoint.clone(), is_active: is_active(&row) });
            let is_known = judge_row(&request, known.as_ref(), counts, LIMITS)?;
            if !is_known {
                assert!(counts.of_peer < LIMITS.per_peer && counts.all < LIMITS.all, "the bounds hold");
                let token = MaterialSecret::new(format!("token of {}", request.id));
                let grant = AccessGrant {
                    id: request.id.clone(),
                    endpoint: request.endpoint.clone(),
                    url: terms.url,
                    scopes: terms.scopes,
                    expires_at: Some(self.now + terms.seconds),
                    material: GrantedMaterial::Bearer { token },
                };
                let earlier = self.rows.insert(request.id.clone(), Row { grant, is_revoked: false });
                assert!(earlier.is_none(), "one row for one id");
            }
            Ok(())
        });
        let content = match answer {
            Ok(()) => {
                let text = self.rows[&request.id].grant.to_content().to_string();
                let first = self.texts.entry(request.id.clone()).or_insert_with(|| text.clone());
                assert_eq!(*first, text, "the same grant, byte for byte");
                text
            }
            Err(Denied { code, message, retry_after }) => {
                AccessDenial { id: request.id, endpoint: Some(request.endpoint), code, message, retry_after }
                    .to_content()
            }
        };
        self.channel.push((false, content));
    }

    fn asker_hears(&mut self, content: &str) {
        let frame = AccessFrame::read(content).expect("a frame");
        let sender = if self.random.below(30) == 0 { "did:web:thief" } else { OWNER };
        match self.asker.hear(sender, frame, self.now) {
            HeardAnswer::Granted { id, endpoint } => {
                assert_eq!(sender, OWNER, "a thief is not heard");
                let place = endpoint.rsplit_once("#e").and_then(|(_, place)| place.parse::<usize>().ok());
                let url = place.and_then(|place| self.urls.get(place)?.clone());
                let is_settled = match self.asker.settle(&id, url.as_deref(), self.now) {
                    Ok(grant) => {
                        assert_eq!(Some(grant.url.as_str()), url.as_deref());
                        true
                    }
                    Err(_) => false,
                };
                if is_settled {
                    let deadline = self.live.remove(&id).expect("no grant without a live request");
                    assert!(deadline > self.now, "nor after its deadline");
                    assert!(!self.seen_revoked.contains(&id), "none after a revocation was seen");
                    assert!(self.rows.contains_key(&id), "none that was not granted");
                    self.settled += 1;
                }
            }
            HeardAnswer::Denied(denial) => {
                self.live.remove(&denial.id);
                self.denied += 1;
            }
            HeardAnswer::Revoked { id } => {
                self.seen_revoked.insert(id.clone());
                self.live.remove(&id);
            }
            HeardAnswer::Dropped(_) => {}
        }
        for id in &self.seen_revoked {
            let question = |grant: &AccessGrant| grant.id == *id;
            assert!(!self.held().iter().any(question), "a revoked grant is not held");
        }
    }

    /// The grants that can be used.
    fn held(&self) -> Vec<AccessGrant> {
        let questions = [None, Some(vec!["b".to_owned()]), Some(vec!["c".to_owned()])];
        let held = (0..3).flat_map(|number| {
            let of = |scopes: &Option<Vec<String>>, accept| {
                self.asker.held(&endpoint(number), &(scopes.clone(), accept), self.now).cloned()
            };
            questions
                .iter()
                .flat_map(|scopes| [of(scopes, None), of(scopes, Some(vec![Material::None]))])
                .flatten()
                .collect::<Vec<_>>()
        });
        held.collect()
    }

    fn revoke(&mut self) {
        let active: Vec<String> =
            self.rows.iter().filter(|(_, row)| !row.is_revoked).map(|(id, _)| id.clone()).collect();
        if active.is_empty() {
            return;
        }
        let id = active[self.random.below(active.len() as u64) as usize].clone();
        let row = self.rows.get_mut(&id).expect("a row");
        row.is_revoked = true;
        let notice = AccessRevocation { id, endpoint: row.grant.endpoint.clone(), reason: None };
        self.channel.push((false, notice.to_content()));
    }

    fn deliver(&mut self) {
        if self.channel.is_empty() {
            return;
        }
        let place = self.random.below(self.channel.len() as u64) as usize;
        let (is_for_owner, content) = match self.random.below(10) {
            0 => self.channel[place].clone(),
            1 => {
                self.channel.remove(place);
                return;
            }
            _ => self.channel.remove(place),
        };
        if is_for_owner { self.owner_hears(&content) } else { self.asker_hears(&content) }
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..=3 => self.ask(),
            4..=15 => self.deliver(),
            16 => self.revoke(),
            17 => self.now += i64::try_from(self.random.below(30)).expect("small"),
            18 => self.is_trusted = !self.is_trusted || self.random.below(2) == 0,
            19 => {
                let place = self.random.below(2) as usize;
                self.urls[place] =
                    (self.random.below(3) > 0).then(|| format!("https://owner/{}", self.random.below(2)));
                let url = self.urls[place].clone();
                self.asker.note_url(&endpoint(place as u64), url.as_deref());
            }
            20 => {
                // A new process: it has no memory of requests and grants.
                self.asker = AskerTable::default();
                self.live.clear();
            }
            21 => {
                if let Some(id) = self.live.keys().next().cloned() {
                    self.asker.forget(&id);
                    self.live.remove(&id);
                }
            }
            _ => self.asker.expire(self.now),
        }
    }
}

#[test]
fn nothing_is_held_that_was_not_asked_for_or_was_revoked() {
    let (mut settled, mut denied, mut revoked) = (0, 0, 0);
    for seed in 0..400 {
        let mut world = World::new(seed);
        (0..400).for_each(|_| world.step());
        settled += world.settled;
        denied += world.denied;
        revoked += world.seen_revoked.len();
    }
    assert!(
        settled > 1_000 && denied > 1_000 && revoked > 100,
        "{settled} settled, {denied} denied, {revoked} revoked"
    );
}

#[test]
fn a_fair_run_answers_every_request() {
    for seed in 0..200 {
        let mut world = World::new(seed);
        (0..20).for_each(|_| world.ask());
        while let Some((is_for_owner, content)) = world.channel.pop() {
            if is_for_owner { world.owner_hears(&content) } else { world.asker_hears(&content) }
        }
        // A thief's copy of an answer costs nothing: the true one may come behind it, and here it does not.
        let lost = world.live.len();
        assert!(world.settled + world.denied + lost as u64 == 20 && lost < 10, "{lost} of 20 are not answered");
    }
}
