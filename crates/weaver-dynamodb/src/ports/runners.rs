//! The port `Runners`, on seed 000's table.

use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_dynamodb::types::AttributeValue;
use weaver_core::error::Result;
use weaver_core::limits::check_page;
use weaver_core::name::{Namespace, QueueName, TaskType, WorkerId};
use weaver_core::ports::{Beat, Cursor, Directive, Page, RunnerKey, RunnerRecord, RunnerStatus, Runners};
use weaver_core::quarantine::{Quarantined, RecordKind, Unreadable};

use crate::codec::record::PROMPT;
use crate::codec::value::{Attributes, iso, n, s, us};
use crate::db::{Item, Query, Range, Table, Write, Written};
use crate::keys;
use crate::records::too_contended;
use crate::store::DynamoStore;
use crate::unreadable::check_format;

#[async_trait]
impl Runners for DynamoStore {
    async fn beat(&self, beats: Vec<Beat>) -> Result<Vec<Directive>> {
        for (index, beat) in beats.iter().enumerate() {
            beat.validate().map_err(|invalid| invalid.at(index))?;
        }
        let mut directives = Vec::with_capacity(beats.len());
        for beat in beats {
            self.put_once(keys::NAMESPACES.to_owned(), beat.key.namespace.as_str()).await?;
            match self.db.write(self.beat_write(&beat)).await? {
                Written::Applied(item) => directives.push(directive_of(&item)),
                Written::ConditionFailed | Written::Conflict => {
                    return Err(too_contended(&beat.key.runner_id));
                }
            }
        }
        Ok(directives)
    }

    async fn direct(&self, key: &RunnerKey, directive: Directive) -> Result<()> {
        let write = Write::update(Table::Runners, keys::runner(key), "SET directive = :directive")
            .value(":directive", s(directive.as_str()));
        let _ = self.db.write(write).await?;
        Ok(())
    }

    async fn list_runners(
        &self,
        namespace: &Namespace,
        cursor: Option<Cursor>,
        limit: u32,
    ) -> Result<Page<RunnerRecord>> {
        check_page(limit)?;
        let mut page = Page { items: Vec::new(), next: None, complete: true };
        let mut position = cursor.map(|Cursor(text)| text);
        loop {
            let range = position.clone().map_or(Range::All, Range::After);
            let query = Query::table(Table::Runners, namespace.as_str()).range(range).limit(limit);
            let found = self.db.query(query).await?;
            let last = found.next.is_none();
            for item in found.items {
                if page.items.len() == limit as usize {
                    page.next = position.map(Cursor);
                    return Ok(page);
                }
                position = Some(item.text("runner_id").unwrap_or_default().to_owned());
                let id = position.as_deref().unwrap_or_default();
                match read_runner(namespace, &item) {
                    Some(Ok(runner)) => {
                        self.quarantine.remove(namespace, RecordKind::Runner, id);
                        page.items.push(runner);
                    }
                    Some(Err(why)) => {
                        let (kind, found_at) = (RecordKind::Runner, self.now());
                        self.quarantine.add(Quarantined::new(kind, namespace.clone(), id, why, found_at));
                    }
                    None => {}
                }
            }
            if last {
                return Ok(page);
            }
        }
    }

    async fn stop_runner(&self, key: &RunnerKey) -> Result<()> {
        let write = Write::update(Table::Runners, keys::runner(key), "SET #status = :stopped")
            .when("attribute_exists(last_heartbeat)")
            .name("#status", "status")
            .value(":stopped", s("stopped"));
        // A failed condition means that there is no such worker.
        let _ = self.db.write(write).await?;
        Ok(())
    }
}

impl DynamoStore {
    fn beat_write(&self, beat: &Beat) -> Write {
        let now = self.now();
        let names = |names: Vec<&str>| AttributeValue::L(names.into_iter().map(s).collect());
        let mut set = "SET last_heartbeat = :beat, last_heartbeat_us = :beat_us, started_at = :started, \
             started_at_us = :started_us, #status = :running, queues = :queues, #capacity = :capacity, \
             running = :count, draining = :draining"
            .to_owned();
        // The item now has our format.
        let mut remove = vec!["#format"];
        match &beat.types {
            Some(_) => set.push_str(", #types = :types"),
            None => remove.push("#types"),
        }
        let root = beat.project_root.as_deref().filter(|root| !root.is_empty());
        match root {
            Some(_) => set.push_str(", project_root = :root"),
            None => remove.push("project_root"),
        }
        match beat.every {
            Some(_) => set.push_str(", heartbeat_interval_ms = :every"),
            None => remove.push("heartbeat_interval_ms"),
        }
        if !remove.is_empty() {
            set = format!("{set} REMOVE {}", remove.join(", "));
        }
        let mut write = Write::update(Table::Runners, keys::runner(&beat.key), set)
            .name("#status", "status")
            .name("#capacity", "capacity")
            .name("#types", "types")
            .name("#format", "format")
            .value(":beat", s(iso(now)))
            .value(":beat_us", us(now))
            .value(":started", s(iso(beat.started_at)))
            .value(":started_us", us(beat.started_at))
            .value(":running", s("running"))
            .value(":queues", names(beat.queues.iter().map(QueueName::as_str).collect()))
            .value(":capacity", n(beat.capacity))
            .value(":count", n(beat.running))
            .value(":draining", AttributeValue::Bool(beat.draining));
        if let Some(types) = &beat.types {
            write = write.value(":types", names(types.iter().map(TaskType::as_str).collect()));
        }
        if let Some(every) = beat.every {
            write = write.value(":every", n(u64::try_from(every.as_millis()).unwrap_or(u64::MAX)));
        }
        if let Some(root) = root {
            write = write.value(":root", s(root));
        }
        write
    }
}

/// Decodes a worker's item; `None` if it has not sent a heartbeat.
pub(crate) fn read_runner(namespace: &Namespace, item: &Item) -> Option<Result<RunnerRecord, Unreadable>> {
    if !item.contains_key("last_heartbeat") && !item.contains_key("last_heartbeat_us") {
        return None;
    }
    let undecodable =
        || Unreadable::Undecodable { reason: "its attribute `runner_id` or `last_heartbeat`".to_owned() };
    let read = check_format(item).and_then(|()| runner_of(namespace, item).ok_or_else(undecodable));
    Some(read)
}

/// The worker of an item; `None` if an attribute is invalid. A runner that knows only seed 000 runs prompts,
/// one at a time.
fn runner_of(namespace: &Namespace, item: &Item) -> Option<RunnerRecord> {
    let instant = |text: &str, exact: &str| item.instant(exact).or_else(|| item.text(text)?.parse().ok());
    let texts = |name: &str| {
        let list = item.get(name)?.as_l().ok()?;
        Some(list.iter().filter_map(|value| value.as_s().ok().map(String::as_str)).collect::<Vec<_>>())
    };
    let last_heartbeat = instant("last_heartbeat", "last_heartbeat_us")?;
    let is_ours = item.contains_key("queues");
    let queues = texts("queues").unwrap_or_else(|| vec!["default"]);
    let types = if is_ours { texts("types") } else { Some(vec![PROMPT]) };
    let count = |name: &str, otherwise: u32| {
        item.number(name).and_then(|count| u32::try_from(count).ok()).unwrap_or(otherwise)
    };
    let beat = Beat {
        key: RunnerKey {
            namespace: namespace.clone(),
            runner_id: WorkerId::try_from(item.text("runner_id")?).ok()?,
        },
        project_root: item.text("project_root").map(str::to_owned),
        started_at: instant("started_at", "started_at_us").unwrap_or_default(),
        queues: queues.into_iter().filter_map(|name| QueueName::try_from(name).ok()).collect(),
        types: types
            .map(|types| types.into_iter().filter_map(|name| TaskType::try_from(name).ok()).collect()),
        capacity: count("capacity", 1),
        running: count("running", 0),
        draining: item.flag("draining"),
        every: item.number("heartbeat_interval_ms").map(Duration::from_millis),
    };
    let stopped = item.text("status") == Some("stopped");
    let status = if stopped { RunnerStatus::Stopped } else { RunnerStatus::Running };
    Some(RunnerRecord { beat, last_heartbeat, status, directive: directive_of(item) })
}

fn directive_of(item: &Item) -> Directive {
    item.text("directive").map(Directive::of_word).unwrap_or_default()
}
