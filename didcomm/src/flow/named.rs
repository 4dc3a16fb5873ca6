//! Enumerations whose values have names in the contract.

/// Declares an enumeration with the name of each value.
macro_rules! named {
    ($(#[$about:meta])* $name:ident { $($(#[$value_about:meta])* $value:ident = $text:literal),+ $(,)? }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$value_about])* #[serde(rename = $text)] $value,)+
        }

        impl $name {
            /// Every value.
            pub const ALL: &'static [Self] = &[$(Self::$value),+];

            /// The name.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => $text,)+
                }
            }

            /// The value with a name.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|one| one.as_str() == text)
            }
        }
    };
}

pub(crate) use named;
