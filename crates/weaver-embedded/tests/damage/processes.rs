//! Other processes, and read-only directories.
//!
//! A child is this program again, with the name of the same test and a directory: given one, a test does the
//! child's part. Mounts are made in a mount namespace of their own, so that nothing is left behind.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use weaver_embedded::StoreError;

use crate::harness::{contents, enqueue, fill, open_in};
use crate::support::Scratch;

const DIRECTORY_VARIABLE: &str = "WEAVER_DAMAGE_DIRECTORY";

/// This program, to do the child's part of a test on a directory.
fn child(program: &str, arguments: &[&str], test: &str, directory: &Path) -> Output {
    let this = std::env::current_exe().expect("a test knows its program");
    let mut command = if program.is_empty() { Command::new(&this) } else { Command::new(program) };
    command.args(arguments);
    if !program.is_empty() {
        command.arg(&this);
    }
    command.args(["--exact", test, "--nocapture"]).env(DIRECTORY_VARIABLE, directory);
    command.output().unwrap_or_else(|error| panic!("{program}: {error}; apt-get install util-linux mount"))
}

/// Does the child's part of a test in a process of its own, with a tmpfs of this size on its directory.
pub(crate) fn on_small_disk(size: &str, test: &str, act: impl FnOnce(&Path)) {
    if let Some(directory) = given_directory() {
        return act(&directory);
    }
    let scratch = Scratch::new();
    let mount =
        format!("mount -t tmpfs -o size={size} tmpfs \"${DIRECTORY_VARIABLE}\" && exec \"$0\" \"$@\"");
    // Without root, a user namespace gives the right to mount.
    let flags = if is_root() { "--mount" } else { "--mount --map-root-user" };
    let mut arguments: Vec<_> = flags.split(' ').collect();
    arguments.extend(["sh", "-c", &mount]);
    let output = child("unshare", &arguments, test, scratch.path());
    assert!(
        output.status.success() && shown(&output).contains("1 passed"),
        "{test} did not pass (it mounts a tmpfs: run it as root, or allow user namespaces):\n{}",
        shown(&output)
    );
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) == 0)
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The directory a child was given; `None` in its parent.
fn given_directory() -> Option<PathBuf> {
    std::env::var_os(DIRECTORY_VARIABLE).map(PathBuf::from)
}

/// A child opens the store and prints the result.
fn open_and_tell(directory: &Path) {
    match open_in(directory) {
        Ok(store) => println!("opened with {} tasks", contents(&store).expect("it answers").tasks.len()),
        Err(error) => println!("refused: {error}"),
    }
}

#[test]
fn a_second_process_is_refused_with_the_pid_that_has_the_store() {
    if let Some(directory) = given_directory() {
        return open_and_tell(&directory);
    }
    let scratch = Scratch::new();
    let store = open_in(scratch.path()).expect("an empty directory opens");
    let test = "processes::a_second_process_is_refused_with_the_pid_that_has_the_store";
    let output = shown(&child("", &[], test, scratch.path()));
    let wanted = format!("refused: {} is in use by process {}", scratch.path().display(), std::process::id());
    assert!(output.contains(&wanted), "{output}");
    enqueue(&store, 10).expect("the first process is not affected");
    drop(store);
    let output = shown(&child("", &[], test, scratch.path()));
    assert!(output.contains("opened with 1 tasks"), "{output}");
}

#[test]
fn a_second_store_in_the_same_process_is_refused_as_well() {
    let scratch = Scratch::new();
    let _store = open_in(scratch.path()).expect("an empty directory opens");
    let error = open_in(scratch.path()).expect_err("it is in use");
    assert!(matches!(error, StoreError::InUse { .. }), "{error:?}");
}

#[test]
fn a_lock_file_left_by_a_dead_process_does_not_block_opening() {
    if let Some(directory) = given_directory() {
        return open_and_tell(&directory);
    }
    let scratch = Scratch::new();
    let test = "processes::a_lock_file_left_by_a_dead_process_does_not_block_opening";
    let output = shown(&child("", &[], test, scratch.path()));
    assert!(output.contains("opened with 0 tasks"), "{output}");
    let lock = fs::read_to_string(scratch.path().join("LOCK")).expect("it is left behind");
    assert_ne!(lock.trim(), std::process::id().to_string());
    open_in(scratch.path()).expect("its process has exited");
}

#[test]
fn a_read_only_directory_is_refused_with_the_permission_it_needs() {
    let test = "processes::a_read_only_directory_is_refused_with_the_permission_it_needs";
    on_small_disk("16m", test, |disk| {
        let directory = disk.join("store");
        let wanted = fill(&open_in(&directory).expect("an empty directory opens"));
        remount(disk, "ro");
        let error = open_in(&directory).expect_err("nothing can be written");
        let text = error.to_string();
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        assert!(text.contains(&directory.display().to_string()), "{text}");
        assert!(text.contains("grant this user write permission"), "{text}");
        let error = open_in(&disk.join("another")).expect_err("nothing can be made");
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
        remount(disk, "rw");
        assert_eq!(
            contents(&open_in(&directory).expect("that was the way out")).expect("it answers"),
            wanted
        );
    });
}

fn remount(disk: &Path, mode: &str) {
    let mut mount = Command::new("mount");
    mount.args(["-o", &format!("remount,{mode}")]).arg(disk);
    assert!(mount.status().expect("`mount` is needed: apt-get install mount").success());
}
