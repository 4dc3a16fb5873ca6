//! The store as a file: `svc agent export` writes it, and `svc agent import` makes an empty store of it, in SQLite or PostgreSQL.
//!
//! A file is JSON lines: a header, a line a row, the number of rows of each table, and an authentication code over everything before it.
//!
//! ```text
//! {"format":"svc-agent-export","version":1,"did":"did:…","exportedAt":"…","schema":3,"storeKey":"…"}
//! {"table":"identity","row":[1,"did:…","https://agent.example.com"]}
//! {"rows":{"identity":1,"private_key":3,…}}
//! {"mac":"…"}
//! ```
//!
//! Private keys stay encrypted as they are in the store. The code is keyed from the store key: the file alone lets its reader neither
//! decrypt a key nor change a row. An import decodes no row before it has verified the code over the whole file; then it reads the
//! file once more, writes it in one transaction, and commits only the bytes that it verified. An export is one snapshot of the store,
//! and neither of the two keeps more than one line and one batch of rows in memory.
//!
//! The file does not replace the guards of a store: an older export, or one that was imported twice, is refused where a restored backup
//! is, by the head file, the log at the public URL, the journal and the registry.

mod error;
mod export;
mod file_mac;
mod import;
mod line_reader;
mod lines;
mod row_writer;
mod tables;
#[cfg(test)]
mod tests;

pub use error::{ExportError, ImportError};
pub use export::StoreExport;
pub use file_mac::has_export_end;
pub use import::{ImportReport, import_store};
