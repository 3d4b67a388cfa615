//! The port `Runners`.

use async_trait::async_trait;
use weaver_core::error::{Invalid, Problem, Result};
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, WorkerId};
use weaver_core::ports::{Beat, Cursor, Directive, Page, RunnerKey, RunnerRecord, Runners};

use crate::EmbeddedStore;
use crate::codec::decode_runner;
use crate::keys;
use crate::rows;
use crate::unreadable::decode;
use weaver_core::quarantine::RecordKind;

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
            let Some(number) = rows::namespace_number(table, namespace)? else { return Ok(None) };
            let prefix = keys::of_namespace(keys::RUNNER, number);
            let page = rows::page_by_name(table, &prefix, "", cursor.as_ref(), limit, |name, value| {
                let key = keys::named(keys::RUNNER, number, name);
                let runner_id = WorkerId::try_from(name).ok()?;
                let runner = RunnerKey { namespace: namespace.clone(), runner_id };
                let read = decode(&key, value, |body| decode_runner(runner, body));
                read.map_err(|why| self.quarantine(RecordKind::Runner, namespace, name.to_owned(), why)).ok()
            });
            page.map(Some)
        });
        Ok(read.await?.unwrap_or(Page { items: Vec::new(), next: None, complete: true }))
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let key = key.clone();
        self.write(move |work| work.stop_runner(&key)).await
    }
}
