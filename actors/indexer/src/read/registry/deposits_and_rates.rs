//! Reads of trust deposits, digests, exchange rates, prices and parameters.

use serde_json::{Map, Value, json};
use svc_trust::digest::digest_forms;
use svc_wire::timestamp::parse_instant;

use crate::{
    block::parameters_id,
    derive::decimal,
    ingest::DigestLookupError,
    projection::public_members,
    read::{
        answer_json::wrap_member,
        error::ReadError,
        reader::{IndexReader, ReadRequest},
    },
    store::{EntityFilter, EntityKind},
};

/// The four parts of the key of a rate.
const RATE_KEY: [&str; 4] = ["base_asset_type", "base_asset", "quote_asset_type", "quote_asset"];

impl IndexReader {
    pub(in crate::read) async fn parameters(
        &self,
        request: &ReadRequest<'_>,
        module: &'static str,
    ) -> Result<Value, ReadError> {
        Ok(wrap_member("params", public_members(self.stored_parameters(request, module).await?)))
    }

    async fn stored_parameters(&self, request: &ReadRequest<'_>, module: &str) -> Result<Value, ReadError> {
        let found = self.store.entity(EntityKind::Params, parameters_id(module), request.height).await?;
        found.ok_or(ReadError::NotFound("parameters"))
    }

    pub(in crate::read) async fn trust_deposit(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let mut body = self
            .require_entity(request, EntityKind::TrustDeposit, request.params.required_number("corporation_id")?)
            .await?;
        let params = self.stored_parameters(request, "td").await?;
        let share = body["_share"].as_str().unwrap_or_default();
        let value = params["_trust_deposit_share_value"].as_str().unwrap_or_default();
        let claimable = decimal::claimable_amount(share, value, body["deposit"].as_u64().unwrap_or(0));
        body["claimable"] = claimable.into();
        Ok(wrap_member("trust_deposit", public_members(body)))
    }

    pub(in crate::read) async fn digest(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let mut first: Option<Value> = None;
        for name in digest_forms(request.params.text("digest").unwrap_or_default()) {
            let found = match self.digests.find(&name, request.height, request.block_time).await {
                Ok(found) => found,
                Err(DigestLookupError::Store(error)) => return Err(error.into()),
                Err(DigestLookupError::Unknown { oldest, reason }) => {
                    let message =
                        format!("digest {name} may be older than the index, and the node does not tell: {reason}");
                    return Err(ReadError::HeightNotIndexed { message, oldest });
                }
            };
            let Some(found) = found else { continue };
            let created = |body: &Value| parse_instant(body, "created");
            if first.as_ref().is_none_or(|first| created(&found) < created(first)) {
                first = Some(found);
            }
        }
        Ok(wrap_member("digest", public_members(first.ok_or(ReadError::NotFound("Digest"))?)))
    }

    pub(in crate::read) async fn exchange_rate(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let key = RATE_KEY.map(|part| params.text(part));
        let (given, all) = (key.iter().flatten().count(), RATE_KEY.len());
        let rate = match (params.number("id"), given) {
            (Some(id), 0) => self.store.entity(EntityKind::ExchangeRate, id, request.height).await?,
            (None, given) if given == all => self.find_rate(request).await?,
            _ => {
                let text = format!("id, {}: either id or the complete key is required, not both", RATE_KEY.join(", "));
                return Err(ReadError::InvalidParameter(text));
            }
        };
        let is_wanted = |rate: &Value| {
            params.flag("state").is_none_or(|state| rate["state"] == state)
                && params
                    .instant("expire_ts")
                    .is_none_or(|at| parse_instant(rate, "expires").is_some_and(|expires| expires > at))
        };
        let rate = rate.filter(is_wanted).ok_or(ReadError::NotFound("ExchangeRate"))?;
        Ok(wrap_member("exchange_rate", public_members(rate)))
    }

    /// Returns the rate with the requested key.
    async fn find_rate(&self, request: &ReadRequest<'_>) -> Result<Option<Value>, ReadError> {
        let rates = self.store.list_all(EntityKind::ExchangeRate, request.height, &EntityFilter::default()).await?;
        let is_match = |rate: &Value| {
            RATE_KEY.iter().all(|part| request.params.text(part).is_some_and(|wanted| rate[*part] == wanted))
        };
        Ok(rates.into_iter().map(|stored| stored.body).find(is_match))
    }

    pub(in crate::read) async fn exchange_rates(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let is_wanted = |rate: &Value| {
            RATE_KEY.iter().all(|part| params.text(part).is_none_or(|wanted| rate[*part] == wanted))
                && params.flag("state").is_none_or(|state| rate["state"] == state)
                && params
                    .instant("expire")
                    .is_none_or(|at| parse_instant(rate, "expires").is_some_and(|expires| expires > at))
        };
        Ok(wrap_member(
            "exchange_rates",
            self.list_entities(request, EntityKind::ExchangeRate, &EntityFilter::default(), is_wanted).await?,
        ))
    }

    /// Answers with `floor(amount × rate / 10^rate_scale)`. Rates are neither inverted nor chained.
    pub(in crate::read) async fn price(&self, request: &ReadRequest<'_>) -> Result<Value, ReadError> {
        let params = request.params;
        let amount = params.text("amount").unwrap_or_default();
        let mut answer = Map::new();
        for part in RATE_KEY {
            answer.insert(part.to_owned(), params.text(part).unwrap_or_default().into());
        }
        let [base_type, base, quote_type, quote] = RATE_KEY.map(|part| params.text(part));
        if (base_type, base) == (quote_type, quote) {
            answer.insert("price".to_owned(), decimal::convert_price(amount, "1", 0).into());
            return Ok(Value::Object(answer));
        }
        let rate = self.find_rate(request).await?.ok_or(ReadError::NotFound("ExchangeRate"))?;
        if rate["state"] != true {
            return Err(ReadError::Gone("the exchange rate is disabled".to_owned()));
        }
        if parse_instant(&rate, "expires").is_some_and(|expires| expires <= request.block_time) {
            return Err(ReadError::Gone("the exchange rate has expired".to_owned()));
        }
        let scale = rate["rate_scale"].as_u64().and_then(|scale| u32::try_from(scale).ok()).unwrap_or(0);
        let price = decimal::convert_price(amount, rate["rate"].as_str().unwrap_or_default(), scale);
        answer.insert("price".to_owned(), price.into());
        for key in ["rate", "rate_scale", "expires"] {
            answer.insert(key.to_owned(), rate[key].clone());
        }
        Ok(json!(answer))
    }
}
