//! Reads of trust deposits, digests, exchange rates, prices and parameters.

use serde_json::{Map, Value, json};

use super::{Ask, ReadError, Reader, wrapped};
use crate::{
    block::parameters_id,
    derive::{decimal, state::instant_of},
    project::public,
    store::{Filter, Kind},
};

/// The four parts of a rate's key.
const KEY: [&str; 4] = ["base_asset_type", "base_asset", "quote_asset_type", "quote_asset"];

impl Reader {
    pub(super) async fn parameters(&self, ask: &Ask<'_>, module: &'static str) -> Result<Value, ReadError> {
        Ok(wrapped("params", public(self.stored_parameters(ask, module).await?)))
    }

    async fn stored_parameters(&self, ask: &Ask<'_>, module: &str) -> Result<Value, ReadError> {
        let found = self.store.entity(Kind::Params, parameters_id(module), ask.height).await?;
        found.ok_or(ReadError::NotFound("parameters"))
    }

    pub(super) async fn trust_deposit(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let mut body = self.one(ask, Kind::TrustDeposit, ask.params.required("corporation_id")?).await?;
        let params = self.stored_parameters(ask, "td").await?;
        let share = body["_share"].as_str().unwrap_or_default();
        let value = params["_trust_deposit_share_value"].as_str().unwrap_or_default();
        let claimable = decimal::claimable(share, value, body["deposit"].as_u64().unwrap_or(0));
        body["claimable"] = claimable.into();
        Ok(wrapped("trust_deposit", public(body)))
    }

    pub(super) async fn digest(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let filter = Filter { name: ask.params.text("digest").map(str::to_owned), ..Filter::default() };
        let found = self.store.find(Kind::Digest, &filter, ask.height).await?;
        Ok(wrapped("digest", public(found.ok_or(ReadError::NotFound("Digest"))?.body)))
    }

    pub(super) async fn exchange_rate(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let key = KEY.map(|part| params.text(part));
        let (given, all) = (key.iter().flatten().count(), KEY.len());
        let rate = match (params.number("id"), given) {
            (Some(id), 0) => self.store.entity(Kind::ExchangeRate, id, ask.height).await?,
            (None, given) if given == all => self.rate_of(ask).await?,
            _ => {
                let text = format!("id, {}: either id or the complete key is required, not both", KEY.join(", "));
                return Err(ReadError::Parameter(text));
            }
        };
        let is_wanted = |rate: &Value| {
            params.flag("state").is_none_or(|state| rate["state"] == state)
                && params
                    .instant("expire_ts")
                    .is_none_or(|at| instant_of(rate, "expires").is_some_and(|expires| expires > at))
        };
        let rate = rate.filter(is_wanted).ok_or(ReadError::NotFound("ExchangeRate"))?;
        Ok(wrapped("exchange_rate", public(rate)))
    }

    /// The rate of the pair that is asked for.
    async fn rate_of(&self, ask: &Ask<'_>) -> Result<Option<Value>, ReadError> {
        let rates = self.store.all(Kind::ExchangeRate, ask.height, &Filter::default()).await?;
        let is_it =
            |rate: &Value| KEY.iter().all(|part| ask.params.text(part).is_some_and(|wanted| rate[*part] == wanted));
        Ok(rates.into_iter().map(|stored| stored.body).find(is_it))
    }

    pub(super) async fn exchange_rates(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let is_wanted = |rate: &Value| {
            KEY.iter().all(|part| params.text(part).is_none_or(|wanted| rate[*part] == wanted))
                && params.flag("state").is_none_or(|state| rate["state"] == state)
                && params
                    .instant("expire")
                    .is_none_or(|at| instant_of(rate, "expires").is_some_and(|expires| expires > at))
        };
        Ok(wrapped("exchange_rates", self.plain_list(ask, Kind::ExchangeRate, &Filter::default(), is_wanted).await?))
    }

    /// `floor(amount × rate / 10^rate_scale)`; never inverts or chains rates.
    pub(super) async fn price(&self, ask: &Ask<'_>) -> Result<Value, ReadError> {
        let params = ask.params;
        let amount = params.text("amount").unwrap_or_default();
        let mut answer = Map::new();
        for part in KEY {
            answer.insert(part.to_owned(), params.text(part).unwrap_or_default().into());
        }
        let [base_type, base, quote_type, quote] = KEY.map(|part| params.text(part));
        if (base_type, base) == (quote_type, quote) {
            answer.insert("price".to_owned(), decimal::price(amount, "1", 0).into());
            return Ok(Value::Object(answer));
        }
        let rate = self.rate_of(ask).await?.ok_or(ReadError::NotFound("ExchangeRate"))?;
        if rate["state"] != true {
            return Err(ReadError::Gone("the exchange rate is disabled".to_owned()));
        }
        if instant_of(&rate, "expires").is_some_and(|expires| expires <= ask.now) {
            return Err(ReadError::Gone("the exchange rate has expired".to_owned()));
        }
        let scale = rate["rate_scale"].as_u64().and_then(|scale| u32::try_from(scale).ok()).unwrap_or(0);
        let price = decimal::price(amount, rate["rate"].as_str().unwrap_or_default(), scale);
        answer.insert("price".to_owned(), price.into());
        for key in ["rate", "rate_scale", "expires"] {
            answer.insert(key.to_owned(), rate[key].clone());
        }
        Ok(json!(answer))
    }
}
