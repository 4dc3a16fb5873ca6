//! The texts of the published essential schemas. Their licence keeps them out of the project: a test reads them from a folder.

use std::{fs, path::Path};

use crate::skip;

/// The variable with the folder.
const FOLDER_VARIABLE: &str = "SVC_TEST_PUBLISHED_SCHEMAS";

/// The texts of the JSON files in the folder of SVC_TEST_PUBLISHED_SCHEMAS. Without it the test is skipped.
pub fn published_schemas() -> Option<Vec<String>> {
    let Some(folder) = std::env::var_os(FOLDER_VARIABLE) else {
        skip(&format!("{FOLDER_VARIABLE} names no folder with the published essential schemas"));
        return None;
    };
    let entries = fs::read_dir(Path::new(&folder)).expect("the folder of the published schemas");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let files = paths.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    Some(files.map(|path| fs::read_to_string(path).expect("a text")).collect())
}
