//! The graph's progress: how far it has taken the chain in. Informational, and what reads with a minimum height wait for; it has
//! no part in the barrier of a write.

mod actor;

use svc_kit::{Handle, Retained, supervise::ChildSpec, upstream::UpstreamError};

pub use actor::{Args, GraphWatch};

use crate::{
    barrier::{self, BarrierHandle, Cursor},
    graph_client::GraphClient,
    subscription::Position,
};

/// What is kept of a graph service.
pub(crate) struct Graph {
    pub client: GraphClient,
    pub barrier: BarrierHandle,
    pub position: Retained<Position>,
    pub cursor: Retained<Cursor>,
}

/// The actors that follow a graph service.
pub(crate) fn children(origin: &str, mailbox: usize) -> Result<(Graph, Vec<ChildSpec>), UpstreamError> {
    let client = GraphClient::new(origin)?;
    let (position, cursor) = (Retained::new(Position::default()), Retained::new(Cursor::default()));
    let barrier = Handle::new("barrier", "graph_barrier", mailbox);
    let watch = Handle::new("graph_watch", "graph_watch", mailbox);
    let watch_args = Args {
        origin: client.origin().to_owned(),
        position: position.clone(),
        cursor: cursor.clone(),
        barrier: barrier.clone(),
    };
    let specs = vec![
        ChildSpec::worker::<barrier::Barrier>(&barrier, barrier::Args { cursor: cursor.clone(), is_measured: false }),
        ChildSpec::worker::<GraphWatch>(&watch, watch_args),
    ];
    Ok((Graph { client, barrier: BarrierHandle(barrier), position, cursor }, specs))
}
