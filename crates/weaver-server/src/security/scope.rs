//! Which namespaces a token is good for.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weaver_core::error::Invalid;
use weaver_core::name::Namespace;

/// Namespaces that begin with this are Weaver's own. No token reaches them, whatever its scope: the tokens
/// themselves are kept in one.
pub use weaver_core::name::RESERVED_PREFIX as INTERNAL_PREFIX;

/// The most namespaces one token may list. More than that is `all`, or several tokens.
pub const NAMESPACES_MAX: usize = 100;

/// The namespaces a token is good for. Written as `"*"` or as a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceScope {
    /// All but the internal ones, also those that do not exist yet.
    All,
    /// These.
    // Shared, because every request carries a copy.
    Only(Arc<[Namespace]>),
}

impl NamespaceScope {
    /// A list.
    pub fn only(namespaces: impl IntoIterator<Item = Namespace>) -> Self {
        Self::Only(namespaces.into_iter().collect())
    }

    /// Whether a namespace is inside.
    pub fn contains(&self, namespace: &Namespace) -> bool {
        if namespace.is_reserved() {
            return false;
        }
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.contains(namespace),
        }
    }

    /// Whether it is all of them.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }
}

impl Serialize for NamespaceScope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::All => serializer.serialize_str("*"),
            Self::Only(namespaces) => namespaces.serialize(serializer),
        }
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Word(String),
    List(Vec<String>),
}

impl<'de> Deserialize<'de> for NamespaceScope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Written::deserialize(deserializer)? {
            Written::Word(word) if word == "*" => Ok(Self::All),
            Written::Word(word) => Err(serde::de::Error::custom(format!(
                "`{word}` is no scope: write \"*\" for all namespaces, or a list"
            ))),
            Written::List(names) => {
                let names: Result<Arc<[_]>, Invalid> = names.into_iter().map(Namespace::new).collect();
                names.map(Self::Only).map_err(serde::de::Error::custom)
            }
        }
    }
}
