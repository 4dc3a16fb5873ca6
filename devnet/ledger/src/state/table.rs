//! A table of the state: a persistent ordered map with gas-metered access. A clone is cheap, so every height keeps its own
//! state for queries.
//!
//! Each table maintains the sum of the hashes of its entries. The application hash is a function of the state alone: two
//! histories that end in the same state have the same hash.

use std::ops::RangeBounds;

use imbl::OrdMap;
use sha2::{Digest, Sha256};

use crate::gas::GasMeter;

/// A value with a stored form, which gas and the application hash are computed from.
pub trait StoredValue: Clone {
    fn stored_len(&self) -> usize;
    fn stored_bytes(&self) -> Vec<u8>;
}

impl<M: prost::Message + Clone> StoredValue for M {
    fn stored_len(&self) -> usize {
        self.encoded_len()
    }

    fn stored_bytes(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// A value that is no protobuf message: an index entry or an amount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlainValue<T>(pub T);

impl<T: Clone + TableKey> StoredValue for PlainValue<T> {
    fn stored_len(&self) -> usize {
        std::mem::size_of::<T>()
    }

    fn stored_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.write_key(&mut bytes);
        bytes
    }
}

/// A key of a table.
pub trait TableKey {
    /// Appends a form that no other value of the type shares.
    fn write_key(&self, bytes: &mut Vec<u8>);
}

macro_rules! number_keys {
    ($($number:ty),*) => {$(
        impl TableKey for $number {
            fn write_key(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

number_keys!(u32, u64, u128, i32);

impl TableKey for () {
    fn write_key(&self, _: &mut Vec<u8>) {}
}

impl TableKey for String {
    fn write_key(&self, bytes: &mut Vec<u8>) {
        self.len().to_be_bytes().iter().chain(self.as_bytes()).for_each(|byte| bytes.push(*byte));
    }
}

impl<A: TableKey, B: TableKey> TableKey for (A, B) {
    fn write_key(&self, bytes: &mut Vec<u8>) {
        self.0.write_key(bytes);
        self.1.write_key(bytes);
    }
}

/// A sum of hashes modulo 2^256: independent of the order of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct HashSum([u64; 4]);

impl HashSum {
    fn of_entry(key: &impl TableKey, value: &impl StoredValue) -> Self {
        let mut bytes = Vec::new();
        key.write_key(&mut bytes);
        let digest: [u8; 32] = Sha256::new_with_prefix(bytes).chain_update(value.stored_bytes()).finalize().into();
        let mut limbs = [0; 4];
        for (limb, chunk) in limbs.iter_mut().zip(digest.chunks_exact(8)) {
            *limb = chunk.iter().fold(0, |all, byte| all << 8 | u64::from(*byte));
        }
        Self(limbs)
    }

    fn add(&mut self, other: Self) {
        let mut carry = false;
        for (limb, more) in self.0.iter_mut().zip(other.0) {
            let (sum, over) = limb.overflowing_add(more);
            let (sum, over_again) = sum.overflowing_add(u64::from(carry));
            (*limb, carry) = (sum, over || over_again);
        }
    }

    fn subtract(&mut self, other: Self) {
        // Two's complement: minus x is not(x) + 1.
        self.add(Self(other.0.map(|limb| !limb)));
        self.add(Self([1, 0, 0, 0]));
    }
}

/// A table of the state.
#[derive(Debug, Clone)]
pub struct StateTable<K: Ord + Clone + TableKey, V: StoredValue> {
    entries: OrdMap<K, V>,
    hash_sum: HashSum,
}

impl<K: Ord + Clone + TableKey, V: StoredValue> Default for StateTable<K, V> {
    fn default() -> Self {
        Self { entries: OrdMap::new(), hash_sum: HashSum::default() }
    }
}

impl<K: Ord + Clone + TableKey, V: StoredValue> StateTable<K, V> {
    pub fn get(&self, key: &K, gas: &GasMeter) -> Option<&V> {
        let found = self.entries.get(key);
        gas.charge_read(found.map_or(0, StoredValue::stored_len));
        found
    }

    /// Reads without gas, for queries and invariants.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub fn contains(&self, key: &K, gas: &GasMeter) -> bool {
        gas.charge_read(0);
        self.entries.contains_key(key)
    }

    pub fn put(&mut self, key: K, value: V, gas: &GasMeter) {
        gas.charge_write(value.stored_len());
        self.hash_sum.add(HashSum::of_entry(&key, &value));
        if let Some(old) = self.entries.get(&key) {
            self.hash_sum.subtract(HashSum::of_entry(&key, old));
        }
        self.entries.insert(key, value);
    }

    pub fn remove(&mut self, key: &K, gas: &GasMeter) -> Option<V> {
        gas.charge_delete();
        let old = self.entries.remove(key)?;
        self.hash_sum.subtract(HashSum::of_entry(key, &old));
        Some(old)
    }

    /// Returns all entries in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.values()
    }

    /// Returns the entries of a range of keys, in key order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.range(range)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds this table to the hash of the state.
    pub fn hash(&self, hasher: &mut Sha256) {
        self.hash_sum.0.iter().for_each(|limb| hasher.update(limb.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(table: &StateTable<u64, PlainValue<u64>>) -> Vec<u8> {
        let mut hasher = Sha256::new();
        table.hash(&mut hasher);
        hasher.finalize().to_vec()
    }

    #[test]
    fn the_hash_depends_on_the_entries_alone() {
        let gas = GasMeter::unlimited();
        let (mut left, mut right) = (StateTable::default(), StateTable::default());
        let empty = hash(&left);
        for key in 0..100 {
            left.put(key, PlainValue(key * 7), &gas);
        }
        for key in (0..200).rev() {
            right.put(key, PlainValue(0), &gas);
            right.put(key, PlainValue(key * 7), &gas);
        }
        assert_ne!(hash(&left), hash(&right));
        for key in 100..200 {
            right.remove(&key, &gas);
        }
        assert_eq!(hash(&left), hash(&right));
        for key in 0..100 {
            left.remove(&key, &gas);
        }
        assert_eq!(hash(&left), empty);
    }
}
