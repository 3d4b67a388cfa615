//! Every rule as a table: all facts that can differ, and the answer to each.

use super::*;

const NOW: Timestamp = Timestamp::from_micros(1000);
const BEFORE: Timestamp = Timestamp::from_micros(999);
const AFTER: Timestamp = Timestamp::from_micros(1001);

#[test]
fn a_task_is_due_from_its_time_on() {
    let answers = [BEFORE, NOW, AFTER].map(|ready_at| is_due(ready_at, NOW));
    assert_eq!(answers, [true, true, false]);
}

#[test]
fn a_task_expires_at_its_instant_unless_it_has_started() {
    let instants = [None, Some(BEFORE), Some(NOW), Some(AFTER)];
    let unstarted = instants.map(|expires_at| is_expired(is_unstarted(0), NOW, expires_at));
    assert_eq!(unstarted, [false, true, true, false]);
    let started = instants.map(|expires_at| is_expired(is_unstarted(1), NOW, expires_at));
    assert_eq!(started, [false; 4]);
}

#[test]
fn the_latest_instant_that_has_expired_is_now() {
    assert_eq!(latest_expired(NOW), Some(NOW));
}

#[test]
fn what_is_startable_is_due_and_has_not_expired() {
    for ready_at in [BEFORE, NOW, AFTER] {
        for expires_at in [None, Some(BEFORE), Some(NOW), Some(AFTER)] {
            for unstarted in [true, false] {
                let expected = ready_at <= NOW && (!unstarted || expires_at.is_none_or(|at| at > NOW));
                assert_eq!(is_startable(ready_at, unstarted, NOW, expires_at), expected);
            }
        }
    }
}

#[test]
fn a_queue_is_open_unless_it_is_paused_or_full() {
    // occupied, max_running, full
    let table = [
        (0, None, false),
        (u64::MAX, None, false),
        (0, Some(1), false),
        (1, Some(1), true),
        (2, Some(1), true),
        (1, Some(2), false),
    ];
    for (occupied, max_running, full) in table {
        for paused in [false, true] {
            let queue = QueueFacts {
                settings: QueueSettings { paused, max_running, ..QueueSettings::default() },
                occupied,
            };
            assert_eq!((queue.is_full(), queue.is_open()), (full, !paused && !full), "{queue:?}");
        }
    }
}

#[test]
fn fragile_tasks_take_slots_and_others_do_not() {
    // losses, max_losses, fragile
    for (losses, max_losses, fragile) in [(0, 3, false), (0, 0, true), (1, 3, true), (1, 0, true)] {
        assert_eq!(is_fragile(losses, max_losses), fragile);
    }
    // fragile, slots, granted
    for (fragile, slots, granted) in [(false, 0, true), (false, 1, true), (true, 0, false), (true, 1, true)] {
        assert_eq!(fits_slots(fragile, slots), granted);
    }
}

#[test]
fn a_task_begins_with_its_first_start_or_assignment() {
    let cases = [(true, true), (true, false), (false, true), (false, false)];
    let answers = cases.map(|(unstarted, waiting)| has_begun(unstarted, waiting));
    assert_eq!(answers, [false, true, true, true]);
}

#[test]
fn of_a_serial_key_the_one_that_began_goes_first_and_then_the_lowest_id() {
    // other id, other begun, other startable, begun, the other goes before task 5
    let table = [
        (4, false, true, false, true),
        (4, false, false, false, false),
        (4, false, true, true, false),
        (6, false, true, false, false),
        (6, true, false, false, true),
        (4, true, true, false, true),
    ];
    for (other, other_begun, startable, begun, expected) in table {
        assert_eq!(goes_first(TaskId(other), other_begun, startable, TaskId(5), begun), expected);
    }
}

/// Two ways to ask one question: pair by pair, and by holder and lowest id.
#[test]
fn the_elected_task_is_the_one_that_waits_for_no_other() {
    let ids = [1, 2, 3].map(TaskId);
    for startable in 0..8_u32 {
        for holder in [None, Some(TaskId(1)), Some(TaskId(2)), Some(TaskId(3))] {
            let is_startable = |id: TaskId| startable & (1 << id.0 >> 1) > 0;
            let waits = |id: TaskId| {
                let others = ids.into_iter().filter(|other| *other != id);
                let (mut others, begun) = (others, holder == Some(id));
                others.any(|other| goes_first(other, holder == Some(other), is_startable(other), id, begun))
            };
            let free: Vec<_> = ids.into_iter().filter(|id| is_startable(*id) && !waits(*id)).collect();
            let first = ids.into_iter().find(|id| is_startable(*id));
            let elected = elected(holder, first).filter(|id| is_startable(*id));
            assert_eq!(free, Vec::from_iter(elected), "{startable:b} {holder:?}");
        }
    }
}

#[test]
fn what_blocks_a_task_is_named_in_one_order() {
    for facts in 0..16_u32 {
        let [due, paused, full, gated] = [1, 2, 4, 8].map(|bit| facts & bit > 0);
        let queue = QueueFacts {
            settings: QueueSettings { paused, max_running: Some(2), ..QueueSettings::default() },
            occupied: if full { 2 } else { 1 },
        };
        let expected = match (due, paused, full, gated) {
            (false, ..) => Some(Blocked::NotDue),
            (true, true, ..) => Some(Blocked::Paused),
            (true, false, true, _) => Some(Blocked::LimitReached),
            (true, false, false, true) => Some(Blocked::KeyHeld),
            (true, false, false, false) => None,
        };
        assert_eq!(blocked(due, queue, || gated), expected);
    }
}

#[test]
fn slots_are_taken_by_running_assigned_and_orphaned_tasks_and_by_holds() {
    for state in TaskState::ALL {
        let under_way = matches!(state, TaskState::Assigned | TaskState::Orphaned | TaskState::Running);
        assert_eq!(occupies_slot(state, false), under_way, "{state}");
        assert_eq!(occupies_slot(state, true), under_way || state == TaskState::Cancelled, "{state}");
    }
}
