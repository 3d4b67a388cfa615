//! Ids of tasks, versions, epochs and lease tokens.

use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::name::{ExternalId, Namespace};

/// A task's number within its namespace. Eight bytes and `Copy`, so that queues hold nothing else (ADR-0001).
///
/// In JSON it is a string: JavaScript loses digits above 2⁵³.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TaskId(pub u64);

impl TaskId {
    /// Ids from here on stand for tasks whose own id is not a number (items written by other clients). Their
    /// string is kept as `external_id`.
    pub const FIRST_FOREIGN: Self = Self(1 << 63);

    /// The id of the task that its client calls `text`: a decimal number is itself, any other text becomes a
    /// hash from [`FIRST_FOREIGN`](Self::FIRST_FOREIGN) on, the same in every process.
    pub fn of_text(text: &str) -> Self {
        text.parse().unwrap_or_else(|_: NotATaskId| hashed(text))
    }

    /// Whether another client chose the task's id: it is [`FIRST_FOREIGN`](Self::FIRST_FOREIGN) or above.
    pub const fn is_foreign(self) -> bool {
        self.0 >= Self::FIRST_FOREIGN.0
    }
}

/// FNV-1a with a finalizer. Stored ids depend on it: it never changes.
fn hashed(text: &str) -> TaskId {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    TaskId((hash ^ (hash >> 31)) | TaskId::FIRST_FOREIGN.0)
}

impl fmt::Display for TaskId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}

impl fmt::Debug for TaskId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "#{}", self.0)
    }
}

/// Text that is not a task's number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a task id: ids are decimal numbers, as enqueue returned them")]
pub struct NotATaskId(String);

impl FromStr for TaskId {
    type Err = NotATaskId;

    fn from_str(text: &str) -> Result<Self, NotATaskId> {
        // One text per id: `+7` and `007` are external ids, not the number 7.
        let canonical =
            text.bytes().all(|byte| byte.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
        match text.parse() {
            Ok(number) if canonical => Ok(Self(number)),
            _ => Err(NotATaskId(text.to_owned())),
        }
    }
}

impl Serialize for TaskId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for TaskId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// A task's identity: no id means anything without its namespace (G9).
///
/// It is compared, hashed and serialized by namespace and id. The text that another client chose as the id is
/// carried along, so that messages and logs show it.
#[derive(Clone, Serialize, Deserialize)]
pub struct TaskKey {
    /// The namespace in which the id is unique.
    pub namespace: Namespace,
    /// The number within that namespace.
    pub id: TaskId,
    /// `None` for a number. A thin pointer: every record has a key, and few have this.
    #[serde(skip)]
    text: Option<Arc<String>>,
}

impl TaskKey {
    /// The key of a task; whether there is such a task is not checked.
    pub fn new(namespace: Namespace, id: TaskId) -> Self {
        Self { namespace, id, text: None }
    }

    /// The key of the task that its client calls `text`: [`TaskId::of_text`]. Not checked either.
    pub fn of_text(namespace: Namespace, text: &str) -> Self {
        match text.parse() {
            Ok(id) => Self::new(namespace, id),
            Err(NotATaskId(text)) => Self { namespace, id: hashed(&text), text: Some(Arc::new(text)) },
        }
    }

    /// The same key, which shows the id as another client wrote it, if one did.
    #[must_use]
    pub fn named(mut self, external_id: Option<&ExternalId>) -> Self {
        let text = external_id.filter(|_| self.id.is_foreign());
        self.text = text.map(|text| Arc::new(text.to_string()));
        self
    }

    /// The id that people and other clients know: as another client wrote it, or the number.
    pub fn shown_id(&self) -> ShownId<'_> {
        ShownId(self)
    }

    /// The id as another client wrote it, if the key was made from that text.
    pub fn foreign_text(&self) -> Option<&str> {
        self.text.as_ref().map(|text| text.as_str())
    }
}

impl PartialEq for TaskKey {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id && self.namespace == other.namespace
    }
}

impl Eq for TaskKey {}

impl Hash for TaskKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.namespace.hash(state);
        self.id.hash(state);
    }
}

impl PartialOrd for TaskKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TaskKey {
    fn cmp(&self, other: &Self) -> Ordering {
        (&self.namespace, self.id).cmp(&(&other.namespace, other.id))
    }
}

impl fmt::Display for TaskKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.namespace, self.shown_id())
    }
}

impl fmt::Debug for TaskKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// A task's id without its namespace, for people: [`TaskKey::shown_id`].
#[derive(Debug, Clone, Copy)]
pub struct ShownId<'a>(&'a TaskKey);

impl fmt::Display for ShownId<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(text) = self.0.foreign_text() else { return fmt::Display::fmt(&self.0.id, out) };
        for character in text.chars() {
            // Other clients write what they like: a line of a log stays one line.
            match character.is_control() {
                true => write!(out, "{}", character.escape_default())?,
                false => out.write_char(character)?,
            }
        }
        Ok(())
    }
}

/// Counts the transitions of one record (or the writes of one document). Grows with each, and only then: the
/// fencing token that every later write is checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Version(pub u64);

impl Version {
    /// The version after one more transition.
    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, out)
    }
}

/// The epoch of a leader, which grows with every leader election; 0 for work that was pulled rather than
/// assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u64);

/// 128 random bits that a caller generates for each lease call. Stored in the lease, so that its holder can
/// prove it after a server restart, and a retried call returns what the first one granted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LeaseToken(pub u128);

impl fmt::Debug for LeaseToken {
    /// A token is a secret: it never reaches a log.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("LeaseToken(…)")
    }
}

impl Serialize for LeaseToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl<'de> Deserialize<'de> for LeaseToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16)
            .map(Self)
            .map_err(|_| serde::de::Error::custom("a lease token is 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of `task-001` in stores that exist.
    const TASK_001: u64 = 12_760_046_650_837_393_438;

    #[test]
    fn a_task_id_is_copied_as_eight_bytes() {
        fn copied<T: Copy>(value: T) -> (T, T) {
            (value, value)
        }
        assert_eq!(copied(TaskId(7)), (TaskId(7), TaskId(7)));
        assert_eq!(size_of::<TaskId>(), 8);
    }

    #[test]
    fn a_task_id_is_a_string_outside_and_survives_it() {
        let id = TaskId(u64::MAX);
        assert_eq!(serde_json::to_string(&id).unwrap(), "\"18446744073709551615\"");
        assert_eq!(serde_json::from_str::<TaskId>("\"18446744073709551615\"").unwrap(), id);
    }

    #[test]
    fn only_the_canonical_text_of_a_number_is_an_id() {
        for text in ["", "+7", "007", "7 ", "task-001", "18446744073709551616"] {
            assert!(text.parse::<TaskId>().is_err(), "{text}");
        }
        assert_eq!("0".parse(), Ok(TaskId(0)));
    }

    #[test]
    fn the_id_of_a_text_is_the_number_it_writes_or_a_hash_that_never_changes() {
        assert_eq!(TaskId::of_text("42"), TaskId(42));
        assert_eq!(TaskId::of_text("18446744073709551615"), TaskId(u64::MAX));
        assert_eq!(TaskId::of_text("task-001"), TaskId(TASK_001));
        for text in ["", "007", "+7", "18446744073709551616"] {
            assert!(TaskId::of_text(text).is_foreign(), "{text}");
        }
    }

    #[test]
    fn a_key_shows_the_text_of_its_client_and_is_compared_by_its_number() {
        let namespace = Namespace::default;
        let (named, numbered) =
            (TaskKey::of_text(namespace(), "task-001"), TaskKey::new(namespace(), TaskId(TASK_001)));
        assert_eq!((named.to_string(), numbered.id), ("default/task-001".to_owned(), named.id));
        assert_eq!(named, numbered);
        assert_eq!(named.cmp(&numbered), Ordering::Equal);
        assert_eq!(std::collections::HashSet::from([named, numbered]).len(), 1);
        assert_eq!(TaskKey::of_text(namespace(), "7").to_string(), "default/7");
        assert_eq!(TaskKey::of_text(namespace(), "a\nb").shown_id().to_string(), "a\\nb", "one line");
    }

    #[test]
    fn a_lease_token_never_shows_in_debug_output() {
        assert_eq!(format!("{:?}", LeaseToken(0xdead_beef)), "LeaseToken(…)");
    }
}
