//! Participant sessions: they record an issuance or a verification and pay its beneficiaries.

use std::collections::BTreeMap;

use svc_wire::{
    proto::svc::{
        cs::v1::CredentialSchema,
        pp::v1::{
            MsgCreateOrUpdateParticipantSession, MsgCreateOrUpdateParticipantSessionResponse, Participant,
            ParticipantRole as Role, ParticipantSession, ParticipantSessionRecord,
        },
    },
    timestamp,
};
use uuid::Uuid;

use super::{
    participant::{
        ensure_active, ensure_addresses, load_participant, policy_address, require_corporation, store_participant,
        unregistered_error,
    },
    rules::{FeeQuote, beneficiaries, fee_denom, quote_fee},
};
use crate::{
    chain::ChainConfig,
    context::ExecContext,
    error::LedgerError,
    modules::{
        bank,
        de::{self, vs},
        di, td,
    },
    values::{decimal::LegacyDec, validate},
};

const VS_CHECK_FAILED: &str = "VS operator authorization check failed";
const FULL_DISCOUNT_BPS: u64 = 10_000;

pub fn validate_session(chain: &ChainConfig, message: &MsgCreateOrUpdateParticipantSession) -> Result<(), LedgerError> {
    ensure_addresses(chain, &message.corporation, &message.operator)?;
    let refuse = |text: String| Err(LedgerError::sdk(18, text));
    if Uuid::try_parse(&message.id).is_err() {
        return refuse(format!("id must be a UUID, got {:?}", message.id));
    }
    if message.issuer_participant_id == 0 && message.verifier_participant_id == 0 {
        return refuse("issuer_participant_id or verifier_participant_id is required".to_owned());
    }
    if !message.digest.is_empty() && !validate::is_document_digest(chain, &message.digest) {
        return refuse(format!("invalid digest SRI: {:?}", message.digest));
    }
    Ok(())
}

/// The participants that a session names.
struct SessionParties {
    issuer: Option<Participant>,
    verifier: Option<Participant>,
    agent: Option<Participant>,
    wallet_agent: Option<Participant>,
}

impl SessionParties {
    /// Returns the verifier, or else the issuer: its VS record authorizes and pays, and its discount counts.
    fn primary_participant(&self) -> Option<&Participant> {
        self.verifier.as_ref().or(self.issuer.as_ref())
    }
}

/// Loads the issuer or the verifier; fails unless the sender is its VS operator.
fn load_acting(
    exec: &ExecContext<'_>,
    message: &MsgCreateOrUpdateParticipantSession,
    id: u64,
    role: Role,
) -> Result<Option<Participant>, LedgerError> {
    if id == 0 {
        return Ok(None);
    }
    let participant = load_with_role(exec, id, role)?;
    if participant.vs_operator != message.operator {
        return unregistered_error(format!("{} is not the VS operator of participant {id}", message.operator));
    }
    if de::find_corporation(exec, &message.corporation) != Some(participant.corporation_id) {
        return unregistered_error(format!("participant {id} belongs to another corporation"));
    }
    Ok(Some(participant))
}

fn load_with_role(exec: &ExecContext<'_>, id: u64, role: Role) -> Result<Participant, LedgerError> {
    let participant = load_participant(exec, id)?;
    if participant.role() != role {
        return unregistered_error(format!("participant {id} must be of role {}", role.as_str_name()));
    }
    ensure_active(&participant, "participant", &exec.block_time())?;
    Ok(participant)
}

/// Loads an agent; both agents are issuers of their own credential.
fn load_agent(exec: &ExecContext<'_>, id: u64) -> Result<Option<Participant>, LedgerError> {
    if id == 0 { Ok(None) } else { load_with_role(exec, id, Role::Issuer).map(Some) }
}

/// Payment and deposit of one beneficiary.
struct BeneficiaryShare {
    participant_id: u64,
    corporation_id: u64,
    payment: u64,
    deposit: u64,
}

/// All payments of a session.
struct SessionPayments {
    shares: Vec<BeneficiaryShare>,
    denom: String,
    agent_reward: LegacyDec,
    wallet_reward: LegacyDec,
}

impl SessionPayments {
    fn compute(
        exec: &ExecContext<'_>,
        schema: &CredentialSchema,
        parties: &SessionParties,
    ) -> Result<Self, LedgerError> {
        let is_verification = parties.verifier.is_some();
        let primary = parties.primary_participant();
        let discount = primary.map_or(0, |primary| {
            if is_verification { primary.verification_fee_discount } else { primary.issuance_fee_discount }
        });
        let kept = u128::from(FULL_DISCOUNT_BPS.saturating_sub(discount));
        let rate = td::deposit_rate(exec.state);
        let (agent_rate, wallet_rate) = td::agent_rates(exec.state);
        let mut payments = Self {
            shares: Vec::new(),
            denom: fee_denom(exec.chain, schema),
            agent_reward: LegacyDec::default(),
            wallet_reward: LegacyDec::default(),
        };
        for one in beneficiaries(exec.state, parties.issuer.as_ref(), parties.verifier.as_ref()) {
            exec.gas.charge_read(0);
            let fees = if is_verification { one.verification_fees } else { one.issuance_fees };
            let discounted = td::ensure_int64(u128::from(fees) * kept / u128::from(FULL_DISCOUNT_BPS))?;
            if discounted == 0 {
                continue;
            }
            let FeeQuote { fee, basis } = quote_fee(exec, schema, discounted)?;
            let pay = LegacyDec::from_integer(fee).mul(&LegacyDec::from_integer(1).sub(&rate));
            payments.shares.push(BeneficiaryShare {
                participant_id: one.id,
                corporation_id: one.corporation_id,
                payment: td::to_u64(&pay)?,
                deposit: td::required_deposit(exec.state, basis)?,
            });
            let basis = LegacyDec::from_integer(basis);
            if parties.agent.is_some() {
                payments.agent_reward = payments.agent_reward.add(&basis.mul(&agent_rate));
            }
            if parties.wallet_agent.is_some() {
                payments.wallet_reward = payments.wallet_reward.add(&basis.mul(&wallet_rate));
            }
        }
        Ok(payments)
    }

    /// Returns the amounts that the corporation must hold, by denom.
    fn required_amounts(&self, chain: &ChainConfig) -> Result<Vec<(String, u128)>, LedgerError> {
        let mut sums: BTreeMap<String, u128> = BTreeMap::new();
        for share in &self.shares {
            *sums.entry(chain.denom.clone()).or_default() += 2 * u128::from(share.deposit);
            *sums.entry(self.denom.clone()).or_default() += u128::from(share.payment);
        }
        for reward in [&self.agent_reward, &self.wallet_reward] {
            *sums.entry(chain.denom.clone()).or_default() += u128::from(td::to_u64(reward)?);
        }
        Ok(sums.into_iter().filter(|(_, amount)| *amount > 0).collect())
    }
}

fn add_deposit(exec: &mut ExecContext<'_>, id: u64, amount: u64) -> Result<(), LedgerError> {
    let mut participant = load_participant(exec, id)?;
    participant.deposit = td::ensure_int64(u128::from(participant.deposit) + u128::from(amount))?;
    store_participant(exec, participant);
    Ok(())
}

fn pay_beneficiaries(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    primary: u64,
    payments: &SessionPayments,
) -> Result<(), LedgerError> {
    for share in &payments.shares {
        let account = policy_address(exec, share.corporation_id)?;
        if share.payment > 0 {
            bank::transfer(exec, corporation, &account, &[(payments.denom.clone(), u128::from(share.payment))])?;
        }
        td::increase_on_behalf(exec, &account, corporation, share.deposit)?;
        add_deposit(exec, share.participant_id, share.deposit)?;
        td::increase(exec, corporation, share.deposit, "csps_payer_trust_deposit")?;
        add_deposit(exec, primary, share.deposit)?;
    }
    Ok(())
}

fn pay_agent_reward(
    exec: &mut ExecContext<'_>,
    corporation: &str,
    agent: &Participant,
    reward: &LegacyDec,
) -> Result<(), LedgerError> {
    let whole = td::to_u64(reward)?;
    let deposit = td::to_u64(&reward.mul(&td::deposit_rate(exec.state)))?;
    let account = policy_address(exec, agent.corporation_id)?;
    bank::transfer_fee_denom(exec, corporation, &account, u128::from(whole.saturating_sub(deposit)))?;
    td::increase_on_behalf(exec, &account, corporation, deposit)?;
    add_deposit(exec, agent.id, deposit)
}

pub fn create_or_update_session(
    exec: &mut ExecContext<'_>,
    message: MsgCreateOrUpdateParticipantSession,
) -> Result<MsgCreateOrUpdateParticipantSessionResponse, LedgerError> {
    let existing = exec.state.sessions.get(&message.id, exec.gas).cloned();
    if let Some(session) = &existing {
        if de::find_corporation(exec, &message.corporation) != Some(session.corporation_id) {
            return unregistered_error(format!("session {} belongs to another corporation", message.id));
        }
        if session.vs_operator != message.operator {
            return unregistered_error(format!("session {} belongs to another VS operator", message.id));
        }
    }
    let parties = SessionParties {
        issuer: load_acting(exec, &message, message.issuer_participant_id, Role::Issuer)?,
        verifier: load_acting(exec, &message, message.verifier_participant_id, Role::Verifier)?,
        agent: None,
        wallet_agent: None,
    };
    let corporation_id = require_corporation(exec, &message.corporation)?;
    let Some(primary) = parties.primary_participant().map(|primary| primary.id) else {
        return unregistered_error("issuer_participant_id or verifier_participant_id is required");
    };
    let url = de::message_url(exec, "pp", "MsgCreateOrUpdateParticipantSession");
    vs::authorize(exec, corporation_id, &message.operator, primary, &url)
        .map_err(|error| error.wrap(VS_CHECK_FAILED))?;
    let parties = SessionParties {
        agent: load_agent(exec, message.agent_participant_id)?,
        wallet_agent: load_agent(exec, message.wallet_agent_participant_id)?,
        ..parties
    };
    // Quirk: the issuer's schema prices everything, even if the verifier's is another.
    let schema_id = parties.issuer.as_ref().or(parties.verifier.as_ref()).map_or(0, |one| one.schema_id);
    let Some(schema) = exec.state.schemas.get(&schema_id, exec.gas).cloned() else {
        return unregistered_error(format!("credential schema {schema_id} not found"));
    };
    let payments = SessionPayments::compute(exec, &schema, &parties)?;
    let required = payments.required_amounts(exec.chain)?;
    for (denom, amount) in &required {
        let held = bank::balance(exec.state, &message.corporation, denom, exec.gas);
        if held < *amount {
            return unregistered_error(format!("insufficient funds: {held}{denom} of {amount}{denom}"));
        }
    }
    vs::debit_record(exec, primary, &required).map_err(|error| error.wrap(VS_CHECK_FAILED))?;
    vs::charge_fee(exec, &message.corporation, primary)?;
    pay_beneficiaries(exec, &message.corporation, primary, &payments)?;
    for (agent, amount) in [(&parties.agent, &payments.agent_reward), (&parties.wallet_agent, &payments.wallet_reward)]
    {
        if let Some(agent) = agent.as_ref().filter(|_| !amount.is_zero()) {
            pay_agent_reward(exec, &message.corporation, agent, amount)?;
        }
    }
    record_session(exec, &message, corporation_id, existing);
    if message.issuer_participant_id > 0 && !message.digest.is_empty() {
        di::record_digest(exec, &message.corporation, &message.digest, &di::DigestSource::ModuleCall);
    }
    let now = exec.block_time();
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
            ("timestamp", timestamp::go_time_text(&now)),
        ],
    );
    Ok(MsgCreateOrUpdateParticipantSessionResponse { id: message.id })
}

fn record_session(
    exec: &mut ExecContext<'_>,
    message: &MsgCreateOrUpdateParticipantSession,
    corporation_id: u64,
    existing: Option<ParticipantSession>,
) {
    let now = exec.block_time();
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
