//! Unreadable records: how many, and what they hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weaver::core::clock::Clock;
use weaver::core::quarantine::{CheckReport, RecordKind};
use weaver_api::{NamespacePageQuery, PageQuery};
use weaver_client::{Client, ClientError, SOCKET_SCHEME};

use crate::cli::local::{Places, Registration};
use crate::config::Config;
use crate::finding::Finding;
use crate::wiring::StoreUrl;

const CHECK: &str = "records";
/// Time limit for reading a store; `weaver store check` reads all of it.
const READ_FOR: Duration = Duration::from_secs(5);
const PAGE: u32 = 1000;

#[derive(Debug, Default)]
struct Unreadable {
    kinds: BTreeMap<RecordKind, u64>,
    /// Tasks that hold neither a serial key nor a queue slot.
    holding_nothing: u64,
}

impl Unreadable {
    fn add(&mut self, kind: RecordKind, holds_nothing: bool) {
        *self.kinds.entry(kind).or_default() += 1;
        self.holding_nothing += u64::from(kind == RecordKind::Task && holds_nothing);
    }

    fn findings(&self, seen: &str) -> Vec<Finding> {
        if self.kinds.is_empty() {
            return vec![Finding::ok(CHECK, format!("{seen}: no unreadable records"))];
        }
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| counted(*kind, *count)).collect();
        let detail = format!("{seen}: {} unreadable and left unchanged", kinds.join(", "));
        let next = "`weaver store check` lists all of them with what to do; `weaver tasks quarantine` lists those a server \
             has found";
        let mut findings = vec![Finding::warn(CHECK, detail, next)];
        if self.holding_nothing > 0 {
            let tasks = counted(RecordKind::Task, self.holding_nothing);
            let detail = format!("{tasks} unreadable, without a serial key or queue slot held");
            let next = "tasks that should wait for them may run; `weaver tasks purge ID --yes` deletes one";
            findings.push(Finding::warn(CHECK, detail, next));
        }
        findings
    }
}

fn counted(kind: RecordKind, count: u64) -> String {
    let (one, many) = match kind {
        RecordKind::Task => ("task", "tasks"),
        RecordKind::QueueSettings => ("queue's settings", "queues' settings"),
        RecordKind::Runner => ("worker's record", "workers' records"),
        RecordKind::Document => ("document", "documents"),
    };
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Reads a store that other processes may have open, for a limited time.
pub(super) async fn examine(url: &StoreUrl, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding> {
    let until = clock.monotonic().saturating_add(READ_FOR);
    let may_continue = |_: u64| clock.monotonic() < until;
    match Box::pin(url.check_records(config, clock, &may_continue)).await {
        Ok(Some(report)) => of_report(&report),
        Ok(None) => Vec::new(),
        Err(failure) => vec![Finding::of_failure(CHECK, failure)],
    }
}

fn of_report(report: &CheckReport) -> Vec<Finding> {
    let mut unreadable = Unreadable::default();
    for found in &report.unreadable {
        unreadable.add(found.kind, found.holds_nothing());
    }
    let seen = match report.is_cut_short {
        true => format!("the first {} records, read in {} s", report.records(), READ_FOR.as_secs()),
        false => format!("{} records read", report.records()),
    };
    unreadable.findings(&seen)
}

/// Asks the process that has the store open, if it is a server of this user.
pub(super) async fn of_server(pid: u32) -> Vec<Finding> {
    let alive = Registration::alive(&Places::of_process());
    let Some(server) = alive.iter().find(|server| server.pid == pid) else { return Vec::new() };
    match ask(server).await {
        Ok(unreadable) => unreadable.findings("found by the server"),
        Err(error) => {
            let next = "retry with `weaver tasks quarantine`";
            vec![Finding::warn(CHECK, format!("the server could not be asked: {error}"), next)]
        }
    }
}

async fn ask(server: &Registration) -> Result<Unreadable, ClientError> {
    let client = Client::new(&format!("{SOCKET_SCHEME}{}", server.socket.display()))?;
    let mut unreadable = Unreadable::default();
    let namespaces = client.namespaces(&PageQuery { cursor: None, limit: Some(PAGE) }).await?.items;
    for namespace in namespaces {
        let mut query =
            NamespacePageQuery { namespace: Some(namespace.name), cursor: None, limit: Some(PAGE) };
        loop {
            let page = client.quarantine(&query).await?;
            page.items.iter().for_each(|found| unreadable.add(found.kind, found.holds.is_empty()));
            query.cursor = page.next;
            if query.cursor.is_none() {
                break;
            }
        }
    }
    Ok(unreadable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn unreadable_records_are_counted_by_kind_and_tasks_that_hold_nothing_are_reported() {
        let mut unreadable = Unreadable::default();
        assert_eq!(unreadable.findings("7 records read")[0].verdict, Verdict::Ok);
        unreadable.add(RecordKind::Task, false);
        unreadable.add(RecordKind::Document, true);
        let findings = unreadable.findings("7 records read");
        assert_eq!((findings.len(), findings[0].verdict), (1, Verdict::Warn));
        assert!(findings[0].detail.contains("1 task, 1 document unreadable"), "{findings:?}");
        unreadable.add(RecordKind::Task, true);
        let findings = unreadable.findings("7 records read");
        assert!(findings[0].detail.contains("2 tasks"), "{findings:?}");
        assert!(findings[1].detail.contains("1 task unreadable, without a serial key"), "{findings:?}");
    }

    #[test]
    fn a_read_that_ended_early_says_how_many_records_it_covered() {
        let report = CheckReport { tasks: 9, is_cut_short: true, ..CheckReport::default() };
        let findings = of_report(&report);
        assert!(findings[0].detail.starts_with("the first 9 records, read in 5 s"), "{findings:?}");
    }
}
