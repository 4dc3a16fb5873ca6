//! Whether an evaluation is finished. Pure.

/// The last finished verdict on a DID.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormerVerdict {
    /// There is none.
    Absent,
    NotTrusted,
    Trusted {
        /// Whether the DID is no longer trusted with the evidence that was fetched before: the registry changed or an end passed.
        is_refuted: bool,
    },
}

/// The facts about an evaluation whose outcome depends on a failure that may pass.
#[derive(Debug, Clone, Copy)]
pub struct EvaluationFacts {
    /// Whether the registry contains the DID.
    pub is_registered: bool,
    pub former: FormerVerdict,
    /// First failure, milliseconds since the epoch.
    pub since: i64,
    pub now: i64,
    /// Longest time that an evaluation stays open, in milliseconds.
    pub limit: i64,
}

/// The decision about an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatienceDecision {
    /// The verdict is finished.
    Close,
    /// The verdict with the evidence that was fetched before is finished.
    CloseAsRefuted,
    /// The verdict is not finished.
    KeepOpen {
        /// Whether the last finished verdict stays.
        keeps_former: bool,
    },
}

/// Decides whether an evaluation is finished.
pub fn decide(facts: &EvaluationFacts) -> PatienceDecision {
    if !facts.is_registered {
        return PatienceDecision::Close;
    }
    if facts.former == (FormerVerdict::Trusted { is_refuted: true }) {
        return PatienceDecision::CloseAsRefuted;
    }
    if facts.now.saturating_sub(facts.since) >= facts.limit {
        return PatienceDecision::Close;
    }
    PatienceDecision::KeepOpen { keeps_former: facts.former != FormerVerdict::Absent }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_waits_within_the_patience_unless_the_registry_decides() {
        use FormerVerdict::{Absent, NotTrusted, Trusted};
        use PatienceDecision::{Close, CloseAsRefuted, KeepOpen};
        let trusted = Trusted { is_refuted: false };
        let refuted = Trusted { is_refuted: true };
        for (is_registered, former, age, expected) in [
            (true, Absent, 0, KeepOpen { keeps_former: false }),
            (true, NotTrusted, 0, KeepOpen { keeps_former: true }),
            (true, trusted, 0, KeepOpen { keeps_former: true }),
            (true, trusted, 999, KeepOpen { keeps_former: true }),
            (true, trusted, 1_000, Close),
            (true, Absent, 1_000, Close),
            (true, NotTrusted, 172_800_000, Close),
            (true, refuted, 0, CloseAsRefuted),
            (true, refuted, 2_000, CloseAsRefuted),
            (false, trusted, 0, Close),
        ] {
            let facts = EvaluationFacts { is_registered, former, since: 5_000, now: 5_000 + age, limit: 1_000 };
            assert_eq!(decide(&facts), expected, "{facts:?}");
        }
    }
}
