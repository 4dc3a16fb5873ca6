//! What makes a DID trusted: proofs, credentials, schemas, the verdict. No I/O and no clock: what an evaluation needs to know
//! it asks for, and whoever runs it finds that out and asks again.

mod credential;
pub mod digest;
pub mod document;
pub mod essential;
mod evaluate;
mod known;
mod linked_data;
pub mod proof;
mod reason;
mod schema;
mod verdict;

pub use essential::{EntryError, Essential, EssentialSchemas};
pub use evaluate::{Rules, evaluate};
pub use known::{Failure, Known, Need, Participant, Proofs, Schema, State};
pub use reason::{Code, Reason};
pub use verdict::{Held, Pattern, Shown, Verdict};
