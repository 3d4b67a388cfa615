//! Faults of git at the worst moment, through a wrapper script around the real git.

use libtest_mimic::Trial;

use crate::child;
use crate::trial;
use crate::world::{End, World, end};

pub(crate) fn trials() -> Vec<Trial> {
    vec![
        trial("a_head_that_disappears_during_a_merge_is_an_error_and_never_a_conflict", disappearing_head),
        trial("a_push_that_outlives_its_process_moves_the_base_once", || outliving_push(false)),
        trial("a_landing_completed_after_its_process_died_counts_once", || outliving_push(true)),
    ]
}

/// `git merge-tree` exits with 1 for a conflict, and also for a missing commit.
fn disappearing_head() {
    let mut world = World::new(&[("a", "a")]);
    let head = world.repo.tip("a");
    let (directory, file) = head.as_str().split_at(2);
    let object = world.repo.path().join("objects").join(directory).join(file);
    let away = world.repo.scratch("away").join("object");
    world.wrap_git(&format!(
        "case \"$*\" in *' merge-tree '*) mv {0} {1}; $GIT \"$@\"; code=$?; echo $code > {1}.code; mv {1} {0}; \
         exit $code;; esac",
        object.display(),
        away.display()
    ));
    let merge = |world: &World| {
        let mut command = world.command();
        command.arg(child::MERGE).arg(world.repo.path());
        command.args([world.repo.tip("main").as_str(), head.as_str()]);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    let said = merge(&world);
    assert!(said.starts_with("Err(Unavailable(") && said.contains("not something we can merge"), "{said}");
    let code = std::fs::read_to_string(away.with_extension("code")).unwrap();
    assert_eq!(code.trim(), "1", "the code of a conflict");
    world.wrap_git("");
    assert!(merge(&world).starts_with("Ok(Merged("));
}

/// The process is killed while its git moves the base. That git continues, before or after another process
/// is started.
fn outliving_push(is_released_first: bool) {
    let mut world = World::new(&[("a", "a"), ("b", "b")]);
    let notes = world.repo.scratch("notes");
    // Opening a FIFO for reading blocks until there is a writer.
    let pipe = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(notes.join(name)).status().unwrap();
        assert!(made.success());
    };
    pipe("go");
    pipe("over");
    world.wrap_git(&format!(
        "case \"$*\" in *' push '*) if mkdir {0}/first 2>/dev/null; then \
           kill -KILL $PPID; read word < {0}/go; $GIT \"$@\" > /dev/null 2>&1; echo $? > {0}/over; exit 1; fi;; esac",
        notes.display()
    ));
    // The script shares its stdout and outlives it.
    let mut child = world.start(&world.orders());
    drop(child.stdout.take());
    assert_eq!(end(child), End::Killed);
    let release = || {
        std::fs::write(notes.join("go"), "go\n").unwrap();
        std::fs::read_to_string(notes.join("over")).unwrap().trim().to_owned()
    };
    if is_released_first {
        assert_eq!(release(), "0", "it landed without a report");
        world.restart();
    } else {
        world.restart();
        let before = world.repo.tip("main");
        assert_ne!(release(), "0", "the base has moved");
        assert_eq!(world.repo.tip("main"), before);
    }
    assert_eq!(world.state().tally.landed, 2);
    world.prove_all_done(&[]);
}
