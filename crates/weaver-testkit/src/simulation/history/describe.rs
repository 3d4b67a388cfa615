//! One line per event: for people, and to compare two runs of a seed.

use std::fmt;

use weaver_core::task::TaskRecord;

use crate::simulation::clock::START;
use crate::simulation::history::{Entry, Run, What};

impl fmt::Display for Entry {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.at.since(START);
        write!(out, "{:>4}.{:06} {}", at.as_secs(), at.subsec_micros(), self.what)
    }
}

impl fmt::Display for What {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enqueued { by, answer, record, .. } => {
                write!(out, "{by} enqueues {} existing={} {}", answer.key, answer.existing, Short(record))
            }
            Self::Acknowledged(key) => write!(out, "acknowledged {key}"),
            Self::Leased { request, grants } => {
                write!(
                    out,
                    "{} leases {}/{} of {}:",
                    request.worker, request.max, request.slots, request.namespace
                )?;
                grants
                    .iter()
                    .try_for_each(|grant| write!(out, " {} {}", grant.lease.key, Short(&grant.after)))
            }
            Self::Committed { by, transition, answer, before, after } => {
                let (key, verb, version) = (&transition.key, transition.verb, transition.expected_version);
                let (before, after) = (Short(before), Short(after));
                write!(out, "{by} commits {key} {verb:?} on {version}: {answer:?}, {before} -> {after}")
            }
            Self::Renewed { lease, answer, before, after } => {
                let (worker, key, version) = (&lease.worker, &lease.key, lease.version);
                write!(
                    out,
                    "{worker} renews {key} {version}: {answer:?}, {} -> {}",
                    Short(before),
                    Short(after)
                )
            }
            Self::Stopped { by, lease, before, after } => {
                let (key, version) = (&lease.key, lease.version);
                write!(out, "{by} confirms {key} {version} stopped, {} -> {}", Short(before), Short(after))
            }
            Self::QueueSet(namespace, queue, settings) => {
                write!(out, "queue {namespace}/{queue}: {settings:?}")
            }
            Self::Began(run) => write!(out, "{run} begins"),
            Self::StopRequested(run, reason) => write!(out, "{run} is asked to stop: {reason:?}"),
            Self::Ended(run, end) => write!(out, "{run} ends {end:?}"),
            Self::Published(change) => {
                write!(out, "published {} {} {}", change.key, change.version, change.state)
            }
            Self::Resync => out.write_str("resync"),
            Self::Alive(worker, life) => write!(out, "{worker}.{life} lives"),
            Self::Crashed(worker, life) => write!(out, "{worker}.{life} crashes"),
            Self::ShutdownRequested(worker, life) => write!(out, "{worker}.{life} is asked to shut down"),
            Self::Returned(worker, life) => write!(out, "{worker}.{life} returns"),
            Self::Stranded(keys) => write!(out, "stranded {keys:?}"),
            Self::Hung(worker) => write!(out, "{worker} does not stop"),
        }
    }
}

impl fmt::Display for Run {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} #{} fence {} on {}.{}", self.key, self.attempt, self.fence, self.worker, self.life)
    }
}

/// A record in short form.
pub(in crate::simulation) struct Short<'a>(pub(in crate::simulation) &'a Option<Box<TaskRecord>>);

impl fmt::Display for Short<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(record) = self.0 else { return out.write_str("(none)") };
        let lease = if record.lease.is_some() { "L" } else { "" };
        let (state, version, renewals) = (record.state, record.version, record.renewals);
        write!(out, "({state} v{version} r{renewals}{lease})")
    }
}
