//! Whether a node says that a thing does not exist. Every other failure of a query says nothing of the thing.

use super::chain_error::ChainError;

/// Queries whose missing entity has no gRPC status of its own: sdk/6, with "not found" in the text.
const QUERIES_WITHOUT_NOT_FOUND: [&str; 6] = [
    "feegrant.v1beta1.Query/Allowance",
    "pp.v1.Query/GetParticipant",
    "group.v1.Query/Proposal",
    "group.v1.Query/TallyResult",
    "group.v1.Query/GroupInfo",
    "group.v1.Query/GroupPolicyInfo",
];

/// Whether the entity of the query `path` is not there. NotFound is sdk/22. Every other error says nothing of the entity, not even one
/// that ends in "not found": a node that has pruned its state answers so.
pub fn is_absence(path: &str, error: &ChainError) -> bool {
    match (error.codespace.as_str(), error.code) {
        ("sdk", 22) => true,
        ("sdk", 6) => {
            error.raw_log.contains("not found") && QUERIES_WITHOUT_NOT_FOUND.iter().any(|query| path.ends_with(query))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definite_answer_is_absence() {
        let error = |code, text: &str| ChainError { codespace: "sdk".to_owned(), code, raw_log: text.to_owned() };
        let pruned = "failed to load state at height 5; version does not exist (latest height: 9): not found";
        for (path, error, expected) in [
            ("/svc.ec.v1.Query/GetEcosystem", error(22, "ecosystem 7 not found: key not found"), true),
            ("/svc.ec.v1.Query/GetEcosystem", error(6, "not found"), false),
            ("/svc.pp.v1.Query/GetParticipant", error(6, "participant not found"), true),
            ("/svc.pp.v1.Query/GetParticipant", error(6, "nil pointer dereference"), false),
            ("/svc.pp.v1.Query/GetParticipant", error(38, pruned), false),
            ("/cosmos.group.v1.Query/Proposal", error(6, "load proposal: not found: unknown request"), true),
            ("/cosmos.group.v1.Query/Proposal", error(6, "panic"), false),
            ("/cosmos.group.v1.Query/Proposal", error(38, pruned), false),
            ("/cosmos.feegrant.v1beta1.Query/Allowance", error(18, "height in the future"), false),
        ] {
            assert_eq!(is_absence(path, &error), expected, "{path} {error:?}");
        }
        assert!(error(38, pruned).is_pruned_state() && !error(38, "fee-grant not found").is_pruned_state());
    }
}
