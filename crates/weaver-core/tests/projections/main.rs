//! The seeds' words are a projection of the one state machine. For each seed, every ordered pair of its words
//! is checked: an allowed pair results from some rule of the lifecycle, a forbidden one from none.

#[path = "../lifecycle/explore.rs"]
mod explore;
mod job_run;
mod queue_item;
mod task_state;

use std::collections::BTreeSet;
use std::fmt::Debug;

use explore::explore;
use weaver_core::lifecycle::Verb;
use weaver_core::lifecycle::table::Rule;
use weaver_core::projection::Addition;
use weaver_core::task::{TaskRecord, TaskState};

/// The pairs of words that real records go through: the projections before and after each transition.
fn pairs_of_records<Word: Ord>(project: impl Fn(&TaskRecord) -> Word) -> BTreeSet<(Word, Word)> {
    moves().iter().map(|(before, after)| (project(before), project(after))).collect()
}

/// Records before and after every move that was found.
fn moves() -> Vec<(TaskRecord, TaskRecord)> {
    let mut moves = Vec::new();
    explore(|before, _, decided| {
        if let Ok((_, after)) = decided {
            moves.push((before.clone(), after.clone()));
        }
    });
    moves
}

/// A rule's states before and after, each with whether the task was started by then.
fn started_or_not(rule: &Rule) -> Vec<((TaskState, bool), (TaskState, bool))> {
    let starts = matches!(rule.verb, Verb::Lease | Verb::Start);
    let before: &[bool] = match (rule.from, rule.verb) {
        (TaskState::Queued | TaskState::Scheduled, _) => &[false],
        (TaskState::Running, _) => &[true],
        // An orphan that was released before its first start.
        (TaskState::RetryScheduled, Verb::Expire) => &[false],
        // Assigned for the first time, or for a retry.
        _ => &[false, true],
    };
    before.iter().map(|&began| ((rule.from, began), (rule.to, began || starts))).collect()
}

/// Compares a seed's whole square of words with what the rules make of them.
fn assert_square<Word: Copy + Ord + Debug>(
    words: &[Word],
    allowed: &[(Word, Word)],
    additions: &[Addition<Word>],
    made: &BTreeSet<(Word, Word)>,
) {
    for &from in words {
        for &to in words.iter().filter(|to| **to != from) {
            let in_seed = allowed.contains(&(from, to));
            let added = additions.iter().any(|more| (more.from, more.to) == (from, to));
            assert!(
                !(in_seed && added),
                "{from:?} → {to:?} is in the seed's table: it is no addition of ours"
            );
            let is_made = made.contains(&(from, to));
            assert_eq!(
                in_seed || added,
                is_made,
                "{from:?} → {to:?}: allowed (left), made by a rule (right)"
            );
        }
    }
    for more in additions {
        assert!(!more.reason.is_empty(), "{:?} → {:?} has no reason", more.from, more.to);
    }
}

#[test]
fn the_exploration_makes_every_move_of_the_table() {
    let made: Vec<_> = moves().into_iter().map(|(before, after)| (before.state, after.state)).collect();
    for rule in weaver_core::lifecycle::table::RULES {
        assert!(made.contains(&(rule.from, rule.to)), "{rule:?}");
    }
}
