//! One store and its children: each is killed at a random instant, then the store is checked against all
//! their lines.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use weaver_core::id::LeaseToken;

use crate::checker::{self, Violation};
use crate::child::{Orders, block_on};
use crate::dice::Dice;
use crate::inspect;
use crate::wire::{Line, Request};

/// The argument that makes this binary a child.
pub(crate) const CHILD: &str = "--child";
/// A child without output for this long hangs. Opening and a commit take milliseconds.
const SILENT_MAX: Duration = Duration::from_secs(60);
/// 2026-01-01, as the clocks of tests have it.
const EPOCH: i64 = 1_767_225_600_000_000;
const SECOND: i64 = 1_000_000;
/// Most lines of a child under load before it is killed.
const LOAD_LINES_MAX: u64 = 400;

/// Totals of a round.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Tally {
    pub(crate) kills: u64,
    /// How many of them before the store was open and read.
    pub(crate) while_opening: u64,
    pub(crate) acknowledged: u64,
    pub(crate) unanswered: u64,
    pub(crate) tasks: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.kills += other.kills;
        self.while_opening += other.while_opening;
        self.acknowledged += other.acknowledged;
        self.unanswered += other.unanswered;
        self.tasks += other.tasks;
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kills, while_opening, acknowledged, unanswered, tasks } = self;
        write!(
            out,
            "{kills} kills ({while_opening} while opening), {acknowledged} answers, {unanswered} calls cut off, \
             {tasks} tasks"
        )
    }
}

/// Kills `kills` children of one store. On failure the directory stays, with all lines.
pub(crate) fn run(seed: u64, kills: u64) -> Result<Tally, String> {
    let scratch = scratch(seed);
    fs::create_dir_all(&scratch).map_err(|error| error.to_string())?;
    let mut round = Round { dice: Dice::new(seed), scratch: scratch.clone(), lives: Vec::new() };
    let (tally, violations) = round.play(kills);
    if violations.is_empty() {
        let _ = fs::remove_dir_all(&scratch);
        return Ok(tally);
    }
    const SHOWN: usize = 10;
    let shown: Vec<String> =
        violations.iter().take(SHOWN).map(|violation| format!("  {violation:.2000}")).collect();
    Err(format!(
        "{} violations after {tally}:\n{}\n\
         The store, the children's lines (lines.jsonl) and their stderr are kept in {}.\n\
         `cargo xtask torture --seed {seed} --kills {kills}` repeats the draws; real processes race, so it may take \
         several runs to meet the same instant again.",
        violations.len(),
        shown.join("\n"),
        scratch.display(),
    ))
}

fn scratch(seed: u64) -> PathBuf {
    let name = format!("torture-{}-{seed}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

struct Round {
    dice: Dice,
    scratch: PathBuf,
    lives: Vec<Vec<Line>>,
}

impl Round {
    fn play(&mut self, kills: u64) -> (Tally, Vec<Violation>) {
        let mut tally = Tally::default();
        let mut now = EPOCH;
        for life in 0..kills {
            // Not at all, a little, or past every lease; a child's own clock runs ahead meanwhile.
            now += [0, SECOND, 60 * SECOND][self.dice.place(3)];
            match self.live(life, now) {
                Ok(lines) => {
                    tally.kills += 1;
                    tally.while_opening += u64::from(!lines.iter().any(is_open));
                    self.lives.push(lines);
                }
                Err(why) => return (tally, vec![Violation::of("G1", format!("life {life}: {why}"))]),
            }
        }
        let inspected = block_on(inspect::inspect(&self.scratch.join("store"), now + 3600 * SECOND));
        let (finals, complaints) = match inspected {
            Ok(inspected) => inspected,
            Err(why) => return (tally, vec![Violation::of("G1", format!("in the end: {why}"))]),
        };
        tally.tasks = finals.iter().filter(|line| matches!(line, Line::Saw(_))).count() as u64;
        self.note(&finals);
        self.lives.push(finals);
        let lines = || self.lives.iter().flatten();
        tally.acknowledged = lines().filter(|line| matches!(line, Line::Answer(..))).count() as u64;
        let asked = lines().filter(|line| matches!(line, Line::Request(..))).count() as u64;
        tally.unanswered = asked.saturating_sub(tally.acknowledged);
        let mut violations = checker::check(&self.lives);
        violations.extend(complaints);
        (tally, violations)
    }

    /// Runs one child until it is killed; returns its lines.
    fn live(&mut self, life: u64, starts_at: i64) -> Result<Vec<Line>, String> {
        let orders = Orders {
            directory: self.scratch.join("store"),
            seed: self.dice.bits(),
            life,
            starts_at,
            tokens: self.tokens(),
            place: self.place(),
        };
        let when = When::draw(&mut self.dice);
        let (child, said) = self.start(&orders).map_err(|error| error.to_string())?;
        let mut child = Doomed(child);
        let mut lines = Vec::new();
        let died = loop {
            if when.has_come(&lines) {
                break false;
            }
            match said.recv_timeout(SILENT_MAX) {
                Ok(line) => lines.push(line?),
                Err(RecvTimeoutError::Disconnected) => break true,
                Err(RecvTimeoutError::Timeout) => return Err("the child hangs".to_owned()),
            }
        };
        // Lines are written before and after calls; this is some instant in between.
        (0..when.yields).for_each(|_| std::thread::yield_now());
        child.kill();
        for line in said {
            lines.push(line?);
        }
        self.note(&lines);
        if died { Err(format!("the child exited; {}", self.last_words())) } else { Ok(lines) }
    }

    fn start(&self, orders: &Orders) -> std::io::Result<(Child, Receiver<Result<Line, String>>)> {
        let errors = File::options().create(true).append(true).open(self.scratch.join("stderr.txt"))?;
        let mut child = Command::new(std::env::current_exe()?)
            .arg(CHILD)
            .arg(serde_json::to_string(orders)?)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()?;
        let (sender, receiver) = channel();
        let output = child.stdout.take().map(BufReader::new);
        // Ends with the child: the pipe has no other writer.
        std::thread::Builder::new().spawn(move || {
            output.into_iter().for_each(|output| listen(output, |line| sender.send(line).is_ok()));
        })?;
        Ok((child, receiver))
    }

    /// Some lease calls of the last life, answered or not, to be repeated.
    fn tokens(&mut self) -> Vec<LeaseToken> {
        let lines = self.lives.last().into_iter().flatten();
        let asked = lines.filter_map(|line| match line {
            Line::Request(_, Request::Lease(token)) => Some(*token),
            _ => None,
        });
        let tokens: Vec<_> = asked.collect();
        tokens.iter().rev().take(6).copied().filter(|_| self.dice.chance(50)).collect()
    }

    fn place(&self) -> Option<(u64, u64)> {
        let lines = self.lives.last().into_iter().flatten();
        lines.rev().find_map(|line| if let Line::Published { next, .. } = line { Some(*next) } else { None })
    }

    /// Appends the lines to a file, to debug a failure.
    fn note(&self, lines: &[Line]) {
        let write = || -> std::io::Result<()> {
            let mut file =
                File::options().create(true).append(true).open(self.scratch.join("lines.jsonl"))?;
            let mut text = String::from("\n");
            for line in lines {
                text.push_str(&serde_json::to_string(line)?);
                text.push('\n');
            }
            file.write_all(text.as_bytes())
        };
        if let Err(error) = write() {
            eprintln!("lines.jsonl cannot be written: {error}");
        }
    }

    fn last_words(&self) -> String {
        let text = fs::read_to_string(self.scratch.join("stderr.txt")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        format!("end of its stderr: {}", lines[lines.len().saturating_sub(5)..].join(" / "))
    }
}

fn is_open(line: &Line) -> bool {
    matches!(line, Line::SawAll(_))
}

/// Reads lines until there are no more; an incomplete last line is dropped.
fn listen(mut output: BufReader<ChildStdout>, mut hear: impl FnMut(Result<Line, String>) -> bool) {
    let mut text = String::new();
    while output.read_line(&mut text).is_ok_and(|_| text.ends_with('\n')) {
        let line = serde_json::from_str(&text).map_err(|error| format!("invalid line {text:?}: {error}"));
        if !hear(line) {
            return;
        }
        text.clear();
    }
}

/// When a child is killed.
struct When {
    while_opening: bool,
    /// After this many lines, of opening or of load.
    lines: u64,
    yields: u64,
}

impl When {
    fn draw(dice: &mut Dice) -> Self {
        let while_opening = dice.chance(25);
        let lines = if while_opening { dice.below(8) } else { dice.between(1, LOAD_LINES_MAX) };
        // A tenth of a microsecond to a few each.
        let yields = if dice.chance(50) { dice.below(3000) } else { 0 };
        Self { while_opening, lines, yields }
    }

    fn has_come(&self, lines: &[Line]) -> bool {
        let heard = if self.while_opening {
            Some(lines.len())
        } else {
            lines.iter().position(is_open).map(|open| lines.len() - open)
        };
        heard.is_some_and(|heard| heard as u64 >= self.lines)
    }
}

/// A child that is killed on drop.
struct Doomed(Child);

impl Doomed {
    /// SIGKILL: no handler, no drop, no flush. Waiting ensures that the directory's lock is released.
    fn kill(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        self.kill();
    }
}
