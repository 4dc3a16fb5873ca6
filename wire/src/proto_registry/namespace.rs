//! The namespace of a network, and the renaming of descriptors from one namespace to another.

use std::fmt;

use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};

/// Namespace of the descriptors that are compiled into this crate.
pub const COMPILED_NAMESPACE: &str = "svc";

/// Namespace of a network: first segment of the names of its protobuf packages.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Namespace(String);

/// The text is not a segment of a protobuf package name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a namespace: a lower-case letter, then lower-case letters, digits or underscores")]
pub struct NamespaceError(pub String);

impl Namespace {
    /// Checks the text: a lower-case letter, then lower-case letters, digits or underscores.
    pub fn new(word: &str) -> Result<Self, NamespaceError> {
        let mut characters = word.chars();
        let starts_well = characters.next().is_some_and(|first| first.is_ascii_lowercase());
        let is_clean = characters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
        if starts_well && is_clean { Ok(Self(word.to_owned())) } else { Err(NamespaceError(word.to_owned())) }
    }

    /// The namespace of the compiled-in descriptors.
    pub fn compiled() -> Self {
        Self(COMPILED_NAMESPACE.to_owned())
    }

    /// The text of the namespace.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Full name of a message or service: `<namespace>.<module>.v1.<name>`.
    pub fn full_name(&self, module: &str, name: &str) -> String {
        format!("{}.{module}.v1.{name}", self.0)
    }

    /// Type URL of a message: `/<namespace>.<module>.v1.<name>`.
    pub fn type_url(&self, module: &str, name: &str) -> String {
        format!("/{}", self.full_name(module, name))
    }

    /// gRPC path of a query: `/<namespace>.<module>.v1.Query/<rpc>`.
    pub fn query_path(&self, module: &str, rpc: &str) -> String {
        format!("/{}.{module}.v1.Query/{rpc}", self.0)
    }

    /// Module and name in a type URL of this namespace; none for another URL.
    pub fn split_type_url<'a>(&self, url: &'a str) -> Option<(&'a str, &'a str)> {
        let rest = url.strip_prefix('/')?.strip_prefix(self.0.as_str())?.strip_prefix('.')?;
        let (module, name) = rest.split_once(".v1.")?;
        Some((module, name))
    }

    /// The namespace of a pool: first segment of the package that defines `co.v1.MsgCreateCorporation`.
    pub(super) fn find_in_pool(pool: &DescriptorPool) -> Option<Self> {
        pool.all_messages()
            .find_map(|message| message.full_name().strip_suffix(".co.v1.MsgCreateCorporation").map(str::to_owned))
            .and_then(|word| Self::new(&word).ok())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Renames packages, file names and type references of one `FileDescriptorProto` from the compiled word to `to`.
///
/// Works on the dynamic form, because the typed one drops custom options such as the signer annotation.
pub(super) fn rename_file(file: &mut DynamicMessage, to: &Namespace) {
    let renames = [
        (format!("{COMPILED_NAMESPACE}."), format!("{to}.")),
        (format!(".{COMPILED_NAMESPACE}."), format!(".{to}.")),
        (format!("{COMPILED_NAMESPACE}/"), format!("{to}/")),
    ];
    rename_message(file, &renames);
}

fn rename_message(message: &mut DynamicMessage, renames: &[(String, String)]) {
    let fields: Vec<_> = message.descriptor().fields().filter(|field| message.has_field(field)).collect();
    for field in fields {
        // Comments of the source are text, not names.
        if field.name() == "source_code_info" {
            continue;
        }
        rename_value(message.get_field_mut(&field), renames);
    }
}

fn rename_value(value: &mut Value, renames: &[(String, String)]) {
    match value {
        Value::String(text) => {
            if let Some((from, to)) = renames.iter().find(|(from, _)| text.starts_with(from.as_str())) {
                *text = format!("{to}{}", &text[from.len()..]);
            }
        }
        Value::Message(inner) => rename_message(inner, renames),
        Value::List(items) => items.iter_mut().for_each(|item| rename_value(item, renames)),
        Value::Map(entries) => entries.values_mut().for_each(|entry| rename_value(entry, renames)),
        Value::Bool(_)
        | Value::I32(_)
        | Value::I64(_)
        | Value::U32(_)
        | Value::U64(_)
        | Value::F32(_)
        | Value::F64(_)
        | Value::Bytes(_)
        | Value::EnumNumber(_) => {}
    }
}
