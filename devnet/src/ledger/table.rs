//! One collection of state: a persistent ordered map whose access is metered. Cloning it is cheap, so every height keeps its
//! own state for queries.

use imbl::OrdMap;

use super::gas::Gas;

/// A value with a stored size.
pub trait Stored: Clone {
    fn stored_len(&self) -> usize;
}

impl<M: prost::Message + Clone> Stored for M {
    fn stored_len(&self) -> usize {
        self.encoded_len()
    }
}

/// An index entry or an amount: anything whose size does not matter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain<T>(pub T);

impl<T: Clone> Stored for Plain<T> {
    fn stored_len(&self) -> usize {
        std::mem::size_of::<T>()
    }
}

#[derive(Debug, Clone)]
pub struct Table<K: Ord + Clone, V: Stored>(OrdMap<K, V>);

impl<K: Ord + Clone, V: Stored> Default for Table<K, V> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<K: Ord + Clone, V: Stored> Table<K, V> {
    pub fn get(&self, key: &K, gas: &Gas) -> Option<&V> {
        let found = self.0.get(key);
        gas.read(found.map_or(0, Stored::stored_len));
        found
    }

    pub fn contains(&self, key: &K, gas: &Gas) -> bool {
        gas.read(0);
        self.0.contains_key(key)
    }

    pub fn put(&mut self, key: K, value: V, gas: &Gas) {
        gas.write(value.stored_len());
        self.0.insert(key, value);
    }

    pub fn remove(&mut self, key: &K, gas: &Gas) -> Option<V> {
        gas.delete();
        self.0.remove(key)
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.0.iter()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.0.iter().map(|(_, value)| value)
    }
}
