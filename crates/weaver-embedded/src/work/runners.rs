//! Workers: heartbeats and directives, under seed 000's names.

use std::time::Duration;

use redb::ReadableTable;
use weaver_core::name::WorkerId;
use weaver_core::ports::{Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus};
use weaver_core::quarantine::RecordKind;
use weaver_core::time::Timestamp;

use crate::codec::{StoredDirective, decode_directive, decode_runner, encode_directive, encode_runner};
use crate::fault::StoreResult;
use crate::keys;
use crate::rows;
use crate::unreadable::decode;
use crate::work::Work;

/// Workers without a heartbeat for this long are removed.
const RUNNER_TTL: Duration = Duration::from_secs(24 * 3600);

impl Work<'_> {
    pub(crate) fn beat(&mut self, beats: Vec<Beat>) -> StoreResult<Vec<Directive>> {
        let now = self.clock.now().steady;
        self.sweep_runners(now)?;
        let mut directives = Vec::with_capacity(beats.len());
        for beat in beats {
            let number = self.number_or_new(&beat.key.namespace)?;
            let name = beat.key.runner_id.as_str().to_owned();
            let row = keys::named(keys::DIRECTIVE, number, &name);
            // An unreadable directive counts as none.
            let stored = self.table.get(row.as_slice())?;
            let directive = stored.and_then(|value| decode(&row, value.value(), decode_directive).ok());
            let directive = directive.map(|stored| stored.directive).unwrap_or_default();
            self.memory.quarantine.remove(&beat.key.namespace, RecordKind::Runner, &name);
            let status = RunnerStatus::Running;
            let record = RunnerRecord { beat, last_heartbeat: now, status, directive };
            self.put(&keys::named(keys::RUNNER, number, &name), |writer| encode_runner(writer, &record))?;
            directives.push(directive);
        }
        Ok(directives)
    }

    pub(crate) fn direct(&mut self, key: &RunnerKey, directive: Directive) -> StoreResult<()> {
        let number = self.number_or_new(&key.namespace)?;
        let stored = StoredDirective { directive, since: self.clock.now().steady };
        let row = keys::named(keys::DIRECTIVE, number, key.runner_id.as_str());
        self.put(&row, |writer| encode_directive(writer, stored))?;
        self.change_runner(key, |runner| runner.directive = directive)
    }

    pub(crate) fn stop_runner(&mut self, key: &RunnerKey) -> StoreResult<()> {
        self.change_runner(key, |runner| runner.status = RunnerStatus::Stopped)
    }

    fn change_runner(&mut self, key: &RunnerKey, change: impl FnOnce(&mut RunnerRecord)) -> StoreResult<()> {
        let Some(number) = self.memory.names.number(&key.namespace) else { return Ok(()) };
        let row = keys::named(keys::RUNNER, number, key.runner_id.as_str());
        let stored = self.table.get(row.as_slice())?;
        // An unreadable record is rewritten by the worker's next heartbeat.
        let runner = stored
            .and_then(|value| decode(&row, value.value(), |body| decode_runner(key.clone(), body)).ok());
        let Some(mut runner) = runner else { return Ok(()) };
        change(&mut runner);
        self.put(&row, |writer| encode_runner(writer, &runner))
    }

    /// Removes stale workers and directives, at most once an hour, so that workers with ever new ids do not
    /// fill the file.
    fn sweep_runners(&mut self, now: Timestamp) -> StoreResult<()> {
        if now.since(self.memory.runners_swept_at) < RUNNER_TTL / 24 {
            return Ok(());
        }
        self.memory.runners_swept_at = now;
        let mut expired = Vec::new();
        for row in rows::scan_all(&self.table, &[keys::RUNNER])? {
            let (key, value) = row?;
            let Some(runner) = self.runner_key(key.value()) else { continue };
            let read = decode(key.value(), value.value(), |body| decode_runner(runner, body));
            let Ok(runner) = read else { continue };
            if now.since(runner.last_heartbeat) >= RUNNER_TTL {
                expired.push(key.value().to_vec());
            }
        }
        for key in &expired {
            self.delete(key)?;
        }
        let mut orphaned = Vec::new();
        for row in rows::scan_all(&self.table, &[keys::DIRECTIVE])? {
            let (key, value) = row?;
            let Ok(stored) = decode(key.value(), value.value(), decode_directive) else { continue };
            let since = stored.since;
            let mut runner = key.value().to_vec();
            runner[0] = keys::RUNNER;
            if now.since(since) >= RUNNER_TTL && self.table.get(runner.as_slice())?.is_none() {
                orphaned.push(key.value().to_vec());
            }
        }
        for key in &orphaned {
            self.delete(key)?;
        }
        Ok(())
    }

    fn runner_key(&self, key: &[u8]) -> Option<RunnerKey> {
        let (number, name) = keys::split_named(key)?;
        let namespace = self.memory.names.name(number)?.clone();
        Some(RunnerKey { namespace, runner_id: WorkerId::try_from(name).ok()? })
    }
}
