//! The fields of a submission and their limits, as data.
//!
//! [`NewTask::validate`](super::NewTask::validate) checks by these constants, and databases that accept tasks
//! by SQL generate their checks from the tables. A limit is changed here and nowhere else.

use std::time::Duration;

use crate::name::NAME_MAX_BYTES;
use crate::retry::{DELAY_MAX, FACTOR_MAX};
use crate::task::{Dispatch, Priority};

/// The largest `max_attempts` and `max_losses`.
pub const BUDGET_MAX: u32 = 10_000;
/// The most labels a task may have.
pub const LABELS_MAX: usize = 64;
/// The longest `traceparent` that is kept; the standard's has 55 bytes.
pub const TRACEPARENT_MAX_BYTES: usize = 64;
/// The longest `tracestate` that is kept.
pub const TRACESTATE_MAX_BYTES: usize = 448;
/// The shortest time limit of an execution.
pub const TIMEOUT_MIN: Duration = Duration::from_millis(1);

/// A field of a submission, by the name that the JSON API and SQL have for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Its name in JSON and SQL.
    pub name: &'static str,
    /// The values it accepts.
    pub kind: Kind,
}

/// What a field holds, with its limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Printable text of 1 to [`NAME_MAX_BYTES`] bytes: [`name_problem`](crate::name::name_problem) finds
    /// nothing.
    Name,
    /// An integer; JSON may write it as `30.0`.
    Integer {
        /// The smallest number allowed.
        min: u32,
        /// The largest number allowed.
        max: u32,
    },
    /// A duration, in whole milliseconds.
    Span {
        /// The shortest duration allowed.
        min: Duration,
        /// The longest duration allowed.
        max: Duration,
    },
    /// An instant between [`Timestamp::MIN`](crate::time::Timestamp::MIN) and
    /// [`Timestamp::MAX`](crate::time::Timestamp::MAX), in RFC 3339.
    Instant,
    /// `true` or `false`; no other spelling.
    Boolean,
    /// One of these words.
    Choice {
        /// The words allowed.
        words: &'static [&'static str],
    },
    /// Printable ASCII; it may be empty.
    Header {
        /// The longest allowed, in bytes.
        max_bytes: usize,
    },
    /// Texts by name; names and values are [`Kind::Name`]s.
    Labels {
        /// The most labels allowed.
        max: usize,
    },
    /// An object with these fields and no others.
    Object {
        /// Fields it must have.
        required: &'static [Field],
        /// Fields it may have.
        optional: &'static [Field],
    },
    /// An object whose `kind` says which fields it has.
    Tagged {
        /// The objects allowed, one per value of `kind`.
        variants: &'static [Variant],
    },
}

/// One kind of a [`Kind::Tagged`] object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variant {
    /// The value of its field `kind`.
    pub kind: &'static str,
    /// Fields besides `kind` that it must have.
    pub fields: &'static [Field],
    /// Fields that it may have.
    pub optional: &'static [Field],
}

const fn field(name: &'static str, kind: Kind) -> Field {
    Field { name, kind }
}

const DELAY: Kind = Kind::Span { min: Duration::ZERO, max: DELAY_MAX };

/// `retry`: one line per variant of [`RetryPolicy`](crate::retry::RetryPolicy).
pub const RETRY: Kind = Kind::Tagged {
    variants: &[
        Variant { kind: "none", fields: &[], optional: &[] },
        Variant { kind: "fixed", fields: &[field("delay_ms", DELAY)], optional: &[] },
        Variant {
            kind: "exponential",
            fields: &[field("base_ms", DELAY), field("cap_ms", DELAY), field("jitter", Kind::Boolean)],
            optional: &[field("factor", Kind::Integer { min: 1, max: FACTOR_MAX })],
        },
    ],
};

/// `trace`: the fields of a [`TraceContext`](crate::task::TraceContext).
pub const TRACE: Kind = Kind::Object {
    required: &[field("traceparent", Kind::Header { max_bytes: TRACEPARENT_MAX_BYTES })],
    optional: &[field("tracestate", Kind::Header { max_bytes: TRACESTATE_MAX_BYTES })],
};

/// `dispatch`: the words of a [`Dispatch`].
pub const DISPATCH: Kind = Kind::Choice { words: &[Dispatch::Pull.as_str(), Dispatch::Assign.as_str()] };

/// `max_attempts`: at least one attempt.
pub const MAX_ATTEMPTS: Kind = Kind::Integer { min: 1, max: BUDGET_MAX };
/// `max_losses`: 0 allows no lost attempt.
pub const MAX_LOSSES: Kind = Kind::Integer { min: 0, max: BUDGET_MAX };
/// `priority`: 0 is the most urgent.
pub const PRIORITY: Kind = Kind::Integer { min: 0, max: Priority::LOWEST.get() as u32 };

/// The fields that say what the task is and where it goes. In SQL they are arguments of their own.
pub const SUBJECT: &[Field] = &[
    field("task_type", Kind::Name),
    field("queue", Kind::Name),
    field("namespace", Kind::Name),
    field("priority", PRIORITY),
    field("run_at", Kind::Instant),
    field("delay_ms", DELAY),
];

/// The other fields. In SQL they are members of `options`. None has to be given.
pub const OPTIONS: &[Field] = &[
    field("content_type", Kind::Name),
    field("max_attempts", MAX_ATTEMPTS),
    field("max_losses", MAX_LOSSES),
    field("retry", RETRY),
    field("timeout_ms", Kind::Span { min: TIMEOUT_MIN, max: DELAY_MAX }),
    field("expires_at", Kind::Instant),
    field("serial_key", Kind::Name),
    field("idempotency_key", Kind::Name),
    field("task_group_id", Kind::Name),
    field("session_id", Kind::Name),
    field("labels", Kind::Labels { max: LABELS_MAX }),
    field("dispatch", DISPATCH),
    field("trace", TRACE),
];

/// The limit of a [`Kind::Name`].
pub const NAME_BYTES: std::ops::RangeInclusive<usize> = 1..=NAME_MAX_BYTES;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::retry::RetryPolicy;
    use crate::task::TraceContext;

    fn names(value: &serde_json::Value) -> BTreeSet<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn every_retry_policy_is_described_with_the_fields_it_is_written_with() {
        let Kind::Tagged { variants } = RETRY else { panic!("{RETRY:?}") };
        let second = Duration::from_secs(1);
        let policies = [
            RetryPolicy::None,
            RetryPolicy::Fixed { delay: second },
            RetryPolicy::Exponential { base: second, factor: 3, cap: second, jitter: true },
        ];
        assert_eq!(variants.len(), policies.len());
        for policy in policies {
            // A variant that is added to the policy does not compile here until it is in the list above.
            match policy {
                RetryPolicy::None | RetryPolicy::Fixed { .. } | RetryPolicy::Exponential { .. } => {}
            }
            let written = serde_json::to_value(policy).unwrap();
            let variant = variants.iter().find(|variant| written["kind"] == variant.kind).unwrap();
            let fields = variant.fields.iter().chain(variant.optional);
            let mut described: BTreeSet<_> = fields.map(|field| field.name.to_owned()).collect();
            described.insert("kind".to_owned());
            assert_eq!(names(&written), described);
        }
    }

    #[test]
    fn a_trace_is_described_with_the_fields_it_is_written_with() {
        let Kind::Object { required, optional } = TRACE else { panic!("{TRACE:?}") };
        let trace = TraceContext { traceparent: "00".into(), tracestate: Some("a=b".into()) };
        let described = required.iter().chain(optional).map(|field| field.name.to_owned()).collect();
        assert_eq!(names(&serde_json::to_value(trace).unwrap()), described);
    }

    #[test]
    fn no_field_is_listed_twice() {
        let all: Vec<_> = SUBJECT.iter().chain(OPTIONS).map(|field| field.name).collect();
        assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len());
    }
}
