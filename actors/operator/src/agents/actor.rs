//! The actor that keeps one session per agent.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{
    Behaviour, Context, Failure, Handle, Intent,
    did::DidResolver,
    supervise::{ChildSpec, Supervisor},
};

use super::{Directory, Known, Whereabouts};
use crate::{
    agent_session::{self, AgentHandle, AgentSession},
    signer::SignerHandle,
    snapshot::Board,
};

/// What it is told.
pub enum Msg {
    /// The snapshot has changed.
    Changed,
}

impl Intent for Msg {
    fn name(&self) -> &'static str {
        match self {
            Self::Changed => "changed",
        }
    }
}

/// What it is made from.
pub struct Args {
    pub board: Board,
    pub directory: Directory,
    pub sessions: Supervisor,
    pub account: String,
    pub resolver: DidResolver,
    pub signer: SignerHandle,
    pub period: Duration,
}

pub struct Agents;

/// Sessions kept; a corporation with more agents gets sessions for the first of them.
const LIMIT: usize = 1_024;
/// Messages a session may have waiting.
const MAILBOX: usize = 512;
/// When a session could not be started, the next attempt.
const RETRY: Duration = Duration::from_secs(1);

impl Behaviour for Agents {
    const KIND: &'static str = "agents";
    type Msg = Msg;
    type Args = Args;
    type State = Arc<Args>;

    async fn start(context: &Context<Msg>, args: &Arc<Args>) -> Result<Arc<Args>, Failure> {
        context.mailbox().send(Msg::Changed);
        Ok(Arc::clone(args))
    }

    async fn handle(context: &Context<Msg>, Msg::Changed: Msg, args: &mut Arc<Args>) -> Result<(), Failure> {
        let snapshot = args.board.current();
        let wanted: BTreeSet<&str> = snapshot.agents.iter().map(|agent| agent.did.as_str()).take(LIMIT).collect();
        let gone: Vec<u64> = args.directory.with(|known| {
            let gone = known.extract_if(.., |did, _| !wanted.contains(did.as_str()));
            gone.map(|(_, one)| one.child).collect()
        });
        for child in gone {
            // A supervisor that is gone has taken the session with it.
            let _ = args.sessions.remove(child).await;
        }
        for did in wanted {
            if args.directory.session(did).is_none() && !begin(args, did).await {
                context.after(RETRY, Msg::Changed);
                break;
            }
        }
        args.directory.count();
        Ok(())
    }

    fn observe(args: &Arc<Args>) -> Value {
        json!({"known": args.directory.with(|known| known.len())})
    }
}

/// Starts a session; it is in the directory before it runs, since it writes there.
async fn begin(args: &Args, did: &str) -> bool {
    let handle = Handle::new("agent_session", format!("agent_session/{did}"), MAILBOX);
    let session = agent_session::Args {
        did: did.to_owned(),
        account: args.account.clone(),
        resolver: args.resolver.clone(),
        signer: args.signer.clone(),
        directory: args.directory.clone(),
        period: args.period,
    };
    let known = Known { child: 0, handle: AgentHandle(handle.clone()), whereabouts: Whereabouts::default() };
    args.directory.with(|all| all.insert(did.to_owned(), known));
    match args.sessions.add(ChildSpec::worker::<AgentSession>(&handle, session)).await {
        Ok(child) => {
            args.directory.with(|all| {
                if let Some(one) = all.get_mut(did) {
                    one.child = child;
                }
            });
            true
        }
        Err(error) => {
            tracing::warn!(agent = did, %error, "the session of an agent could not be started");
            args.directory.with(|all| all.remove(did));
            false
        }
    }
}
