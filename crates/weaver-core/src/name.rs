//! Names people choose: namespaces, queues, task types, workers, keys. Each has a type of its own, is checked
//! once when it enters, and is shared from then on: a clone never copies the text, and one of a name that
//! stands in the program costs nothing at all.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Invalid, Problem};

/// The longest name, in bytes.
pub const NAME_MAX_BYTES: usize = 255;

/// What makes a text unfit to be a name, if anything does.
pub fn name_problem(text: &str) -> Option<Problem> {
    if text.is_empty() {
        return Some(Problem::Empty);
    }
    if text.len() > NAME_MAX_BYTES {
        return Some(Problem::TooLong { bytes: text.len(), max_bytes: NAME_MAX_BYTES });
    }
    // Almost every name is plain ASCII: one pass over the bytes, and the slow look only if that finds
    // something.
    if text.bytes().all(|byte| (0x20..0x7f).contains(&byte)) {
        return None;
    }
    let at_byte = text.char_indices().find(|(_, character)| character.is_control())?.0;
    Some(Problem::ControlCharacter { at_byte })
}

/// Refuses a text that is unfit to be a name.
pub fn check_name(field: &'static str, text: &str) -> Result<(), Invalid> {
    name_problem(text).map_or(Ok(()), |problem| Err(Invalid::new(field, problem)))
}

/// A text that is part of the program, or shared. Made from `&'static str`, `String` or `Arc<str>`.
///
/// Most names are literals. Counting references to those means an allocation where they enter and a write to
/// a shared cache line for every copy of a record.
#[derive(Clone)]
pub enum SharedText {
    /// Part of the program.
    Static(&'static str),
    /// Made at run time.
    Shared(Arc<str>),
}

impl SharedText {
    /// The text.
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
        // Nearly always two copies of the same name: no need to look at the letters.
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
            /// Checks a text and makes it a name: 1 to 255 bytes, no control characters.
            pub fn new(text: impl Into<SharedText>) -> Result<Self, Invalid> {
                let text = text.into();
                match name_problem(text.as_str()) {
                    None => Ok(Self(text)),
                    Some(problem) => Err(Invalid::new($field, problem)),
                }
            }

            /// The text of the name.
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
    /// The space a task lives in. Nothing asked of one namespace shows or changes another (G9).
    Namespace,
    "namespace"
);
name_type!(
    /// A queue within a namespace: what workers subscribe to, and what is paused and limited.
    QueueName,
    "queue"
);
name_type!(
    /// What kind of work a task is; it selects the handler. Owned, because durable stores read it back.
    TaskType,
    "task_type"
);
name_type!(
    /// A worker or runner. It must be unique among those alive.
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
    /// Tasks a person sees as one piece of work.
    TaskGroupId,
    "task_group_id"
);
name_type!(
    /// The conversation a prompt belongs to.
    SessionId,
    "session_id"
);
name_type!(
    /// The job definition a scheduled task was made from.
    JobDefinitionId,
    "job_definition_id"
);
name_type!(
    /// The name a task was given by somebody else's client, where ids are strings.
    ExternalId,
    "external_id"
);

macro_rules! default_name {
    ($name:ident) => {
        impl Default for $name {
            /// `default`.
            fn default() -> Self {
                Self(SharedText::Static("default"))
            }
        }
    };
}

default_name!(Namespace);

/// Task types and namespaces that begin with this are Weaver's own: no client enqueues them, over HTTP or
/// SQL.
pub const RESERVED_PREFIX: &str = "weaver.";

impl TaskType {
    /// Whether it is one of Weaver's own, such as `weaver.check`.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED_PREFIX)
    }
}

impl Namespace {
    /// Whether it is one of Weaver's own.
    pub fn is_reserved(&self) -> bool {
        self.as_str().starts_with(RESERVED_PREFIX)
    }

    /// Weaver's own, for what is about no namespace of users: tokens, settings, and the journal of who
    /// changed them. Where tokens are asked for, none reaches it.
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
