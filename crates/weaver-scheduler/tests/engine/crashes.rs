//! A node that dies between any two calls: nothing is lost, nothing doubled.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use weaver_core::ports::Store;
use weaver_core::task::TaskState;
use weaver_scheduler::definition::{ConcurrencyPolicy, DefinitionSpec, TaskTemplate};
use weaver_scheduler::event::NewEvent;
use weaver_scheduler::misfire::Misfire;
use weaver_testkit::faults::{CallSite, Fault, FaultyStore};
use weaver_testkit::sample::sample;

use crate::bed::{Bed, GRACE, cases, every, scheduler, seconds};
use crate::stores::Place;

cases![
    a_crash_between_any_two_calls_of_a_fire_neither_loses_nor_doubles_it,
    a_crash_between_any_two_calls_of_missed_fires_keeps_what_was_decided,
    a_crash_between_any_two_calls_of_a_replacement_leaves_one_run,
    a_crash_between_any_two_calls_of_an_event_neither_loses_nor_doubles_its_run,
    a_crash_between_any_two_calls_of_replacing_events_leaves_the_newest,
    a_run_by_hand_whose_answer_was_lost_is_made_once,
];

/// A store whose process is gone after so many calls: the last of them is carried out, and nobody learns the
/// answer. Dying before a call is the same as dying after the one before it.
fn dies_after(bed: &Bed, call: usize) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&calls);
    let plan = move |_: &CallSite| match 1 + count.fetch_add(1, Ordering::Relaxed) {
        number if number < call => Fault::None,
        number if number == call => Fault::FailAfter,
        _ => Fault::FailBefore,
    };
    let store = FaultyStore::new(Arc::clone(&bed.store), Arc::new(bed.clock.clone()), plan);
    (Arc::new(store), calls)
}

/// How many of the calls a gate dies after, on the stores behind a connection, which take seconds for them;
/// on the others it is every call.
const SAMPLE: usize = 4;

/// One tick of a node that dies after its n-th call, for each n there is or a sample of them. `prepare` sets
/// the stage for each; `check` looks at it after another node has come by.
async fn at_every_call(
    name: &str,
    bed: &Bed,
    prepare: impl AsyncFn(&Bed, &str),
    check: impl AsyncFn(&Bed, &str),
) {
    let die = async |call: usize, name: &str| {
        prepare(bed, name).await;
        let (store, calls) = dies_after(bed, call);
        let dying = scheduler(store, Arc::new(bed.clock.clone()), "dying");
        // Its answer never reaches anybody.
        let _ = dying.tick().await;
        bed.settle(&bed.scheduler).await;
        bed.pass(GRACE).await;
        check(bed, name).await;
        bed.scheduler.remove(&bed.space, name, None).await.expect("it is there");
        calls.load(Ordering::Relaxed)
    };
    // The node that lives says how many calls there are.
    let count = die(usize::MAX, "alive").await;
    assert!(count > 3, "a tick that fires makes some calls, not {count}");
    let sampled = match bed.place {
        Place::Memory | Place::Embedded => (0..count).collect(),
        place => sample(&format!("{name} on {}", place.name()), count, SAMPLE),
    };
    let is_whole = sampled.len() == count;
    for call in sampled.into_iter().map(|index| index + 1) {
        die(call, &format!("d{call}")).await;
    }
    // A later tick can make more calls than the first: the end is where none died.
    if is_whole {
        let mut call = count + 1;
        while die(call, &format!("d{call}")).await >= call {
            call += 1;
        }
    }
}

async fn a_crash_between_any_two_calls_of_a_fire_neither_loses_nor_doubles_it(bed: Bed) {
    let prepare = async |bed: &Bed, name: &str| {
        bed.add(name, every("1h")).await;
        bed.clock.advance(seconds(3600));
    };
    let check = async |bed: &Bed, name: &str| {
        assert_eq!(bed.runs(name).await.len(), 1, "{name}");
        let next = bed.get(name).await.next_fire_at.expect("it goes on");
        assert!(next > bed.now(), "{name}");
    };
    at_every_call("a fire", &bed, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_missed_fires_keeps_what_was_decided(bed: Bed) {
    let prepare = async |bed: &Bed, name: &str| {
        bed.add(name, every("1h").misfire(Misfire::RunAll { max: 2 })).await;
        bed.clock.advance(seconds(5 * 3600));
    };
    let check = async |bed: &Bed, name: &str| {
        assert_eq!(bed.runs(name).await.len(), 2, "{name}");
        let notices = bed.notices().await.into_iter().filter(|notice| notice.definition == name);
        let counts: Vec<u64> = notices.map(|notice| notice.count).collect();
        assert!(!counts.is_empty() && counts.iter().all(|count| *count == 3), "{name}: {counts:?}");
    };
    at_every_call("missed fires", &bed, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_a_replacement_leaves_one_run(bed: Bed) {
    let prepare = async |bed: &Bed, name: &str| {
        bed.add(name, every("1h").concurrency(ConcurrencyPolicy::Replace)).await;
        bed.pass(seconds(3600)).await;
        bed.clock.advance(seconds(3600));
    };
    let check = async |bed: &Bed, name: &str| {
        assert_eq!(bed.states(name).await, [TaskState::Cancelled, TaskState::Queued], "{name}");
    };
    at_every_call("a replacement", &bed, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_an_event_neither_loses_nor_doubles_its_run(bed: Bed) {
    let prepare = async |bed: &Bed, name: &str| {
        bed.add(name, DefinitionSpec::on_event(name, TaskTemplate::new("t"))).await;
        bed.scheduler.emit(&bed.space, NewEvent::new(name).dedupe_key(name)).await.expect("it is valid");
    };
    let check = async |bed: &Bed, name: &str| {
        assert_eq!(bed.runs(name).await.len(), 1, "{name}");
        let event = bed.scheduler.event(&bed.space, name).await.expect("the store answers");
        assert!(event.expect("it is kept").processed_at.is_some(), "{name}");
    };
    at_every_call("an event", &bed, prepare, check).await;
}

async fn a_crash_between_any_two_calls_of_replacing_events_leaves_the_newest(bed: Bed) {
    let prepare = async |bed: &Bed, name: &str| {
        let spec = DefinitionSpec::on_event(name, TaskTemplate::new("t"));
        bed.add(name, spec.concurrency(ConcurrencyPolicy::Replace)).await;
        for number in 1..=2 {
            let event = NewEvent::new(name).dedupe_key(format!("{name}-{number}"));
            bed.scheduler.emit(&bed.space, event).await.expect("it is valid");
            if number == 1 {
                bed.pass(seconds(1)).await;
            }
        }
    };
    let check = async |bed: &Bed, name: &str| {
        assert_eq!(bed.states(name).await, [TaskState::Cancelled, TaskState::Queued], "{name}");
        let runs = bed.runs(name).await;
        let key = runs[1].spec.idempotency_key.as_ref().map(ToString::to_string);
        assert_eq!(key, Some(format!("event:{name}:{name}-2")));
    };
    at_every_call("replacing events", &bed, prepare, check).await;
}

async fn a_run_by_hand_whose_answer_was_lost_is_made_once(bed: Bed) {
    bed.add("it", every("1h")).await;
    for call in 1..8 {
        let (store, _) = dies_after(&bed, call);
        let dying = scheduler(store, Arc::new(bed.clock.clone()), "dying");
        let before = bed.runs("it").await.len();
        let answer = dying.run_now(&bed.space, "it").await;
        bed.pass(GRACE).await;
        let made = bed.runs("it").await.len() - before;
        assert!(made <= 1 && (made == 1 || answer.is_err()), "call {call}: {made} runs, {answer:?}");
    }
}
