//! The assembly of a pipeline: its actors, their arguments and their order.

use std::sync::{Arc, atomic::AtomicU64};

use svc_kit::{
    RetainedState, TaskGroup,
    supervision::{ChildSpec, Supervisor},
};
use svc_net::upstream::{BlockClock, BlockHead, NodeClient};
use svc_wire::account_key::AccountKey;
use tokio::time::Instant;

use super::{Pipeline, PipelineParts, PipelineRuntime};
use crate::{
    chain::account::AccountIdentity,
    config::{MAX_ACTIVE_WRITES, PipelineConfig},
    confirmer::{self, Confirmer, ConfirmerHandle, SigningAccount},
    journal::{JournalHandle, JournalWriter},
    node_link::{self, NodeLink},
    recovery::RecoveredJournal,
    signer::{self, Signer, SignerHandle, gas_history::GasHistory},
    write_task::WriteActors,
};

impl Pipeline {
    pub(super) fn build(
        config: PipelineConfig,
        key: AccountKey,
        identity: AccountIdentity,
        node: NodeClient,
        head: BlockHead,
        recovered: RecoveredJournal,
        supervisor: Option<Supervisor>,
    ) -> PipelineParts {
        let (clock, write_node) = (BlockClock::new(head, Instant::now()), node.for_writes());
        let (clock, gas) = (RetainedState::new(clock), RetainedState::new(GasHistory::new(config.gas_adjustment)));
        let table = RetainedState::new(recovered.table);
        let (journal, journal_args) = JournalHandle::new(recovered.store, recovered.history, config.mailbox_limit);
        let signer = SignerHandle::new(config.mailbox_limit);
        let confirmer = ConfirmerHandle::new(config.mailbox_limit);
        let node_link = svc_kit::Handle::new("node_link", "node_link", config.mailbox_limit);
        let address = identity.address.to_string();
        let signer_args = signer::Args {
            key,
            identity: identity.clone(),
            chain: config.chain.clone(),
            prices: config.prices.clone(),
            release: config.release.clone(),
            node: write_node.clone(),
            table: table.clone(),
            clock: clock.clone(),
            gas: gas.clone(),
            journal: journal.clone(),
            window: config.window,
            tx_timeout: config.tx_timeout,
            text_prefixes: config.text_prefixes,
        };
        let confirmer_args = confirmer::Args {
            node: write_node.clone(),
            account: SigningAccount::new(&identity, &config.chain),
            table: table.clone(),
            clock: clock.clone(),
            gas: gas.clone(),
            journal: journal.clone(),
            signer: signer.clone(),
        };
        let link_args = node_link::Args {
            node: write_node,
            prices: config.prices.clone(),
            release: config.release.clone(),
            address,
            clock: clock.clone(),
            journal: journal.clone(),
            confirmer: confirmer.clone(),
            signer: signer.clone(),
        };
        let children = vec![
            ChildSpec::worker::<JournalWriter>(journal.actor(), journal_args),
            ChildSpec::worker::<Signer>(signer.actor(), signer_args),
            ChildSpec::worker::<Confirmer>(confirmer.actor(), confirmer_args),
            ChildSpec::worker::<NodeLink>(&node_link, link_args),
        ];
        let actors = WriteActors {
            signer,
            confirmer,
            journal: journal.clone(),
            table,
            recovery: RetainedState::new(recovered.summary),
            next_submission: Arc::new(AtomicU64::new(recovered.next_submission)),
            tx_timeout: config.tx_timeout,
        };
        let pipeline = Self(Arc::new(PipelineRuntime {
            chain: config.chain,
            prices: config.prices,
            release: config.release,
            identity,
            node,
            clock,
            gas,
            journal,
            actors,
            tasks: TaskGroup::new(MAX_ACTIVE_WRITES),
            supervisor,
        }));
        PipelineParts { pipeline, children }
    }
}
