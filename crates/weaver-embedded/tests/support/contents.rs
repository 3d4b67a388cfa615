//! The visible contents of a store, for comparing two stores.

use weaver_core::error::Result;
use weaver_core::name::Namespace;
use weaver_core::ports::{
    Document, Entry, GroupSummary, Order, QueueInfo, ReadFrom, RunnerRecord, Scope, Selector, Seq,
    StateCounts, Store, StreamKey, TaskQuery,
};
use weaver_core::task::{TaskRecord, TaskState};

/// The kind of documents that tests write.
pub(crate) const KIND: &str = "note";
/// The streams that tests append to.
pub(crate) const STREAMS: [&str; 3] = ["audit", "log", "stats"];

/// The contents of a namespace.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Contents {
    pub(crate) tasks: Vec<TaskRecord>,
    pub(crate) counts: StateCounts,
    pub(crate) groups: Vec<GroupSummary>,
    pub(crate) queues: Vec<QueueInfo>,
    pub(crate) documents: Vec<Document>,
    pub(crate) runners: Vec<RunnerRecord>,
    pub(crate) streams: Vec<Vec<Entry>>,
}

impl Contents {
    /// Reads everything in a namespace.
    pub(crate) async fn read(store: &dyn Store, namespace: &Namespace) -> Result<Self> {
        const MANY: u32 = 1000;
        let mut streams = Vec::new();
        for name in STREAMS {
            let stream = StreamKey::new(namespace.clone(), name);
            streams.push(store.read_entries(&stream, ReadFrom::After(Seq(0)), MANY).await?.entries);
        }
        Ok(Self {
            tasks: tasks(store, namespace, Selector::All).await?,
            counts: store.counts(Scope::Namespace(namespace.clone())).await?.values,
            groups: store.list_groups(namespace, None, MANY).await?.items,
            queues: store.list_queues(namespace).await?,
            documents: store.list_documents(namespace, KIND, "", None, MANY).await?.items,
            runners: store.list_runners(namespace, None, MANY).await?.items,
            streams,
        })
    }

    /// Checks that the parts are consistent with each other.
    pub(crate) async fn agree(&self, store: &dyn Store, namespace: &Namespace) -> Result<(), String> {
        let mut counted = StateCounts::default();
        self.tasks.iter().for_each(|record| counted.add(record.state));
        if counted != self.counts {
            return Err(format!("the counts say {:?} and the records {counted:?}", self.counts));
        }
        for state in TaskState::ALL {
            let listed = tasks(store, namespace, Selector::State(state)).await.map_err(|e| e.to_string())?;
            let wanted: Vec<_> = self.tasks.iter().filter(|record| record.state == state).cloned().collect();
            if listed != wanted {
                return Err(format!("the list of {state} has {} tasks, not {}", listed.len(), wanted.len()));
            }
        }
        Ok(())
    }
}

async fn tasks(store: &dyn Store, namespace: &Namespace, selector: Selector) -> Result<Vec<TaskRecord>> {
    let mut query = TaskQuery { limit: 1000, order: Order::OldestFirst, ..TaskQuery::new(namespace.clone()) };
    query.selector = selector;
    let mut tasks = Vec::new();
    loop {
        let page = store.list_tasks(query.clone()).await?;
        tasks.extend(page.items);
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(tasks),
        }
    }
}
