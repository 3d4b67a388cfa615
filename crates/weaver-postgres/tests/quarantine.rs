//! Rows written by other programs or by a newer Weaver, which only PostgreSQL makes possible.

mod support;

use std::sync::Arc;
use std::time::Duration;

use sqlx::Executor;
use support::{Schema, past_guards};
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::lifecycle::{Command, OverdueReason, decide};
use weaver_core::ports::{Scope, TaskQuery, Tasks, UnreadableRecords};
use weaver_core::prelude::*;
use weaver_core::quarantine::Unreadable;
use weaver_core::task::Cause;
use weaver_postgres::PostgresStore;
use weaver_runtime::{LocalSource, WorkSource};

struct World {
    store: Arc<PostgresStore>,
    clock: ManualClock,
    schema: Schema,
}

impl World {
    async fn new() -> Self {
        let (schema, clock) = (Schema::new(), ManualClock::default());
        let open = PostgresStore::open(schema.options(), Arc::new(clock.clone()));
        let store = Arc::new(open.await.expect("the schema can be made"));
        schema.stop_clock(store.pool(), clock.now()).await;
        Self { store, clock, schema }
    }

    async fn sql(&self, text: &str) {
        let text = past_guards(text);
        sqlx::raw_sql(self.schema.sql(&text)).execute(self.store.pool()).await.expect("the owner may");
    }

    async fn advance(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
        let at = self.clock.now();
        let text = format!("UPDATE weaver.test_clock SET at = '{at}'");
        self.store.pool().execute(self.schema.sql(&text)).await.expect("the clock can be moved");
    }

    async fn lease(&self, token: u128, max: u32) -> Vec<Leased> {
        let worker = WorkerId::new("w").expect("a name");
        let request =
            LeaseRequest::new(Namespace::default(), QueueName::default(), worker, LeaseToken(token));
        self.store.lease(LeaseRequest { max, slots: max, ..request }).await.expect("the store answers")
    }

    async fn enqueue(&self, count: usize) -> Vec<TaskKey> {
        let answers = self.store.enqueue_batch(vec![NewTask::new("t"); count]).await.expect("stored");
        answers.into_iter().map(|answer| answer.expect("stored").key).collect()
    }
}

#[tokio::test]
async fn unreadable_tasks_are_released_uncharged_in_the_same_lease_call() {
    let world = World::new().await;
    let keys = world.enqueue(3).await;
    world.sql(&format!("UPDATE weaver.tasks SET labels = '{{\"a\": 1}}' WHERE id = {}", keys[0].id)).await;
    assert_eq!(world.lease(1, 3).await.len(), 2);
    let (state, cause, failures, losses, version): (String, String, i16, i16, i32) =
        sqlx::query_as(world.schema.sql(&format!(
            "SELECT state, cause, failures, losses, version FROM weaver.job_runs WHERE id = {}",
            keys[0].id
        )))
        .fetch_one(world.store.pool())
        .await
        .expect("it is there");
    assert_eq!(
        (state.as_str(), cause.as_str(), failures, losses, version),
        ("RETRY_SCHEDULED", "released", 0, 0, 3)
    );
    // Repaired by SQL, it is read, listed and leased again within a minute.
    world.sql(&format!("UPDATE weaver.tasks SET labels = NULL WHERE id = {}", keys[0].id)).await;
    world.advance(60).await;
    world.store.overdue(10).await.expect("the store answers");
    let page = world.store.list_quarantined(None, None, 10).await.expect("a list");
    assert_eq!(page.items, []);
    let leased = world.lease(2, 3).await;
    assert_eq!(leased.iter().map(|each| &each.lease.key).collect::<Vec<_>>(), [&keys[0]]);
    assert_eq!((leased[0].record.failures, leased[0].record.losses), (0, 0));
}

#[tokio::test]
async fn maintenance_expires_leases_beside_rows_that_cannot_be_decoded() {
    let world = World::new().await;
    let keys = world.enqueue(4).await;
    assert_eq!(world.lease(1, 4).await.len(), 4);
    // One cannot be decoded; the end of another conflicts with an attempt that another program inserted.
    world.sql(&format!("UPDATE weaver.tasks SET serial_key = '' WHERE id = {}", keys[0].id)).await;
    world
        .sql(&format!(
            "INSERT INTO weaver.closed_attempts VALUES ('default', {}, 1, 'w', 2, now(), now(), 'lost', NULL)",
            keys[1].id
        ))
        .await;
    world.advance(31).await;
    let source = LocalSource::new(world.store.clone());
    for _ in 0..2 {
        source.maintain(Default::default()).await.expect("maintenance goes on");
    }
    let found = world.store.get_tasks(&keys[2..]).await.expect("the store answers");
    for record in found.into_iter().flatten() {
        assert_eq!((record.state, record.cause), (TaskState::RetryScheduled, Some(Cause::Lost)));
    }
    let page = world.store.list_quarantined(None, None, 10).await.expect("a list");
    let ids: Vec<_> = page.items.iter().map(|each| each.id.clone()).collect();
    assert_eq!(ids, [keys[0].id.to_string()], "the other can be read");
}

#[tokio::test]
async fn formats_that_only_a_newer_weaver_knows_are_found_without_a_reader() {
    let world = World::new().await;
    let keys = world.enqueue(2).await;
    let leased = world.lease(1, 1).await;
    world.sql(&format!("UPDATE weaver.tasks SET format = 2 WHERE id = {0}; UPDATE weaver.ready SET format = 2 WHERE id = {0}",
        keys[1].id)).await;
    world.store.overdue(10).await.expect("the store answers");
    let found = world.store.list_quarantined(None, None, 10).await.expect("a list").items;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].reason, Unreadable::UnknownFormat { found: 2, known: 1 });
    assert_eq!(leased[0].lease.key, keys[0]);
    world.advance(31).await;
    let overdue = world.store.overdue(10).await.expect("the store answers");
    assert_eq!(overdue.iter().map(|each| each.reason).collect::<Vec<_>>(), [OverdueReason::Lease]);
}

#[tokio::test]
async fn invalid_labels_and_instants_fail_no_statement_about_other_tasks() {
    let world = World::new().await;
    let keys = world.enqueue(3).await;
    let leased = world.lease(1, 3).await;
    world.sql(&format!("UPDATE weaver.tasks SET labels = '[1]' WHERE id = {}", keys[0].id)).await;
    world
        .sql(&format!(
            "INSERT INTO weaver.closed_attempts VALUES ('default', {}, 0, 'w', 1, '-infinity', 'infinity', 'lost', NULL); \
             SELECT weaver.split_off({}, (SELECT token FROM weaver.leases LIMIT 1)); \
             UPDATE weaver.leases SET attempt = 2 WHERE NOT is_shared AND first_id = {}",
            keys[1].id, keys[1].id, keys[1].id
        ))
        .await;
    let page = world.store.list_tasks(TaskQuery::new(Namespace::default())).await.expect("a list");
    assert_eq!(page.items.iter().map(|record| &record.key).collect::<Vec<_>>(), [&keys[2]]);
    let ends = leased.iter().map(|each| {
        let command = Command::Finish { lease: each.lease.clone(), outcome: Outcome::DONE };
        decide(&each.record, command, each.record.updated_at).expect("it holds the lease")
    });
    let answers = world.store.commit(ends.collect(), None).await.expect("the store answers");
    assert!(matches!(answers[2], weaver_core::queue::Committed::Applied { .. }), "{answers:?}");
    world.store.counts(Scope::Namespace(Namespace::default())).await.expect("counts");
}
