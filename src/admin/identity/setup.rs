//! The steps by which the DID becomes trusted.

use axum::{
    extract::{Request, State},
    response::Response,
};
use serde::Serialize;
use serde_json::Value;
use svc_agent::{Refusal, RefusalCode, Setup, SetupOptions, SetupStep};
use svc_wire::proto::cosmos::base::v1beta1::Coin;
use utoipa::ToSchema;

use crate::admin::{
    api::AdminApi,
    format::{
        answer::{Answer, to_response},
        request::QueryParameters,
        schema::ReadRefusals,
    },
};

const PARAMETERS: &str = "days, spendLimit, feeLimit, applyTo, sentAtOnce";

/// The steps by which the DID becomes trusted, compared with the node.
#[derive(Debug, Serialize, ToSchema)]
pub(in crate::admin) struct SetupState {
    /// Whether every step is done.
    complete: bool,
    /// The steps, in their order.
    steps: Vec<SetupStepState>,
}

/// One step.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct SetupStepState {
    /// Name of the step.
    id: String,
    /// done; missing while it is to be sent, or done by a person; waiting while it was begun.
    #[schema(pattern = "^(done|missing|waiting)$")]
    state: &'static str,
    /// operator of the agent's corporation, which includes the agent itself; or other.
    #[schema(pattern = "^(operator|other)$")]
    by: &'static str,
    /// Corporation of that party, where the registry states it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    corporation_id: Option<String>,
    /// The tool that sends it, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    tool: Option<&'static str>,
    /// The complete arguments of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false, value_type = Object)]
    message: Option<Value>,
    /// The setting of the agent that is to change, where one is: a variable, or a member of ECS_CLAIMS_FILE.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    setting: Option<String>,
    /// The fact that decides the state.
    reason: String,
    /// Seconds until the time of the chain ends a waiting step, where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    ends_in: Option<u64>,
}

impl From<SetupStep> for SetupStepState {
    fn from(step: SetupStep) -> Self {
        Self {
            id: step.id,
            state: step.state.as_str(),
            by: step.by.as_str(),
            corporation_id: step.corporation_id.map(|id| id.to_string()),
            tool: step.tool,
            message: step.message,
            setting: step.setting,
            reason: step.reason,
            ends_in: step.ends_in,
        }
    }
}

impl From<Setup> for SetupState {
    fn from(setup: Setup) -> Self {
        Self { complete: setup.is_complete(), steps: setup.steps.into_iter().map(SetupStepState::from).collect() }
    }
}

/// The body that the route answers.
pub fn setup_body(setup: Setup) -> anyhow::Result<Value> {
    Ok(serde_json::to_value(SetupState::from(setup))?)
}

/// The steps by which the DID becomes trusted, compared with the node: its participants, fees, credentials and digests.
#[utoipa::path(get, path = "/v2/agent/setup", operation_id = "getSetup", tag = "agent",
    params(("days" = Option<u16>, Query, minimum = 1, maximum = 3650,
            description = "Days for which participants are made and extended; 365 when absent."),
        ("spendLimit" = Option<String>, Query, pattern = "^[1-9][0-9]{0,37}[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$",
            description = "Most of the corporation's coins that the agent may spend by an ISSUER participant, such as 10000000ufee; 10000000 base units when absent."),
        ("feeLimit" = Option<String>, Query, pattern = "^[1-9][0-9]{0,37}[a-zA-Z][a-zA-Z0-9/:._-]{2,127}$",
            description = "Most fees that the corporation pays for each participant; no limit when absent, and 10000000 base units a period where the node needs one."),
        ("applyTo" = Option<String>, Query, pattern = "^[1-9][0-9]{0,17}$",
            description = "The ISSUER participant under which the DID becomes a HOLDER; the only one that there is when absent."),
        ("sentAtOnce" = Option<bool>, Query,
            description = "Whether the messages are sent as soon as they are read: a participant then begins after three blocks and two seconds, else after at least 30 s. False when absent.")),
    responses((status = 200, body = SetupState), ReadRefusals))]
pub(in crate::admin) async fn setup(State(api): State<AdminApi>, request: Request) -> Response {
    let query = request.uri().query().map(str::to_owned);
    let answer = async || -> Answer<SetupState> {
        let mut query = QueryParameters::parse(query.as_deref())?;
        let days = query.take("days").map(|text| parse_number("days", &text, u64::from(SetupOptions::MAX_DAYS)));
        let options = SetupOptions {
            days: days.transpose()?.and_then(|days| u32::try_from(days).ok()).unwrap_or(SetupOptions::DEFAULT_DAYS),
            spend_limit: query.take("spendLimit").map(|text| parse_coin("spendLimit", &text)).transpose()?,
            fee_limit: query.take("feeLimit").map(|text| parse_coin("feeLimit", &text)).transpose()?,
            apply_to: query.take("applyTo").map(|text| parse_number("applyTo", &text, i64::MAX as u64)).transpose()?,
            is_sent_at_once: query.take("sentAtOnce").map(|text| parse_flag("sentAtOnce", &text)).transpose()?
                == Some(true),
        };
        query.finish(PARAMETERS)?;
        Ok(api.agent.credentials().setup(options).await?.into())
    };
    to_response(answer().await)
}

fn invalid(name: &str, rule: String) -> Refusal {
    Refusal::of_member(RefusalCode::InvalidInput, name, rule)
}

fn parse_number(name: &str, text: &str, most: u64) -> Result<u64, Refusal> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = text.parse().ok().filter(|number| is_plain && (1..=most).contains(number));
    number.ok_or_else(|| invalid(name, format!("allowed is a whole number from 1 to {most}")))
}

fn parse_flag(name: &str, text: &str) -> Result<bool, Refusal> {
    text.parse().map_err(|_| invalid(name, "allowed is true or false".to_owned()))
}

/// An amount with its denomination, as the chain writes coins.
fn parse_coin(name: &str, text: &str) -> Result<Coin, Refusal> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (amount, denom) = text.split_at(digits);
    let is_amount = !amount.starts_with('0') && amount.parse::<u128>().is_ok();
    let mut letters = denom.bytes();
    let is_denom = (3..=128).contains(&denom.len())
        && letters.next().is_some_and(|first| first.is_ascii_alphabetic())
        && letters.all(|byte| byte.is_ascii_alphanumeric() || b"/:._-".contains(&byte));
    if is_amount && is_denom {
        return Ok(Coin { denom: denom.to_owned(), amount: amount.to_owned() });
    }
    Err(invalid(name, "allowed is an amount in base units with its denomination, such as 10000000ufee".to_owned()))
}
