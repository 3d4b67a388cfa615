//! Progress on a terminal, for commands that take longer than a second.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weaver::core::clock::Clock;

use crate::output::size::bytes;
use crate::output::table::fit;

/// Shorter work shows nothing.
const PATIENCE: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(200);
const BAR_COLUMNS: u64 = 24;
const LINE_COLUMNS: usize = 78;

/// Progress of some work, written by the worker and read by the display.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    label: Mutex<String>,
    done_bytes: AtomicU64,
    /// 0: unknown.
    total_bytes: AtomicU64,
}

impl Progress {
    pub(crate) fn new(label: impl Into<String>) -> Arc<Self> {
        Arc::new(Self { label: Mutex::new(label.into()), ..Self::default() })
    }

    pub(crate) fn label(&self) -> String {
        self.lock().clone()
    }

    pub(crate) fn say(&self, label: impl Into<String>) {
        *self.lock() = label.into();
    }

    pub(crate) fn expect_bytes(&self, count: u64) {
        self.total_bytes.store(count, Ordering::Relaxed);
    }

    pub(crate) fn add_bytes(&self, count: usize) {
        self.done_bytes.fetch_add(count as u64, Ordering::Relaxed);
    }

    fn line(&self, waited: Duration) -> String {
        let label = self.label();
        let (done, total) =
            (self.done_bytes.load(Ordering::Relaxed), self.total_bytes.load(Ordering::Relaxed));
        let seconds = waited.as_secs();
        let line = match (done, total) {
            (0, _) => format!("{label} … {seconds} s"),
            (done, 0) => format!("{label} … {} · {seconds} s", bytes(done)),
            (done, total) => {
                let percent = (done.min(total) as f64 / total as f64 * 100.0) as u64;
                let filled = percent * BAR_COLUMNS / 100;
                let bar: String = (0..BAR_COLUMNS).map(|at| if at < filled { '█' } else { '░' }).collect();
                format!("{label} {bar} {percent} % · {} · {seconds} s", bytes(done))
            }
        };
        fit(&line, LINE_COLUMNS)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, String> {
        // A label is replaced as a whole: a panic elsewhere does not corrupt it.
        self.label.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Awaits the work; after a second, its progress is shown on a terminal.
pub(crate) async fn with_progress<T>(
    clock: &dyn Clock,
    progress: &Progress,
    work: impl Future<Output = T>,
) -> T {
    if io::stderr().is_terminal() {
        watch(clock, progress, &mut io::stderr(), work).await
    } else {
        work.await
    }
}

async fn watch<T>(
    clock: &dyn Clock,
    progress: &Progress,
    terminal: &mut impl Write,
    work: impl Future<Output = T>,
) -> T {
    let start = clock.monotonic();
    let mut next = start.saturating_add(PATIENCE);
    let mut is_drawn = false;
    tokio::pin!(work);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut work => break answer,
            () = clock.sleep_until(next) => {
                let waited = clock.monotonic().0.saturating_sub(start.0);
                // A closed terminal must not stop the work.
                let _ = write!(terminal, "\r\x1b[K{}", progress.line(waited)).and_then(|()| terminal.flush());
                is_drawn = true;
                next = clock.monotonic().saturating_add(TICK);
            }
        }
    };
    if is_drawn {
        let _ = write!(terminal, "\r\x1b[K").and_then(|()| terminal.flush()); // As above.
    }
    answer
}

#[cfg(test)]
mod tests {
    use weaver::core::clock::ManualClock;

    use super::*;

    /// Works for a span of virtual time; returns what the terminal received.
    async fn seen_of(work: Duration) -> String {
        let clock = ManualClock::default();
        let progress = Progress::new("checking");
        let mut seen = Vec::new();
        let steps = async {
            let mut left = work;
            while !left.is_zero() {
                let step = left.min(Duration::from_millis(100));
                clock.advance(step);
                left -= step;
                // Lets the display run.
                tokio::task::yield_now().await;
            }
        };
        watch(&clock, &progress, &mut seen, steps).await;
        String::from_utf8(seen).unwrap()
    }

    #[tokio::test]
    async fn work_that_ends_within_a_second_shows_nothing() {
        assert_eq!(seen_of(Duration::from_millis(900)).await, "");
    }

    #[tokio::test]
    async fn after_a_second_a_line_is_shown_and_wiped_in_the_end() {
        let seen = seen_of(Duration::from_secs(3)).await;
        assert!(seen.starts_with("\r\x1b[Kchecking … 1 s"), "{seen:?}");
        assert!(seen.contains("checking … 2 s"), "{seen:?}");
        assert!(seen.ends_with("\r\x1b[K"), "{seen:?}");
    }

    #[test]
    fn a_known_total_gives_a_bar() {
        let progress = Progress::new("reading");
        progress.expect_bytes(200);
        progress.add_bytes(100);
        let line = progress.line(Duration::from_secs(5));
        assert_eq!(line, format!("reading {}{} 50 % · 100 B · 5 s", "█".repeat(12), "░".repeat(12)));
        progress.add_bytes(900);
        assert!(progress.line(Duration::from_secs(5)).contains(" 100 % "));
    }
}
