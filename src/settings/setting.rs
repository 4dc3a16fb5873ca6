//! The parts of a row.

/// A program that reads a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Process {
    /// `svc serve`, and `svc check`.
    Serve,
    /// `svc indexer`.
    Indexer,
    /// `svc agent`, and its commands that read more than the socket.
    Agent,
    /// `svc peer`.
    Peer,
    /// The commands that ask a running tool server.
    Client,
    /// `svc journal`.
    Journal,
    /// `svc devnet`.
    Devnet,
}

/// The values that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingType {
    /// A whole number from `least` to `most`, with words that lead to the bounds.
    Number {
        /// Unit, and the word before the bounds.
        unit: &'static str,
        /// Lowest value.
        least: u64,
        /// Highest value.
        most: u64,
    },
    /// `true` or `false`.
    Boolean,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// The origin of a server.
    Origin,
    /// Origins with commas between them.
    Origins,
    /// An IP address.
    IpAddress,
    /// A text of this form. Its parser stands beside the code that reads it.
    Text(&'static str),
}

/// A number above this is no limit that a reader has to know.
const NO_LIMIT: u64 = u32::MAX as u64;
const ORIGIN: &str =
    "an http or https origin, such as http://127.0.0.1:26657 for a node or http://127.0.0.1:3001 for an indexer";

impl SettingType {
    /// Milliseconds, up to a day.
    pub const MILLIS: Self = Self::Number { unit: "milliseconds,", least: 1, most: 86_400_000 };
    /// A port; 0 takes a free one.
    pub const PORT: Self = Self::Number { unit: "a port,", least: 0, most: 65_535 };
    /// The path of a file.
    pub const FILE: Self = Self::Text("the path of a file");

    /// Whether a text can be a value. A text of a form of its own is left to its parser.
    pub fn takes(self, text: &str) -> bool {
        match self {
            Self::Number { least, most, .. } => text.parse().is_ok_and(|number| (least..=most).contains(&number)),
            Self::Boolean => text.parse::<bool>().is_ok(),
            Self::Choice(words) => words.contains(&text),
            Self::IpAddress => text.parse::<std::net::IpAddr>().is_ok(),
            Self::Origin | Self::Origins | Self::Text(_) => true,
        }
    }

    /// The values in words, as a problem names them.
    pub fn allowed(self) -> String {
        match self {
            Self::Number { unit, least: 0, most } if most >= NO_LIMIT => unit.to_owned(),
            Self::Number { unit, least, most } if most >= NO_LIMIT => format!("{unit} {least} or more"),
            Self::Number { unit, least, most } => format!("{unit} {least} to {most}"),
            Self::Boolean => "true or false".to_owned(),
            Self::Choice(words) => words.join(", "),
            Self::Origin => ORIGIN.to_owned(),
            Self::Origins => format!("{ORIGIN}, or a comma-separated list of them"),
            Self::IpAddress => "an IP address".to_owned(),
            Self::Text(form) => form.to_owned(),
        }
    }
}

/// The value of a setting that is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettingDefault {
    /// There is none: the setting is required.
    Required,
    /// This value, which is parsed like one that is set.
    Value(&'static str),
    /// It follows from something else, or there is none. The words are for readers; no words say that nothing is the default.
    Words(&'static str),
}

/// One setting. Rows are made in the files beside this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    /// Name of the variable. One that ends with `*` stands for all variables that begin so.
    pub name: &'static str,
    /// Its values.
    pub kind: SettingType,
    /// Its value when it is not set.
    pub default: SettingDefault,
    /// Whether its value is kept out of the environment of the process and out of every text.
    pub is_secret: bool,
    /// The programs that read it.
    pub processes: &'static [Process],
    /// Its meaning, in Markdown.
    pub sentence: &'static str,
    /// Links for readers of the page, in Markdown.
    pub see: &'static str,
}

/// The name of a variable that may be read. Only rows give one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingName<'a>(&'a str);

impl<'a> SettingName<'a> {
    /// The name as text.
    pub fn as_str(self) -> &'a str {
        self.0
    }
}

impl Setting {
    /// The name, to read the variable by.
    pub fn key(&self) -> SettingName<'static> {
        SettingName(self.name)
    }

    /// The variable of a row for many, such as `ECS_CLAIMS_SERVICE_*`; `None` when the name does not begin so.
    pub fn member<'a>(&self, name: &'a str) -> Option<SettingName<'a>> {
        let beginning = self.name.strip_suffix('*')?;
        name.starts_with(beginning).then_some(SettingName(name))
    }

    /// The default as text, where it is one.
    pub fn default_text(&self) -> Option<&'static str> {
        match self.default {
            SettingDefault::Value(text) => Some(text),
            SettingDefault::Required | SettingDefault::Words(_) => None,
        }
    }

    pub(super) const fn named(self, name: &'static str) -> Self {
        // A row for many has its name already.
        if self.name.is_empty() { Self { name, ..self } } else { self }
    }

    pub(super) const fn required(self) -> Self {
        Self { default: SettingDefault::Required, ..self }
    }

    pub(super) const fn default(self, value: &'static str) -> Self {
        Self { default: SettingDefault::Value(value), ..self }
    }

    pub(super) const fn otherwise(self, words: &'static str) -> Self {
        Self { default: SettingDefault::Words(words), ..self }
    }

    pub(super) const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }

    pub(super) const fn see(self, links: &'static str) -> Self {
        Self { see: links, ..self }
    }

    pub(super) const fn family(self, name: &'static str) -> Self {
        Self { name, ..self }
    }
}

/// A row without a default.
pub(super) const fn row(kind: SettingType, processes: &'static [Process], sentence: &'static str) -> Setting {
    let default = SettingDefault::Words("");
    Setting { name: "", kind, default, is_secret: false, processes, sentence, see: "" }
}

/// A whole number with bounds.
pub(super) const fn number(unit: &'static str, least: u64, most: u64) -> SettingType {
    SettingType::Number { unit, least, most }
}

/// The rows of one subject: a constant for each under its own name, and the list of all of them.
macro_rules! rows {
    ($($name:ident = $row:expr;)*) => {
        $(
            #[doc = concat!("The setting `", stringify!($name), "`.")]
            pub const $name: &$crate::settings::Setting = &$row.named(stringify!($name));
        )*
        pub(in $crate::settings) const ROWS: &[&$crate::settings::Setting] = &[$($name),*];
    };
}
pub(super) use rows;
