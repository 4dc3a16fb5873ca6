//! The list of grants that were revoked before their end.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::timestamp;

/// Seconds after its end for which a revoked grant stays in the list: clocks differ.
const KEPT_AFTER_END: i64 = 60;

/// The grants of an agent that are void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevocationList {
    /// DID of the agent.
    pub issuer: String,
    /// Time of the list, in seconds since the epoch.
    pub generated_at: i64,
    /// Tokens that were issued before are void, in seconds since the epoch.
    pub valid_from: i64,
    /// Ends of the revoked grants, in seconds since the epoch, by their ids.
    revoked: HashMap<String, i64>,
}

/// A grant that was revoked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RevokedGrant {
    /// Id of the grant, and of its token.
    pub id: String,
    /// End of its token, in seconds since the epoch.
    pub expires_at: i64,
}

impl RevocationList {
    /// Makes a list. Grants that ended a minute ago or more are left out.
    pub fn new(
        issuer: &str,
        generated_at: i64,
        valid_from: i64,
        revoked: impl IntoIterator<Item = RevokedGrant>,
    ) -> Self {
        let is_needed = |grant: &RevokedGrant| grant.expires_at.saturating_add(KEPT_AFTER_END) > generated_at;
        let revoked = revoked.into_iter().filter(is_needed).map(|grant| (grant.id, grant.expires_at)).collect();
        Self { issuer: issuer.to_owned(), generated_at, valid_from, revoked }
    }

    /// Whether a grant is in the list.
    pub fn has(&self, id: &str) -> bool {
        self.revoked.contains_key(id)
    }

    /// The list as JSON, in the order of the ends and ids.
    pub fn to_json(&self) -> Value {
        let mut rows: Vec<(&String, &i64)> = self.revoked.iter().collect();
        rows.sort_by_key(|(id, end)| (*end, *id));
        let at = prost_types::Timestamp { seconds: self.generated_at, nanos: 0 };
        json!({
            "issuer": self.issuer,
            "generated_at": timestamp::iso_millis(&at),
            "valid_from": self.valid_from,
            "revoked": rows.into_iter().map(|(jti, exp)| json!({"jti": jti, "exp": exp})).collect::<Vec<_>>(),
        })
    }

    /// Reads a list; `None` when it is not one of this issuer. An unreadable row makes the list unreadable: it could be the one that
    /// revokes.
    pub fn read(list: &Value, issuer: &str) -> Option<Self> {
        let generated_at = timestamp::parse_rfc3339(list["generated_at"].as_str()?)?.seconds;
        let rows = list["revoked"].as_array()?;
        let row = |row: &Value| Some((row["jti"].as_str()?.to_owned(), row["exp"].as_i64()?));
        let revoked = rows.iter().map(row).collect::<Option<HashMap<_, _>>>()?;
        (list["issuer"] == issuer).then_some(())?;
        Some(Self { issuer: issuer.to_owned(), generated_at, valid_from: list["valid_from"].as_i64()?, revoked })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_is_written_and_forgets_those_that_have_ended() {
        let grant = |id: &str, expires_at| RevokedGrant { id: id.to_owned(), expires_at };
        let list = RevocationList::new("did:web:a", 1_000, 7, [grant("b", 2_000), grant("a", 941), grant("old", 940)]);
        let json = list.to_json();
        assert_eq!(
            json,
            json!({"issuer": "did:web:a", "generated_at": "1970-01-01T00:16:40.000Z", "valid_from": 7,
                "revoked": [{"jti": "a", "exp": 941}, {"jti": "b", "exp": 2_000}]})
        );
        assert_eq!(RevocationList::read(&json, "did:web:a"), Some(list.clone()));
        assert!(list.has("a") && !list.has("old"));
        assert_eq!(RevocationList::read(&json, "did:web:b"), None);
        for (name, value) in [
            ("revoked", json!([{"jti": "a"}])),
            ("revoked", json!(null)),
            ("valid_from", json!("7")),
            ("generated_at", json!("now")),
        ] {
            let mut wrong = json.clone();
            wrong[name] = value;
            assert_eq!(RevocationList::read(&wrong, "did:web:a"), None, "{name}");
        }
    }
}
