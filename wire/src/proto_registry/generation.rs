//! The generation of a node, found by its messages. Nothing is decided by a version: networks of every generation exist side by side.

use std::fmt;

use prost::Message;

use super::registry::ProtoRegistry;

/// A generation of nodes. Descriptors distinguish them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeGeneration {
    /// With schema authorization policies.
    N0,
    /// Without them.
    N1,
    /// With other numbers of the parameters of trust deposits.
    N2,
    /// With rights that end with their participant, and one allowance for all of them.
    N3,
    /// With a council of validators in the place of governance.
    N4,
}

impl NodeGeneration {
    /// Every generation, the oldest first.
    pub const ALL: [Self; 5] = [Self::N0, Self::N1, Self::N2, Self::N3, Self::N4];

    /// Short name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::N0 => "N0",
            Self::N1 => "N1",
            Self::N2 => "N2",
            Self::N3 => "N3",
            Self::N4 => "N4",
        }
    }

    /// The generation with a short name.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.as_str().eq_ignore_ascii_case(text))
    }

    /// The generation of a node with these descriptors.
    pub fn of_descriptors(registry: &ProtoRegistry) -> Self {
        let (pool, namespace) = (registry.pool(), registry.namespace());
        let message = |module: &str, name: &str| pool.get_message_by_name(&namespace.full_name(module, name));
        let has_council = pool.get_service_by_name(&namespace.full_name("poa", "Msg")).is_some();
        let has_governance = pool.files().any(|file| file.package_name() == "cosmos.gov.v1");
        let record = message("de", "ParticipantAuthorizationRecord");
        let has_own_cap = record.is_none_or(|record| record.get_field_by_name("remaining_fee_spend").is_some());
        let has_fee_period = message("de", "Params").is_some_and(|params| params.get_field(1).is_some());
        let share_value =
            message("td", "Params").and_then(|params| params.get_field_by_name("trust_deposit_share_value"));
        if has_council && !has_governance {
            Self::N4
        } else if !has_own_cap && has_fee_period {
            Self::N3
        } else if share_value.is_some_and(|field| field.number() == 1) {
            Self::N2
        } else if message("cs", "MsgCreateSchemaAuthorizationPolicy").is_some() {
            Self::N0
        } else {
            Self::N1
        }
    }

    /// The generation of a node whose descriptors cannot be used, by its answers.
    pub fn of_answers(answers: &GenerationAnswers) -> Option<Self> {
        if answers.has_council {
            return Some(Self::N4);
        }
        let de: DelegationParams = params_in(answers.delegation_params.as_deref()?)?;
        if de.vs_operator_fee_period.is_some() {
            return Some(Self::N3);
        }
        let td: TrustDepositParams = params_in(answers.trust_deposit_params.as_deref()?)?;
        let has_old_numbers = td.seventh.is_some() || td.eighth.is_some();
        Some(match (has_old_numbers, answers.has_policies) {
            (false, _) => Self::N2,
            (true, true) => Self::N0,
            (true, false) => Self::N1,
        })
    }

    /// Whether each record of a VS operator has a cap of fees and an end of its own. Later one allowance covers all records, an expiration is
    /// the end of a spend cycle, and the right ends with the participant.
    pub fn has_own_record_limits(self) -> bool {
        self < Self::N3
    }
}

impl fmt::Display for NodeGeneration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// The answers of a node from which its generation follows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GenerationAnswers {
    /// The answer to `td.v1.Query/Params`.
    pub trust_deposit_params: Option<Vec<u8>>,
    /// The answer to `de.v1.Query/Params`.
    pub delegation_params: Option<Vec<u8>>,
    /// Whether the node knows the queries of schema authorization policies.
    pub has_policies: bool,
    /// Whether `poa.v1.Query/Council` is answered.
    pub has_council: bool,
}

#[derive(Clone, PartialEq, Message)]
struct ParamsAnswer {
    #[prost(bytes = "vec", tag = "1")]
    params: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct DelegationParams {
    #[prost(bytes = "vec", optional, tag = "1")]
    vs_operator_fee_period: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct TrustDepositParams {
    #[prost(bytes = "vec", optional, tag = "7")]
    seventh: Option<Vec<u8>>,
    #[prost(bytes = "vec", optional, tag = "8")]
    eighth: Option<Vec<u8>>,
}

fn params_in<T: Message + Default>(answer: &[u8]) -> Option<T> {
    T::decode(ParamsAnswer::decode(answer).ok()?.params.as_slice()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(params: &impl Message) -> Option<Vec<u8>> {
        Some(ParamsAnswer { params: params.encode_to_vec() }.encode_to_vec())
    }

    #[test]
    fn the_generation_follows_from_answers_where_descriptors_cannot_be_used() {
        let old = TrustDepositParams { seventh: Some(b"svc1pool".to_vec()), eighth: Some(b"2".to_vec()) };
        let (new, none) = (TrustDepositParams::default(), DelegationParams::default());
        let period = DelegationParams { vs_operator_fee_period: Some(vec![8, 1]) };
        for (td, de, has_policies, has_council, expected) in [
            (answer(&old), answer(&none), true, false, Some(NodeGeneration::N0)),
            (answer(&old), answer(&none), false, false, Some(NodeGeneration::N1)),
            (answer(&new), answer(&none), false, false, Some(NodeGeneration::N2)),
            (answer(&new), answer(&period), false, false, Some(NodeGeneration::N3)),
            (answer(&new), answer(&period), false, true, Some(NodeGeneration::N4)),
            (None, None, false, true, Some(NodeGeneration::N4)),
            (None, answer(&none), true, false, None),
            (answer(&old), None, true, false, None),
            (Some(vec![0xff]), answer(&none), true, false, None),
        ] {
            let answers =
                GenerationAnswers { trust_deposit_params: td, delegation_params: de, has_policies, has_council };
            assert_eq!(NodeGeneration::of_answers(&answers), expected, "{answers:?}");
        }
        assert_eq!(NodeGeneration::parse("n3"), Some(NodeGeneration::N3));
        assert_eq!(NodeGeneration::parse("N5"), None);
    }
}
