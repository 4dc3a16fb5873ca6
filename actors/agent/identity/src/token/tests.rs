use std::collections::BTreeSet;

use base64::{Engine, engine::general_purpose::STANDARD};
use svc_agent_core::error::RefusalCode;
use svc_wire::{account_key::AccountKey, adr036};

use super::core::{LoginChallenge, LoginCore, LoginProof, LoginRules, TokenCheck};

const NOW: i64 = 1_800_000_000;
const ORIGIN: &str = "https://admin.agent.example.com";

fn key(seed: u8) -> AccountKey {
    AccountKey::from_bytes(&[seed; 32]).expect("a key")
}

fn account(seed: u8) -> String {
    key(seed).public_key().address("svc").expect("an address").as_str().to_owned()
}

fn core(audience: Option<&str>) -> LoginCore {
    let allowed_accounts = BTreeSet::from([account(1)]);
    let rules = LoginRules { audience: audience.map(str::to_owned), prefix: "svc".to_owned(), allowed_accounts };
    LoginCore::new(rules, [7; 32])
}

fn prove(seed: u8, challenge: &LoginChallenge) -> LoginProof {
    let key = key(seed);
    let address = key.public_key().address("svc").expect("an address");
    let payload = match &challenge.audience {
        Some(audience) => format!("vs-agent-admin-auth:{audience}:{}", challenge.nonce),
        None => format!("vs-agent-admin-auth:{}", challenge.nonce),
    };
    LoginProof {
        account: address.as_str().to_owned(),
        public_key: STANDARD.encode(key.public_key().as_bytes()),
        signature: adr036::sign_arbitrary(&key, &payload, &address).expect("signed"),
        nonce: challenge.nonce.clone(),
    }
}

fn challenge(core: &LoginCore, seed: u8, random: u64) -> LoginChallenge {
    core.challenge(&account(seed), random.to_be_bytes(), NOW).expect("a challenge")
}

#[test]
fn a_signed_challenge_gives_a_token_for_fifteen_minutes() {
    for audience in [None, Some(ORIGIN)] {
        let mut core = core(audience);
        let challenge = challenge(&core, 1, 0);
        assert_eq!((challenge.expires_at, challenge.audience.as_deref()), (NOW + 120, audience));
        assert_eq!(challenge.nonce.len(), 43);
        assert_eq!(core.redeem(&prove(1, &challenge), "token", NOW + 119), Ok(NOW + 119 + 900));
        assert_eq!(core.check("token", NOW + 119 + 899), TokenCheck::Allowed(account(1)));
        assert_eq!(core.check("token", NOW + 119 + 900), TokenCheck::Unknown);
        assert_eq!(core.check("other", NOW), TokenCheck::Unknown);
    }
}

#[test]
fn an_account_that_is_not_on_the_list_has_a_token_of_no_use() {
    let mut core = core(Some(ORIGIN));
    let challenge = challenge(&core, 2, 0);
    core.redeem(&prove(2, &challenge), "token", NOW).expect("a token");
    assert_eq!(core.check("token", NOW), TokenCheck::NotAllowed);
}

#[test]
fn every_failed_login_has_the_same_answer_and_a_nonce_is_presented_once() {
    let mut core = core(Some(ORIGIN));
    let made = challenge(&core, 1, 0);
    let good = prove(1, &made);
    let other = challenge(&core, 2, 1);
    let two_parts = prove(1, &LoginChallenge { audience: None, ..challenge(&core, 1, 2) });
    let foreign =
        prove(1, &LoginChallenge { audience: Some("https://other.example".to_owned()), ..challenge(&core, 1, 3) });
    let mut answers = Vec::new();
    for proof in [
        LoginProof { nonce: other.nonce.clone(), ..good.clone() },
        LoginProof { nonce: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8".to_owned(), ..good.clone() },
        LoginProof { nonce: format!("{}=", made.nonce), ..good.clone() },
        LoginProof { account: account(2), ..good.clone() },
        LoginProof { public_key: STANDARD.encode(key(2).public_key().as_bytes()), ..good.clone() },
        LoginProof { public_key: String::new(), ..good.clone() },
        two_parts,
        foreign,
    ] {
        answers.push(core.redeem(&proof, "token", NOW).expect_err("refused"));
    }
    // A presented nonce is spent, also by a failed login.
    answers.push(core.redeem(&good, "token", NOW).expect_err("spent"));
    let fresh = challenge(&core, 1, 9);
    core.redeem(&prove(1, &fresh), "token", NOW).expect("the first time");
    answers.push(core.redeem(&prove(1, &fresh), "token", NOW).expect_err("the second time"));
    let late = challenge(&core, 1, 10);
    answers.push(core.redeem(&prove(1, &late), "token", NOW + 120).expect_err("too late"));
    let first = answers[0].clone();
    assert_eq!(first.code, RefusalCode::Unauthenticated);
    assert!(answers.iter().all(|answer| *answer == first), "{answers:?}");
    assert_eq!(
        core.challenge("cosmos19rl4cm2hmr8afy4kldpxz3fka4jguq0auqdal4", [0; 8], NOW).expect_err("another chain").code,
        RefusalCode::InvalidInput
    );
}

#[test]
fn strangers_challenges_and_tokens_push_out_nothing() {
    let mut core = core(Some(ORIGIN));
    let under_way = challenge(&core, 1, u64::MAX);
    for random in 0..10_000 {
        challenge(&core, 1, random);
    }
    assert_eq!(core.sizes(), (0, 0));
    core.redeem(&prove(1, &under_way), "first", NOW).expect("a login under way");
    for random in 0..40 {
        let stranger = challenge(&core, 2, random);
        core.redeem(&prove(2, &stranger), &format!("stranger {random}"), NOW).expect("a token");
    }
    assert_eq!(core.check("first", NOW), TokenCheck::Allowed(account(1)));
}

#[test]
fn an_account_has_thirty_two_tokens_and_ended_ones_are_forgotten() {
    let mut core = core(None);
    for number in 0..33 {
        let made = challenge(&core, 1, number);
        core.redeem(&prove(1, &made), &number.to_string(), NOW).expect("a token");
    }
    assert_eq!(core.check("0", NOW), TokenCheck::Unknown);
    assert!((1..33).all(|number: u64| core.check(&number.to_string(), NOW) != TokenCheck::Unknown));
    let late = core.challenge(&account(1), [9; 8], NOW + 900).expect("a challenge");
    core.redeem(&prove(1, &late), "late", NOW + 900).expect("a token");
    assert_eq!(core.sizes(), (1, 1));
}
