//! Witnesses, and the names of keys in proofs.

use super::*;

#[test]
fn the_entry_that_names_witnesses_needs_their_approval() {
    let (own, one, two, stranger) =
        (LogSigningKey::new(1), LogSigningKey::new(11), LogSigningKey::new(12), LogSigningKey::new(13));
    let with = |threshold| {
        move |entry: &mut Value| {
            entry["parameters"]["witness"] =
                witness_parameter(threshold, &[&LogSigningKey::new(11), &LogSigningKey::new(12)]);
        }
    };
    let verify = |log: &DidLogBuilder, proofs: Vec<Value>| {
        resolve(&log.did, log.text().as_bytes(), Some(Value::Array(proofs).to_string().as_bytes())).map(|_| ())
    };
    let first = DidLogBuilder::new("example.org", &own, with(2));
    assert_eq!(verify(&first, vec![first.witness_proof(0, &[&one, &two])]), Ok(()));
    for proofs in [
        vec![],
        vec![first.witness_proof(0, &[&one])],
        vec![first.witness_proof(0, &[&one, &one])],
        vec![first.witness_proof(0, &[&one, &stranger])],
    ] {
        assert!(matches!(verify(&first, proofs), Err(DidLogError::InvalidWitness(_))));
    }
    // Witnesses of the second entry approve that entry or a later one.
    let mut second = DidLogBuilder::new("example.org", &own, |_| {});
    second.add_entry(&own, with(1));
    assert!(matches!(verify(&second, vec![]), Err(DidLogError::InvalidWitness(_))), "the entry that names them");
    assert!(
        matches!(verify(&second, vec![second.witness_proof(0, &[&one])]), Err(DidLogError::InvalidWitness(_))),
        "too early"
    );
    assert_eq!(verify(&second, vec![second.witness_proof(1, &[&one])]), Ok(()));
    second.add_entry(&own, |_| {});
    assert_eq!(
        verify(&second, vec![second.witness_proof(2, &[&two])]),
        Ok(()),
        "a later approval covers earlier entries"
    );
    // Witnesses still have to approve the entry that removes them.
    second.add_entry(&own, |entry| entry["parameters"]["witness"] = json!({}));
    assert!(matches!(verify(&second, vec![second.witness_proof(2, &[&two])]), Err(DidLogError::InvalidWitness(_))));
    assert_eq!(verify(&second, vec![second.witness_proof(3, &[&two])]), Ok(()));
    second.add_entry(&own, |_| {});
    assert_eq!(verify(&second, vec![second.witness_proof(3, &[&two])]), Ok(()), "no witness is in force any more");
    // Proofs of another log.
    let elsewhere = DidLogBuilder::new("other.example.org", &own, with(1));
    assert!(matches!(verify(&second, vec![elsewhere.witness_proof(0, &[&one])]), Err(DidLogError::InvalidWitness(_))));
    let duplicate = DidLogBuilder::new("example.org", &own, |entry| {
        entry["parameters"]["witness"] = witness_parameter(2, &[&one, &one])
    });
    assert!(verify(&duplicate, vec![duplicate.witness_proof(0, &[&one])]).is_err());
}

#[test]
fn a_proof_may_leave_the_fragment_of_its_key_out() {
    let bare = LogSigningKey::without_fragment;
    let (first, second, third) = (bare(1), bare(2), bare(3));
    let mut log = DidLogBuilder::new("example.org", &first, |_| {});
    log.add_entry(&first, |entry| {
        entry["parameters"] = json!({"updateKeys": [second.public], "nextKeyHashes": [third.hash()]});
    });
    log.add_entry(&third, |entry| entry["parameters"] = json!({"updateKeys": [third.public], "nextKeyHashes": []}));
    // Another program goes on with the log.
    log.add_entry(&LogSigningKey::new(3), |_| {});
    assert_eq!(resolve_built_log(&log).expect("it resolves").document["id"], log.did.as_str());
    assert_invalid(log.add_entry(&bare(4), |_| {}), "not authorized");
    // The text is signed as it stands: the fragment cannot be added later.
    let mut rewritten = DidLogBuilder::new("example.org", &first, |_| {});
    rewritten.entries[0]["proof"][0]["verificationMethod"] = format!("did:key:{0}#{0}", first.public).into();
    assert_invalid(&rewritten, "its signature does not verify");
    let mut rewritten = DidLogBuilder::new("example.org", &LogSigningKey::new(1), |_| {});
    rewritten.entries[0]["proof"][0]["verificationMethod"] = first.did_key().into();
    assert_invalid(&rewritten, "its signature does not verify");
    // A fragment that is there belongs to the key.
    let thief = LogSigningKey::new(9);
    for mixed in [thief.with_fragment_of(&first), first.with_fragment_of(&thief)] {
        let mut log = DidLogBuilder::new("example.org", &first, |_| {});
        assert_invalid(log.add_entry(&mixed, |_| {}), "not authorized");
    }
    // Witnesses.
    let witnesses = |entry: &mut Value| entry["parameters"]["witness"] = witness_parameter(2, &[&bare(11), &bare(12)]);
    let log = DidLogBuilder::new("example.org", &first, witnesses);
    let verify = |by: &[&LogSigningKey]| {
        let proofs = Value::Array(vec![log.witness_proof(0, by)]).to_string();
        resolve(&log.did, log.text().as_bytes(), Some(proofs.as_bytes())).map(|_| ())
    };
    assert_eq!(verify(&[&bare(11), &bare(12)]), Ok(()));
    assert_eq!(verify(&[&bare(11), &LogSigningKey::new(12)]), Ok(()));
    // One key counts once, in all of its forms.
    let twice = DidLogBuilder::new("example.org", &first, |entry| {
        let (one, again) = (bare(11).did_key(), format!("{}#{}", bare(11).did_key(), bare(11).public));
        entry["parameters"]["witness"] = json!({"threshold": 2, "witnesses": [{"id": one}, {"id": again}]});
    });
    let proofs = Value::Array(vec![twice.witness_proof(0, &[&bare(11)])]).to_string();
    assert!(resolve(&twice.did, twice.text().as_bytes(), Some(proofs.as_bytes())).is_err());
    for refused in [
        &[&bare(11), &LogSigningKey::new(11)][..],
        &[&bare(11), &thief.with_fragment_of(&bare(12))],
        &[&bare(11), &bare(12).with_fragment_of(&thief)],
    ] {
        assert!(matches!(verify(refused), Err(DidLogError::InvalidWitness(_))));
    }
}
