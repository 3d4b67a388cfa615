//! Why bytes are not the value they should be.

/// A body that cannot be read. Its checksum was right, so either a newer version wrote it or there is a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored `{field}` cannot be read: {defect}")]
pub struct Undecodable {
    /// Where reading stopped.
    pub field: &'static str,
    /// What was wrong there.
    pub defect: Defect,
}

/// What is wrong with a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The input is shorter than it says.
    #[error("the value ends before it")]
    EndsEarly,
    /// The input is longer than it should be.
    #[error("the value goes on after its last field")]
    GoesOn,
    /// A number is larger than its type, or an instant or span is outside its range.
    #[error("its number is out of range")]
    OutOfRange,
    /// A text is not UTF-8.
    #[error("it is not UTF-8 text")]
    NotText,
    /// A text is unfit to be a name.
    #[error("it is not a valid name")]
    NotAName,
    /// An enumeration or a set of bits has a member this version does not know, or two that exclude each
    /// other.
    #[error("{0} has no meaning there")]
    Unknown(u32),
    /// Another format version wrote it.
    #[error(
        "format version {0} is not known to this version of Weaver: use the one that wrote it, or a newer one"
    )]
    Version(u8),
}

impl Undecodable {
    pub(super) const fn new(field: &'static str, defect: Defect) -> Self {
        Self { field, defect }
    }

    pub(super) fn unknown(field: &'static str, number: impl Into<u32>) -> Self {
        Self::new(field, Defect::Unknown(number.into()))
    }
}
