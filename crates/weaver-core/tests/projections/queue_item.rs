//! Seed 000, Queue Store: the table 許可される状態遷移 (allowed moves) of `status`.

use std::collections::BTreeSet;

use weaver_core::lifecycle::table::{ENTRY, RULES, Rule};
use weaver_core::projection::queue_item::{ADDITIONS, ALLOWED, Status, allows};

/// The document's table, row by row.
const SEED: [(&str, &[&str]); 5] = [
    ("QUEUED", &["RUNNING", "CANCELLED"]),
    ("RUNNING", &["COMPLETE", "ERROR", "CANCELLED"]),
    ("COMPLETE", &[]),
    ("ERROR", &[]),
    ("CANCELLED", &[]),
];

#[test]
fn the_table_of_seed_000_is_the_one_of_the_document() {
    assert_eq!(Status::ALL.len(), SEED.len());
    for (from, row) in SEED {
        for to in SEED.map(|(word, _)| word) {
            let pair = (from.parse().unwrap(), to.parse().unwrap());
            assert_eq!(ALLOWED.contains(&pair), row.contains(&to), "{from} → {to}");
        }
    }
}

#[test]
fn the_additions_to_seed_000_are_these_and_no_others() {
    let added: Vec<_> = ADDITIONS.iter().map(|more| (more.from.as_str(), more.to.as_str())).collect();
    assert_eq!(added, [("QUEUED", "ERROR")]);
}

#[test]
fn every_pair_of_seed_000_is_made_by_a_rule_exactly_if_it_is_allowed() {
    let made = RULES.iter().flat_map(pairs_of_rule).collect();
    crate::assert_square(Status::ALL, ALLOWED, ADDITIONS, &made);
}

#[test]
fn every_pair_of_seed_000_is_made_by_a_record_exactly_if_it_is_allowed() {
    crate::assert_square(Status::ALL, ALLOWED, ADDITIONS, &crate::pairs_of_records(Status::of));
}

#[test]
fn a_started_task_never_reads_as_queued_again() {
    for (before, after) in crate::moves() {
        if Status::of(&before) == Status::Running {
            assert_ne!(Status::of(&after), Status::Queued, "{before:?} → {after:?}");
        }
        assert_eq!(Status::of(&after) == Status::Queued, after.executions == 0 && !after.state.is_terminal());
    }
}

#[test]
fn complete_error_and_cancelled_go_nowhere() {
    for from in [Status::Complete, Status::Error, Status::Cancelled] {
        for &to in Status::ALL {
            assert!(!allows(from, to), "{from} → {to}");
        }
        assert!(RULES.iter().flat_map(pairs_of_rule).all(|(before, _)| before != from), "{from}");
    }
}

#[test]
fn a_new_task_is_queued() {
    for state in ENTRY {
        assert_eq!(Status::project(state, false), Status::Queued);
    }
}

/// What a rule does to `status`, for tasks that were started before and for tasks that were not.
fn pairs_of_rule(rule: &Rule) -> BTreeSet<(Status, Status)> {
    let words = crate::started_or_not(rule).into_iter();
    words
        .map(|((from, began), (to, begins))| (Status::project(from, began), Status::project(to, begins)))
        .collect()
}
