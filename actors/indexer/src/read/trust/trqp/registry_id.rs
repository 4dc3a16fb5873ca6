//! The identity of a registry.

use std::fmt;

/// A registry: its namespace and its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegistryId<'a> {
    pub namespace: &'a str,
    pub chain_id: &'a str,
}

impl fmt::Display for RegistryId<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "vpr:{}:{}", self.namespace, self.chain_id)
    }
}
