//! Nodes of other generations, and of another namespace.

pub(in crate::e2e) mod generation_rules;
pub(in crate::e2e) mod generations;
pub(in crate::e2e) mod other_namespace;
