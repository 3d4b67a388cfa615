//! Names that may be left out.

use weaver_core::error::Invalid;
use weaver_core::name::Namespace;

/// The namespace somebody gave, or `default`.
pub fn namespace_or_default(text: Option<&str>) -> Result<Namespace, Invalid> {
    text.map_or_else(|| Ok(Namespace::default()), Namespace::try_from)
}

/// What serde puts where no namespace was given.
pub(crate) fn default_name() -> String {
    "default".to_owned()
}

pub(crate) fn to_ms(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
