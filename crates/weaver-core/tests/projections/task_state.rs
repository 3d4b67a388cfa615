//! Seed 001, Rust task queue: `TaskState` (v1最小セット) and the moves of the worker flow (推奨フロー).

use weaver_core::lifecycle::table::{ENTRY, RULES};
use weaver_core::projection::task_state::{ADDITIONS, ALLOWED, State};
use weaver_core::task::TaskState;

/// The document's flow. It has five words; the sixth is ours.
const SEED: [(&str, &[&str]); 6] = [
    ("Queued", &["Running"]),
    ("Running", &["Succeeded", "RetryScheduled", "Dead"]),
    ("RetryScheduled", &["Running"]),
    ("Succeeded", &[]),
    ("Dead", &[]),
    ("Cancelled", &[]),
];

#[test]
fn the_moves_of_seed_001_are_the_ones_of_the_document() {
    assert_eq!(State::ALL.len(), SEED.len());
    for (from, row) in SEED {
        for to in SEED.map(|(word, _)| word) {
            let pair = (from.parse().unwrap(), to.parse().unwrap());
            assert_eq!(ALLOWED.contains(&pair), row.contains(&to), "{from} → {to}");
        }
    }
}

#[test]
fn the_additions_to_seed_001_are_these_and_no_others() {
    let added: Vec<_> = ADDITIONS.iter().map(|more| (more.from.as_str(), more.to.as_str())).collect();
    assert_eq!(
        added,
        [
            ("Queued", "Cancelled"),
            ("Running", "Cancelled"),
            ("RetryScheduled", "Cancelled"),
            ("RetryScheduled", "Queued"),
            ("Queued", "RetryScheduled"),
            ("Queued", "Dead"),
        ]
    );
}

#[test]
fn every_pair_of_seed_001_is_made_by_a_rule_exactly_if_it_is_allowed() {
    let made = RULES
        .iter()
        .flat_map(crate::started_or_not)
        .map(|((from, began), (to, begins))| (State::project(from, began), State::project(to, begins)));
    let made = made.collect();
    crate::assert_square(State::ALL, ALLOWED, ADDITIONS, &made);
}

#[test]
fn every_pair_of_seed_001_is_made_by_a_record_exactly_if_it_is_allowed() {
    let made = crate::pairs_of_records(State::of);
    crate::assert_square(State::ALL, ALLOWED, ADDITIONS, &made);
}

#[test]
fn the_five_words_of_seed_001_are_our_states_of_the_same_name() {
    for state in TaskState::ALL {
        let read_as = match state {
            TaskState::Scheduled | TaskState::Assigned | TaskState::Orphaned => "Queued".to_owned(),
            same => format!("{same:?}"),
        };
        assert_eq!(State::project(state, true).as_str(), read_as);
    }
    assert!(ENTRY.iter().all(|state| State::project(*state, false) == State::Queued));
    assert_eq!(State::project(TaskState::RetryScheduled, false), State::Queued, "a released orphan");
}
