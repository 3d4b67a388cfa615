//! A node that crashes between any two calls: nothing is lost or duplicated.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weaver_core::ports::Store;
use weaver_core::task::TaskState;
use weaver_scheduler::definition::{ConcurrencyPolicy, DefinitionSpec, TaskTemplate};
use weaver_scheduler::event::NewEvent;
use weaver_scheduler::misfire::Misfire;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};
use weaver_testkit::sample::sample;

use crate::harness::{GRACE, Harness, cases, every, scheduler, seconds};
use crate::stores::Place;

cases![
    a_crash_between_any_two_calls_of_a_fire_neither_loses_nor_duplicates_it,
    a_crash_between_any_two_calls_of_missed_fires_keeps_what_was_decided,
    a_crash_between_any_two_calls_of_a_replacement_leaves_one_run,
    a_crash_between_any_two_calls_of_an_event_neither_loses_nor_duplicates_its_run,
    a_crash_between_any_two_calls_of_replacing_events_leaves_the_newest,
    a_manual_run_whose_answer_was_lost_is_created_once,
];

/// A store that crashes after so many calls: the last one is carried out, but its answer is lost. A crash
/// before a call is the same as one after the previous call.
fn dies_after(harness: &Harness, call: usize) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let plan = move |_: &CallSite| match 1 + count.fetch_add(1, Ordering::Relaxed) {
        number if number < call => Fault::None,
        number if number == call => Fault::FailAfter,
        _ => Fault::FailBefore,
    };
    let store = FaultyStore::new(Arc::clone(&harness.store), Arc::new(harness.clock.clone()), plan);
    (Arc::new(store), calls)
}

/// Calls that a CI run samples on the stores behind a connection, which take seconds for them; on the others
/// it crashes after every call.
const SAMPLE: usize = 4;

/// One tick of a node that crashes after its n-th call, for each n or a sample of them. `prepare` sets each
/// up; `check` verifies it after another node has ticked.
async fn at_every_call(
    name: &str,
    harness: &Harness,
    prepare: impl AsyncFn(&Harness, &str),
    check: impl AsyncFn(&Harness, &str),
) {
    let die = async |call: usize, name: &str| {
        prepare(harness, name).await;
        let (store, calls) = dies_after(harness, call);
        let dying = scheduler(store, Arc::new(harness.clock.clone()), "dying");
        // Its answer is lost with the node.
        let _ = dying.tick().await;
        harness.settle(&harness.scheduler).await;
        harness.pass(GRACE).await;
        check(harness, name).await;
        harness.scheduler.remove(&harness.space, name, None).await.expect("it is there");
        calls.load(Ordering::Relaxed)
    };
    // A node that does not crash shows how many calls there are.
    let count = die(usize::MAX, "alive").await;
    assert!(count > 3, "a tick that fires makes some calls, not {count}");
    let sampled = match harness.place {
        Place::Memory | Place::Embedded => (0..count).collect(),
        place => sample(&format!("{name} on {}", place.name()), count, SAMPLE),
    };
    let is_whole = sampled.len() == count;
    for call in sampled.into_iter().map(|index| index + 1) {
        die(call, &format!("d{call}")).await;
    }
    // A later tick can make more calls than the first: the end is where none crashed.
    if is_whole {
        let mut call = count + 1;
        while die(call, &format!("d{call}")).await >= call {
            call += 1;
        }
    }
}

async fn a_crash_between_any_two_calls_of_a_fire_neither_loses_nor_duplicates_it(harness: Harness) {
    let prepare = async |harness: &Harness, name: &str| {
        harness.add(name, every("1h")).await;
        harness.clock.advance(seconds(3600));
    };
    let check = async |harness: &Harness, name: &str| {
        assert_eq!(harness.runs(name).await.len(), 1, "{name}");
        let next = harness.get(name).await.next_fire_at.expect("it goes on");
        assert!(next > harness.now(), "{name}");
    };
    at_every_call("a fire", &harness, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_missed_fires_keeps_what_was_decided(harness: Harness) {
    let prepare = async |harness: &Harness, name: &str| {
        harness.add(name, every("1h").misfire(Misfire::RunAll { max: 2 })).await;
        harness.clock.advance(seconds(5 * 3600));
    };
    let check = async |harness: &Harness, name: &str| {
        assert_eq!(harness.runs(name).await.len(), 2, "{name}");
        let notices = harness.notices().await.into_iter().filter(|notice| notice.definition == name);
        let counts: Vec<u64> = notices.map(|notice| notice.count).collect();
        assert!(!counts.is_empty() && counts.iter().all(|count| *count == 3), "{name}: {counts:?}");
    };
    at_every_call("missed fires", &harness, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_a_replacement_leaves_one_run(harness: Harness) {
    let prepare = async |harness: &Harness, name: &str| {
        harness.add(name, every("1h").concurrency(ConcurrencyPolicy::Replace)).await;
        harness.pass(seconds(3600)).await;
        harness.clock.advance(seconds(3600));
    };
    let check = async |harness: &Harness, name: &str| {
        assert_eq!(harness.states(name).await, [TaskState::Cancelled, TaskState::Queued], "{name}");
    };
    at_every_call("a replacement", &harness, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_an_event_neither_loses_nor_duplicates_its_run(harness: Harness) {
    let prepare = async |harness: &Harness, name: &str| {
        harness.add(name, DefinitionSpec::on_event(name, TaskTemplate::new("t"))).await;
        harness
            .scheduler
            .emit(&harness.space, NewEvent::new(name).dedupe_key(name))
            .await
            .expect("it is valid");
    };
    let check = async |harness: &Harness, name: &str| {
        assert_eq!(harness.runs(name).await.len(), 1, "{name}");
        let event = harness.scheduler.event(&harness.space, name).await.expect("the store answers");
        assert!(event.expect("it is kept").processed_at.is_some(), "{name}");
    };
    at_every_call("an event", &harness, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_replacing_events_leaves_the_newest(harness: Harness) {
    let prepare = async |harness: &Harness, name: &str| {
        let spec = DefinitionSpec::on_event(name, TaskTemplate::new("t"));
        harness.add(name, spec.concurrency(ConcurrencyPolicy::Replace)).await;
        for number in 1..=2 {
            let event = NewEvent::new(name).dedupe_key(format!("{name}-{number}"));
            harness.scheduler.emit(&harness.space, event).await.expect("it is valid");
            if number == 1 {
                harness.pass(seconds(1)).await;
            }
        }
    };
    let check = async |harness: &Harness, name: &str| {
        assert_eq!(harness.states(name).await, [TaskState::Cancelled, TaskState::Queued], "{name}");
        let runs = harness.runs(name).await;
        let key = runs[1].spec.idempotency_key.as_ref().map(ToString::to_string);
        assert_eq!(key, Some(format!("event:{name}:{name}-2")));
    };
    at_every_call("replacing events", &harness, prepare, check).await;
}

async fn a_manual_run_whose_answer_was_lost_is_created_once(harness: Harness) {
    harness.add("it", every("1h")).await;
    for call in 1..8 {
        let (store, _) = dies_after(&harness, call);
        let dying = scheduler(store, Arc::new(harness.clock.clone()), "dying");
        let before = harness.runs("it").await.len();
        let answer = dying.run_now(&harness.space, "it").await;
        harness.pass(GRACE).await;
        let made = harness.runs("it").await.len() - before;
        assert!(made <= 1 && (made == 1 || answer.is_err()), "call {call}: {made} runs, {answer:?}");
    }
}
