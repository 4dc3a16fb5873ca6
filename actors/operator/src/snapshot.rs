//! What is known of the bound corporation: published as one immutable value, read without a message and without a wait.

use std::sync::Arc;

use arc_swap::ArcSwap;
use prost_types::Timestamp;
use serde_json::Value;
use svc_wire::instant;
use tokio::sync::watch;

/// An authorization of this operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Authorization {
    /// Id on chain.
    pub id: u64,
    /// Message types as type URLs.
    pub msg_types: Vec<String>,
    /// End of validity; `None`: none.
    pub expiration: Option<Timestamp>,
    /// Whether it renews itself when it has expired.
    pub renews: bool,
    /// As the indexer shows it.
    pub body: Value,
}

/// A fee allowance from the corporation to the operator.
#[derive(Debug, Clone, PartialEq)]
pub struct Allowance {
    /// Message types it pays for; `None`: any.
    pub msg_types: Option<Vec<String>>,
    /// End of validity; `None`: none.
    pub expiration: Option<Timestamp>,
    /// What can be spent in the fee denom now; `None`: without limit.
    pub budget: Option<u128>,
    /// When the budget refills, for a periodic allowance.
    pub refills: Option<Timestamp>,
    /// As the chain encodes it, as JSON.
    pub body: Value,
}

/// An agent of the corporation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agent {
    /// DID of its participants.
    pub did: String,
    /// Account it acts with.
    pub vs_operator: String,
    /// Ids of its participants.
    pub participants: Vec<u64>,
}

/// One picture of the corporation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Snapshot {
    /// The corporation as the indexer shows it.
    pub corporation: Value,
    /// Its ecosystems as the indexer shows them.
    pub ecosystems: Vec<Value>,
    /// Authorizations of this operator.
    pub authorizations: Vec<Authorization>,
    /// Authorizations of its VS operators, as the indexer shows them.
    pub vs_authorizations: Vec<Value>,
    /// Agents: participants with a DID and a VS operator that the corporation authorizes, by DID and operator.
    pub agents: Vec<Agent>,
    /// Account of this operator.
    pub operator: String,
    /// Whether the indexer answers trust reads.
    pub serves_trust: bool,
    /// Fee allowance to this operator.
    pub allowance: Option<Allowance>,
    /// Number of the operator's account; `None` while the account does not exist.
    pub account_number: Option<u64>,
    /// Its sequence in the newest block.
    pub sequence: u64,
    /// When it was read, RFC 3339.
    pub refreshed_at: String,
}

/// Whether a message type may be sent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Yes.
    Granted,
    /// An authorization names it, but has expired.
    Expired(String),
    /// No authorization names it.
    NotGranted,
}

impl Snapshot {
    /// Account of the corporation.
    pub fn policy_address(&self) -> &str {
        self.corporation["policy_address"].as_str().unwrap_or_default()
    }

    /// Whether the corporation grants a message type to this operator now.
    pub fn gate(&self, msg_type: &str, now: &Timestamp) -> Gate {
        let mut gate = self.record_gate(msg_type, now);
        if gate == Gate::Granted {
            return gate;
        }
        for authorization in
            self.authorizations.iter().filter(|one| one.msg_types.iter().any(|listed| listed == msg_type))
        {
            match &authorization.expiration {
                Some(until) if instant::at_or_before(until, now) && !authorization.renews => {
                    gate = Gate::Expired(instant::iso_millis(until));
                }
                Some(_) | None => return Gate::Granted,
            }
        }
        gate
    }

    /// Records of this operator as the VS operator of participants, with the id of their authorization.
    pub fn own_records(&self) -> impl Iterator<Item = (&Value, &Value)> {
        let own = self.vs_authorizations.iter().filter(|one| one["vs_operator"] == self.operator.as_str());
        own.flat_map(|one| one["records"].as_array().into_iter().flatten().map(move |record| (&one["id"], record)))
    }

    /// The same for what this operator may send as the VS operator of a participant. A record without an end is unusable.
    fn record_gate(&self, msg_type: &str, now: &Timestamp) -> Gate {
        let mut gate = Gate::NotGranted;
        for (_, record) in self.own_records().filter(|(_, record)| {
            record["msg_types"].as_array().is_some_and(|listed| listed.iter().any(|one| one == msg_type))
        }) {
            let Some(until) = record["expiration"].as_str().and_then(instant::parse_rfc3339) else { continue };
            if !instant::at_or_before(&until, now) || record["period"].is_string() {
                return Gate::Granted;
            }
            gate = Gate::Expired(instant::iso_millis(&until));
        }
        gate
    }

    /// Budget of the fee allowance for a message type now: `None` when it cannot pay, `Some(None)` when it pays any amount.
    pub fn fee_budget(&self, msg_type: &str, now: &Timestamp) -> Option<Option<u128>> {
        let allowance = self.allowance.as_ref()?;
        let is_listed = allowance.msg_types.as_ref().is_none_or(|listed| listed.iter().any(|one| one == msg_type));
        let is_valid = allowance.expiration.as_ref().is_none_or(|until| !instant::at_or_before(until, now));
        let is_refilled = allowance.refills.as_ref().is_some_and(|at| instant::at_or_before(at, now));
        // A budget that refills by now is larger than what was read; the chain decides.
        let budget = if is_refilled { None } else { allowance.budget };
        (is_listed && is_valid).then_some(budget)
    }
}

/// How often each part of the snapshot has changed. Compare two of them to know what is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Versions {
    /// Account number and sequence.
    pub operator: u64,
    /// The corporation and its ecosystems.
    pub corporation: u64,
    /// What the operator may send, and whether the corporation pays for it.
    pub authorizations: u64,
    /// The fee allowance.
    pub fee_grant: u64,
    /// Who the agents are and where their admin APIs are.
    pub agents: u64,
    /// Which reads the indexer answers.
    pub reads: u64,
}

impl Versions {
    fn after(self, before: &Snapshot, next: &Snapshot) -> Self {
        let is_operator_new = (before.account_number, before.sequence) != (next.account_number, next.sequence);
        let is_corporation_new = before.corporation != next.corporation || before.ecosystems != next.ecosystems;
        let is_paid = |snapshot: &Snapshot| snapshot.allowance.as_ref().map(|allowance| allowance.msg_types.clone());
        let is_authorization_new = before.authorizations != next.authorizations
            || before.vs_authorizations != next.vs_authorizations
            || is_paid(before) != is_paid(next);
        Self {
            operator: self.operator + u64::from(is_operator_new),
            corporation: self.corporation + u64::from(is_corporation_new),
            authorizations: self.authorizations + u64::from(is_authorization_new),
            fee_grant: self.fee_grant + u64::from(before.allowance != next.allowance),
            agents: self.agents
                + u64::from(before.agents != next.agents || before.vs_authorizations != next.vs_authorizations),
            reads: self.reads + u64::from(before.serves_trust != next.serves_trust),
        }
    }
}

/// Where the newest snapshot is published.
#[derive(Clone)]
pub struct Board {
    current: Arc<ArcSwap<Snapshot>>,
    versions: watch::Sender<Versions>,
}

impl Board {
    pub fn new(first: Snapshot) -> Self {
        Self { current: Arc::new(ArcSwap::from_pointee(first)), versions: watch::channel(Versions::default()).0 }
    }

    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// Publishes; tells whether what the operator may do has changed.
    pub fn publish(&self, next: Snapshot) -> bool {
        let mut has_other_authorizations = false;
        let next = Arc::new(next);
        self.versions.send_if_modified(|versions| {
            let before = *versions;
            *versions = before.after(&self.current.load(), &next);
            self.current.store(Arc::clone(&next));
            has_other_authorizations = versions.authorizations != before.authorizations;
            *versions != before
        });
        has_other_authorizations
    }

    /// Announces that the whereabouts of an agent have changed.
    pub fn agents_changed(&self) {
        self.versions.send_modify(|versions| versions.agents += 1);
    }

    pub fn changes(&self) -> watch::Receiver<Versions> {
        self.versions.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    fn snapshot(expiration: Option<i64>, renews: bool) -> Snapshot {
        let authorization = Authorization {
            id: 1,
            msg_types: vec!["/a".into()],
            expiration: expiration.map(at),
            renews,
            body: Value::Null,
        };
        Snapshot { authorizations: vec![authorization], ..Snapshot::default() }
    }

    #[test]
    fn the_gate_mirrors_the_chain() {
        for (expiration, renews, msg_type, expected) in [
            (None, false, "/a", "granted"),
            (None, false, "/b", "not"),
            (Some(11), false, "/a", "granted"),
            (Some(10), false, "/a", "expired"),
            (Some(10), true, "/a", "granted"),
        ] {
            let found = match snapshot(expiration, renews).gate(msg_type, &at(10)) {
                Gate::Granted => "granted",
                Gate::Expired(_) => "expired",
                Gate::NotGranted => "not",
            };
            assert_eq!(found, expected, "{expiration:?} {renews} {msg_type}");
        }
    }

    #[test]
    fn a_record_of_a_vs_operator_counts_for_its_own_account_while_it_has_an_end_to_come() {
        let record = |expiration: Value| serde_json::json!({"msg_types": ["/s"], "expiration": expiration});
        for (owner, expiration, is_granted) in [
            ("me", Value::from("1970-01-01T00:00:11Z"), true),
            ("me", Value::from("1970-01-01T00:00:10Z"), false),
            ("me", Value::Null, false),
            ("you", Value::from("1970-01-01T00:00:11Z"), false),
        ] {
            let authorization = serde_json::json!({"vs_operator": owner, "records": [record(expiration.clone())]});
            let snapshot =
                Snapshot { operator: "me".into(), vs_authorizations: vec![authorization], ..Snapshot::default() };
            assert_eq!(snapshot.gate("/s", &at(10)) == Gate::Granted, is_granted, "{owner} {expiration}");
        }
    }

    #[test]
    fn an_allowance_pays_for_what_it_lists_while_it_is_valid() {
        let allowance = Allowance {
            msg_types: Some(vec!["/a".into()]),
            expiration: Some(at(100)),
            budget: Some(5),
            refills: Some(at(50)),
            body: Value::Null,
        };
        let snapshot = Snapshot { allowance: Some(allowance), ..Snapshot::default() };
        assert_eq!(snapshot.fee_budget("/a", &at(10)), Some(Some(5)));
        assert_eq!(snapshot.fee_budget("/a", &at(50)), Some(None));
        assert_eq!(snapshot.fee_budget("/b", &at(10)), None);
        assert_eq!(snapshot.fee_budget("/a", &at(100)), None);
        assert_eq!(Snapshot::default().fee_budget("/a", &at(10)), None);
    }

    #[test]
    fn only_the_part_that_changed_is_announced() {
        let board = Board::new(snapshot(None, false));
        assert!(!board.publish(Snapshot { refreshed_at: "later".into(), ..snapshot(None, false) }));
        assert_eq!(*board.changes().borrow(), Versions::default());
        assert!(!board.publish(Snapshot { sequence: 1, ..snapshot(None, false) }));
        assert_eq!(*board.changes().borrow(), Versions { operator: 1, ..Versions::default() });
        assert!(board.publish(Snapshot { sequence: 1, ..snapshot(Some(1), false) }));
        assert_eq!(*board.changes().borrow(), Versions { operator: 1, authorizations: 1, ..Versions::default() });
    }
}
