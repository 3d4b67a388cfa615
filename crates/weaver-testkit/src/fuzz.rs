//! Fuzzing on stable Rust: a corpus of inputs, and mutations of them.
//!
//! There is no instrumentation, so a target returns a label of what happened, such as the error. An input
//! with a new label becomes a parent of further mutations. The gate runs a fixed number of inputs;
//! `FUZZ_SECONDS=600` (`cargo xtask fuzz TARGET --minutes 10`) runs for that long and adds a few inputs with
//! new labels to the corpus. An input that makes the target panic is added as well, where it is a test from
//! then on.

use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::sample::{self, Draws};

/// Environment variable: seconds to run instead of a fixed number of inputs.
pub const SECONDS: &str = "FUZZ_SECONDS";

/// Inputs longer than this are cut: decoders are not fuzzed for their speed.
const INPUT_MAX_BYTES: usize = 4096;
/// Parents that are kept.
const PARENTS_MAX: usize = 1024;
/// Inputs that a long run may add to the corpus, which is in the repository and read by every gate.
const KEPT_MAX: usize = 16;
/// Labels are compared up to here, so that an error that quotes its input is not new each time.
const LABEL_MAX_CHARS: usize = 48;

/// The largest 64-bit number as a varint, and its neighbours as zigzag: changing single bytes would hardly
/// ever make one, and arithmetic on decoded numbers overflows only there.
const EXTREMES: [&[u8]; 3] = [
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f],
];

/// A decoder under test.
#[derive(Debug)]
pub struct Target {
    name: &'static str,
    corpus: PathBuf,
    inputs: u32,
    words: &'static [&'static str],
}

impl Target {
    /// A target whose corpus is `corpus/NAME` in the crate at `manifest_dir`.
    #[must_use]
    pub fn new(name: &'static str, manifest_dir: &str) -> Self {
        Self { name, corpus: Path::new(manifest_dir).join("corpus").join(name), inputs: 20_000, words: &[] }
    }

    /// Number of inputs per gate; 20,000 by default.
    #[must_use]
    pub fn inputs(self, inputs: u32) -> Self {
        Self { inputs, ..self }
    }

    /// Dictionary of tokens that random mutation would take long to find.
    #[must_use]
    pub fn words(self, words: &'static [&'static str]) -> Self {
        Self { words, ..self }
    }

    /// Runs the corpus, then mutations of it.
    ///
    /// # Panics
    /// With the file that holds the input, if `attempt` panics on one; and without a corpus.
    pub fn run(&self, attempt: impl Fn(&[u8]) -> String) {
        let mut parents = self.read();
        assert!(
            !parents.is_empty(),
            "{} has no corpus; put an input into {}",
            self.name,
            self.corpus.display()
        );
        let mut labels = HashSet::new();
        for input in &parents {
            labels.insert(self.label(input, &attempt));
        }
        let (seed, limit) = (sample::seed(), Limit::of(self.inputs));
        println!(
            "{}: {} kept inputs; {}={seed} repeats the changed ones",
            self.name,
            parents.len(),
            sample::SEED
        );
        let mut draws = Draws::new(seed, self.name);
        let (mut made, mut added, kept) = (0, 0, parents.len());
        while limit.allows(made) {
            made += 1;
            let input = self.change(&parents, kept, &mut draws);
            if labels.insert(self.label(&input, &attempt)) && parents.len() < PARENTS_MAX {
                if limit.is_long() && added < KEPT_MAX {
                    added += 1;
                    self.keep("new", &input);
                }
                parents.push(input);
            }
        }
        println!("{}: {made} inputs, {} labels", self.name, labels.len());
    }

    fn read(&self) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(&self.corpus).into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        // In the order of their names: a seed means the same inputs on every machine.
        files.sort();
        files.iter().filter_map(|file| fs::read(file).ok()).collect()
    }

    fn label(&self, input: &[u8], attempt: &impl Fn(&[u8]) -> String) -> String {
        match catch_unwind(AssertUnwindSafe(|| attempt(input))) {
            Ok(label) => essence(&label),
            Err(_) => {
                let file = self.keep("panic", input);
                panic!(
                    "{}: the message above is for {}, which is kept: {}",
                    self.name,
                    file.display(),
                    input.escape_ascii()
                )
            }
        }
    }

    fn keep(&self, why: &str, input: &[u8]) -> PathBuf {
        let name: u64 = Draws::new(input.len() as u64, &input.escape_ascii().to_string()).next();
        let file = self.corpus.join(format!("{why}-{name:016x}"));
        // A corpus that cannot be written, such as an unpacked archive of root's, does not change what was
        // found.
        let _ = fs::write(&file, input);
        file
    }

    fn change(&self, parents: &[Vec<u8>], kept: usize, draws: &mut Draws) -> Vec<u8> {
        // Every other one from the corpus, whose inputs get furthest; those that were found are mostly
        // refused early.
        let choices = if draws.below(2) == 0 { kept } else { parents.len() };
        let mut input = parents[draws.below(choices)].clone();
        for _ in 0..=draws.below(4) {
            self.change_once(&mut input, parents, draws);
        }
        input.truncate(INPUT_MAX_BYTES);
        input
    }

    fn change_once(&self, input: &mut Vec<u8>, parents: &[Vec<u8>], draws: &mut Draws) {
        const EDGES: [u8; 8] = [0, 1, 0x7f, 0x80, 0xff, b'"', b' ', 0x1b];
        let at = draws.below(input.len() + 1);
        let end = (at + 1 + draws.below(8)).min(input.len());
        match draws.below(8) {
            0 if at < input.len() => input[at] ^= 1 << draws.below(8),
            1 if at < input.len() => input[at] = EDGES[draws.below(EDGES.len())],
            2 if at < input.len() => input[at] = draws.next() as u8,
            3 => drop(input.drain(at.min(end)..end)),
            4 => input.truncate(at),
            5 => {
                let copy = input[at.min(end)..end].to_vec();
                input.splice(at..at, copy);
            }
            6 if !self.words.is_empty() => {
                let word = self.words[draws.below(self.words.len())];
                input.splice(at..at, word.bytes());
            }
            // In place of a byte: most numbers take one.
            6 => {
                let number = EXTREMES[draws.below(EXTREMES.len())];
                input.splice(at..(at + 1).min(input.len()).max(at), number.iter().copied());
            }
            // The end of another input behind the begin of this one.
            7 => {
                let other = &parents[draws.below(parents.len())];
                input.truncate(at);
                input.extend_from_slice(&other[draws.below(other.len() + 1)..]);
            }
            _ => input.insert(at, draws.next() as u8),
        }
    }
}

/// A label without what it quotes of the input: an error about another name is the same error.
fn essence(label: &str) -> String {
    let outside = label.split(['`', '"']).step_by(2);
    outside.flat_map(str::chars).filter(char::is_ascii_alphabetic).take(LABEL_MAX_CHARS).collect()
}

/// A number of inputs, or a time.
enum Limit {
    Inputs(u32),
    Until(Instant),
}

impl Limit {
    #[expect(clippy::disallowed_methods, reason = "FUZZ_SECONDS is real time")]
    fn of(inputs: u32) -> Self {
        let seconds = std::env::var(SECONDS).ok().and_then(|text| text.parse().ok());
        seconds.map_or(Self::Inputs(inputs), |seconds| {
            Self::Until(Instant::now() + Duration::from_secs(seconds))
        })
    }

    #[expect(clippy::disallowed_methods, reason = "the same")]
    fn allows(&self, made: u32) -> bool {
        match self {
            Self::Inputs(inputs) => made < *inputs,
            Self::Until(end) => Instant::now() < *end,
        }
    }

    fn is_long(&self) -> bool {
        matches!(self, Self::Until(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A target of its own for each test, with one input.
    fn target(name: &'static str) -> Target {
        let place = std::env::temp_dir().join(format!("weaver-fuzz-{}", std::process::id()));
        let target = Target::new(name, &place.to_string_lossy()).words(&["<"]);
        fs::create_dir_all(&target.corpus).unwrap();
        fs::write(target.corpus.join("one"), "abc").unwrap();
        target
    }

    #[test]
    fn a_panic_is_found_by_mutation_and_its_input_is_kept() {
        let target = target("panics");
        let attempt = |input: &[u8]| {
            assert!(!input.starts_with(b"<<"), "as broken as it is meant to be");
            // The label is the way to it.
            if input.starts_with(b"<") { "near".to_owned() } else { "far".to_owned() }
        };
        let panic = catch_unwind(AssertUnwindSafe(|| target.run(attempt))).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("panics: the message above"));
        let kept = target.read().into_iter().find(|input| input.starts_with(b"<<"));
        assert!(kept.is_some(), "the input is not in the corpus");
        fs::remove_dir_all(&target.corpus).unwrap();
    }

    #[test]
    fn errors_about_different_names_have_one_label() {
        assert_eq!(essence("unknown field `a` at line 1"), essence("unknown field `bcd` at line 72"));
        assert_ne!(essence("unknown field `a`"), essence("missing field `a`"));
    }

    #[test]
    fn a_target_without_a_corpus_says_where_to_put_one() {
        let target = Target::new("nothing", "/nowhere");
        let panic = catch_unwind(|| target.run(|_| String::new())).unwrap_err();
        assert!(panic.downcast_ref::<String>().unwrap().contains("/nowhere/corpus/nothing"));
    }
}
