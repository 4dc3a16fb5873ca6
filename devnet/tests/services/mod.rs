//! Services of a scenario: their material over HTTP, and what it makes of them.

mod judge;
mod material;
mod verdicts;
