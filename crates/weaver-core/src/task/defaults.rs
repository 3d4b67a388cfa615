//! Defaults by task type.
//!
//! Every way to enqueue (library, HTTP, CLI, schedules, SQL, adopted items) has the same defaults, because
//! each ends in [`NewTask::validate`](super::NewTask::validate) or is generated from here.

use crate::retry::RetryPolicy;
use crate::task::Priority;

/// Failed attempts before a task is dead, unless its type or its producer says otherwise (seed 001).
pub const MAX_ATTEMPTS_DEFAULT: u32 = 5;
/// Lost attempts that a task survives, unless its type or its producer says otherwise.
pub const MAX_LOSSES_DEFAULT: u32 = 3;
/// The type of tasks that are prompts for an agent.
pub const PROMPT_TASK_TYPE: &str = "prompt";

/// The defaults of one task type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypeDefaults {
    /// Its place in the order of leasing.
    pub priority: Priority,
    /// Failed attempts before it is dead.
    pub max_attempts: u32,
    /// Lost attempts that it survives.
    pub max_losses: u32,
    /// The backoff after a failed attempt.
    pub retry: RetryPolicy,
    /// Whether a task with a session and without a serial key has the session as its serial key.
    pub is_serial_by_session: bool,
}

impl TypeDefaults {
    /// The defaults of every type that is not in [`SPECIAL`](Self::SPECIAL).
    pub const GENERAL: Self = Self {
        priority: Priority::NORMAL,
        max_attempts: MAX_ATTEMPTS_DEFAULT,
        max_losses: MAX_LOSSES_DEFAULT,
        retry: RetryPolicy::DEFAULT,
        is_serial_by_session: false,
    };

    /// The defaults of a prompt: it runs once, because an agent has changed files by the time it fails
    /// (ADR 0024); and the prompts of a session run one after another.
    pub const PROMPT: Self =
        Self { max_attempts: 1, max_losses: 0, is_serial_by_session: true, ..Self::GENERAL };

    /// The types that have defaults of their own.
    pub const SPECIAL: [(&'static str, Self); 1] = [(PROMPT_TASK_TYPE, Self::PROMPT)];

    /// The defaults of a type.
    pub fn of(task_type: &str) -> Self {
        let special = Self::SPECIAL.iter().find(|(special, _)| *special == task_type);
        special.map_or(Self::GENERAL, |(_, defaults)| *defaults)
    }

    /// One of the numbers for people, with the types that differ: "5, and 1 for a prompt".
    pub fn in_words(number: impl Fn(&Self) -> u32) -> String {
        let general = number(&Self::GENERAL);
        let special = Self::SPECIAL.iter().filter(|(_, special)| number(special) != general);
        special.fold(general.to_string(), |text, (task_type, special)| {
            format!("{text}, and {} for a {task_type}", number(special))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::task::{NewTask, TaskSpec};

    fn spec(task: NewTask) -> TaskSpec {
        (*task.validate(&Limits::default()).expect("it is valid").spec).clone()
    }

    #[test]
    fn a_prompt_runs_once_in_its_sessions_turn_and_other_types_have_the_general_defaults() {
        let prompt = spec(NewTask::new(PROMPT_TASK_TYPE).session_id("s"));
        assert!(prompt.runs_once());
        assert_eq!(prompt.serial_key.expect("its session").as_str(), "s");
        let other = spec(NewTask::new("mail").session_id("s"));
        assert_eq!((other.max_attempts, other.max_losses, other.retry), (5, 3, RetryPolicy::DEFAULT));
        assert_eq!((other.serial_key, other.priority), (None, Priority::NORMAL));
    }

    #[test]
    fn what_the_producer_chose_is_kept_even_where_it_equals_the_general_default() {
        let chosen = NewTask::new(PROMPT_TASK_TYPE).session_id("s").serial_key("k");
        let chosen = spec(chosen.max_attempts(5).max_losses(3).retry(RetryPolicy::None).priority(0));
        assert_eq!((chosen.max_attempts, chosen.max_losses, chosen.retry), (5, 3, RetryPolicy::None));
        assert_eq!((chosen.serial_key.expect("the chosen one").as_str(), chosen.priority.get()), ("k", 0));
    }

    #[test]
    fn a_number_in_words_names_the_types_that_differ() {
        assert_eq!(TypeDefaults::in_words(|of| of.max_attempts), "5, and 1 for a prompt");
        assert_eq!(TypeDefaults::in_words(|of| of.priority.get().into()), "5");
    }
}
