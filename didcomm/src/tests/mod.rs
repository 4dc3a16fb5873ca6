//! Whole envelopes: recorded ones of the reference agent, and ours, changed in every way that must be refused. And the numbers of models.

pub(crate) mod random;
mod refusals;
mod vectors;
