//! The port `Runners`.

use std::ops::Bound;

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::{Beat, Cursor, Directive, Page, RunnerKey, RunnerRecord, Runners};

use crate::EmbeddedStore;
use crate::codec::decode_runner;
use crate::keys;
use crate::rows;
use crate::trouble::{OfRow, Trouble};

#[async_trait]
impl Runners for EmbeddedStore {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        self.options.limits.check_batch("beats", beats.len())?;
        for (index, beat) in beats.iter().enumerate() {
            beat.validate().map_err(|invalid| invalid.at(index))?;
        }
        self.write(move |work| work.beat(beats)).await
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let key = key.clone();
        self.write(move |work| work.direct(&key, directive)).await
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        check_page(limit)?;
        if let Some(Cursor(text)) = &cursor {
            WorkerId::new(text.clone()).map_err(|_| Invalid::new("cursor", Problem::UnknownCursor))?;
        }
        let read = self.read(|table| {
            let mut items: Vec<RunnerRecord> = Vec::new();
            let Some(number) = rows::namespace_number(table, namespace)? else {
                return Ok(Page { items, next: None, complete: true });
            };
            let from = match &cursor {
                Some(Cursor(after)) => Bound::Excluded(keys::named(keys::RUNNER, number, after)),
                None => Bound::Unbounded,
            };
            let prefix = keys::of_namespace(keys::RUNNER, number);
            for row in rows::scan(table, &prefix, from, Bound::Unbounded)? {
                let (key, value) = row?;
                if items.len() == limit as usize {
                    let next = items.last().map(|last| Cursor(last.beat.key.runner_id.to_string()));
                    return Ok(Page { items, next, complete: true });
                }
                let id = keys::split_named(key.value()).and_then(|(_, name)| WorkerId::try_from(name).ok());
                let runner_id = id.ok_or_else(|| Trouble::damaged(key.value(), "its id is not a name"))?;
                let runner = RunnerKey { namespace: namespace.clone(), runner_id };
                let body = rows::body_of(key.value(), value.value())?;
                items.push(decode_runner(runner, body).of_row(key.value())?);
            }
            Ok(Page { items, next: None, complete: true })
        });
        read.await
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let key = key.clone();
        self.write(move |work| work.stop_runner(&key)).await
    }
}
