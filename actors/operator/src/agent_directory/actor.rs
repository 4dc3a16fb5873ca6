//! The actor that starts and ends sessions.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use svc_kit::{ActorBehaviour, ActorContext, ActorFailure, supervision::ChildSpec};

use super::{
    AgentEndpoint, Args, Msg,
    core::{SessionChanges, compare_sessions},
    directory::DirectoryEntry,
};
use crate::agent_session::{self, AgentSession, AgentSessionHandle};

/// The actor that keeps one session per agent.
pub struct AgentReconciler;

/// Messages that a session's mailbox accepts.
const SESSION_MAILBOX_SIZE: usize = 512;
/// Pause before a session that could not be started is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

impl ActorBehaviour for AgentReconciler {
    const KIND: &'static str = "agents";
    type Msg = Msg;
    type Args = Args;
    type State = Arc<Args>;

    async fn start(context: &ActorContext<Msg>, args: &Arc<Args>) -> Result<Arc<Args>, ActorFailure> {
        context.mailbox().send(Msg::SnapshotChanged);
        Ok(Arc::clone(args))
    }

    async fn handle(
        context: &ActorContext<Msg>,
        Msg::SnapshotChanged: Msg,
        args: &mut Arc<Args>,
    ) -> Result<(), ActorFailure> {
        let snapshot = args.publisher.current();
        let SessionChanges { ended, missing } = args.directory.with_entries(|entries| {
            let agents = snapshot.agents.iter().map(|agent| agent.did.as_str());
            compare_sessions(agents, entries.keys().map(String::as_str))
        });
        for did in ended {
            let entry = args.directory.with_entries(|entries| entries.remove(&did));
            if let Some(entry) = entry {
                // A supervisor that has ended has ended its sessions too.
                let _ = args.sessions.remove(entry.child).await;
            }
        }
        for did in missing {
            if !start_session(args, &did).await {
                context.send_after(RETRY_DELAY, Msg::SnapshotChanged);
                break;
            }
        }
        args.directory.report_counts();
        Ok(())
    }

    fn observe(args: &Arc<Args>) -> Value {
        json!({"known": args.directory.with_entries(|entries| entries.len())})
    }
}

/// Starts a session. The directory has it before it runs, because the session records its endpoint there.
async fn start_session(args: &Args, did: &str) -> bool {
    let session = AgentSessionHandle::new(did, SESSION_MAILBOX_SIZE);
    let session_args = agent_session::Args {
        did: did.to_owned(),
        account: args.account.clone(),
        resolver: args.resolver.clone(),
        authority: Some(args.authority.clone()),
        allows_unbound_login: args.unbound_logins.contains(did),
        signer: args.signer.clone(),
        endpoints: Arc::new(args.directory.clone()),
        period: args.period,
    };
    let spec = ChildSpec::worker::<AgentSession>(session.actor(), session_args);
    let entry = DirectoryEntry { child: 0, session, endpoint: AgentEndpoint::default() };
    args.directory.with_entries(|entries| entries.insert(did.to_owned(), entry));
    match args.sessions.add(spec).await {
        Ok(child) => {
            args.directory.with_entries(|entries| {
                if let Some(entry) = entries.get_mut(did) {
                    entry.child = child;
                }
            });
            true
        }
        Err(error) => {
            tracing::warn!(agent = did, %error, "the session of an agent could not be started");
            args.directory.with_entries(|entries| entries.remove(did));
            false
        }
    }
}
