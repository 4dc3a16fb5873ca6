//! Access to endpoints: the conditions of the operator's file, the facts of a request, the frames of grants, and the public files.

mod frames;
mod owner;
mod settings;
mod terms_file;

pub(crate) use self::frames::FrameProblem;
pub use self::{
    owner::AccessOwner,
    settings::AccessSettings,
    terms_file::{AccessTerms, TermsFileError},
};
