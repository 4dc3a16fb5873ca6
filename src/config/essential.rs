//! The essential schemas, which all parts read from the same variables.

use svc_trust::EssentialSchemas;

use super::{
    dids::parse_dids,
    environment::{Environment, EnvironmentReader},
};
use crate::settings::indexer::{SVC_ESSENTIAL_ECOSYSTEMS, SVC_ESSENTIAL_SCHEMAS};

/// Reads the essential schemas, and the ecosystems whose copies of them count.
pub(super) fn read_essential_schemas<E: Environment>(
    reader: &mut EnvironmentReader<'_, E>,
) -> Option<EssentialSchemas> {
    let known = reader
        .read_or(SVC_ESSENTIAL_SCHEMAS, EssentialSchemas::default(), |text| EssentialSchemas::from_entries(text).ok());
    let ecosystems: Option<Vec<String>> = reader.read_or(SVC_ESSENTIAL_ECOSYSTEMS, Vec::new(), parse_dids);
    Some(known?.in_ecosystems(ecosystems?))
}
