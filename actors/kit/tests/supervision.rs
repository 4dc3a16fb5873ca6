//! What the kit promises, shown on one small actor that fails on request.
#![allow(missing_docs, clippy::expect_used)]

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use opentelemetry::trace::{SpanId, TracerProvider as _};
use opentelemetry_sdk::trace::{SdkTracerProvider, Span, SpanData, SpanProcessor};
use serde_json::json;
use svc_kit::{
    AskError, Behaviour, Context, Failure, Handle, Intent, Reply,
    actor::Standing,
    backoff::Backoff,
    supervise::{
        ChildSpec, Supervisor, SupervisorSpec,
        core::{Intensity, Restart, Strategy},
    },
};
use tracing_subscriber::layer::SubscriberExt;

enum Msg {
    Count(Reply<u64>),
    Fail,
    Panic,
    Hang,
    Block(Duration),
    Forget(Reply<u64>),
    Loop(u64, Reply<u64>),
    Stream,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Count(_) => "count",
            Self::Fail => "fail",
            Self::Panic => "panic",
            Self::Hang => "hang",
            Self::Block(_) => "block",
            Self::Forget(_) => "forget",
            Self::Loop(..) => "loop",
            Self::Stream => "stream",
        }
    }
}

#[derive(Default)]
struct Args {
    starts: Arc<AtomicU32>,
    fails_to_start: Arc<Mutex<u32>>,
}

struct Probe;

impl Behaviour for Probe {
    const KIND: &'static str = "probe";
    type Msg = Msg;
    type Args = Args;
    type State = u64;

    async fn start(_: &Context<Msg>, args: &Arc<Args>) -> Result<u64, Failure> {
        let mut left = args.fails_to_start.lock().expect("not poisoned");
        if *left > 0 {
            *left -= 1;
            return Err(Failure("not this time".into()));
        }
        args.starts.fetch_add(1, Ordering::SeqCst);
        Ok(0)
    }

    async fn handle(context: &Context<Msg>, message: Msg, handled: &mut u64) -> Result<(), Failure> {
        *handled += 1;
        match message {
            Msg::Count(reply) => reply.send(*handled),
            Msg::Fail => return Err(Failure("asked to fail".into())),
            Msg::Panic => panic!("asked to panic"),
            Msg::Hang => std::future::pending().await,
            Msg::Block(span) => std::thread::sleep(span),
            Msg::Forget(reply) => drop(reply),
            Msg::Loop(0, reply) => reply.send(*handled),
            Msg::Loop(left, reply) => {
                context.mailbox().send(Msg::Loop(left - 1, reply));
            }
            Msg::Stream => {}
        }
        Ok(())
    }

    fn observe(handled: &u64) -> serde_json::Value {
        json!({ "handled": handled })
    }
}

struct Tree {
    root: Supervisor,
    probe: Handle<Msg>,
    starts: Arc<AtomicU32>,
    fails_to_start: Arc<Mutex<u32>>,
}

const QUICK: Backoff =
    Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(1), factor: 1.0, jitter: 0.0 };

async fn tree(limit: usize, adjust: impl Fn(ChildSpec) -> ChildSpec) -> Tree {
    let (starts, fails_to_start) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(0)));
    let probe = Handle::new("probe", "probe", limit);
    let args = Args { starts: Arc::clone(&starts), fails_to_start: Arc::clone(&fails_to_start) };
    let child = adjust(ChildSpec::worker::<Probe>(&probe, args).backoff(QUICK));
    let root = Supervisor::new("root");
    root.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    Tree { root, probe, starts, fails_to_start }
}

const PATIENCE: Duration = Duration::from_secs(10);

/// Waits for the incarnation after `before`, by events of the handle alone.
async fn reborn(tree: &Tree, before: u32) {
    tokio::time::timeout(PATIENCE, async {
        while tree.starts.load(Ordering::SeqCst) <= before || !tree.probe.until_up(PATIENCE).await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the actor is started again");
}

#[tokio::test]
async fn an_error_and_a_panic_restart_the_actor_behind_the_same_handle() {
    let tree = tree(8, |child| child).await;
    for message in [Msg::Fail, Msg::Panic] {
        assert!(tree.probe.ask(Msg::Count).await.expect("answers") >= 1);
        let before = tree.starts.load(Ordering::SeqCst);
        tree.probe.tell(message).expect("delivered");
        reborn(&tree, before).await;
        assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1), "a new incarnation has new state");
    }
    let report = tree.root.report().await;
    assert_eq!((report[0].restarts, report[0].standing), (2, Standing::Up));
    assert_eq!(report[0].state, Some(json!({"handled": 1})));
}

#[tokio::test]
async fn a_handler_that_never_ends_is_killed_and_one_that_never_yields_is_abandoned() {
    let tree = tree(8, |child| child.stuck_after(Duration::from_millis(300))).await;
    tree.probe.tell(Msg::Hang).expect("delivered");
    reborn(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_handler_that_blocks_its_thread_is_abandoned() {
    let tree = tree(8, |child| child.stuck_after(Duration::from_millis(200))).await;
    tree.probe.tell(Msg::Block(Duration::from_secs(3))).expect("delivered");
    reborn(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1), "the successor answers while the old thread still blocks");
}

#[tokio::test]
async fn a_kill_restarts_and_a_failing_start_is_tried_again() {
    let tree = tree(8, |child| child).await;
    *tree.fails_to_start.lock().expect("not poisoned") = 2;
    assert!(tree.root.kill("probe").await);
    assert!(!tree.root.kill("nobody").await);
    reborn(&tree, 1).await;
    assert_eq!(tree.probe.ask(Msg::Count).await, Ok(1));
}

#[tokio::test]
async fn a_caller_can_tell_the_four_failures_apart_and_never_hangs() {
    let nobody: Handle<Msg> = Handle::new("probe", "nobody", 8);
    assert!(matches!(nobody.ask(Msg::Count).await, Err(AskError::NotDelivered { standing: Standing::New, .. })));

    let tree = tree(2, |child| child.restart(Restart::Temporary)).await;
    assert!(matches!(tree.probe.ask(Msg::Forget).await, Err(AskError::Died { .. })));

    let patience = Duration::from_millis(20);
    tree.probe.tell(Msg::Hang).expect("delivered");
    assert!(matches!(tree.probe.ask_within(patience, Msg::Count).await, Err(AskError::TimedOut { .. })));
    assert!(matches!(tree.probe.ask_within(patience, Msg::Count).await, Err(AskError::TimedOut { .. })));
    assert!(matches!(tree.probe.ask(Msg::Count).await, Err(AskError::Refused { limit: 2, .. })));

    let (probe, root) = (tree.probe.clone(), tree.root.clone());
    assert!(root.kill("probe").await);
    while !matches!(probe.ask(Msg::Count).await, Err(AskError::NotDelivered { standing: Standing::Stopped, .. })) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_waiting_caller_learns_of_a_death_at_once() {
    let tree = tree(8, |child| child).await;
    tree.probe.tell(Msg::Hang).expect("delivered");
    let asked = tokio::spawn({
        let probe = tree.probe.clone();
        async move { probe.ask_within(Duration::from_secs(3600), Msg::Count).await }
    });
    while tree.root.report().await[0].mailbox == 0 {
        tokio::task::yield_now().await;
    }
    tree.root.kill("probe").await;
    assert!(matches!(asked.await.expect("joins"), Err(AskError::Died { .. })));
}

#[tokio::test]
async fn a_meltdown_climbs_to_the_root_which_ends_with_a_reason() {
    let leaf = Handle::new("probe", "leaf", 8);
    let (inner, root) = (Supervisor::new("inner"), Supervisor::new("root"));
    let strict = || Intensity { restarts: 1, within: Duration::from_secs(60) };
    let describe = {
        let leaf = leaf.clone();
        move || SupervisorSpec {
            strategy: Strategy::OneForOne,
            intensity: strict(),
            children: vec![ChildSpec::worker::<Probe>(&leaf, Args::default()).backoff(QUICK)],
        }
    };
    let child = ChildSpec::supervisor(&inner, describe).backoff(QUICK);
    root.start(SupervisorSpec { strategy: Strategy::OneForOne, intensity: strict(), children: vec![child] })
        .await
        .expect("the tree starts");
    let ended = tokio::spawn({
        let root = root.clone();
        async move { root.ended().await }
    });
    while !ended.is_finished() {
        let _ = leaf.tell(Msg::Fail);
        tokio::task::yield_now().await;
    }
    assert!(ended.await.expect("joins").contains("inner kept failing"));
    assert!(root.report().await.is_empty());
}

#[tokio::test]
async fn rest_for_one_restarts_the_later_children_too() {
    let handles: Vec<Handle<Msg>> =
        ["first", "second", "third"].into_iter().map(|name| Handle::new("probe", name, 8)).collect();
    let starts: Vec<_> = (0..3).map(|_| Arc::new(AtomicU32::new(0))).collect();
    let children = handles.iter().zip(&starts).map(|(handle, starts)| {
        let args = Args { starts: Arc::clone(starts), ..Args::default() };
        ChildSpec::worker::<Probe>(handle, args).backoff(QUICK)
    });
    let spec = SupervisorSpec {
        strategy: Strategy::RestForOne,
        intensity: Intensity { restarts: 5, within: Duration::from_secs(5) },
        children: children.collect(),
    };
    let root = Supervisor::new("root");
    root.start(spec).await.expect("the tree starts");
    handles[1].tell(Msg::Fail).expect("delivered");
    while starts[2].load(Ordering::SeqCst) < 2 {
        tokio::task::yield_now().await;
    }
    let counts: Vec<_> = starts.iter().map(|count| count.load(Ordering::SeqCst)).collect();
    assert_eq!(counts, [1, 2, 2]);
    assert_eq!(handles[2].ask(Msg::Count).await, Ok(1));
}

#[tokio::test]
async fn draining_handles_what_was_accepted_and_then_refuses() {
    let tree = tree(64, |child| child).await;
    let asked: Vec<_> = (0..32)
        .map(|_| {
            let probe = tree.probe.clone();
            tokio::spawn(async move { probe.ask(Msg::Count).await })
        })
        .collect();
    while tree.probe.ask(Msg::Count).await.is_ok_and(|count| count < 32) {}
    tree.root.shutdown(Duration::from_secs(5)).await;
    for answer in asked {
        assert!(answer.await.expect("joins").is_ok());
    }
    assert!(matches!(
        tree.probe.ask(Msg::Count).await,
        Err(AskError::NotDelivered { standing: Standing::Stopped, .. })
    ));
}

#[tokio::test]
async fn the_tree_embeds_under_a_foreign_actor_and_reports_its_end_there() {
    struct Platform;
    impl ractor::Actor for Platform {
        type Msg = ();
        type State = tokio::sync::mpsc::UnboundedSender<String>;
        type Arguments = Self::State;
        async fn pre_start(
            &self,
            _: ractor::ActorRef<()>,
            told: Self::State,
        ) -> Result<Self::State, ractor::ActorProcessingErr> {
            Ok(told)
        }
        async fn handle_supervisor_evt(
            &self,
            _: ractor::ActorRef<()>,
            event: ractor::SupervisionEvent,
            told: &mut Self::State,
        ) -> Result<(), ractor::ActorProcessingErr> {
            if let ractor::SupervisionEvent::ActorFailed(_, error) = event {
                told.send(error.to_string())?;
            }
            Ok(())
        }
    }
    let (told, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let (platform, _) = ractor::Actor::spawn(None, Platform, told).await.expect("the platform starts");
    let probe = Handle::new("probe", "probe", 8);
    let spec = SupervisorSpec {
        strategy: Strategy::OneForOne,
        intensity: Intensity { restarts: 0, within: Duration::from_secs(1) },
        children: vec![ChildSpec::worker::<Probe>(&probe, Args::default())],
    };
    Supervisor::new("embedded").start_linked(spec, platform.get_cell()).await.expect("embeds");
    probe.tell(Msg::Fail).expect("delivered");
    assert!(heard.recv().await.expect("told").contains("asked to fail"));
}

/// Notes of every ended span: whether it is a root, and how many links it has.
#[derive(Debug, Clone, Default)]
struct Shapes(Arc<Mutex<Vec<(bool, usize)>>>);

impl SpanProcessor for Shapes {
    fn on_start(&self, _: &mut Span, _: &opentelemetry::Context) {}
    fn on_end(&self, span: SpanData) {
        let is_root = span.parent_span_id == SpanId::INVALID;
        self.0.lock().expect("not poisoned").push((is_root, span.links.links.len()));
    }
    fn force_flush(&self) -> opentelemetry_sdk::error::OTelSdkResult {
        Ok(())
    }
    fn shutdown_with_timeout(&self, _: Duration) -> opentelemetry_sdk::error::OTelSdkResult {
        Ok(())
    }
}

/// With the default span propagation of the actor library, this aborts the process.
#[test]
fn a_hundred_thousand_self_messages_nest_neither_stack_nor_spans() {
    let shapes = Shapes::default();
    let provider = SdkTracerProvider::builder().with_span_processor(shapes.clone()).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("test"));
    let subscriber = tracing_subscriber::registry().with(layer);
    let _guard = tracing::subscriber::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let tree = tree(8, |child| child).await;
        let handled = tree.probe.ask_within(Duration::from_secs(300), |reply| Msg::Loop(100_000, reply)).await;
        assert_eq!(handled, Ok(100_001));
    });
    let shapes = shapes.0.lock().expect("not poisoned");
    assert!(shapes.iter().filter(|(is_root, links)| *is_root && *links == 1).count() >= 99_999);
    assert!(shapes.iter().all(|(_, links)| *links <= 1));
}

#[tokio::test]
async fn a_stream_waits_for_room_instead_of_queueing_without_bound() {
    struct Slow;
    impl Behaviour for Slow {
        const KIND: &'static str = "slow";
        type Msg = Msg;
        type Args = Arc<Mutex<Option<tokio::sync::oneshot::Sender<u64>>>>;
        type State = ();
        async fn start(context: &Context<Msg>, args: &Arc<Self::Args>) -> Result<(), Failure> {
            let (mailbox, done) = (context.mailbox(), args.lock().expect("not poisoned").take());
            context.spawn(async move {
                let mut sent = 0;
                let crowd = async {
                    while mailbox.send_when_room(Msg::Stream).await {
                        sent += 1;
                    }
                };
                let _ = tokio::time::timeout(Duration::from_millis(200), crowd).await;
                if let Some(done) = done {
                    let _ = done.send(sent);
                }
            });
            Ok(())
        }
        async fn handle(_: &Context<Msg>, _: Msg, (): &mut ()) -> Result<(), Failure> {
            std::future::pending().await
        }
        fn observe((): &()) -> serde_json::Value {
            json!({})
        }
    }
    let (done, sent) = tokio::sync::oneshot::channel();
    let slow = Handle::new("slow", "slow", 8);
    let root = Supervisor::new("root");
    let child = ChildSpec::worker::<Slow>(&slow, Arc::new(Mutex::new(Some(done))));
    root.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    let sent = sent.await.expect("reported");
    assert!((200..=300).contains(&sent), "{sent} items were taken in");
}

/// The delays between restarts, on a clock that only the runtime moves.
#[tokio::test(start_paused = true)]
async fn restarts_follow_the_backoff_curve() {
    let tree = tree(8, |child| {
        let seconds = Duration::from_secs;
        child.backoff(Backoff { initial: seconds(1), max: seconds(8), factor: 2.0, jitter: 0.2 })
    })
    .await;
    for expected in [1.0, 2.0, 4.0, 8.0, 8.0] {
        let (before, begun) = (tree.starts.load(Ordering::SeqCst), tokio::time::Instant::now());
        tree.probe.tell(Msg::Fail).expect("delivered");
        while tree.starts.load(Ordering::SeqCst) == before {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let waited = begun.elapsed().as_secs_f64();
        assert!((expected * 0.8..=expected * 1.2 + 0.02).contains(&waited), "waited {waited} s for {expected} s");
    }
}
