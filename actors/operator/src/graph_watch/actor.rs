//! The actor that owns the link to the graph.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent, Retained,
    link::{Epoch, Link, LinkConfig, LinkEvent},
    wall,
};
use svc_otel::metrics;

use crate::{
    barrier::{self, Cursor},
    subscription::Position,
};

/// What the watch is told, all of it by its link.
pub struct Msg(LinkEvent);

impl Intent for Msg {
    fn name(&self) -> &'static str {
        "link"
    }
}

/// What a watch is made from.
pub struct Args {
    pub origin: String,
    pub position: Retained<Position>,
    pub cursor: Retained<Cursor>,
    pub barrier: Handle<barrier::Msg>,
}

/// A message of the graph; other types are ignored.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Progress {
    Ready {
        block: i64,
        #[serde(rename = "blockIntervalMs")]
        interval_ms: Option<u64>,
    },
    Block {
        block: i64,
    },
    #[serde(other)]
    Unknown,
}

pub struct State {
    args: Arc<Args>,
    link: Link,
    epoch: Epoch,
}

pub struct GraphWatch;

/// Silence that ends a connection before its pace is known, and the least that does afterwards: the graph's own feed comes in
/// batches.
const LIVENESS: Duration = Duration::from_secs(60);

impl Behaviour for GraphWatch {
    const KIND: &'static str = "graph_watch";
    type Msg = Msg;
    type Args = Args;
    type State = State;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<State, Failure> {
        let mut config = LinkConfig::new("graph", &args.origin, "/v4/graph/blocks/subscribe");
        config.liveness = LIVENESS;
        let mailbox = context.mailbox();
        let link = Link::open(config, move |event| {
            let mailbox = mailbox.clone();
            async move { mailbox.send_when_room(Msg(event)).await }
        });
        Ok(State { args: Arc::clone(args), link, epoch: Epoch::default() })
    }

    async fn handle(_: &Context<Msg>, Msg(event): Msg, state: &mut State) -> Result<(), Failure> {
        match event {
            LinkEvent::Up(epoch) => state.epoch = epoch,
            LinkEvent::Text(_, text) => match serde_json::from_str::<Progress>(&text) {
                Ok(Progress::Ready { block, interval_ms }) => {
                    let silence = Duration::from_millis(interval_ms.unwrap_or(0).saturating_mul(2));
                    state.link.set_liveness(silence.max(LIVENESS));
                    state.reached(block);
                }
                Ok(Progress::Block { block }) => state.reached(block),
                Ok(Progress::Unknown) => {}
                Err(_) => state.link.reconnect(state.epoch, "the graph sent something else than its contract"),
            },
            LinkEvent::Down(..) => state.args.position.with(|position| position.is_live = false),
        }
        Ok(())
    }

    fn observe(state: &State) -> Value {
        let position = state.args.position.with(|position| position.clone());
        json!({"connected": position.is_live, "height": position.processed})
    }
}

impl State {
    /// Before its first block a graph says -1.
    fn reached(&self, block: i64) {
        let height = u64::try_from(block).unwrap_or(0);
        self.args.position.with(|position| {
            position.is_live = true;
            position.processed = Some(height);
            position.last_event_at = Some(wall::now_text());
        });
        self.args.cursor.with(|cursor| cursor.height = cursor.height.max(height));
        metrics::ws_last_block("graph", height);
        barrier::notify(&self.args.barrier, height);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_and_unknown_types_are_ignored() {
        let read = |text: &str| serde_json::from_str::<Progress>(text);
        assert!(matches!(
            read(r#"{"type":"ready","block":-1,"blockTime":"1970-01-01T00:00:00Z","blockIntervalMs":5000}"#),
            Ok(Progress::Ready { block: -1, interval_ms: Some(5000) })
        ));
        assert!(matches!(read(r#"{"type":"block","block":7,"blockTime":"t"}"#), Ok(Progress::Block { block: 7 })));
        assert!(matches!(read(r#"{"type":"new","x":1}"#), Ok(Progress::Unknown)));
        assert!(read("{}").is_err());
    }
}
