//! The log of an attempt: its head is appended as it is written, its tail is kept in memory until the attempt
//! ends, and the lines between them are counted. So a log is bounded and still shows the error at its end.
//!
//! ```text
//! line ──▶ head, until head_bytes ──▶ written within a second
//!     └──▶ tail, the last tail_bytes ──▶ written at the end, after the count of missing lines
//! ```

use std::collections::VecDeque;

use bytes::Bytes;
use weaver_core::ports::ENTRY_MAX_BYTES;

/// How much of an attempt's log is kept. Each line counts 16 bytes more than its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes kept of its beginning.
    pub head_bytes: usize,
    /// Bytes kept of its end, in the worker's memory while the handler runs.
    pub tail_bytes: usize,
}

/// What a log keeps by default, head and tail together.
const TOTAL_BYTES_DEFAULT: usize = 4 * 1024 * 1024;

impl LogLimits {
    /// Splits a total: three quarters for the head, a quarter for the tail.
    pub const fn total(bytes: usize) -> Self {
        let tail_bytes = bytes / 4;
        Self { head_bytes: bytes - tail_bytes, tail_bytes }
    }
}

/// 4 MiB: the first 3 and the last 1.
impl Default for LogLimits {
    fn default() -> Self {
        Self::total(TOTAL_BYTES_DEFAULT)
    }
}

/// The lines that are not appended yet, and counts of those that never will be.
#[derive(Debug, Default)]
pub(crate) struct AttemptLog {
    limits: LogLimits,
    /// Taken into the head so far, written or not.
    head_bytes: usize,
    waiting: Vec<Bytes>,
    tail: VecDeque<Bytes>,
    tail_bytes: usize,
    /// Lines between head and tail that were dropped, and their bytes.
    dropped: (u64, u64),
    has_said_more: bool,
    /// Lines that could not be stored, and why.
    unstored: Option<(u64, String)>,
}

impl AttemptLog {
    pub(crate) fn set_limits(&mut self, limits: LogLimits) {
        self.limits = limits;
    }

    pub(crate) fn push(&mut self, line: Bytes) {
        let bytes = cost(&line);
        if self.tail.is_empty() && self.dropped.0 == 0 && self.head_bytes + bytes <= self.limits.head_bytes {
            self.head_bytes += bytes;
            self.waiting.push(line);
            return;
        }
        self.tail_bytes += bytes;
        self.tail.push_back(line);
        while self.tail_bytes > self.limits.tail_bytes
            && let Some(oldest) = self.tail.pop_front()
        {
            self.tail_bytes -= cost(&oldest);
            self.dropped = (self.dropped.0 + 1, self.dropped.1 + oldest.len() as u64);
        }
    }

    /// The lines to append now; at the end of the attempt all of them.
    pub(crate) fn take(&mut self, is_end: bool) -> Vec<Bytes> {
        let mut lines = Vec::new();
        if let Some((count, why)) = self.unstored.take() {
            lines.push(format!("… {} missing here: they could not be stored ({why})", are(count)).into());
        }
        lines.append(&mut self.waiting);
        let LogLimits { head_bytes, tail_bytes } = self.limits;
        let keeps = format!("this log keeps its first {head_bytes} and its last {tail_bytes} bytes");
        let goes_on = !self.tail.is_empty() || self.dropped.0 > 0;
        if is_end {
            if let (count @ 1.., bytes) = std::mem::take(&mut self.dropped) {
                lines.push(format!("… {} missing here ({bytes} bytes): {keeps}", are(count)).into());
            }
            lines.extend(self.tail.drain(..));
            self.tail_bytes = 0;
        } else if goes_on && !std::mem::replace(&mut self.has_said_more, true) {
            lines.push(format!("… the tail follows when the attempt ends: {keeps}").into());
        }
        lines
    }

    /// Counts lines that could not be stored; the next append says so in their place.
    pub(crate) fn not_stored(&mut self, count: u64, why: String) {
        let before = self.unstored.take().map_or(0, |(count, _)| count);
        self.unstored = Some((before + count, why));
    }

    pub(crate) fn has_unstored(&self) -> bool {
        self.unstored.is_some()
    }
}

/// A store keeps a number and a time with each line, so that empty lines are not free.
fn cost(line: &Bytes) -> usize {
    const ENTRY_BYTES: usize = 16;
    line.len() + ENTRY_BYTES
}

fn are(lines: u64) -> String {
    if lines == 1 { "1 line is".to_owned() } else { format!("{lines} lines are") }
}

/// Truncates a line that exceeds an entry, with a note of how much was cut.
pub(crate) fn entry(line: &[u8]) -> Bytes {
    const NOTE_MAX_BYTES: usize = 48;
    if line.len() <= ENTRY_MAX_BYTES {
        return Bytes::copy_from_slice(line);
    }
    let kept = match std::str::from_utf8(line) {
        Ok(text) => text.floor_char_boundary(ENTRY_MAX_BYTES - NOTE_MAX_BYTES),
        Err(_) => ENTRY_MAX_BYTES - NOTE_MAX_BYTES,
    };
    let note = format!(" … {} more bytes", line.len() - kept);
    [&line[..kept], note.as_bytes()].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(head_bytes: usize, tail_bytes: usize) -> AttemptLog {
        AttemptLog { limits: LogLimits { head_bytes, tail_bytes }, ..AttemptLog::default() }
    }

    fn texts(lines: &[Bytes]) -> Vec<String> {
        lines.iter().map(|line| String::from_utf8(line.to_vec()).expect("text")).collect()
    }

    #[test]
    fn head_and_tail_are_kept_with_the_exact_number_between_them() {
        let mut log = log(80, 80);
        (0..100).for_each(|number| log.push(format!("{number:04}").into()));
        let lines = texts(&log.take(true));
        assert_eq!(lines[..4], ["0000", "0001", "0002", "0003"]);
        assert_eq!(
            lines[4],
            "… 92 lines are missing here (368 bytes): this log keeps its first 80 and its last 80 bytes"
        );
        assert_eq!(lines[5..], ["0096", "0097", "0098", "0099"]);
    }

    #[test]
    fn a_log_within_its_limit_is_whole_and_says_nothing_else() {
        let mut log = log(80, 80);
        (0..8).for_each(|number| log.push(format!("{number:04}").into()));
        let head = texts(&log.take(false));
        assert_eq!(head[..4], ["0000", "0001", "0002", "0003"]);
        assert!(head[4].starts_with("… the tail follows when the attempt ends"), "{head:?}");
        assert!(log.take(false).is_empty(), "the note appears once");
        assert_eq!(texts(&log.take(true)), ["0004", "0005", "0006", "0007"]);
    }

    #[test]
    fn a_line_that_fits_no_tail_is_counted_like_any_other() {
        let mut log = log(80, 80);
        log.push("x".repeat(80).into());
        log.push("end".into());
        let lines = texts(&log.take(true));
        assert!(lines[0].starts_with("… 1 line is missing here (80 bytes)"), "{lines:?}");
        assert_eq!(lines[1..], ["end"]);
    }

    #[test]
    fn lines_that_could_not_be_stored_are_counted_where_they_are_missing() {
        let mut log = log(100, 100);
        log.push("one".into());
        log.not_stored(log.limits.tail_bytes as u64 / 50, "it is full".to_owned());
        log.not_stored(1, "it is unreachable".to_owned());
        log.push("two".into());
        assert_eq!(
            texts(&log.take(false)),
            ["… 3 lines are missing here: they could not be stored (it is unreachable)", "one", "two"]
        );
    }

    #[test]
    fn a_line_longer_than_an_entry_says_how_much_was_cut() {
        let long = entry("é".repeat(40_000).as_bytes());
        assert!(long.len() <= ENTRY_MAX_BYTES);
        let text = std::str::from_utf8(&long).expect("whole characters");
        let kept = text.chars().filter(|letter| *letter == 'é').count();
        assert!(
            text.ends_with(&format!("… {} more bytes", 80_000 - 2 * kept)),
            "{}",
            &text[text.len() - 60..]
        );
    }
}
