//! The setup of a DID: the steps by which it becomes trusted, in their order, compared with the node.
//!
//! The agent sends none of them. Participants, fees and digests are the corporation's; each step names the tool that sends it, with the
//! complete message, or the corporation that has to act.

mod facts;
mod options;
mod participation;
mod place_gap;
mod places;
mod plan;
mod reader;
mod source;
mod step;
#[cfg(test)]
mod tests;

pub use self::{
    options::SetupOptions,
    step::{Setup, SetupStep, StepActor, StepState},
};
pub(crate) use self::{reader::read_setup, source::SetupSource};
