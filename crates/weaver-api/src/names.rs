//! Defaults of optional names.

use weaver_core::error::Invalid;
use weaver_core::name::Namespace;

/// The namespace of a request; `default` if it names none.
pub fn namespace_or_default(text: Option<&str>) -> Result<Namespace, Invalid> {
    text.map_or_else(|| Ok(Namespace::default()), Namespace::try_from)
}

/// The serde default of a namespace or queue.
pub(crate) fn default_name() -> String {
    "default".to_owned()
}

pub(crate) fn to_ms(span: std::time::Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
