//! Nodes of other generations, of another namespace, and without old states.

pub(in crate::e2e) mod generation_rules;
pub(in crate::e2e) mod generations;
pub(in crate::e2e) mod other_namespace;
pub(in crate::e2e) mod pruned_reads;
