//! Parameters of reads, from a path, a query or a JSON body.

pub mod json_body;
pub mod params;
