//! The directory: files that are missing, invalid, or left behind by a crash.

use std::fs;
use std::path::{Path, PathBuf};

use weaver_embedded::StoreError;

use crate::harness::{contents, enqueue, fill, images, open_in};
use crate::support::Scratch;
use crate::support::contents::Contents;

/// A store in a directory, closed, and what is in it.
fn filled() -> (Scratch, PathBuf, Contents) {
    let scratch = Scratch::new();
    let directory = scratch.path().join("store");
    let contents = fill(&open_in(&directory).expect("an empty directory opens"));
    (scratch, directory, contents)
}

fn refusal(directory: &Path) -> StoreError {
    open_in(directory).expect_err("it is refused")
}

/// The error and the file it names.
fn assert_names(error: &StoreError, file: &Path, text: &str) {
    let shown = error.to_string();
    assert!(shown.contains(&file.display().to_string()), "`{shown}` does not name {}", file.display());
    assert!(shown.contains(text), "`{shown}` does not say `{text}`");
}

#[test]
fn a_missing_data_file_is_refused_and_not_recreated() {
    let (_scratch, directory, _) = filled();
    let data = directory.join("weaver.redb");
    fs::remove_file(&data).expect("it is there");
    assert_names(&refusal(&directory), &data, "is missing: restore the latest backup");
    assert!(!data.exists(), "an empty store in its place would hide the loss");
}

#[test]
fn a_truncated_data_file_is_refused_at_any_length_even_when_empty() {
    let (_scratch, directory, _) = filled();
    let data = directory.join("weaver.redb");
    let bytes = fs::read(&data).expect("it is there");
    for length in [0, 1, 300, 4096, 4097, 8192, bytes.len() / 2, bytes.len() - 1] {
        fs::write(&data, &bytes[..length]).expect("it can be written");
        assert_names(&refusal(&directory), &data, "restore the latest backup of its directory");
        let left = fs::metadata(&data).expect("it is there").len();
        assert_eq!(left, length as u64, "the refusal changed the file");
    }
}

#[test]
fn a_data_file_with_a_flipped_byte_is_refused_until_it_is_restored() {
    let (_scratch, directory, wanted) = filled();
    let data = directory.join("weaver.redb");
    let bytes = fs::read(&data).expect("it is there");
    let mut damaged = bytes.clone();
    damaged[9] ^= 1;
    fs::write(&data, damaged).expect("it can be written");
    assert_names(&refusal(&directory), &data, "is damaged (the header's checksum is wrong)");
    fs::write(&data, bytes).expect("it can be written");
    assert_eq!(contents(&open_in(&directory).expect("it is whole again")).expect("it answers"), wanted);
}

#[test]
fn a_file_that_a_killed_process_left_is_opened_with_everything_in_it() {
    let images = images();
    let (_scratch, directory, _) = filled();
    fs::write(directory.join("weaver.redb"), &images.unclean).expect("it can be written");
    let store = open_in(&directory).expect("it recovers on open");
    assert_eq!(contents(&store).expect("it answers"), images.contents);
}

#[test]
fn a_data_file_of_another_program_is_refused() {
    let (_scratch, directory, _) = filled();
    let data = directory.join("weaver.redb");
    fs::write(&data, vec![b'x'; 10_000]).expect("it can be written");
    assert_names(&refusal(&directory), &data, "is damaged");
}

#[test]
fn a_missing_format_file_is_refused_with_the_line_it_needs() {
    let (_scratch, directory, wanted) = filled();
    let format = directory.join("FORMAT");
    fs::remove_file(&format).expect("it is there");
    assert_names(&refusal(&directory), &format, "write the line `weaver-embedded 1` into it");
    fs::write(&format, "weaver-embedded 1\n").expect("it can be written");
    assert_eq!(contents(&open_in(&directory).expect("that was the way out")).expect("it answers"), wanted);
}

#[test]
fn a_format_file_that_says_something_else_is_refused() {
    let (_scratch, directory, _) = filled();
    let format = directory.join("FORMAT");
    for text in [
        &b""[..],
        b"weaver",
        b"weaver-embedded",
        b"weaver-embedded one\n",
        b"weaver-embedded 0\n",
        b"\xff\xfe",
    ] {
        fs::write(&format, text).expect("it can be written");
        assert_names(&refusal(&directory), &format, "is damaged");
    }
}

#[test]
fn a_newer_format_is_refused_with_what_to_do() {
    let (_scratch, directory, _) = filled();
    fs::write(directory.join("FORMAT"), "weaver-embedded 2\n").expect("it can be written");
    let error = refusal(&directory);
    assert!(matches!(error, StoreError::NewerFormat { .. }), "{error:?}");
    assert_names(&error, &directory, "has format 2, and this version of Weaver reads up to 1");
}

#[test]
fn creation_can_be_interrupted_at_any_step() {
    let (_scratch, made, _) = filled();
    let data = fs::read(made.join("weaver.redb")).expect("it is there");
    let line = &b"weaver-embedded 1\n"[..];
    let steps: [&[(&str, &[u8])]; 8] = [
        &[],
        &[("LOCK", b"")],
        &[("LOCK", b"1\n"), ("weaver.redb.new", b"")],
        &[("weaver.redb.new", &data[..5000])],
        &[("weaver.redb.new", &data)],
        &[("weaver.redb.new", &data), ("FORMAT.new", b"")],
        &[("weaver.redb.new", &data), ("FORMAT.new", line)],
        &[("weaver.redb", &data), ("FORMAT", line), ("FORMAT.new", line)],
    ];
    for (step, files) in steps.into_iter().enumerate() {
        let scratch = Scratch::new();
        for (name, bytes) in files {
            fs::write(scratch.path().join(name), bytes).expect("it can be written");
        }
        let store = open_in(scratch.path()).unwrap_or_else(|error| panic!("step {step}: {error}"));
        enqueue(&store, 10).expect("it works");
        drop(store);
        open_in(scratch.path()).unwrap_or_else(|error| panic!("step {step}, again: {error}"));
    }
}

#[test]
fn the_last_step_of_creation_is_completed_on_open() {
    let (_scratch, directory, wanted) = filled();
    fs::rename(directory.join("weaver.redb"), directory.join("weaver.redb.new")).expect("it is there");
    assert_eq!(contents(&open_in(&directory).expect("it opens")).expect("it answers"), wanted);
    assert!(directory.join("weaver.redb").exists());
}

#[test]
fn a_left_over_free_space_probe_is_removed() {
    let (_scratch, directory, _) = filled();
    let probe = directory.join("weaver.room");
    fs::write(&probe, [0; 100]).expect("it can be written");
    let _store = open_in(&directory).expect("it opens");
    assert!(!probe.exists());
}

#[test]
fn a_path_that_is_no_directory_is_refused_by_name() {
    let scratch = Scratch::new();
    let file = scratch.path().join("file");
    fs::write(&file, "text").expect("it can be written");
    assert_names(&refusal(&file), &file, "");
}
