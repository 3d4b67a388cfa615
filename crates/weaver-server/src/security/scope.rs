//! The namespaces of a token.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weaver_core::error::Invalid;
use weaver_core::name::Namespace;

/// The prefix of internal namespaces. No token reaches them, whatever its scope: one of them holds the
/// tokens themselves.
pub use weaver_core::name::RESERVED_PREFIX as INTERNAL_PREFIX;

/// The most namespaces that one token may list.
pub const NAMESPACES_MAX: usize = 100;

/// The namespaces of a token. In JSON `"*"` or a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NamespaceScope {
    /// All but the internal ones, including those that do not exist yet.
    All,
    /// 1 to [`NAMESPACES_MAX`] namespaces.
    // Shared, because every request carries a copy.
    Only(Arc<[Namespace]>),
}

impl NamespaceScope {
    /// Not checked here: [`Tokens::create`](super::Tokens::create) checks the number and refuses internal
    /// ones.
    pub fn only(namespaces: impl IntoIterator<Item = Namespace>) -> Self {
        Self::Only(namespaces.into_iter().collect())
    }

    /// Whether a namespace is in scope; false for internal ones.
    pub fn contains(&self, namespace: &Namespace) -> bool {
        if namespace.is_reserved() {
            return false;
        }
        match self {
            Self::All => true,
            Self::Only(namespaces) => namespaces.contains(namespace),
        }
    }

    /// Whether the scope is [`All`](Self::All).
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
                "`{word}` is not a scope: write \"*\" for all namespaces, or a list"
            ))),
            Written::List(names) => {
                let names: Result<Arc<[_]>, Invalid> = names.into_iter().map(Namespace::new).collect();
                names.map(Self::Only).map_err(serde::de::Error::custom)
            }
        }
    }
}
