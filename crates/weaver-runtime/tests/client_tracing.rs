//! Log events of an enqueue.

use std::fmt::Debug;
use std::sync::Arc;

use parking_lot::Mutex;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Level, Metadata, Subscriber};
use weaver_core::task::NewTask;
use weaver_runtime::testing::TestQueue;

/// The events of this crate: level and fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, Fields)>>>);

#[derive(Default, PartialEq, Debug)]
struct Fields(Vec<(&'static str, String)>);

impl Log {
    fn begin() -> (Self, DefaultGuard) {
        let log = Self::default();
        (log.clone(), tracing::subscriber::set_default(log))
    }

    fn take(&self) -> Vec<(Level, Fields)> {
        std::mem::take(&mut *self.0.lock())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weaver_runtime")
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        self.0.lock().push((*event.metadata().level(), fields));
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), value.to_owned()));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push((field.name(), format!("{value:?}")));
    }
}

fn fields(message: &str, id: &str) -> Fields {
    let fields = [("message", message), ("task_id", id), ("task_type", "greet"), ("namespace", "shop")];
    Fields(fields.map(|(name, value)| (name, value.to_owned())).to_vec())
}

// One test: whether an event is wanted is remembered for the whole process.
#[tokio::test]
async fn every_enqueued_task_is_an_event_with_its_id_type_and_namespace() {
    let (log, _guard) = Log::begin();
    let client = TestQueue::new().client();
    let task = || NewTask::new("greet").namespace("shop").idempotency_key("once");
    client.enqueue(task()).await.unwrap();
    assert_eq!(log.take(), [(Level::INFO, fields("Enqueued", "1"))]);

    client.enqueue(task()).await.unwrap();
    let before = "Duplicate: the existing task is kept";
    assert_eq!(log.take(), [(Level::DEBUG, fields(before, "1"))]);

    let batch = vec![NewTask::new("greet").namespace("shop"); 2];
    client.enqueue_batch(batch).await.unwrap();
    let expected = ["2", "3"].map(|id| (Level::INFO, fields("Enqueued", id)));
    assert_eq!(log.take(), expected);
}
