//! Order and priority.

use weaver_core::time::Timestamp;
use weaver_merge::domain::{
    Conflict, ENTRIES_MAX, EnqueueOptions, EntryId, MergeError, MergeQueue, OnPush, Status,
};

use crate::scene::{change, queue};

fn add(queue: &mut MergeQueue, id: &str, priority: u8) -> EntryId {
    queue.enqueue(&change(id, 1), priority, Timestamp::MIN).unwrap()
}

fn ids(queue: &MergeQueue) -> String {
    queue.entries.iter().map(|entry| entry.pull_request.id.as_str()).collect()
}

#[test]
fn changes_of_equal_priority_are_fifo() {
    let mut queue = queue();
    for id in ["a", "b", "c"] {
        add(&mut queue, id, 5);
    }
    assert_eq!(ids(&queue), "abc");
    assert_eq!(queue.position(EntryId(1)), Some(1));
    assert_eq!(queue.position(EntryId(3)), Some(3));
    assert_eq!(queue.position(EntryId(9)), None);
    assert_eq!(queue.current_entry().unwrap().id, EntryId(1));
}

#[test]
fn removing_an_entry_moves_all_entries_behind_it_up() {
    let mut queue = queue();
    for id in ["a", "b", "c", "d"] {
        add(&mut queue, id, 5);
    }
    queue.remove(EntryId(2)).unwrap();
    assert_eq!((ids(&queue).as_str(), queue.position(EntryId(3))), ("acd", Some(2)));
    assert_eq!(queue.dequeue().unwrap().id, EntryId(1));
    assert_eq!((ids(&queue).as_str(), queue.position(EntryId(4))), ("cd", Some(2)));
    queue.validate().unwrap();
    assert_eq!(queue.remove(EntryId(1)), Err(MergeError::EntryNotFound(EntryId(1))));
}

#[test]
fn an_urgent_change_goes_ahead_of_others_but_not_of_a_processed_one() {
    let mut queue = queue();
    add(&mut queue, "a", 5);
    add(&mut queue, "b", 5);
    queue.entries[0].status = Status::Updating;
    let urgent = add(&mut queue, "c", 0);
    assert_eq!((ids(&queue).as_str(), queue.position(urgent)), ("acb", Some(2)));
    queue.validate().unwrap();
}

#[test]
fn a_change_with_a_new_priority_goes_behind_others_of_that_priority() {
    let mut queue = queue();
    for (id, priority) in [("a", 2), ("b", 2), ("c", 5), ("d", 5)] {
        add(&mut queue, id, priority);
    }
    assert_eq!(queue.set_priority(EntryId(4), 2), Ok(3));
    assert_eq!(ids(&queue), "abdc");
    assert_eq!(queue.set_priority(EntryId(1), 9), Ok(4));
    assert_eq!(ids(&queue), "bdca");
    queue.validate().unwrap();
}

#[test]
fn setting_the_same_priority_moves_no_entry() {
    let mut queue = queue();
    add(&mut queue, "a", 5);
    add(&mut queue, "b", 5);
    assert_eq!(queue.set_priority(EntryId(1), 5), Ok(1));
    assert_eq!(ids(&queue), "ab");
}

#[test]
fn a_change_that_cannot_land_is_refused_with_a_named_error() {
    let mut queue = queue();
    let mut refused = |change: &_| queue.enqueue(change, 5, Timestamp::MIN).unwrap_err();
    let good = change("a", 1);
    let with = |edit: fn(&mut weaver_merge::domain::PullRequestState)| {
        let mut change = good.clone();
        edit(&mut change);
        change
    };
    assert_eq!(refused(&with(|change| change.is_open = false)), MergeError::PullRequestClosed("a".into()));
    assert_eq!(refused(&with(|change| change.is_draft = true)), MergeError::PullRequestDraft("a".into()));
    let conflict = Conflict::default();
    let conflicted = MergeError::PullRequestConflicted { pull_request: "a".into(), conflict };
    assert_eq!(refused(&with(|change| change.conflict = Some(Conflict::default()))), conflicted);
    let elsewhere = refused(&with(|change| change.base_branch = "next".into()));
    assert!(matches!(elsewhere, MergeError::InvalidBaseBranch { .. }), "{elsewhere}");
    assert!(queue.entries.is_empty() && queue.outbox.is_empty());
}

#[test]
fn a_change_that_is_in_the_queue_is_refused_with_its_position() {
    let mut queue = queue();
    add(&mut queue, "a", 5);
    add(&mut queue, "b", 5);
    let refused = queue.enqueue(&change("b", 1), 0, Timestamp::MIN);
    assert_eq!(refused, Err(MergeError::AlreadyInQueue { pull_request: "b".into(), position: 2 }));
}

#[test]
fn a_change_with_a_new_head_replaces_its_entry_unless_that_is_retested() {
    let mut queue = queue();
    let old = add(&mut queue, "a", 5);
    add(&mut queue, "b", 5);
    let mut options = EnqueueOptions { priority: 5, by: None, head: None, on_push: OnPush::Retest };
    let refused = queue.enqueue_with(&change("a", 7), &options, Timestamp::MIN);
    assert_eq!(refused, Err(MergeError::AlreadyInQueue { pull_request: "a".into(), position: 1 }));
    options.on_push = OnPush::Eject;
    let new = queue.enqueue_with(&change("a", 7), &options, Timestamp::MIN).unwrap();
    assert!(queue.entry(old).is_err());
    assert_eq!((queue.position(new), queue.tally.removed["head_changed"]), (Some(2), 1));
}

#[test]
fn a_queue_has_a_limit() {
    let mut queue = queue();
    for number in 0..ENTRIES_MAX {
        add(&mut queue, &number.to_string(), 5);
    }
    let refused = queue.enqueue(&change("one too many", 1), 5, Timestamp::MIN);
    assert_eq!(refused, Err(MergeError::QueueFull(ENTRIES_MAX)));
}

#[test]
fn an_entry_number_is_never_reused() {
    let mut queue = queue();
    let first = add(&mut queue, "a", 5);
    queue.remove(first).unwrap();
    assert_ne!(add(&mut queue, "a", 5), first);
}
