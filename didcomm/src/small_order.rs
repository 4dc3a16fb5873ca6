//! X25519 keys of small order. A key agreement with one of them has the same result with every key, so it proves nothing about
//! its parties; the library below takes them.

/// Every encoding of a point of small order, the top bit cleared (RFC 7748 ignores it).
const SMALL_ORDER: [[u8; 32]; 7] = [
    with_ends(0x00, 0x00, 0x00),
    with_ends(0x01, 0x00, 0x00),
    [
        0xe0, 0xeb, 0x7a, 0x7c, 0x3b, 0x41, 0xb8, 0xae, 0x16, 0x56, 0xe3, 0xfa, 0xf1, 0x9f, 0xc4, 0x6a, 0xda, 0x09,
        0x8d, 0xeb, 0x9c, 0x32, 0xb1, 0xfd, 0x86, 0x62, 0x05, 0x16, 0x5f, 0x49, 0xb8, 0x00,
    ],
    [
        0x5f, 0x9c, 0x95, 0xbc, 0xa3, 0x50, 0x8c, 0x24, 0xb1, 0xd0, 0xb1, 0x55, 0x9c, 0x83, 0xef, 0x5b, 0x04, 0x44,
        0x5c, 0xc4, 0x58, 0x1c, 0x8e, 0x86, 0xd8, 0x22, 0x4e, 0xdd, 0xd0, 0x9f, 0x11, 0x57,
    ],
    with_ends(0xec, 0xff, 0x7f),
    with_ends(0xed, 0xff, 0x7f),
    with_ends(0xee, 0xff, 0x7f),
];

const fn with_ends(first: u8, middle: u8, last: u8) -> [u8; 32] {
    let mut bytes = [middle; 32];
    bytes[0] = first;
    bytes[31] = last;
    bytes
}

/// Whether the key is one of them.
pub(crate) fn is_of_small_order(key: &[u8; 32]) -> bool {
    let mut key = *key;
    key[31] &= 0x7f;
    SMALL_ORDER.contains(&key)
}

#[cfg(test)]
mod tests {
    use x25519_dalek::{PublicKey, StaticSecret};

    use super::*;

    #[test]
    fn a_key_of_small_order_agrees_on_nothing_and_others_do() {
        let secret = StaticSecret::from([7; 32]);
        for key in SMALL_ORDER {
            for top in [0, 0x80] {
                let mut key = key;
                key[31] |= top;
                assert!(is_of_small_order(&key));
                assert!(!secret.diffie_hellman(&PublicKey::from(key)).was_contributory(), "{key:x?}");
            }
        }
        assert!(!is_of_small_order(PublicKey::from(&secret).as_bytes()));
    }
}
