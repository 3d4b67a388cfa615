//! The output of a process: split into lines, limited, with its tail kept.

use std::collections::VecDeque;

use parking_lot::Mutex;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::run::{OutputLimits, Stream};

const READ_BYTES: usize = 8 * 1024;

/// Merges stdout and stderr in order of arrival.
pub(crate) struct Output<F> {
    limits: OutputLimits,
    sink: F,
    passed_bytes: usize,
    is_cut: bool,
    tail: Tail,
    stdout_tail: Tail,
    hash: Sha256,
}

/// The tails, the size and the hash of the output.
pub(crate) struct Summary {
    pub(crate) tail: String,
    pub(crate) stdout_tail: String,
    pub(crate) output_bytes: u64,
    pub(crate) output_sha256: [u8; 32],
}

/// The end of a stream of bytes.
#[derive(Default)]
struct Tail {
    /// A ring of the last bytes.
    kept: VecDeque<u8>,
    total_bytes: u64,
}

impl<F: FnMut(Stream, &[u8])> Output<F> {
    pub(crate) fn new(limits: OutputLimits, sink: F) -> Self {
        let (tail, stdout_tail) = (Tail::default(), Tail::default());
        Self { limits, sink, passed_bytes: 0, is_cut: false, tail, stdout_tail, hash: Sha256::new() }
    }

    pub(crate) fn finish(&mut self) -> Summary {
        Summary {
            tail: self.tail.text(),
            stdout_tail: self.stdout_tail.text(),
            output_bytes: self.tail.total_bytes,
            output_sha256: std::mem::take(&mut self.hash).finalize().into(),
        }
    }

    fn keep(&mut self, stream: Stream, bytes: &[u8]) {
        self.hash.update(bytes);
        self.tail.keep(bytes, self.limits.tail_bytes);
        if stream == Stream::Stdout {
            self.stdout_tail.keep(bytes, self.limits.tail_bytes);
        }
    }

    fn line(&mut self, stream: Stream, line: &[u8]) {
        if self.is_cut {
            return;
        }
        self.passed_bytes += line.len() + 1;
        if self.passed_bytes > self.limits.total_bytes {
            self.is_cut = true;
            let total_bytes = self.limits.total_bytes;
            let more = format!("… output truncated after {total_bytes} bytes");
            (self.sink)(stream, more.as_bytes());
            return;
        }
        (self.sink)(stream, line);
    }
}

impl Tail {
    fn text(&mut self) -> String {
        let bytes = self.kept.make_contiguous();
        // The cut may be inside a character: its remaining bytes are dropped.
        let torn = bytes.iter().take(3).take_while(|byte| is_continuation(**byte)).count();
        let start = if self.total_bytes > bytes.len() as u64 { torn } else { 0 };
        String::from_utf8_lossy(&bytes[start..]).into_owned()
    }

    fn keep(&mut self, bytes: &[u8], max_bytes: usize) {
        self.total_bytes += bytes.len() as u64;
        let kept = &bytes[bytes.len().saturating_sub(max_bytes)..];
        let excess = (self.kept.len() + kept.len()).saturating_sub(max_bytes);
        self.kept.drain(..excess);
        self.kept.extend(kept);
    }
}

/// Reads a stream to its end, line by line.
pub(crate) async fn pump<F: FnMut(Stream, &[u8])>(
    reader: Option<impl AsyncRead + Unpin>,
    stream: Stream,
    output: &Mutex<Output<F>>,
) {
    let Some(mut reader) = reader else { return };
    let mut buffer = vec![0; READ_BYTES];
    let mut lines = Lines { pending: Vec::new(), max_bytes: output.lock().limits.line_bytes.max(4) };
    loop {
        // A read error ends the stream like EOF.
        let count = reader.read(&mut buffer).await.unwrap_or(0);
        let mut output = output.lock();
        if count == 0 {
            return lines.finish(|line| output.line(stream, line));
        }
        output.keep(stream, &buffer[..count]);
        lines.push(&buffer[..count], |line| output.line(stream, line));
    }
}

/// Cuts a stream into lines.
struct Lines {
    /// An incomplete line of at most `max_bytes`.
    pending: Vec<u8>,
    max_bytes: usize,
}

impl Lines {
    fn push(&mut self, mut bytes: &[u8], mut emit: impl FnMut(&[u8])) {
        while !bytes.is_empty() {
            let room = self.max_bytes - self.pending.len();
            let within = &bytes[..bytes.len().min(room + 1)];
            if let Some(end) = within.iter().position(|byte| *byte == b'\n') {
                self.pending.extend_from_slice(&bytes[..end]);
                emit(self.pending.strip_suffix(b"\r").unwrap_or(&self.pending));
                self.pending.clear();
                bytes = &bytes[end + 1..];
                continue;
            }
            let taken = bytes.len().min(room);
            self.pending.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if !bytes.is_empty() {
                self.split(&mut emit);
            }
        }
    }

    /// Emits the beginning of a long line, up to the last complete character.
    fn split(&mut self, emit: &mut impl FnMut(&[u8])) {
        let whole = whole_characters(&self.pending);
        emit(&self.pending[..whole]);
        self.pending.drain(..whole);
    }

    fn finish(&mut self, mut emit: impl FnMut(&[u8])) {
        if !self.pending.is_empty() {
            emit(&self.pending);
            self.pending.clear();
        }
    }
}

/// The length without an incomplete UTF-8 character at the end; invalid bytes count as complete.
fn whole_characters(bytes: &[u8]) -> usize {
    let trailing = bytes.iter().rev().take(3).take_while(|byte| is_continuation(**byte)).count();
    let Some(start) = bytes.len().checked_sub(trailing + 1) else { return bytes.len() };
    let wanted = match bytes[start] {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xF7 => 4,
        _ => 1,
    };
    if start > 0 && wanted > trailing + 1 { start } else { bytes.len() }
}

fn is_continuation(byte: u8) -> bool {
    byte & 0xC0 == 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(max_bytes: usize, chunks: &[&[u8]]) -> Vec<String> {
        let mut lines = Lines { pending: Vec::new(), max_bytes };
        let mut found = Vec::new();
        let mut emit = |line: &[u8]| found.push(String::from_utf8_lossy(line).into_owned());
        chunks.iter().for_each(|chunk| lines.push(chunk, &mut emit));
        lines.finish(&mut emit);
        found
    }

    #[test]
    fn lines_are_complete_however_they_arrive() {
        assert_eq!(lines(80, &[b"a", b"b\r\nc\n", b"\n", b"d"]), ["ab", "c", "", "d"]);
    }

    #[test]
    fn a_long_line_is_split_between_characters() {
        assert_eq!(lines(5, &["aéééb\n".as_bytes()]), ["aéé", "éb"]);
        assert_eq!(lines(4, &["éé\nx".as_bytes()]), ["éé", "x"]);
        assert_eq!(lines(4, &["ééé".as_bytes()]), ["éé", "é"]);
        assert_eq!(lines(5, &["ééé\n".as_bytes()]), ["éé", "é"]);
    }

    #[test]
    fn invalid_utf8_is_passed_on_unchanged() {
        assert_eq!(lines(4, &[&[0x80; 9]]).iter().map(|line| line.chars().count()).sum::<usize>(), 9);
    }

    #[test]
    fn the_tail_is_the_end_of_the_output_and_begins_with_a_complete_character() {
        let limits = OutputLimits { tail_bytes: 5, ..OutputLimits::default() };
        let mut output = Output::new(limits, |_, _: &[u8]| {});
        output.keep(Stream::Stdout, "ab".as_bytes());
        output.keep(Stream::Stderr, "éééé".as_bytes());
        let kept = output.finish();
        assert_eq!((kept.tail.as_str(), kept.stdout_tail.as_str(), kept.output_bytes), ("éé", "ab", 10));
        assert_eq!(kept.output_sha256, <[u8; 32]>::from(Sha256::digest("abéééé")), "of what was cut, too");
    }

    #[test]
    fn after_the_limit_one_line_says_that_the_output_is_truncated() {
        let mut said = Vec::new();
        let limits = OutputLimits { total_bytes: 8, ..OutputLimits::default() };
        let mut output =
            Output::new(limits, |_, line: &[u8]| said.push(String::from_utf8_lossy(line).into_owned()));
        (0..5).for_each(|_| output.line(Stream::Stdout, b"abc"));
        drop(output);
        assert_eq!(said.len(), 3);
        assert!(said[2].contains("truncated"));
    }
}
