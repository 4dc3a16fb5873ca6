//! Calls of tools: `tool_call` looks the tool up and dispatches it, `ledger_write` writes to the chain, `reads` asks the indexer,
//! the graph, the node or an agent, `wallet` answers from the server's own state, and `confirmation` asks a person.

mod confirmation;
mod ledger_write;
mod next_step;
mod reads;
mod tool_call;
mod wallet;

pub use confirmation::ConfirmationStore;
