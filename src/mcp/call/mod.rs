//! Calls of tools: `tool_call` looks the tool up and dispatches it, `ledger_write` writes to the chain, `reads` asks the indexer,
//! the graph, the node or an agent, `wallet` answers from the server's own state, `confirmation` asks a person, `answer` makes the
//! result of MCP, and the two views shorten it.

mod answer;
mod approvals;
mod confirmation;
mod confirmation_text;
mod ledger_write;
mod next_step;
mod reads;
mod receipt_view;
mod row_view;
mod tool_call;
mod wallet;

pub use answer::{ToolAnswer, error_result};
pub use approvals::DecisionRefusal;
pub use confirmation::ConfirmationStore;
