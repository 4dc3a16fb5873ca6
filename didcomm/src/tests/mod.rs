//! Whole envelopes: recorded ones of the reference agent, and ours, changed in every way that must be refused.

mod refusals;
mod vectors;
