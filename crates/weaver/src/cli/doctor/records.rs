//! Records that cannot be read: how many, and what they keep held.

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
/// A store of any size is looked into for so long; `weaver store check` reads all of it.
const LOOK_FOR: Duration = Duration::from_secs(5);
const PAGE: u32 = 1000;

/// What was found, from wherever.
#[derive(Debug, Default)]
struct Unreadable {
    kinds: BTreeMap<RecordKind, u64>,
    /// Tasks of which neither a serial key nor a slot is held.
    holding_nothing: u64,
}

impl Unreadable {
    fn add(&mut self, kind: RecordKind, holds_nothing: bool) {
        *self.kinds.entry(kind).or_default() += 1;
        self.holding_nothing += u64::from(kind == RecordKind::Task && holds_nothing);
    }

    fn findings(&self, seen: &str) -> Vec<Finding> {
        if self.kinds.is_empty() {
            return vec![Finding::ok(CHECK, format!("{seen}: none that cannot be read"))];
        }
        let kinds: Vec<String> = self.kinds.iter().map(|(kind, count)| counted(*kind, *count)).collect();
        let detail = format!("{seen}: {} cannot be read, and are left as they are", kinds.join(", "));
        let next = "`weaver store check` names every one and says what to do; `weaver tasks quarantine` lists what a \
             server came across";
        let mut findings = vec![Finding::warn(CHECK, detail, next)];
        if self.holding_nothing > 0 {
            let tasks = counted(RecordKind::Task, self.holding_nothing);
            let detail =
                format!("nothing is held for {tasks} that cannot be read: no serial key, no slot of a queue");
            let next = "tasks that were to wait for them may run; `weaver tasks purge ID --yes` removes one";
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

/// Of a store that others may have open: its records are read, for a while.
pub(super) async fn examine(url: &StoreUrl, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding> {
    let until = clock.monotonic().saturating_add(LOOK_FOR);
    let go_on = |_: u64| clock.monotonic() < until;
    match Box::pin(url.check_records(config, clock, &go_on)).await {
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
        true => format!("the first {} records, read in {} s", report.records(), LOOK_FOR.as_secs()),
        false => format!("{} records read", report.records()),
    };
    unreadable.findings(&seen)
}

/// Of a store that one process has open: it is asked, if it is a server of this user.
pub(super) async fn of_server(pid: u32) -> Vec<Finding> {
    let living = Registration::living(&Places::of_process());
    let Some(server) = living.iter().find(|server| server.pid == pid) else { return Vec::new() };
    match ask(server).await {
        Ok(unreadable) => unreadable.findings("what the server came across"),
        Err(error) => {
            let next = "`weaver tasks quarantine` asks it again";
            vec![Finding::warn(CHECK, format!("the server was not asked: {error}"), next)]
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
    fn what_cannot_be_read_is_counted_by_kind_and_what_holds_nothing_is_said() {
        let mut unreadable = Unreadable::default();
        assert_eq!(unreadable.findings("7 records read")[0].verdict, Verdict::Ok);
        unreadable.add(RecordKind::Task, false);
        unreadable.add(RecordKind::Document, true);
        let findings = unreadable.findings("7 records read");
        assert_eq!((findings.len(), findings[0].verdict), (1, Verdict::Warn));
        assert!(findings[0].detail.contains("1 task, 1 document cannot be read"), "{findings:?}");
        unreadable.add(RecordKind::Task, true);
        let findings = unreadable.findings("7 records read");
        assert!(findings[0].detail.contains("2 tasks"), "{findings:?}");
        assert!(findings[1].detail.contains("nothing is held for 1 task"), "{findings:?}");
    }

    #[test]
    fn a_look_that_ended_early_says_how_far_it_came() {
        let report = CheckReport { tasks: 9, is_cut_short: true, ..CheckReport::default() };
        let findings = of_report(&report);
        assert!(findings[0].detail.starts_with("the first 9 records, read in 5 s"), "{findings:?}");
    }
}
