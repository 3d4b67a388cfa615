//! Workers of this process on a store: when it is killed, other processes of this user on this machine need
//! not wait until its leases expire.

use std::sync::Arc;

use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::runtime::{LocalSource, ProcessLock, Worker, WorkerBuilder};

use super::places::{Places, make_private};
use crate::exit::Failure;
use crate::wiring::StoreUrl;

#[derive(Clone)]
pub(crate) struct LocalWorkers {
    store: Arc<dyn Store>,
    lock: Option<Arc<ProcessLock>>,
}

impl LocalWorkers {
    /// Call it once per process: all its workers share the lock.
    pub(crate) fn new(store: &Arc<dyn Store>, url: &StoreUrl) -> Self {
        let lock = acquire(url).map(Arc::new).map_err(|reason| {
            tracing::info!(%reason, "no lock for this process; if it is killed, its leases have to expire");
        });
        Self { store: Arc::clone(store), lock: lock.ok() }
    }

    pub(crate) fn builder(&self, clock: &Arc<dyn Clock>) -> WorkerBuilder {
        let source = LocalSource::new(Arc::clone(&self.store));
        match &self.lock {
            Some(lock) => {
                let source = source.with_process_lock(Arc::clone(lock));
                Worker::builder(Arc::new(source), Arc::clone(clock)).tokens(lock.tokens())
            }
            None => Worker::builder(Arc::new(source), Arc::clone(clock)),
        }
    }
}

fn acquire(url: &StoreUrl) -> Result<ProcessLock, Failure> {
    let places = Places::of_process();
    make_private(&places.workers, places.uid)?;
    // The same text from every working directory.
    let directory = url.place().and_then(|place| place.canonicalize().ok());
    let store = directory.map_or_else(|| url.to_string(), |place| place.to_string_lossy().into_owned());
    ProcessLock::acquire(&places.workers, &store).map_err(|error| Failure::io(&places.workers, &error))
}
