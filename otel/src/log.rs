//! Log lines: one JSON object per line on stderr with `time`, `level`, `msg`, `component` and the fields of the event and its spans.

use std::fmt;

use serde_json::{Map, Value};
use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use tracing_subscriber::{
    Layer,
    field::RecordFields,
    fmt::{
        FmtContext,
        format::{FormatEvent, FormatFields, Writer},
    },
    layer::Context,
    registry::LookupSpan,
};

#[derive(Default)]
struct SpanFields(Map<String, Value>);

struct FieldCollector<'a>(&'a mut Map<String, Value>);

impl FieldCollector<'_> {
    fn insert_field(&mut self, field: &Field, value: Value) {
        self.0.insert(field.name().to_owned(), value);
    }
}

impl Visit for FieldCollector<'_> {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert_field(field, value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert_field(field, value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert_field(field, value.into());
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert_field(field, value.into());
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert_field(field, value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert_field(field, format!("{value:?}").into());
    }
}

/// Keeps the fields of open spans: a line carries the fields of all spans around it.
pub(crate) struct SpanFieldLayer;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for SpanFieldLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = SpanFields::default();
        attributes.record(&mut FieldCollector(&mut fields.0));
        span.extensions_mut().replace(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(fields) = span.extensions_mut().get_mut::<SpanFields>() {
            values.record(&mut FieldCollector(&mut fields.0));
        }
    }
}

/// Formats no span fields: [`SpanFieldLayer`] keeps them, and [`JsonLineFormat`] writes them.
pub(crate) struct EmptyFieldFormat;

impl<'writer> FormatFields<'writer> for EmptyFieldFormat {
    fn format_fields<R: RecordFields>(&self, _: Writer<'writer>, _: R) -> fmt::Result {
        Ok(())
    }
}

/// Writes an event as one JSON object.
pub(crate) struct JsonLineFormat;

impl<S, N> FormatEvent<S, N> for JsonLineFormat
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, context: &FmtContext<'_, S, N>, mut writer: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut fields = Map::new();
        if let Some(scope) = context.event_scope() {
            for span in scope.from_root() {
                if let Some(recorded) = span.extensions().get::<SpanFields>() {
                    fields.extend(recorded.0.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
            }
        }
        event.record(&mut FieldCollector(&mut fields));
        let message = fields.shift_remove("message").unwrap_or_else(|| Value::from(""));
        let target = match fields.shift_remove("log.target") {
            Some(Value::String(target)) => target,
            _ => event.metadata().target().to_owned(),
        };
        let component = fields.shift_remove("component").unwrap_or_else(|| component_of(&target).into());
        // Dotted names are attributes of exported spans; `request_id` and `tool` repeat them for log lines.
        fields.retain(|key, _| !key.contains('.'));
        let now = time::OffsetDateTime::now_utc();
        let stamp = now.format(&time::format_description::well_known::Rfc3339).map_err(|_| fmt::Error)?;
        let level = event.metadata().level().as_str().to_ascii_lowercase();
        let own = [("time", stamp.into()), ("level", level.into()), ("msg", message), ("component", component)];
        // The parts that every line has come first, so that a person finds them; a field cannot replace one of them.
        let mut line: Map<String, Value> = own.map(|(key, value)| (key.to_owned(), value)).into_iter().collect();
        for (key, value) in fields {
            line.entry(key).or_insert(value);
        }
        writeln!(writer, "{}", Value::Object(line))
    }
}

/// Crates that are parts of `svc-agent`. Their components have the names of modules of the agent, which they were.
const PARTS_OF_AGENT: [&str; 3] = ["agent_identity", "agent_peers", "agent_flows"];

/// `svc_operator::signer::actor` is the component `operator.signer`.
fn component_of(target: &str) -> String {
    let path = target.strip_prefix("svc_").unwrap_or(target).trim_end_matches("::actor");
    match path.split_once("::") {
        Some((part, module)) if PARTS_OF_AGENT.contains(&part) => format!("agent::{module}"),
        _ => path.to_owned(),
    }
    .replace("::", ".")
}

#[cfg(test)]
mod tests {
    use super::component_of;

    #[test]
    fn a_component_is_named_after_its_module() {
        assert_eq!(component_of("svc_operator::signer::actor"), "operator.signer");
        assert_eq!(component_of("svc::mcp"), "svc.mcp");
        assert_eq!(component_of("svc_agent_identity::keeper::actor"), "agent.keeper");
        assert_eq!(component_of("rmcp::service"), "rmcp.service");
    }
}
