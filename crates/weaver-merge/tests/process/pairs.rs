//! Two processes on one store and one repository.

use std::sync::atomic::{AtomicU32, Ordering};

use libtest_mimic::Trial;
use weaver_testkit::services::postgres::Shared;

use crate::child::{Orders, When};
use crate::proof::{config, unit};
use crate::trial;
use crate::world::{End, World, end};

const CHANGES: [(&str, &str); 5] = [("a", "a"), ("bad", "bad"), ("c", "c"), ("d", "d"), ("e", "e")];

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("two_processes_on_one_queue_land_each_change_once", two_processes),
        trial("two_processes_that_land_concurrently_land_once", the_same_moment),
        trial("work_of_a_killed_process_is_finished_by_another", one_is_killed),
        trial("a_queue_that_one_process_removes_is_gone_for_the_other", one_removes),
    ]
}

/// A world whose store is PostgreSQL, the only one that processes can share. The throw-away server keeps the
/// schema.
fn shared_world(server: &Shared) -> World {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let url = format!("{}?schema=merge_{}_{number}", server.url(), weaver_testkit::services::process_key());
    World::with(Some(url), |repo| config(&[("unit", &unit(repo))]), &CHANGES)
}

fn two_processes() {
    let server = Shared::server();
    let world = shared_world(&server);
    let both = [world.start(&world.orders()), world.start(&world.orders())];
    for child in both {
        assert!(matches!(end(child), End::Done(_)));
    }
    world.prove_all_done(&[]);
}

/// Each process waits before the push until the other one is about to push too.
fn the_same_moment() {
    let server = Shared::server();
    let mut world = shared_world(&server);
    let meeting = world.repo.scratch("meeting");
    world.wrap_git(&format!(
        "case \"$*\" in *' push '*) \
           for word in \"$@\"; do to=${{word%%:*}}; done; mkdir -p {0}/$to; touch {0}/$to/$PPID; \
           for i in $(seq 200); do test $(ls {0}/$to | wc -l) -ge 2 && break; sleep 0.02; done;; esac",
        meeting.display()
    ));
    let both = [world.start(&world.orders()), world.start(&world.orders())];
    for child in both {
        assert!(matches!(end(child), End::Done(_)));
    }
    let met = std::fs::read_dir(&meeting).unwrap().flatten();
    let met = met.filter(|landing| std::fs::read_dir(landing.path()).unwrap().count() == 2).count();
    assert!(met >= 1, "at least once, two processes moved the base at the same moment");
    world.prove_all_done(&[]);
}

fn one_removes() {
    let server = Shared::server();
    let world = shared_world(&server);
    let both = [world.start(&world.removal()), world.start(&world.orders())];
    for child in both {
        assert!(matches!(end(child), End::Done(_)));
    }
    world.prove_removed();
}

fn one_is_killed() {
    let server = Shared::server();
    let world = shared_world(&server);
    let victim = world.start(&Orders { dies: Some((30, When::After)), ..world.orders() });
    let other = world.start(&world.orders());
    assert_eq!(end(victim), End::Killed);
    assert!(matches!(end(other), End::Done(_)));
    world.prove_all_done(&[]);
}
