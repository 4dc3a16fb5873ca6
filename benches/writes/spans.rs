//! The spans of a write, as the product itself makes them.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use svc_otel::names::span as names;
use tracing::{
    Event, Metadata, Subscriber,
    span::{self, Attributes, Id},
};

/// The four stages in which a write waits for others.
const STAGES: [&str; 4] = [names::SIMULATE, names::BROADCAST, names::AWAIT_INCLUSION, names::AWAIT_INDEX];

/// Takes down when spans begin and end. It does not tell which span is the current one, so stages come to it as roots; it is
/// for writes that are alone, and they are of the one that is under way.
#[derive(Default)]
pub struct Recorder(Mutex<Record>);

#[derive(Default)]
struct Record {
    made: u64,
    under_way: Option<u64>,
    seen: BTreeMap<u64, Seen>,
}

pub struct Seen {
    name: &'static str,
    parent: Option<u64>,
    handles: usize,
    begun: Instant,
    ended: Option<Instant>,
}

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl Recorder {
    fn with<R>(&self, work: impl FnOnce(&mut Record) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was seen since the last time.
    pub fn take(&self) -> BTreeMap<u64, Seen> {
        self.with(|record| std::mem::take(&mut record.seen))
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let name = metadata.name();
        metadata.is_span() && (STAGES.contains(&name) || [names::SERVER, names::UPSTREAM].contains(&name))
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let name = attributes.metadata().name();
        let above = ENTERED.with_borrow(|entered| entered.last().copied());
        self.with(|record| {
            record.made += 1;
            let id = record.made;
            if name == names::SERVER {
                record.under_way = Some(id);
            }
            let parent = if STAGES.contains(&name) { record.under_way } else { above };
            let seen = Seen { name, parent, handles: 1, begun: Instant::now(), ended: None };
            record.seen.insert(id, seen);
            Id::from_u64(id)
        })
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.with(|record| record.seen.get_mut(&id.into_u64()).map(|seen| seen.handles += 1));
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let now = Instant::now();
        self.with(|record| {
            let Some(seen) = record.seen.get_mut(&id.into_u64()) else { return false };
            seen.handles -= 1;
            let is_closed = seen.handles == 0;
            seen.ended = is_closed.then_some(now);
            is_closed
        })
    }

    fn enter(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| entered.push(id.into_u64()));
    }

    fn exit(&self, id: &Id) {
        ENTERED.with_borrow_mut(|entered| {
            if let Some(place) = entered.iter().rposition(|entered| *entered == id.into_u64()) {
                entered.remove(place);
            }
        });
    }

    fn record(&self, _: &Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {}
}

/// Milliseconds of one write.
pub struct Parts {
    pub whole: f64,
    /// Outside of the four stages.
    pub own: f64,
    /// Outside of what others answer: in simulation and hand-over the request to the node alone is not ours.
    pub more: f64,
}

/// The writes among what was recorded.
pub fn written(all: &BTreeMap<u64, Seen>) -> Vec<Parts> {
    let mut below: BTreeMap<u64, Vec<(u64, &Seen)>> = BTreeMap::new();
    for (id, seen) in all {
        below.entry(seen.parent.unwrap_or(0)).or_default().push((*id, seen));
    }
    let children = |id: u64| below.get(&id).into_iter().flatten();
    let parts = |id: u64, server: &Seen| {
        let ended = server.ended?;
        let stages: Vec<_> = children(id).filter(|(_, seen)| STAGES.contains(&seen.name)).collect();
        if !STAGES.iter().all(|name| stages.iter().any(|(_, seen)| seen.name == *name)) {
            return None;
        }
        let (mut others, mut answers) = (Vec::new(), Vec::new());
        for (id, stage) in stages {
            others.push(*stage);
            if [names::AWAIT_INCLUSION, names::AWAIT_INDEX].contains(&stage.name) {
                answers.push(*stage);
            } else {
                let before = answers.len();
                answers.extend(children(*id).map(|(_, request)| *request));
                assert!(answers.len() > before, "no request in {}", stage.name);
            }
        }
        let whole = ended - server.begun;
        let less = |others| (whole - covered(others, ended)).as_secs_f64() * 1_000.0;
        Some(Parts { whole: whole.as_secs_f64() * 1_000.0, own: less(others), more: less(answers) })
    };
    let servers = all.iter().filter(|(_, seen)| seen.name == names::SERVER);
    servers.filter_map(|(id, seen)| parts(*id, seen)).collect()
}

/// Time in any of these spans: a stage may begin a little before the span of the last one is closed.
fn covered(mut spans: Vec<&Seen>, end: Instant) -> Duration {
    spans.sort_by_key(|seen| seen.begun);
    let (mut sum, mut until) = (Duration::ZERO, None);
    for seen in spans {
        let ended = seen.ended.map_or(end, |ended| ended.min(end));
        let begun = until.map_or(seen.begun, |until| seen.begun.max(until));
        sum += ended.saturating_duration_since(begun);
        until = Some(until.map_or(ended, |until| ended.max(until)));
    }
    sum
}
