//! Runners on disk.

use std::time::Duration;

use redb::ReadableTable;
use weaver_core::name::WorkerId;
use weaver_core::ports::{Beat, Directive, RunnerKey, RunnerRecord, RunnerStatus};
use weaver_core::time::Timestamp;

use crate::codec::{StoredDirective, decode_directive, decode_runner, encode_directive, encode_runner};
use crate::keys;
use crate::rows;
use crate::trouble::{OfRow, Outcome};
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
            let directive = rows::read(&self.table, &told, decode_directive)?;
            let directive = directive.map(|stored| stored.directive).unwrap_or_default();
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
        let Some(mut runner) = rows::read(&self.table, &row, |body| decode_runner(key.clone(), body))? else {
            return Ok(());
        };
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
            let body = rows::body_of(key.value(), value.value())?;
            let runner = decode_runner(runner, body).of_row(key.value())?;
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
            let body = rows::body_of(key.value(), value.value())?;
            let since = decode_directive(body).of_row(key.value())?.since;
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
