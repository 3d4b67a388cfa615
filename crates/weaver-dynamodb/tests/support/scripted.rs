//! DynamoDB of which a test decides what fails, and which poll for other clients' items is not answered.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weaver_core::error::Result;
use weaver_dynamodb::db::{
    AwsDb, Db, Found, Index, Item, Query, Table, Transacted, Usage, Write, WriteAction, Written,
};

type Script = Box<dyn FnMut(&str) -> Option<Result<Transacted>> + Send>;

/// The script answers a transaction on the task with this id in place of DynamoDB, or not.
pub(crate) struct Scripted {
    inner: AwsDb,
    script: Mutex<Script>,
    /// Whether the next poll for other clients' items is left unanswered.
    pub(crate) silences_poll: AtomicBool,
    /// Notified when one was.
    pub(crate) silenced: Notify,
}

impl Scripted {
    pub(crate) fn new(
        inner: AwsDb,
        script: impl FnMut(&str) -> Option<Result<Transacted>> + Send + 'static,
    ) -> Self {
        let (silences_poll, silenced) = (AtomicBool::default(), Notify::new());
        Self { inner, script: Mutex::new(Box::new(script)), silences_poll, silenced }
    }
}

/// The id of the task that a transaction writes.
fn task_of(writes: &[Write]) -> Option<&str> {
    writes.iter().filter(|write| write.table == Table::Queue).find_map(|write| match &write.action {
        WriteAction::Put(item) | WriteAction::Update { key: item, .. } => {
            item.get("task_id")?.as_s().ok().map(String::as_str)
        }
        _ => None,
    })
}

#[async_trait]
impl Db for Scripted {
    async fn get(&self, table: Table, keys: Vec<Item>) -> Result<Vec<Item>> {
        self.inner.get(table, keys).await
    }

    async fn write(&self, write: Write) -> Result<Written> {
        self.inner.write(write).await
    }

    async fn transact(&self, writes: Vec<Write>) -> Result<Transacted> {
        let scripted = task_of(&writes).and_then(|task| (self.script.lock())(task));
        match scripted {
            Some(answer) => answer,
            None => self.inner.transact(writes).await,
        }
    }

    async fn query(&self, query: Query) -> Result<Found> {
        if query.index == Some(Index::Status) && self.silences_poll.swap(false, Ordering::SeqCst) {
            self.silenced.notify_one();
            return std::future::pending().await;
        }
        self.inner.query(query).await
    }

    async fn remove(&self, table: Table, keys: Vec<Item>) -> Result<()> {
        self.inner.remove(table, keys).await
    }

    fn usage(&self) -> Usage {
        self.inner.usage()
    }
}
