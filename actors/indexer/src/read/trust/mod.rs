//! Reads of trust: verdicts, the sections of a trust answer, and TRQP.

mod sections;
pub mod trqp;
mod verdicts;
