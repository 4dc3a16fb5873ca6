//! One collection of state: a persistent ordered map whose access is metered. Cloning it is cheap, so every height keeps its
//! own state for queries.
//!
//! Each table carries the sum of its entries' hashes, kept up with every write, so that the application hash is a function of
//! the state alone: two histories that end in the same state end in the same hash.

use std::ops::RangeBounds;

use imbl::OrdMap;
use sha2::{Digest, Sha256};

use super::gas::Gas;

/// A value with a stored form.
pub trait Stored: Clone {
    fn stored_len(&self) -> usize;
    fn stored(&self) -> Vec<u8>;
}

impl<M: prost::Message + Clone> Stored for M {
    fn stored_len(&self) -> usize {
        self.encoded_len()
    }

    fn stored(&self) -> Vec<u8> {
        self.encode_to_vec()
    }
}

/// An index entry or an amount: not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plain<T>(pub T);

impl<T: Clone + Key> Stored for Plain<T> {
    fn stored_len(&self) -> usize {
        std::mem::size_of::<T>()
    }

    fn stored(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.0.write(&mut bytes);
        bytes
    }
}

/// What entries are found by.
pub trait Key {
    /// Appends a form that no other value shares.
    fn write(&self, bytes: &mut Vec<u8>);
}

macro_rules! number_keys {
    ($($number:ty),*) => {$(
        impl Key for $number {
            fn write(&self, bytes: &mut Vec<u8>) {
                bytes.extend_from_slice(&self.to_be_bytes());
            }
        }
    )*};
}

number_keys!(u32, u64, u128, i32);

impl Key for () {
    fn write(&self, _: &mut Vec<u8>) {}
}

impl Key for String {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.len().to_be_bytes().iter().chain(self.as_bytes()).for_each(|byte| bytes.push(*byte));
    }
}

impl<const N: usize> Key for [u64; N] {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|part| part.write(bytes));
    }
}

impl<A: Key, B: Key> Key for (A, B) {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
    }
}

impl<A: Key, B: Key, C: Key, D: Key> Key for (A, B, C, D) {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
        self.1.write(bytes);
        self.2.write(bytes);
        self.3.write(bytes);
    }
}

/// A sum of hashes modulo 2^256: independent of the order of writes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Sum([u64; 4]);

impl Sum {
    fn of(key: &impl Key, value: &impl Stored) -> Self {
        let mut bytes = Vec::new();
        key.write(&mut bytes);
        let digest: [u8; 32] = Sha256::new_with_prefix(bytes).chain_update(value.stored()).finalize().into();
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

#[derive(Debug, Clone)]
pub struct Table<K: Ord + Clone + Key, V: Stored> {
    entries: OrdMap<K, V>,
    sum: Sum,
}

impl<K: Ord + Clone + Key, V: Stored> Default for Table<K, V> {
    fn default() -> Self {
        Self { entries: OrdMap::new(), sum: Sum::default() }
    }
}

impl<K: Ord + Clone + Key, V: Stored> Table<K, V> {
    pub fn get(&self, key: &K, gas: &Gas) -> Option<&V> {
        let found = self.entries.get(key);
        gas.read(found.map_or(0, Stored::stored_len));
        found
    }

    /// For queries and invariants, which nobody pays for.
    pub fn peek(&self, key: &K) -> Option<&V> {
        self.entries.get(key)
    }

    pub fn contains(&self, key: &K, gas: &Gas) -> bool {
        gas.read(0);
        self.entries.contains_key(key)
    }

    pub fn put(&mut self, key: K, value: V, gas: &Gas) {
        gas.write(value.stored_len());
        self.sum.add(Sum::of(&key, &value));
        if let Some(old) = self.entries.get(&key) {
            self.sum.subtract(Sum::of(&key, old));
        }
        self.entries.insert(key, value);
    }

    pub fn remove(&mut self, key: &K, gas: &Gas) -> Option<V> {
        gas.delete();
        let old = self.entries.remove(key)?;
        self.sum.subtract(Sum::of(key, &old));
        Some(old)
    }

    /// All entries in key order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.iter()
    }

    pub fn values(&self) -> impl DoubleEndedIterator<Item = &V> {
        self.entries.values()
    }

    /// Entries of a range of keys, in key order.
    pub fn range(&self, range: impl RangeBounds<K>) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.entries.range(range)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Mixes this table into a hash of the whole state.
    pub fn hash(&self, hasher: &mut Sha256) {
        self.sum.0.iter().for_each(|limb| hasher.update(limb.to_be_bytes()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(table: &Table<u64, Plain<u64>>) -> Vec<u8> {
        let mut hasher = Sha256::new();
        table.hash(&mut hasher);
        hasher.finalize().to_vec()
    }

    #[test]
    fn the_hash_depends_on_the_entries_alone() {
        let gas = Gas::unlimited();
        let (mut left, mut right) = (Table::default(), Table::default());
        let empty = hash(&left);
        for key in 0..100 {
            left.put(key, Plain(key * 7), &gas);
        }
        for key in (0..200).rev() {
            right.put(key, Plain(0), &gas);
            right.put(key, Plain(key * 7), &gas);
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
