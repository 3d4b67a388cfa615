//! Access to merge queues: through a server, or in a store that this process opens.

use weaver::core::name::Namespace;
use weaver_api::merge_convert as convert;
use weaver_api::{
    AcceptMerge, MergeCertificates, MergeChainExport, MergeChainQuery, MergeChainVerified, MergeEntries,
    MergeEntriesQuery, MergeEntry, MergeQueue, MergeVerified, MergeVerifyQuery, NewMergeEntry, NewMergeQueue,
    OnForeign, PauseMerge, PutMergeOnForeign, PutMergePriority, RemoveMergeQuery,
};
use weaver_merge::domain::{
    BadOid, EntryId, MergeError, Oid, PRIORITY_DEFAULT, QueueId, RemoveOptions, Repository,
};
use weaver_merge::engine::{EngineError, MergeEngine, NewEntry};
use weaver_server::problem::Problem;
use weaver_server::security::local_subject;

use crate::cli::Context;
use crate::cli::remote::Remote;
use crate::exit::{Exit, Failure};

/// Links of a chain per request.
const CHAIN_PAGE: u32 = 1000;

/// Both give the same answers.
pub(super) enum Access<'a> {
    Server(Remote<'a>),
    Store(MergeEngine, &'a Context),
}

impl Access<'_> {
    pub(super) fn context(&self) -> &Context {
        match self {
            Self::Server(remote) => remote.context,
            Self::Store(_, context) => context,
        }
    }

    pub(super) async fn queues(&self) -> Result<Vec<MergeQueue>, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.merge_queues().await?.items),
            Self::Store(engine, _) => {
                Ok(engine.queues().await?.iter().map(|queue| convert::queue(queue, engine)).collect())
            }
        }
    }

    pub(super) async fn queue(&self, queue: &str) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.merge_queue(queue).await?),
            Self::Store(engine, _) => Ok(convert::queue(&engine.get(&id(queue)).await?.queue, engine)),
        }
    }

    pub(super) async fn add(&self, new: &NewMergeQueue) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.add_merge_queue(new).await?),
            Self::Store(engine, _) => {
                let base = new.base_branch.as_deref().unwrap_or("main");
                let repository = Repository::at(new.location.clone(), new.name.clone());
                engine.examine(&repository, base).await.map_err(EngineError::from)?;
                let namespace = match &new.namespace {
                    Some(name) => Namespace::new(name.clone()).map_err(|invalid| {
                        Failure::new(Exit::Usage, format!("--namespace: {invalid}"))
                            .next("use a valid namespace, such as `team-a`")
                    })?,
                    None => engine.namespace().clone(),
                };
                let queue = engine.add_queue_in(&namespace, repository, base, |_| true).await?;
                if let Some(on_foreign) = new.on_foreign {
                    engine.set_on_foreign(&queue.id, Some(on_foreign)).await?;
                }
                self.queue(&queue.id.0).await
            }
        }
    }

    pub(super) async fn remove(&self, queue: &str, cancel_entries: bool) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => {
                let query = RemoveMergeQuery { cancel_entries: Some(cancel_entries) };
                Ok(remote.client.remove_merge_queue(queue, &query).await?)
            }
            Self::Store(engine, _) => {
                let options = RemoveOptions { cancel_entries, by: Some(local_user()) };
                Ok(convert::queue(&engine.remove_queue(&id(queue), &options).await?, engine))
            }
        }
    }

    pub(super) async fn entries(&self, queue: &str, history: u32) -> Result<MergeEntries, Failure> {
        match self {
            Self::Server(remote) => {
                let query = MergeEntriesQuery { history: Some(history) };
                Ok(remote.client.merge_entries(queue, &query).await?)
            }
            Self::Store(engine, _) => {
                let queue = id(queue);
                let stored = engine.get(&queue).await?.queue;
                let departed = engine.history(&queue, history.into()).await?;
                Ok(convert::entries(&stored, engine.namespace_of(&stored), &departed))
            }
        }
    }

    pub(super) async fn entry(&self, queue: &str, entry: u64) -> Result<MergeEntry, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.merge_entry(queue, entry).await?),
            Self::Store(engine, _) => {
                let queue = id(queue);
                let stored = engine.get(&queue).await?.queue;
                let detail = engine.entry(&queue, EntryId(entry)).await?;
                Ok(convert::entry(&queue, engine.namespace_of(&stored), &detail))
            }
        }
    }

    pub(super) async fn enqueue(&self, queue: &str, new: &NewMergeEntry) -> Result<MergeEntry, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.enqueue_merge(queue, new).await?),
            Self::Store(engine, _) => {
                let priority = new.priority.unwrap_or(PRIORITY_DEFAULT);
                let head = new.sha.as_deref().map(commit).transpose()?;
                let entry = NewEntry { change: new.change.clone(), head, by: Some(local_user()) };
                let at = engine.enqueue(&id(queue), entry, priority).await?;
                self.entry(queue, at.entry.0).await
            }
        }
    }

    /// Newest first, of the last `history` entries that left.
    pub(super) async fn certificates(&self, queue: &str, history: u32) -> Result<MergeCertificates, Failure> {
        match self {
            Self::Server(remote) => {
                let query = MergeEntriesQuery { history: Some(history) };
                Ok(remote.client.merge_certificates(queue, &query).await?)
            }
            Self::Store(engine, _) => {
                let left = engine.history(&id(queue), history.into()).await?;
                Ok(convert::certificates(&left))
            }
        }
    }

    pub(super) async fn cancel(&self, queue: &str, entry: u64) -> Result<MergeEntry, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.cancel_merge(queue, entry).await?),
            Self::Store(engine, _) => {
                engine.cancel(&id(queue), EntryId(entry)).await?;
                self.entry(queue, entry).await
            }
        }
    }

    pub(super) async fn priority(
        &self,
        queue: &str,
        entry: u64,
        priority: u8,
    ) -> Result<MergeEntry, Failure> {
        match self {
            Self::Server(remote) => {
                let put = PutMergePriority { priority };
                Ok(remote.client.set_merge_priority(queue, entry, &put).await?)
            }
            Self::Store(engine, _) => {
                engine.set_priority(&id(queue), EntryId(entry), priority).await?;
                self.entry(queue, entry).await
            }
        }
    }

    pub(super) async fn pause(&self, queue: &str, reason: &str) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => {
                let pause = PauseMerge { reason: Some(reason.to_owned()) };
                Ok(remote.client.pause_merge(queue, &pause).await?)
            }
            Self::Store(engine, _) => {
                engine.pause(&id(queue), reason).await?;
                self.queue(queue).await
            }
        }
    }

    pub(super) async fn resume(&self, queue: &str) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.resume_merge(queue).await?),
            Self::Store(engine, _) => {
                engine.resume(&id(queue)).await?;
                self.queue(queue).await
            }
        }
    }

    pub(super) async fn accept(&self, queue: &str, commit: &str) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => {
                let accept = AcceptMerge { commit: commit.to_owned() };
                Ok(remote.client.accept_merge(queue, &accept).await?)
            }
            Self::Store(engine, _) => {
                engine.accept(&id(queue), &self::commit(commit)?, "weaver merge resume --store").await?;
                self.queue(queue).await
            }
        }
    }

    pub(super) async fn set_on_foreign(
        &self,
        queue: &str,
        on_foreign: Option<OnForeign>,
    ) -> Result<MergeQueue, Failure> {
        match self {
            Self::Server(remote) => {
                Ok(remote.client.set_merge_on_foreign(queue, &PutMergeOnForeign { on_foreign }).await?)
            }
            Self::Store(engine, _) => {
                engine.set_on_foreign(&id(queue), on_foreign).await?;
                self.queue(queue).await
            }
        }
    }

    /// The whole chain, in pages.
    pub(super) async fn chain(&self, queue: &str) -> Result<MergeChainExport, Failure> {
        let Self::Store(engine, _) = self else { return self.chain_of_server(queue).await };
        let export = engine.export(&id(queue)).await?.ok_or_else(|| {
            Failure::new(Exit::NotFound, format!("queue {queue} has no chain yet"))
                .next("it starts with the first landing; `weaver merge run` processes the queue")
        })?;
        Ok(convert::chain_part(&export, None, usize::MAX))
    }

    async fn chain_of_server(&self, queue: &str) -> Result<MergeChainExport, Failure> {
        let Self::Server(remote) = self else { return Err(Failure::new(Exit::Failed, "no server")) };
        let ask = async |before| {
            let query = MergeChainQuery { before, limit: Some(CHAIN_PAGE) };
            remote.client.merge_chain(queue, &query).await
        };
        let mut all = ask(None).await?;
        while let Some(before) = all.next {
            let page = ask(Some(before)).await?;
            all.links.extend(page.links);
            all.next = page.next;
        }
        Ok(all)
    }

    /// Verifies a page of the chain.
    pub(super) async fn verify_chain(&self, queue: &str, from: u64) -> Result<MergeChainVerified, Failure> {
        match self {
            Self::Server(remote) => {
                let query = MergeVerifyQuery { from: Some(from), limit: None };
                Ok(remote.client.verify_merge_chain(queue, &query).await?)
            }
            Self::Store(engine, _) => {
                Ok(convert::chain_verified(&engine.verify_all(&id(queue), from..u64::MAX).await?, None))
            }
        }
    }

    pub(super) async fn verify(&self, queue: &str, entry: u64) -> Result<MergeVerified, Failure> {
        match self {
            Self::Server(remote) => Ok(remote.client.verify_merge(queue, entry).await?),
            Self::Store(engine, _) => {
                let verified = engine.verify(&id(queue), EntryId(entry)).await?;
                verified.as_ref().map(convert::verified).ok_or_else(|| {
                    Failure::new(Exit::NotFound, format!("entry {entry} has not landed"))
                        .next("`weaver merge status` shows the landed entries")
                })
            }
        }
    }
}

fn commit(text: &str) -> Result<Oid, Failure> {
    text.parse().map_err(|error: BadOid| {
        Failure::new(Exit::Usage, error.to_string()).next("give the full commit hash")
    })
}

/// The same name as over the server's Unix socket.
fn local_user() -> String {
    local_subject(rustix::process::getuid().as_raw())
}

fn id(queue: &str) -> QueueId {
    QueueId(queue.to_owned())
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let exit = match &error {
            EngineError::Store(error) => return Self::from(error.clone()),
            EngineError::NoQueue(_) | EngineError::Merge(MergeError::EntryNotFound(_)) => Exit::NotFound,
            EngineError::Merge(_) => Exit::Refused,
            EngineError::Busy => Exit::Busy,
            _ => Exit::Failed,
        };
        let message = error.to_string();
        // The same hint as from a server.
        Self::new(exit, message).next(Problem::from(error).to_wire().hint)
    }
}
