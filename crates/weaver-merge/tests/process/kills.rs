//! A process is killed by SIGKILL before and after every effect; another one is started and reaches the same
//! result. A gate kills at a sample of the effects, a different one for each commit ([`sample`]).

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use libtest_mimic::Trial;
use weaver_testkit::sample::sample;

use crate::child::{Orders, When};
use crate::proof::{config, unit};
use crate::repo::Repo;
use crate::world::{End, World};
use crate::{trial, world};

/// Sampled effects of one landing.
const OF_A_LANDING: usize = 12;
/// Sampled effects of a world with three changes.
const OF_MANY: usize = 5;
/// Sampled effects of a removal.
const OF_A_REMOVAL: usize = 8;
/// Worlds that run concurrently.
const WORLDS: u32 = 4;

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_process_killed_before_any_effect_of_a_landing_lands_once", || {
            let effects = sweep(&[("a", "a")], When::Before, OF_A_LANDING);
            assert!(effects > 15, "{effects}");
        }),
        trial("a_process_killed_after_any_effect_of_a_landing_lands_once", || {
            let effects = sweep(&[("a", "a")], When::After, OF_A_LANDING);
            assert!(effects > 15, "{effects}");
        }),
        trial("a_process_killed_before_an_effect_of_many_reaches_the_same_result", || many(When::Before)),
        trial("a_process_killed_after_an_effect_of_many_reaches_the_same_result", || many(When::After)),
        trial("a_process_killed_before_any_effect_of_a_removal_leaves_nothing_half_done", || {
            removed(When::Before);
        }),
        trial("a_process_killed_after_any_effect_of_a_removal_leaves_nothing_half_done", || {
            removed(When::After);
        }),
        trial("a_process_killed_during_a_check_leaves_no_process_of_the_check", killed_while_a_check_runs),
        trial("a_process_without_wakeups_still_finishes", || {
            let world = World::new(&[("a", "a"), ("bad", "bad")]);
            let end = world.run(&Orders { without_wakeups: true, ..world.orders() });
            assert!(matches!(end, End::Done(_)), "{end:?}");
            world.prove_all_done(&[]);
        }),
    ]
}

/// One lands, one is ejected after three runs of its check, one lands onto the first.
fn many(when: When) {
    let effects = sweep(&[("a", "a"), ("bad", "bad"), ("c", "c")], when, OF_MANY);
    assert!(effects > 40, "{effects}");
}

/// Runs one world without kills, and one for each sampled effect. Returns the number of effects.
fn sweep(changes: &[(&str, &str)], when: When, wanted: usize) -> usize {
    let whole = World::new(changes);
    let End::Done(effects) = whole.run(&whole.orders()) else { panic!("it was not killed") };
    whole.prove_all_done(&[]);
    let effects = usize::try_from(effects).expect("so many fit");
    let name = format!("effects of {} changes, killed {when:?}", changes.len());
    let (chosen, next) = (sample(&name, effects, wanted), AtomicUsize::new(0));
    let worlds = || {
        while let Some(at) = chosen.get(next.fetch_add(1, Ordering::SeqCst)) {
            let world = World::new(changes);
            // How many effects a process has differs by a few with the time its checks take.
            if world.run_and_kill(*at as u64, when) == End::Killed {
                world.restart();
            }
            world.prove_all_done(&[]);
        }
    };
    // They mostly wait: for leases and for the disk.
    std::thread::scope(|scope| (0..WORLDS).for_each(|_| drop(scope.spawn(worlds))));
    effects
}

/// Removes the queue of two changes. The process that is started after a kill is asked again: the kill may
/// have been before the removal was stored.
fn removed(when: When) {
    let changes = [("a", "a"), ("b", "b")];
    let whole = World::new(&changes);
    let End::Done(effects) = whole.run(&whole.removal()) else { panic!("it was not killed") };
    whole.prove_removed();
    let effects = usize::try_from(effects).expect("so many fit");
    assert!(effects > 15, "{effects}");
    let chosen = sample(&format!("effects of a removal, killed {when:?}"), effects, OF_A_REMOVAL);
    let next = AtomicUsize::new(0);
    let worlds = || {
        while let Some(at) = chosen.get(next.fetch_add(1, Ordering::SeqCst)) {
            let world = World::new(&changes);
            if world.run(&Orders { dies: Some((*at as u64, when)), ..world.removal() }) == End::Killed {
                // A stored mark is enough: then nothing has to be asked again.
                let is_marked = world.state().removal.is_some();
                let again = if is_marked { world.orders() } else { world.removal() };
                let end = world.run(&Orders { ahead_s: 600, ..again });
                assert!(matches!(end, End::Done(_)), "{end:?}");
            }
            world.prove_removed();
        }
    };
    std::thread::scope(|scope| (0..WORLDS).for_each(|_| drop(scope.spawn(worlds))));
}

fn killed_while_a_check_runs() {
    // The first run of the check starts a process in a session of its own, kills the queue's process and
    // keeps running.
    let script = |root: &Path| {
        format!(
            "if test ! -e {0}/ran; then touch {0}/ran; \
             setsid sh -c \"trap '' TERM HUP; exec sleep 1000\" & echo $! >> {0}/pids; echo $$ >> {0}/pids; \
             kill -KILL $(cat {0}/victim); sleep 1000; fi",
            root.display()
        )
    };
    let configuration =
        |repo: &Repo| config(&[("unit", &unit(repo)), ("kill", &script(&repo.scratch("kill")))]);
    let world = World::with(None, configuration, &[("a", "a"), ("b", "b")]);
    let notes = world.repo.scratch("kill");
    let child = world.start(&world.orders());
    std::fs::write(notes.join("victim"), child.id().to_string()).unwrap();
    assert_eq!(world::end(child), End::Killed);
    let pids = std::fs::read_to_string(notes.join("pids")).unwrap();
    assert_eq!(pids.lines().count(), 2);
    world.restart();
    for pid in pids.lines() {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        assert!(status.is_empty() || status.contains("State:\tZ"), "{pid} is alive");
    }
    world.prove_all_done(&[]);
}
