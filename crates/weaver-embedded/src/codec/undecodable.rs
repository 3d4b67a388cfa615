//! Decoding errors.

/// A body that cannot be decoded. Its checksum was right, so a newer version wrote it or there is a bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("stored `{field}` cannot be decoded: {defect}")]
pub struct Undecodable {
    /// The field at which decoding stopped.
    pub field: &'static str,
    /// Why it is invalid.
    pub defect: Defect,
}

/// Why a field is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// The input ends before the field does.
    #[error("the value is truncated")]
    Truncated,
    /// Bytes remain after the last field.
    #[error("there are bytes after the last field")]
    TrailingBytes,
    /// A number is too large for its type, or an instant or span is outside its range.
    #[error("the number is out of range")]
    OutOfRange,
    /// Text is not UTF-8.
    #[error("it is not valid UTF-8")]
    InvalidUtf8,
    /// Text is not a valid name.
    #[error("it is not a valid name")]
    InvalidName,
    /// An enumeration or bit set has a member that this version does not know, or two that exclude each
    /// other.
    #[error("{0} is not a known value")]
    Unknown(u32),
    /// Another format version wrote it.
    #[error(
        "format version {0} is not supported by this version of Weaver: use the version that wrote it, \
         or a newer one"
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
