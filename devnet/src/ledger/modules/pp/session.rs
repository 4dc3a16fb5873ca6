//! Participant sessions: an issuance or a verification took place, and its beneficiaries are paid.

use std::collections::BTreeMap;

use svc_wire::{
    instant,
    proto::svc::{
        cs::v1::CredentialSchema,
        pp::v1::{
            MsgCreateOrUpdateParticipantSession, MsgCreateOrUpdateParticipantSessionResponse, Participant,
            ParticipantRole as Role, ParticipantSession, ParticipantSessionRecord,
        },
    },
};
use uuid::Uuid;

use super::{
    active, addresses, beneficiaries, fee_denom, load, plain, policy_address, registered,
    rules::{Price, price},
    store,
};
use crate::ledger::{
    decimal::Dec,
    error::LedgerError,
    exec::{Chain, Exec},
    modules::{
        bank,
        de::{self, vs},
        di, td,
    },
    validate,
};

const RECORD: &str = "VS operator authorization check failed";
const WHOLE_DISCOUNT: u64 = 10_000;

pub fn validate_session(chain: &Chain, message: &MsgCreateOrUpdateParticipantSession) -> Result<(), LedgerError> {
    addresses(chain, &message.corporation, &message.operator)?;
    let refuse = |text: String| Err(LedgerError::sdk(18, text));
    if Uuid::try_parse(&message.id).is_err() {
        return refuse(format!("id must be a UUID, got {:?}", message.id));
    }
    if message.issuer_participant_id == 0 && message.verifier_participant_id == 0 {
        return refuse("issuer_participant_id or verifier_participant_id is required".to_owned());
    }
    if !message.digest.is_empty() && !validate::is_digest_sri(&message.digest) {
        return refuse(format!("invalid digest SRI: {:?}", message.digest));
    }
    Ok(())
}

/// Everyone a session names.
struct Parties {
    issuer: Option<Participant>,
    verifier: Option<Participant>,
    agent: Option<Participant>,
    wallet_agent: Option<Participant>,
}

impl Parties {
    /// Who is checked, whose discount counts and whose record pays.
    fn primary(&self) -> Option<&Participant> {
        self.verifier.as_ref().or(self.issuer.as_ref())
    }
}

/// The issuer or verifier that acts.
fn acting(
    exec: &Exec<'_>,
    message: &MsgCreateOrUpdateParticipantSession,
    id: u64,
    role: Role,
) -> Result<Option<Participant>, LedgerError> {
    if id == 0 {
        return Ok(None);
    }
    let participant = of_role(exec, id, role)?;
    if participant.vs_operator != message.operator {
        return plain(format!("{} is not the VS operator of participant {id}", message.operator));
    }
    if de::corporation_of(exec, &message.corporation) != Some(participant.corporation_id) {
        return plain(format!("participant {id} belongs to another corporation"));
    }
    Ok(Some(participant))
}

fn of_role(exec: &Exec<'_>, id: u64, role: Role) -> Result<Participant, LedgerError> {
    let participant = load(exec, id)?;
    if participant.role() != role {
        return plain(format!("participant {id} must be of role {}", role.as_str_name()));
    }
    active(&participant, "participant", &exec.now())?;
    Ok(participant)
}

/// Both agents are issuers of their own credential.
fn agent(exec: &Exec<'_>, id: u64) -> Result<Option<Participant>, LedgerError> {
    if id == 0 { Ok(None) } else { of_role(exec, id, Role::Issuer).map(Some) }
}

/// What one beneficiary gets.
struct Share {
    id: u64,
    corporation_id: u64,
    pay: u64,
    deposit: u64,
}

/// All payments of a session.
struct Bill {
    shares: Vec<Share>,
    denom: String,
    agent_reward: Dec,
    wallet_reward: Dec,
}

impl Bill {
    fn of(exec: &Exec<'_>, schema: &CredentialSchema, parties: &Parties) -> Result<Self, LedgerError> {
        let is_verification = parties.verifier.is_some();
        let primary = parties.primary();
        let discount = primary.map_or(0, |primary| {
            if is_verification { primary.verification_fee_discount } else { primary.issuance_fee_discount }
        });
        let kept = u128::from(WHOLE_DISCOUNT.saturating_sub(discount));
        let rate = td::deposit_rate(exec.state);
        let (agent_rate, wallet_rate) = td::agent_rates(exec.state);
        let mut bill = Self {
            shares: Vec::new(),
            denom: fee_denom(exec.chain, schema),
            agent_reward: Dec::default(),
            wallet_reward: Dec::default(),
        };
        for one in beneficiaries(exec.state, parties.issuer.as_ref(), parties.verifier.as_ref()) {
            exec.gas.read(0);
            let fees = if is_verification { one.verification_fees } else { one.issuance_fees };
            let discounted = td::int64(u128::from(fees) * kept / u128::from(WHOLE_DISCOUNT))?;
            if discounted == 0 {
                continue;
            }
            let Price { fee, basis } = price(exec, schema, discounted)?;
            let pay = Dec::from_integer(fee).mul(&Dec::from_integer(1).sub(&rate));
            bill.shares.push(Share {
                id: one.id,
                corporation_id: one.corporation_id,
                pay: td::to_u64(&pay)?,
                deposit: td::deposit_of(exec.state, basis)?,
            });
            let basis = Dec::from_integer(basis);
            if parties.agent.is_some() {
                bill.agent_reward = bill.agent_reward.add(&basis.mul(&agent_rate));
            }
            if parties.wallet_agent.is_some() {
                bill.wallet_reward = bill.wallet_reward.add(&basis.mul(&wallet_rate));
            }
        }
        Ok(bill)
    }

    /// What the corporation needs, by denom.
    fn required(&self, chain: &Chain) -> Result<Vec<(String, u128)>, LedgerError> {
        let mut sums: BTreeMap<String, u128> = BTreeMap::new();
        for share in &self.shares {
            *sums.entry(chain.denom.clone()).or_default() += 2 * u128::from(share.deposit);
            *sums.entry(self.denom.clone()).or_default() += u128::from(share.pay);
        }
        for reward in [&self.agent_reward, &self.wallet_reward] {
            *sums.entry(chain.denom.clone()).or_default() += u128::from(td::to_u64(reward)?);
        }
        Ok(sums.into_iter().filter(|(_, amount)| *amount > 0).collect())
    }
}

fn stake(exec: &mut Exec<'_>, id: u64, amount: u64) -> Result<(), LedgerError> {
    let mut participant = load(exec, id)?;
    participant.deposit = td::int64(u128::from(participant.deposit) + u128::from(amount))?;
    store(exec, participant);
    Ok(())
}

fn pay(exec: &mut Exec<'_>, corporation: &str, primary: u64, bill: &Bill) -> Result<(), LedgerError> {
    for share in &bill.shares {
        let account = policy_address(exec, share.corporation_id)?;
        if share.pay > 0 {
            bank::transfer(exec, corporation, &account, &[(bill.denom.clone(), u128::from(share.pay))])?;
        }
        td::increase_on_behalf(exec, &account, corporation, share.deposit)?;
        stake(exec, share.id, share.deposit)?;
        td::increase(exec, corporation, share.deposit, "csps_payer_trust_deposit")?;
        stake(exec, primary, share.deposit)?;
    }
    Ok(())
}

fn reward(exec: &mut Exec<'_>, corporation: &str, agent: &Participant, reward: &Dec) -> Result<(), LedgerError> {
    let whole = td::to_u64(reward)?;
    let deposit = td::to_u64(&reward.mul(&td::deposit_rate(exec.state)))?;
    let account = policy_address(exec, agent.corporation_id)?;
    bank::pay(exec, corporation, &account, u128::from(whole.saturating_sub(deposit)))?;
    td::increase_on_behalf(exec, &account, corporation, deposit)?;
    stake(exec, agent.id, deposit)
}

pub fn create_or_update(
    exec: &mut Exec<'_>,
    message: MsgCreateOrUpdateParticipantSession,
) -> Result<MsgCreateOrUpdateParticipantSessionResponse, LedgerError> {
    let existing = exec.state.sessions.get(&message.id, exec.gas).cloned();
    if let Some(session) = &existing {
        if de::corporation_of(exec, &message.corporation) != Some(session.corporation_id) {
            return plain(format!("session {} belongs to another corporation", message.id));
        }
        if session.vs_operator != message.operator {
            return plain(format!("session {} belongs to another VS operator", message.id));
        }
    }
    let parties = Parties {
        issuer: acting(exec, &message, message.issuer_participant_id, Role::Issuer)?,
        verifier: acting(exec, &message, message.verifier_participant_id, Role::Verifier)?,
        agent: None,
        wallet_agent: None,
    };
    let corporation_id = registered(exec, &message.corporation)?;
    let Some(primary) = parties.primary().map(|primary| primary.id) else {
        return plain("issuer_participant_id or verifier_participant_id is required");
    };
    let url = de::url(exec, "pp", "MsgCreateOrUpdateParticipantSession");
    vs::authorize(exec, corporation_id, &message.operator, primary, &url).map_err(|error| error.wrap(RECORD))?;
    let parties = Parties {
        agent: agent(exec, message.agent_participant_id)?,
        wallet_agent: agent(exec, message.wallet_agent_participant_id)?,
        ..parties
    };
    // Quirk: the issuer's schema prices everything, even if the verifier's is another.
    let schema_id = parties.issuer.as_ref().or(parties.verifier.as_ref()).map_or(0, |one| one.schema_id);
    let Some(schema) = exec.state.schemas.get(&schema_id, exec.gas).cloned() else {
        return plain(format!("credential schema {schema_id} not found"));
    };
    let bill = Bill::of(exec, &schema, &parties)?;
    let required = bill.required(exec.chain)?;
    for (denom, amount) in &required {
        let held = bank::balance(exec.state, &message.corporation, denom, exec.gas);
        if held < *amount {
            return plain(format!("insufficient funds: {held}{denom} of {amount}{denom}"));
        }
    }
    vs::debit(exec, primary, &required).map_err(|error| error.wrap(RECORD))?;
    vs::charge_fee(exec, &message.corporation, primary)?;
    pay(exec, &message.corporation, primary, &bill)?;
    for (agent, amount) in [(&parties.agent, &bill.agent_reward), (&parties.wallet_agent, &bill.wallet_reward)] {
        if let Some(agent) = agent.as_ref().filter(|_| !amount.is_zero()) {
            reward(exec, &message.corporation, agent, amount)?;
        }
    }
    record(exec, &message, corporation_id, existing);
    if message.issuer_participant_id > 0 && !message.digest.is_empty() {
        di::put(exec, &message.corporation, &message.digest, &di::Source::ModuleCall);
    }
    let now = exec.now();
    exec.emit(
        "create_update_csps",
        [
            ("corporation", message.corporation),
            ("operator", message.operator),
            ("session_id", message.id.clone()),
            ("issuer_participant_id", message.issuer_participant_id.to_string()),
            ("verifier_participant_id", message.verifier_participant_id.to_string()),
            ("agent_participant_id", message.agent_participant_id.to_string()),
            ("wallet_agent_participant_id", message.wallet_agent_participant_id.to_string()),
            ("timestamp", instant::go_text(&now)),
        ],
    );
    Ok(MsgCreateOrUpdateParticipantSessionResponse { id: message.id })
}

fn record(
    exec: &mut Exec<'_>,
    message: &MsgCreateOrUpdateParticipantSession,
    corporation_id: u64,
    existing: Option<ParticipantSession>,
) {
    let now = exec.now();
    let mut session = existing.unwrap_or_else(|| ParticipantSession {
        id: message.id.clone(),
        corporation_id,
        vs_operator: message.operator.clone(),
        created: Some(now),
        ..ParticipantSession::default()
    });
    session.modified = Some(now);
    session.session_records.push(ParticipantSessionRecord {
        id: session.session_records.len() as u64 + 1,
        created: Some(now),
        issuer_participant_id: message.issuer_participant_id,
        verifier_participant_id: message.verifier_participant_id,
        wallet_agent_participant_id: message.wallet_agent_participant_id,
        agent_participant_id: message.agent_participant_id,
    });
    exec.state.sessions.put(message.id.clone(), session, exec.gas);
}
