//! The form of the digests that are anchored.

use svc_trust::digest::bare_digest;
use svc_wire::proto_registry::NodeGeneration;

/// The form of the digests that are anchored where the node takes both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AnchorForm {
    /// An integrity text, such as `sha384-…`.
    #[default]
    Sri,
    /// The base64 alone, which is all that programs of the first generation look up.
    Bare,
}

impl AnchorForm {
    /// Parses the value of the setting.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "sri" => Some(Self::Sri),
            "bare" => Some(Self::Bare),
            _ => None,
        }
    }

    /// The digest as it is anchored at a node. The oldest nodes take integrity texts only, and a node may be one of them where its generation is
    /// not known.
    pub(super) fn of(self, generation: Option<NodeGeneration>, digest: &str) -> String {
        let takes_both = generation > Some(NodeGeneration::N0);
        let bare = bare_digest(digest).filter(|_| self == Self::Bare && takes_both);
        bare.unwrap_or(digest).to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_setting_counts_where_the_node_takes_both_forms() {
        for (form, generation, expected) in [
            (AnchorForm::Sri, Some(NodeGeneration::N1), "sha384-a"),
            (AnchorForm::Bare, Some(NodeGeneration::N1), "a"),
            (AnchorForm::Bare, Some(NodeGeneration::N4), "a"),
            (AnchorForm::Bare, Some(NodeGeneration::N0), "sha384-a"),
            (AnchorForm::Bare, None, "sha384-a"),
        ] {
            assert_eq!(form.of(generation, "sha384-a"), expected, "{form:?} {generation:?}");
        }
    }
}
