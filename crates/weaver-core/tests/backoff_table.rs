//! The table of the default backoff in the library guide is what the code does.

use std::time::Duration;

use weaver_core::id::TaskId;
use weaver_core::retry::{JITTER_LEAST, RetryPolicy};
use weaver_core::task::MAX_ATTEMPTS_DEFAULT;

const GUIDE: &str = include_str!("../../../docs/guides/library.md");

/// As people write it: `6 h 51 min 11.25 s`.
fn spelled(span: Duration) -> String {
    let (hours, minutes) = (span.as_secs() / 3600, span.as_secs() / 60 % 60);
    let seconds = span.as_secs_f64() - (span.as_secs() / 60 * 60) as f64;
    let parts = [
        (hours > 0).then(|| format!("{hours} h")),
        (minutes > 0).then(|| format!("{minutes} min")),
        (seconds > 0.0).then(|| format!("{seconds} s")),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn full(failures: u32) -> Duration {
    let RetryPolicy::Exponential { base, factor, cap, .. } = RetryPolicy::DEFAULT else {
        panic!("the default is exponential")
    };
    let policy = RetryPolicy::Exponential { base, factor, cap, jitter: false };
    policy.delay(TaskId(1), failures).expect("there is another attempt")
}

#[test]
fn the_backoff_table_of_the_library_guide_is_the_default_curve() {
    let mut since_first = Duration::ZERO;
    for failures in 1..MAX_ATTEMPTS_DEFAULT {
        let least = full(failures).mul_f64(JITTER_LEAST);
        since_first += least;
        let row = format!(
            "| {failures} | {} | {} | {} |",
            spelled(full(failures)),
            spelled(least),
            spelled(since_first)
        );
        assert!(GUIDE.contains(&row), "docs/guides/library.md, Retries and delays, lacks the row {row}");
    }
    let further = format!("| each further one | {} |", spelled(full(MAX_ATTEMPTS_DEFAULT)));
    assert!(GUIDE.contains(&further), "docs/guides/library.md, Retries and delays, lacks the row {further}");
}
