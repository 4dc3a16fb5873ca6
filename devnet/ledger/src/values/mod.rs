//! Values that the modules share: decimals, packed messages, syntax checks.

pub mod any;
pub mod decimal;
pub mod validate;
