//! Names that users choose: namespaces, queues, task types, workers, keys.
//!
//! Each kind has its own type and is validated once. A clone never copies the text, and a clone of a string
//! literal costs no reference count.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Invalid, Problem};

/// The longest name, in bytes.
pub const NAME_MAX_BYTES: usize = 255;

/// Why a text is not a valid name; `None` if it is: 1 to 255 bytes, no control characters.
pub fn name_problem(text: &str) -> Option<Problem> {
    if text.is_empty() {
        return Some(Problem::Empty);
    }
    if text.len() > NAME_MAX_BYTES {
        return Some(Problem::TooLong { bytes: text.len(), max_bytes: NAME_MAX_BYTES });
    }
    // Almost every name is printable ASCII: decode characters only if it is not.
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return None;
    }
    let at_byte = text.char_indices().find(|(_, character)| character.is_control())?.0;
    Some(Problem::ControlCharacter { at_byte })
}

/// Refuses a text that is not a valid name, naming the field.
pub fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    name_problem(text).map_or(Ok(()), |problem| Err(Invalid::new(field, problem)))
}

/// A string literal, or a shared text. Made from `&'static str`, `String` or `Arc<str>`.
///
/// Most names are literals. Reference counting would cost those an allocation, and a write to a shared cache
/// line for every copy of a record.
#[derive(Clone)]
pub enum SharedText {
    /// A literal of the program: a clone is a copy of the pointer.
    Static(&'static str),
    /// Created at run time: a clone counts a reference.
    Shared(Arc<str>),
}

impl SharedText {
    /// The text, wherever it is stored.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl PartialEq for SharedText {
    fn eq(&self, other: &Self) -> bool {
        let (mine, theirs) = (self.as_str(), other.as_str());
        // Nearly always two clones of the same name: no need to compare the bytes.
        std::ptr::eq(mine, theirs) || mine == theirs
    }
}

impl Eq for SharedText {}

impl Hash for SharedText {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for SharedText {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SharedText {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl fmt::Debug for SharedText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), out)
    }
}

impl From<&'static str> for SharedText {
    fn from(text: &'static str) -> Self {
        Self::Static(text)
    }
}

impl From<String> for SharedText {
    fn from(text: String) -> Self {
        Self::Shared(text.into())
    }
}

impl From<Arc<str>> for SharedText {
    fn from(text: Arc<str>) -> Self {
        Self::Shared(text)
    }
}

macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(SharedText);

        impl $name {
            /// Validates a text as a name: 1 to 255 bytes, no control characters.
            pub fn new(text: impl Into<SharedText>) -> Result<Self, Invalid> {
                let text = text.into();
                match name_problem(text.as_str()) {
                    None => Ok(Self(text)),
                    Some(problem) => Err(Invalid::new($field, problem)),
                }
            }

            /// The name as text; never empty.
            pub fn as_str(&self) -> &str {
                self.0.as_str()
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                self.as_str()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                self.as_str()
            }
        }

        impl From<$name> for SharedText {
            fn from(name: $name) -> Self {
                name.0
            }
        }

        impl From<&$name> for SharedText {
            fn from(name: &$name) -> Self {
                name.0.clone()
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Invalid;

            fn try_from(text: &str) -> Result<Self, Invalid> {
                Self::new(text.to_owned())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(self.as_str())
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&self.0, out)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
            }
        }
    };
}

name_type!(
    /// The tenant of a task. No call on one namespace shows or changes another (G9).
    Namespace,
    "namespace"
);
name_type!(
    /// A queue within a namespace: what workers serve, and what is paused and limited.
    QueueName,
    "queue"
);
name_type!(
    /// The type of a task, which selects the handler.
    TaskType,
    "task_type"
);
name_type!(
    /// A worker. The id must be unique among live workers.
    WorkerId,
    "worker"
);
name_type!(
    /// Tasks of one namespace that share a serial key run one at a time, in order.
    SerialKey,
    "serial_key"
);
name_type!(
    /// Two enqueues of one namespace with the same idempotency key make one task (G8).
    IdempotencyKey,
    "idempotency_key"
);
name_type!(
    /// A group of tasks that are listed and counted together.
    TaskGroupId,
    "task_group_id"
);
name_type!(
    /// The agent conversation a prompt belongs to.
    SessionId,
    "session_id"
);
name_type!(
    /// The schedule that created a task (seed 004's job definition).
    JobDefinitionId,
    "job_definition_id"
);
name_type!(
    /// The string id of a task that another client wrote into the store's tables.
    ExternalId,
    "external_id"
);

macro_rules! default_name {
    ($name:ident) => {
        impl Default for $name {
            /// The name `default`, which is always valid.
            fn default() -> Self {
                Self(SharedText::Static("default"))
            }
        }
    };
}

default_name!(Namespace);

/// Task types and namespaces with this prefix are Weaver's own: clients cannot enqueue them, over HTTP or
/// SQL.
pub const RESERVED_PREFIX: &str = "weaver.";

impl TaskType {
    /// Whether it is one of Weaver's own, such as `weaver.check`.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED_PREFIX)
    }
}

impl Namespace {
    /// Whether it is one of Weaver's own, such as `weaver.internal`.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED_PREFIX)
    }

    /// `weaver.internal`, for what belongs to no namespace of users: tokens, settings and their audit log.
    /// Where authentication is on, no token has access to it.
    pub fn internal() -> Self {
        Self(SharedText::Static("weaver.internal"))
    }
}

default_name!(QueueName);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_1_to_255_bytes_without_control_characters() {
        assert_eq!(Namespace::new("").unwrap_err().problem, Problem::Empty);
        assert!(Namespace::new("x".repeat(255)).is_ok());
        let too_long = Namespace::new("x".repeat(256)).unwrap_err();
        assert_eq!(too_long.problem, Problem::TooLong { bytes: 256, max_bytes: 255 });
        assert_eq!(QueueName::new("a\nb").unwrap_err().problem, Problem::ControlCharacter { at_byte: 1 });
        assert_eq!(QueueName::new("é\u{85}").unwrap_err().problem, Problem::ControlCharacter { at_byte: 2 });
        assert!(QueueName::new("日本語 ok").is_ok());
    }

    #[test]
    fn names_that_begin_with_weaver_and_a_point_are_reserved() {
        assert!(TaskType::new("weaver.check").unwrap().is_reserved() && Namespace::internal().is_reserved());
        assert!(!TaskType::new("weaver").unwrap().is_reserved());
    }

    #[test]
    fn a_refused_name_says_which_field_and_which_limit() {
        let message = TaskType::new("x".repeat(300)).unwrap_err().to_string();
        assert!(
            message.contains("task_type") && message.contains("300") && message.contains("255"),
            "{message}"
        );
    }
}
