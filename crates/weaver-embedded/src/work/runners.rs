//! Runners on disk.

use std::time::Duration;

use redb::ReadableTable;
use weaver_core::name::WorkerId;
use weaver_core::ports::{Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus};
use weaver_core::quarantine::RecordKind;
use weaver_core::time::Timestamp;

use crate::codec::{StoredDirective, decode_directive, decode_runner, encode_directive, encode_runner};
use crate::keys;
use crate::rows;
use crate::trouble::Outcome;
use crate::unreadable::decode;
use crate::work::Work;

/// Runners that have been silent for this long are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(24 * 3600);

impl Work<'_> {
    pub(crate) fn beat(&mut self, beats: Vec<Beat>) -> Outcome<Vec<Directive>> {
        let now = self.clock.now().steady;
        self.sweep_runners(now)?;
        let mut directives = Vec::with_capacity(beats.len());
        for beat in beats {
            let number = self.number_or_new(&beat.key.namespace)?;
            let name = beat.key.runner_id.as_str().to_owned();
            let told = keys::named(keys::DIRECTIVE, number, &name);
            // What it was told and cannot be read, it was not told.
            let stored = self.table.get(told.as_slice())?;
            let directive = stored.and_then(|value| decode(&told, value.value(), decode_directive).ok());
            let directive = directive.map(|stored| stored.directive).unwrap_or_default();
            self.memory.quarantine.remove(&beat.key.namespace, RecordKind::Runner, &name);
            let status = RunnerStatus::Running;
            let record = RunnerRecord { beat, last_heartbeat: now, status, directive };
            self.put(&keys::named(keys::RUNNER, number, &name), |writer| encode_runner(writer, &record))?;
            directives.push(directive);
        }
        Ok(directives)
    }

    pub(crate) fn direct(&mut self, key: &RunnerKey, directive: Directive) -> Outcome<()> {
        let number = self.number_or_new(&key.namespace)?;
        let stored = StoredDirective { directive, since: self.clock.now().steady };
        let told = keys::named(keys::DIRECTIVE, number, key.runner_id.as_str());
        self.put(&told, |writer| encode_directive(writer, stored))?;
        self.change_runner(key, |runner| runner.directive = directive)
    }

    pub(crate) fn stop_runner(&mut self, key: &RunnerKey) -> Outcome<()> {
        self.change_runner(key, |runner| runner.status = RunnerStatus::Stopped)
    }

    fn change_runner(&mut self, key: &RunnerKey, change: impl FnOnce(&mut RunnerRecord)) -> Outcome<()> {
        let Some(number) = self.memory.names.number(&key.namespace) else { return Ok(()) };
        let row = keys::named(keys::RUNNER, number, key.runner_id.as_str());
        let stored = self.table.get(row.as_slice())?;
        // One that cannot be read is written anew when its worker next beats.
        let runner = stored
            .and_then(|value| decode(&row, value.value(), |body| decode_runner(key.clone(), body)).ok());
        let Some(mut runner) = runner else { return Ok(()) };
        change(&mut runner);
        self.put(&row, |writer| encode_runner(writer, &runner))
    }

    /// Once in a while, so that runners with ever new names do not fill the file.
    fn sweep_runners(&mut self, now: Timestamp) -> Outcome<()> {
        if now.since(self.memory.runners_swept_at) < FORGOTTEN_AFTER / 24 {
            return Ok(());
        }
        self.memory.runners_swept_at = now;
        let mut gone = Vec::new();
        for row in rows::scan_all(&self.table, &[keys::RUNNER])? {
            let (key, value) = row?;
            let Some(runner) = self.runner_key(key.value()) else { continue };
            let read = decode(key.value(), value.value(), |body| decode_runner(runner, body));
            let Ok(runner) = read else { continue };
            if now.since(runner.last_heartbeat) >= FORGOTTEN_AFTER {
                gone.push(key.value().to_vec());
            }
        }
        for key in &gone {
            self.delete(key)?;
        }
        let mut untold = Vec::new();
        for row in rows::scan_all(&self.table, &[keys::DIRECTIVE])? {
            let (key, value) = row?;
            let Ok(stored) = decode(key.value(), value.value(), decode_directive) else { continue };
            let since = stored.since;
            let mut runner = key.value().to_vec();
            runner[0] = keys::RUNNER;
            if now.since(since) >= FORGOTTEN_AFTER && self.table.get(runner.as_slice())?.is_none() {
                untold.push(key.value().to_vec());
            }
        }
        for key in &untold {
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
