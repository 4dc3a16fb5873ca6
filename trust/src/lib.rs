//! What makes a DID trusted: proofs, credentials, schemas, the verdict. No I/O and no clock.
