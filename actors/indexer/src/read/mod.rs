//! The reads of the indexer, by the names of their operations, at the newest or any past height. Answers are JSON; the
//! front end owns their transport.
//!
//! `arguments` parses parameters, `registry` answers from the entities and the activity, and `trust` from the verdicts.

mod answer_json;
mod arguments;
mod error;
mod indexer_status;
mod openapi;
mod reader;
mod registry;
#[cfg(test)]
pub(crate) mod test_reader;
mod trust;

pub use arguments::{json_body::MAX_BODY_BYTES, params::ReadArguments};
pub use error::ReadError;
pub use openapi::document as openapi;
pub use reader::{IndexReader, ReadAnswer, ReadSubject};
pub use svc_wire::indexer_reads::read_endpoints;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_reads_has_distinct_operations_and_paths() {
        assert_eq!(read_endpoints().expect("the table of reads").len(), 57);
        let names: std::collections::BTreeSet<_> =
            read_endpoints().expect("the table of reads").iter().map(|endpoint| &endpoint.operation).collect();
        let paths: std::collections::BTreeSet<_> =
            read_endpoints().expect("the table of reads").iter().map(|endpoint| &endpoint.path).collect();
        assert_eq!((names.len(), paths.len()), (57, 57));
    }
}
