//! Unconfined processes, as handlers of commands and prompts use them.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod harness;

use std::time::Duration;

use bytes::Bytes;
use weaver_process::{OutputLimits, ProcessSpec, Stream, run};
use weaver_runtime::SystemClock;

use harness::{Dir, in_time, is_alive, until};

fn sh(dir: &Dir, script: &str) -> ProcessSpec {
    ProcessSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        env: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
        current_dir: dir.path().to_owned(),
        beneath: None,
        stdin: None,
        grace: Duration::from_secs(5),
        limits: OutputLimits::default(),
        guard: None,
        confinement: None,
    }
}

#[tokio::test]
async fn a_process_reads_a_megabyte_and_more_while_it_writes() {
    let dir = Dir::new();
    let spec =
        ProcessSpec { stdin: Some(Bytes::from(vec![b'x'; 1_500_000])), ..sh(&dir, "cat; wc -c </dev/null") };
    let clock = SystemClock::new();
    let finished = run(&spec, &clock, |_, _| {}, std::future::pending::<()>());
    let finished = in_time("it ends", finished).await.unwrap();
    assert!(finished.status.success() && finished.stopped_by.is_none());
    assert_eq!(finished.output_bytes, 1_500_002);
}

#[tokio::test]
async fn a_process_that_does_not_read_its_input_still_ends_normally() {
    let dir = Dir::new();
    let spec = ProcessSpec { stdin: Some(Bytes::from(vec![b'x'; 1_000_000])), ..sh(&dir, "exit 4") };
    let clock = SystemClock::new();
    let finished = run(&spec, &clock, |_, _| {}, std::future::pending::<()>());
    assert_eq!(in_time("it ends", finished).await.unwrap().status.code(), Some(4));
}

#[tokio::test]
async fn lines_arrive_as_they_are_written_with_their_stream() {
    let dir = Dir::new();
    let go = dir.pipe("go");
    let spec = sh(&dir, "echo out; echo err >&2; echo > go; exec sleep 1000");
    let (clock, mut lines) = (SystemClock::new(), Vec::new());
    // It is stopped only after it has reported its start.
    let finished = run(
        &spec,
        &clock,
        |stream, line| lines.push((stream, String::from_utf8(line.to_vec()).unwrap())),
        async {
            go.read().await;
            "enough"
        },
    );
    let finished = in_time("it ends", finished).await.unwrap();
    assert_eq!(finished.stopped_by, Some("enough"));
    lines.sort_by_key(|(stream, _)| *stream == Stream::Stderr);
    assert_eq!(lines, [(Stream::Stdout, "out".to_owned()), (Stream::Stderr, "err".to_owned())]);
}

#[tokio::test]
async fn a_run_that_is_dropped_kills_everything_at_once() {
    let dir = Dir::new();
    let begun = dir.pipe("begun");
    let script = "trap '' TERM; sleep 1000 & a=$!; b=$(setsid sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!')
        echo $$ $a $b > begun; wait";
    let spec = sh(&dir, script);
    let clock = SystemClock::new();
    let family = {
        let running = run(&spec, &clock, |_, _| {}, std::future::pending::<()>());
        tokio::select! {
            _ = running => panic!("it does not end on its own"),
            family = begun.read_pids() => family,
        }
    };
    assert_eq!(family.len(), 3);
    until("all processes have ended", || !family.iter().any(|pid| is_alive(*pid))).await;
}
