//! The decision about a request. First by the facts of the moment, then by the grants that are stored.

use std::collections::BTreeMap;

use svc_wire::endpoint_access::{MAX_TOKEN_SECONDS, Material};

use crate::protocol::endpoint_access::{AccessRequest, DenyCode};

/// The conditions of one endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointTerms {
    /// The material that it needs.
    pub material: TermsMaterial,
    /// The scopes that can be granted.
    pub scopes: Vec<String>,
    /// Those of a request that names none.
    pub default_scopes: Vec<String>,
    /// The peers that may call.
    pub allowed: AllowedPeers,
    /// Life of a grant, in seconds.
    pub token_seconds: i64,
}

/// The material of an endpoint, without its secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TermsMaterial {
    /// Nothing.
    None,
    /// A token.
    Bearer,
    /// A header of a foreign endpoint.
    Key {
        /// Its name.
        header: String,
    },
    /// A credential that the peer holds.
    Credential {
        /// Its schema.
        schema_id: String,
        /// DID of its issuer.
        issuer: String,
    },
}

impl TermsMaterial {
    /// Its kind.
    pub fn kind(&self) -> Material {
        match self {
            Self::None => Material::None,
            Self::Bearer => Material::Bearer,
            Self::Key { .. } => Material::Key,
            Self::Credential { .. } => Material::Credential,
        }
    }
}

/// The peers that may call an endpoint, and the scopes of each. A DID that is named has its own scopes and not those of everyone.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AllowedPeers {
    /// The scopes of every trusted peer that is not named; none of them may call when absent.
    pub everyone: Option<Vec<String>>,
    /// The scopes of those that are named, by their DIDs.
    pub named: BTreeMap<String, Vec<String>>,
}

impl AllowedPeers {
    fn scopes_of(&self, peer: &str) -> Option<&[String]> {
        self.named.get(peer).or(self.everyone.as_ref()).map(Vec::as_slice)
    }
}

impl EndpointTerms {
    /// The conditions of an entry without a line: it needs nothing, and every trusted peer may call.
    pub fn open(token_seconds: i64) -> Self {
        Self {
            material: TermsMaterial::None,
            scopes: Vec::new(),
            default_scopes: Vec::new(),
            allowed: AllowedPeers { everyone: Some(Vec::new()), named: BTreeMap::new() },
            token_seconds,
        }
    }

    /// Whether a grant with a material and scopes would still be given to a peer. Otherwise the conditions have become stricter.
    pub fn still_gives(&self, peer: &str, material: Material, scopes: &[String]) -> bool {
        let allowed = self.allowed.scopes_of(peer);
        self.material.kind() == material
            && allowed
                .is_some_and(|allowed| scopes.iter().all(|one| allowed.contains(one) && self.scopes.contains(one)))
    }
}

/// The facts about a request.
#[derive(Debug, Clone, Copy)]
pub struct RequestFacts<'a> {
    /// DID by which the sender is known.
    pub peer: &'a str,
    /// Whether it is a verifiable service.
    pub is_trusted: bool,
    /// URL of the entry in the published document; none when there is no such entry.
    pub url: Option<&'a str>,
    /// The conditions of the entry.
    pub terms: &'a EndpointTerms,
    /// Seconds after which the peer may ask again, when it has asked too often.
    pub too_early: Option<u64>,
}

/// A grant that a request deserves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantTerms {
    /// URL of the entry.
    pub url: String,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Its material.
    pub material: Material,
    /// Its life, in seconds.
    pub seconds: i64,
}

/// A request that is denied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Denied {
    /// The reason.
    pub code: DenyCode,
    /// For people.
    pub message: String,
    /// Seconds after which another request may be granted.
    pub retry_after: Option<u64>,
}

impl Denied {
    /// A denial for good.
    pub fn new(code: DenyCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retry_after: None }
    }

    /// A denial for the moment.
    pub fn for_now(code: DenyCode, message: impl Into<String>, retry_after: u64) -> Self {
        Self { code, message: message.into(), retry_after: Some(retry_after) }
    }
}

/// Judges a request by the facts of the moment. The order matters: a peer that is not trusted learns nothing about endpoints.
pub fn judge_request(request: &AccessRequest, facts: RequestFacts<'_>) -> Result<GrantTerms, Denied> {
    let RequestFacts { peer, is_trusted, url, terms, too_early } = facts;
    if !is_trusted {
        return Err(Denied::new(DenyCode::NotTrusted, "the registry does not show this DID as a verifiable service"));
    }
    let Some(url) = url else {
        return Err(Denied::new(DenyCode::UnknownEndpoint, "the document of this DID has no such entry"));
    };
    if let Some(seconds) = too_early {
        return Err(Denied::for_now(DenyCode::RateLimited, "this DID has asked too often", seconds));
    }
    let Some(allowed) = terms.allowed.scopes_of(peer) else {
        return Err(Denied::new(DenyCode::NotAllowed, "this DID is not among those that may call the endpoint"));
    };
    let may_have = |scope: &&String| allowed.contains(scope) && terms.scopes.contains(scope);
    let scopes = match &request.scopes {
        None => terms.default_scopes.iter().filter(may_have).cloned().collect(),
        Some(wanted) => match wanted.iter().find(|scope| !may_have(scope)) {
            None => wanted.clone(),
            Some(refused) => {
                let message = format!("the scope {refused} is not one that this DID may have at the endpoint");
                return Err(Denied::new(DenyCode::ScopeRefused, message));
            }
        },
    };
    let material = terms.material.kind();
    if request.accept.as_ref().is_some_and(|accepted| !accepted.contains(&material)) {
        let message = format!("the endpoint needs {}, which the request does not accept", material.as_str());
        return Err(Denied::new(DenyCode::MaterialUnsupported, message));
    }
    Ok(GrantTerms { url: url.to_owned(), scopes, material, seconds: terms.token_seconds.clamp(1, MAX_TOKEN_SECONDS) })
}

/// The grant that a peer got for a request id before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KnownGrant {
    /// Its endpoint.
    pub endpoint: String,
    /// Whether it is valid now.
    pub is_active: bool,
}

/// The valid grants of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GrantCounts {
    /// Those of the peer for the endpoint.
    pub of_peer: u64,
    /// Seconds until the first of them ends.
    pub first_end: u64,
    /// All.
    pub all: u64,
}

/// The bounds of valid grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrantLimits {
    /// Those of one peer for one endpoint.
    pub per_peer: u64,
    /// All.
    pub all: u64,
}

impl Default for GrantLimits {
    fn default() -> Self {
        Self { per_peer: 5, all: 100_000 }
    }
}

/// Judges a request by the stored grants. True when the known grant is given once more, and false when a new one is.
pub fn judge_row(
    request: &AccessRequest,
    known: Option<&KnownGrant>,
    counts: GrantCounts,
    limits: GrantLimits,
) -> Result<bool, Denied> {
    match known {
        Some(known) if known.is_active && known.endpoint == request.endpoint => Ok(true),
        Some(_) => {
            Err(Denied::new(DenyCode::InvalidRequest, "the id was used for a grant before; ask with another one"))
        }
        None if counts.all >= limits.all => {
            Err(Denied::for_now(DenyCode::Unavailable, "too many grants are valid now", 60))
        }
        None if counts.of_peer >= limits.per_peer => {
            let message = format!("{} grants for this endpoint are valid; use one of them", limits.per_peer);
            Err(Denied::for_now(DenyCode::RateLimited, message, counts.first_end.max(1)))
        }
        None => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn terms() -> EndpointTerms {
        EndpointTerms {
            material: TermsMaterial::Bearer,
            scopes: scopes(&["read", "write", "admin"]),
            default_scopes: scopes(&["read", "write"]),
            allowed: AllowedPeers {
                everyone: Some(scopes(&["read"])),
                named: BTreeMap::from([
                    ("did:web:friend".to_owned(), scopes(&["read", "write", "other"])),
                    ("did:web:narrow".to_owned(), Vec::new()),
                ]),
            },
            token_seconds: 600,
        }
    }

    fn request(wanted: Option<&[&str]>, accept: Option<&[Material]>) -> AccessRequest {
        AccessRequest {
            id: "018f4c5e-7a2b-4c3d-8e9f-0a1b2c3d4e5f".into(),
            endpoint: "did:web:a#mcp".into(),
            scopes: wanted.map(scopes),
            accept: accept.map(<[Material]>::to_vec),
        }
    }

    #[test]
    fn a_request_is_judged_in_the_order_of_the_protocol() {
        let terms = terms();
        let named_only = EndpointTerms {
            allowed: AllowedPeers { everyone: None, ..terms.allowed.clone() },
            material: TermsMaterial::Key { header: "X-Key".into() },
            ..terms.clone()
        };
        let facts = RequestFacts {
            peer: "did:web:b",
            is_trusted: true,
            url: Some("https://a/mcp"),
            terms: &terms,
            too_early: None,
        };
        let all_wrong = RequestFacts { is_trusted: false, url: None, too_early: Some(9), terms: &named_only, ..facts };
        let bearer: &[Material] = &[Material::Bearer];
        let (plain, greedy) = (request(None, None), request(Some(&["admin"]), Some(&[])));
        for (request, facts, expected) in [
            (&plain, facts, Ok(scopes(&["read"]))),
            (&plain, RequestFacts { peer: "did:web:friend", ..facts }, Ok(scopes(&["read", "write"]))),
            (&plain, RequestFacts { peer: "did:web:narrow", ..facts }, Ok(vec![])),
            (&request(Some(&[]), None), facts, Ok(vec![])),
            (&request(Some(&["read"]), Some(bearer)), facts, Ok(scopes(&["read"]))),
            (&request(Some(&["read", "write"]), None), facts, Err(DenyCode::ScopeRefused)),
            // A scope that the peer's line has and the endpoint has not.
            (
                &request(Some(&["other"]), None),
                RequestFacts { peer: "did:web:friend", ..facts },
                Err(DenyCode::ScopeRefused),
            ),
            (&request(Some(&["read"]), Some(&[Material::None])), facts, Err(DenyCode::MaterialUnsupported)),
            (&greedy, all_wrong, Err(DenyCode::NotTrusted)),
            (&greedy, RequestFacts { is_trusted: true, ..all_wrong }, Err(DenyCode::UnknownEndpoint)),
            (&greedy, RequestFacts { terms: &named_only, too_early: Some(9), ..facts }, Err(DenyCode::RateLimited)),
            (&greedy, RequestFacts { terms: &named_only, ..facts }, Err(DenyCode::NotAllowed)),
            (&greedy, facts, Err(DenyCode::ScopeRefused)),
        ] {
            let judged = judge_request(request, facts).map(|terms| terms.scopes).map_err(|denied| denied.code);
            assert_eq!(judged, expected, "{request:?} {facts:?}");
        }
    }

    #[test]
    fn an_entry_without_a_line_is_open_to_trusted_peers() {
        let terms = EndpointTerms::open(600);
        let facts = RequestFacts {
            peer: "did:web:b",
            is_trusted: true,
            url: Some("https://a/x"),
            terms: &terms,
            too_early: None,
        };
        let given = judge_request(&request(None, None), facts).expect("granted");
        assert_eq!((given.material, given.scopes.len(), given.url.as_str()), (Material::None, 0, "https://a/x"));
        let scoped = judge_request(&request(Some(&["read"]), None), facts);
        assert_eq!(scoped.map_err(|denied| denied.code), Err(DenyCode::ScopeRefused));
    }

    #[test]
    fn a_life_is_never_longer_than_a_token_may_be() {
        for (seconds, expected) in [(60, 60), (900, 900), (901, 900), (0, 1)] {
            let terms = EndpointTerms { token_seconds: seconds, ..terms() };
            let facts = RequestFacts {
                peer: "did:web:b",
                is_trusted: true,
                url: Some("https://a/x"),
                terms: &terms,
                too_early: None,
            };
            assert_eq!(judge_request(&request(None, None), facts).map(|given| given.seconds), Ok(expected));
        }
    }

    #[test]
    fn stricter_conditions_end_a_grant() {
        let terms = terms();
        let read = scopes(&["read"]);
        assert!(terms.still_gives("did:web:b", Material::Bearer, &read));
        assert!(!terms.still_gives("did:web:b", Material::None, &read), "another material");
        assert!(!terms.still_gives("did:web:narrow", Material::Bearer, &read), "its scopes are fewer");
        let fewer = EndpointTerms { scopes: scopes(&["write"]), ..terms.clone() };
        assert!(!fewer.still_gives("did:web:b", Material::Bearer, &read), "the endpoint has fewer");
        let closed = EndpointTerms { allowed: AllowedPeers::default(), ..terms };
        assert!(!closed.still_gives("did:web:b", Material::Bearer, &[]), "it may not call");
    }

    #[test]
    fn rows_bound_grants_and_a_repetition_is_the_same_one() {
        let request = request(None, None);
        let limits = GrantLimits { per_peer: 2, all: 3 };
        let known = |endpoint: &str, is_active| Some(KnownGrant { endpoint: endpoint.into(), is_active });
        let counts = |of_peer, all| GrantCounts { of_peer, first_end: 5, all };
        for (known, counts, expected) in [
            (None, counts(1, 2), Ok(false)),
            (None, counts(2, 2), Err((DenyCode::RateLimited, Some(5)))),
            (None, counts(2, 3), Err((DenyCode::Unavailable, Some(60)))),
            // The bounds are for new ones.
            (known("did:web:a#mcp", true), counts(2, 3), Ok(true)),
            (known("did:web:a#mcp", false), counts(0, 0), Err((DenyCode::InvalidRequest, None))),
            (known("did:web:a#other", true), counts(0, 0), Err((DenyCode::InvalidRequest, None))),
        ] {
            let judged = judge_row(&request, known.as_ref(), counts, limits);
            assert_eq!(judged.map_err(|denied| (denied.code, denied.retry_after)), expected, "{known:?}");
        }
    }
}
