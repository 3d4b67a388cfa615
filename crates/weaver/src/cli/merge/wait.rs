//! `weaver merge wait` and `weaver merge enqueue --wait`.

use std::time::Duration;

use clap::Args;
use weaver::core::time::Monotonic;
use weaver_api::{MergeEntry, MergeStatus};

use super::access::Access;
use super::{Common, show};
use crate::cli::tasks::wait::span;
use crate::exit::{Exit, Failure};
use crate::output::{Progress, print_failure, visible, with_progress, word};

const POLL_EVERY: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge wait\n  weaver merge wait 3 --timeout 30m && echo landed\n\n\
    Exit code 7: the entry left the queue without landing; 4: the timeout passed; 6: the queue is paused."
)]
pub(crate) struct WaitArgs {
    /// Number of the entry [default: wait until the queue is empty]
    entry: Option<u64>,
    /// Maximum wait: 30s, 5m, 12h [default: no limit]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    timeout: Option<Duration>,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn run(access: &Access<'_>, queue: &str, args: &WaitArgs) -> Result<Exit, Failure> {
    match args.entry {
        Some(entry) => until_left(access, queue, entry, args.timeout).await,
        None => until_empty(access, queue, args.timeout).await,
    }
}

/// Waits until the entry has left the queue, shows it, and returns its outcome as an exit code.
pub(super) async fn until_left(
    access: &Access<'_>,
    queue: &str,
    number: u64,
    timeout: Option<Duration>,
) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("waiting for entry {number}"));
    let clock = &*access.context().clock;
    let left = with_progress(clock, &progress, left(access, queue, number, timeout, &progress)).await?;
    show::entry(access, queue, number).await?;
    if left.status == MergeStatus::Landed {
        return Ok(Exit::Done);
    }
    if !access.context().output.is_json {
        let why = left.reason.map_or_else(|| word(&left.status), |reason| reason.reason);
        let message = format!("entry {number} (`{}`) did not land: {}", left.change, visible(&why));
        let next =
            format!("correct the change and enqueue it again: `weaver merge enqueue --head {}`", left.change);
        print_failure(&Failure::new(Exit::Unsuccessful, message).next(next), false);
    }
    Ok(Exit::Unsuccessful)
}

async fn left(
    access: &Access<'_>,
    queue: &str,
    number: u64,
    timeout: Option<Duration>,
    progress: &Progress,
) -> Result<MergeEntry, Failure> {
    let deadline = Deadline::after(access, timeout);
    loop {
        let entry = access.entry(queue, number).await?;
        if matches!(entry.status, MergeStatus::Landed | MergeStatus::Failed | MergeStatus::Cancelled) {
            return Ok(entry);
        }
        let what = format!("entry {number} is {}", word(&entry.status));
        refuse_if_paused(access, queue, &what).await?;
        deadline.next_poll(access, &what, &format!("`weaver merge show {number}` shows its checks")).await?;
        progress.say(what);
    }
}

async fn until_empty(access: &Access<'_>, id: &str, timeout: Option<Duration>) -> Result<Exit, Failure> {
    let progress = Progress::new(format!("waiting for queue {id}"));
    let empty = async {
        let deadline = Deadline::after(access, timeout);
        loop {
            let waiting = access.queue(id).await?.waiting;
            if waiting == 0 {
                return Ok::<(), Failure>(());
            }
            let what = format!("queue {id} has {waiting} waiting");
            refuse_if_paused(access, id, &what).await?;
            deadline.next_poll(access, &what, "`weaver merge status` shows them").await?;
            progress.say(what);
        }
    };
    with_progress(&*access.context().clock, &progress, empty).await?;
    show::status(access, id).await?;
    Ok(Exit::Done)
}

/// A paused queue needs a resume, so the wait would not end.
async fn refuse_if_paused(access: &Access<'_>, id: &str, what: &str) -> Result<(), Failure> {
    let queue = access.queue(id).await?;
    let Some(pause) = &queue.paused else { return Ok(()) };
    let message = format!("queue {id} is paused with {} waiting ({what}): {}", queue.waiting, pause.reason);
    Err(Failure::new(Exit::Refused, message).next("resume it with `weaver merge resume`"))
}

/// When the wait times out, on the monotonic clock.
struct Deadline(Option<Monotonic>);

impl Deadline {
    fn after(access: &Access<'_>, timeout: Option<Duration>) -> Self {
        Self(timeout.map(|timeout| access.context().clock.monotonic().saturating_add(timeout)))
    }

    /// Sleeps until the next poll, or fails after the deadline.
    async fn next_poll(&self, access: &Access<'_>, what: &str, next: &str) -> Result<(), Failure> {
        let clock = &access.context().clock;
        let now = clock.monotonic();
        if self.0.is_some_and(|deadline| now >= deadline) {
            return Err(Failure::new(Exit::Busy, format!("timed out: {what}")).next(next));
        }
        let poll = now.saturating_add(POLL_EVERY);
        clock.sleep_until(self.0.map_or(poll, |deadline| poll.min(deadline))).await;
        Ok(())
    }
}
