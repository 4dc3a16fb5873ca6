//! A small actor that fails on request, and a tree of one supervisor with that actor.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use crate::{
    ActorBehaviour, ActorContext, ActorFailure, Handle, ReplyPort,
    backoff::Backoff,
    impl_actor_message,
    supervision::{ChildSpec, Supervisor, SupervisorSpec},
};
use serde_json::json;

pub enum Msg {
    Count(ReplyPort<u64>),
    Fail,
    Panic,
    Hang,
    Block(Duration),
    Sleep(Duration),
    Forget(ReplyPort<u64>),
    Loop(u64, ReplyPort<u64>),
    Stream,
    PanicInTask(ReplyPort<u64>),
}

impl_actor_message!(Msg { Count, Fail, Panic, Hang, Block, Sleep, Forget, Loop, Stream, PanicInTask });

#[derive(Default)]
pub struct Args {
    pub starts: Arc<AtomicU32>,
    pub fails_to_start: Arc<Mutex<u32>>,
}

pub struct FaultyActor;

impl ActorBehaviour for FaultyActor {
    const KIND: &'static str = "probe";
    type Msg = Msg;
    type Args = Args;
    type State = u64;

    async fn start(_: &ActorContext<Msg>, args: &Arc<Args>) -> Result<u64, ActorFailure> {
        let mut left = args.fails_to_start.lock().expect("not poisoned");
        if *left > 0 {
            *left -= 1;
            return Err(ActorFailure("not this time".into()));
        }
        args.starts.fetch_add(1, Ordering::SeqCst);
        Ok(0)
    }

    async fn handle(context: &ActorContext<Msg>, message: Msg, handled: &mut u64) -> Result<(), ActorFailure> {
        *handled += 1;
        match message {
            Msg::Count(reply) => reply.send(*handled),
            Msg::Fail => return Err(ActorFailure("asked to fail".into())),
            Msg::Panic => panic!("asked to panic"),
            Msg::Hang => std::future::pending().await,
            Msg::Block(span) => std::thread::sleep(span),
            Msg::Sleep(span) => tokio::time::sleep(span).await,
            Msg::Forget(reply) => drop(reply),
            Msg::Loop(0, reply) => reply.send(*handled),
            Msg::Loop(left, reply) => {
                context.mailbox().send(Msg::Loop(left - 1, reply));
            }
            Msg::Stream => {}
            Msg::PanicInTask(reply) => {
                context.spawn(async move {
                    let _reply = reply;
                    panic!("asked to panic in a task");
                });
            }
        }
        Ok(())
    }

    fn observe(handled: &u64) -> serde_json::Value {
        json!({ "handled": handled })
    }
}

pub struct SupervisionFixture {
    pub root: Supervisor,
    pub probe: Handle<Msg>,
    pub starts: Arc<AtomicU32>,
    pub fails_to_start: Arc<Mutex<u32>>,
}

pub const FAST_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(1), max: Duration::from_millis(1), factor: 1.0, jitter: 0.0 };

pub async fn start_tree(limit: usize, adjust: impl Fn(ChildSpec) -> ChildSpec) -> SupervisionFixture {
    let (starts, fails_to_start) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(0)));
    let probe = Handle::new("probe", "probe", limit);
    let args = Args { starts: Arc::clone(&starts), fails_to_start: Arc::clone(&fails_to_start) };
    let child = adjust(ChildSpec::worker::<FaultyActor>(&probe, args).backoff(FAST_BACKOFF));
    let root = Supervisor::new("root");
    root.start(SupervisorSpec::one_for_one(vec![child])).await.expect("the tree starts");
    SupervisionFixture { root, probe, starts, fails_to_start }
}

pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits until the actor has started more than `before` times and is up.
pub async fn wait_for_restart(tree: &SupervisionFixture, before: u32) {
    tokio::time::timeout(TEST_TIMEOUT, async {
        while tree.starts.load(Ordering::SeqCst) <= before || !tree.probe.wait_until_up(TEST_TIMEOUT).await {
            tokio::task::yield_now().await;
        }
    })
    .await
    .expect("the actor is started again");
}
