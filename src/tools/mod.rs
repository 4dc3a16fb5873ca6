//! The tools as configuration and principals know them, before a chain is known: their names and their effects.

mod effect;
mod names;
mod table;

pub(crate) use self::table::read_table;
pub use self::{
    effect::ToolEffect,
    names::{CORE_TOOLSET, SURFACES, ToolNames, tool_names_in},
    table::TableError,
};
