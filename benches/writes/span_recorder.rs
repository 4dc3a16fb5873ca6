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
pub struct SpanRecorder(Mutex<SpanRecords>);

#[derive(Default)]
struct SpanRecords {
    newest_id: u64,
    current_write: Option<u64>,
    spans: BTreeMap<u64, RecordedSpan>,
}

pub struct RecordedSpan {
    name: &'static str,
    parent: Option<u64>,
    handles: usize,
    started_at: Instant,
    ended_at: Option<Instant>,
}

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

impl SpanRecorder {
    fn with<R>(&self, work: impl FnOnce(&mut SpanRecords) -> R) -> R {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The spans since the last call.
    pub fn take(&self) -> BTreeMap<u64, RecordedSpan> {
        self.with(|record| std::mem::take(&mut record.spans))
    }
}

impl Subscriber for SpanRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let name = metadata.name();
        metadata.is_span() && (STAGES.contains(&name) || [names::SERVER, names::UPSTREAM].contains(&name))
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let name = attributes.metadata().name();
        let above = ENTERED.with_borrow(|entered| entered.last().copied());
        self.with(|record| {
            record.newest_id += 1;
            let id = record.newest_id;
            if name == names::SERVER {
                record.current_write = Some(id);
            }
            let parent = if STAGES.contains(&name) { record.current_write } else { above };
            let seen = RecordedSpan { name, parent, handles: 1, started_at: Instant::now(), ended_at: None };
            record.spans.insert(id, seen);
            Id::from_u64(id)
        })
    }

    fn clone_span(&self, id: &Id) -> Id {
        self.with(|record| record.spans.get_mut(&id.into_u64()).map(|seen| seen.handles += 1));
        id.clone()
    }

    fn try_close(&self, id: Id) -> bool {
        let now = Instant::now();
        self.with(|record| {
            let Some(seen) = record.spans.get_mut(&id.into_u64()) else { return false };
            seen.handles -= 1;
            let is_closed = seen.handles == 0;
            seen.ended_at = is_closed.then_some(now);
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
pub struct WriteTimes {
    pub total_ms: f64,
    /// Outside of the four stages.
    pub overhead_ms: f64,
    /// Time outside of the answers of other servers: of simulation and broadcast, only the request to the node is not ours.
    pub overhead_with_disk_ms: f64,
}

/// The writes among the recorded spans.
pub fn write_times(all: &BTreeMap<u64, RecordedSpan>) -> Vec<WriteTimes> {
    let mut below: BTreeMap<u64, Vec<(u64, &RecordedSpan)>> = BTreeMap::new();
    for (id, seen) in all {
        below.entry(seen.parent.unwrap_or(0)).or_default().push((*id, seen));
    }
    let children = |id: u64| below.get(&id).into_iter().flatten();
    let parts = |id: u64, server: &RecordedSpan| {
        let ended = server.ended_at?;
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
        let whole = ended - server.started_at;
        let less = |others| (whole - covered_time(others, ended)).as_secs_f64() * 1_000.0;
        Some(WriteTimes {
            total_ms: whole.as_secs_f64() * 1_000.0,
            overhead_ms: less(others),
            overhead_with_disk_ms: less(answers),
        })
    };
    let servers = all.iter().filter(|(_, seen)| seen.name == names::SERVER);
    servers.filter_map(|(id, seen)| parts(*id, seen)).collect()
}

/// Time in any of these spans: a stage may begin a little before the span of the last one is closed.
fn covered_time(mut spans: Vec<&RecordedSpan>, end: Instant) -> Duration {
    spans.sort_by_key(|seen| seen.started_at);
    let (mut sum, mut until) = (Duration::ZERO, None);
    for seen in spans {
        let ended = seen.ended_at.map_or(end, |ended| ended.min(end));
        let begun = until.map_or(seen.started_at, |until| seen.started_at.max(until));
        sum += ended.saturating_duration_since(begun);
        until = Some(until.map_or(ended, |until| ended.max(until)));
    }
    sum
}
