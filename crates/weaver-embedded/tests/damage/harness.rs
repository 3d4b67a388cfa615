//! A store with records of every kind, and the allowed outcomes of a fault.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use weaver_core::clock::{Clock, ManualClock};
use weaver_core::error::Error;
use weaver_core::id::{LeaseToken, TaskKey};
use weaver_core::lease::LeaseRequest;
use weaver_core::lifecycle::{Command, decide};
use weaver_core::name::Namespace;
use weaver_core::outcome::Outcome;
use weaver_core::ports::{DocumentKey, Expect, Store, StreamKey};
use weaver_core::task::{ContentType, NewTask};
use weaver_embedded::{EmbeddedOptions, EmbeddedStore, Medium, StoreError};
use weaver_testkit::harness::{queue, worker};

use crate::support::contents::{Contents, KIND, STREAMS};
use crate::support::ram::RamMedium;

/// Blocks on a future.
pub(crate) fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime can be made").block_on(future)
}

pub(crate) fn open_on(medium: impl Medium + 'static) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open_on(Arc::new(medium), clock(), EmbeddedOptions::default(), false)
}

pub(crate) fn open_in(directory: &Path) -> Result<EmbeddedStore, StoreError> {
    EmbeddedStore::open_with(directory, clock(), EmbeddedOptions::default(), Arc::new(|_| {}))
}

fn clock() -> Arc<dyn Clock> {
    Arc::new(ManualClock::default())
}

pub(crate) fn contents(store: &dyn Store) -> Result<Contents, Error> {
    wait(Contents::read(store, &Namespace::default()))
}

/// Enqueues one task with a payload of this many bytes.
pub(crate) fn enqueue(store: &dyn Store, bytes: usize) -> Result<TaskKey, Error> {
    let task = NewTask::new("t").queue("a").payload(vec![b'p'; bytes], ContentType::JSON);
    let answers = wait(store.enqueue_batch(vec![task]))?;
    answers.into_iter().next().expect("one answer").map(|enqueued| enqueued.key)
}

/// Queued, running and finished tasks, documents and journal entries: enough for pages of every kind.
pub(crate) fn fill(store: &dyn Store) -> Contents {
    for number in 0..120 {
        let task = NewTask::new("t")
            .queue("a")
            .payload(vec![b'p'; 40 * (number % 30)], ContentType::JSON)
            .task_group_id(format!("group-{}", number % 5))
            .idempotency_key(format!("key-{number}"));
        wait(store.enqueue_batch(vec![task])).expect("the store answers");
    }
    let request = LeaseRequest::new(Namespace::default(), queue("a"), worker("w"), LeaseToken(7));
    let leased = wait(store.lease(LeaseRequest { max: 60, slots: 60, ..request })).expect("it answers");
    for leased in leased.iter().take(40) {
        let command = Command::Finish { lease: leased.lease.clone(), outcome: Outcome::DONE };
        let transition = decide(&leased.record, command, leased.record.updated_at).expect("it is leased");
        let _ = wait(store.commit(vec![transition], None)).expect("the store answers");
    }
    for number in 0..10 {
        let key = DocumentKey::new(Namespace::default(), KIND, format!("doc-{number}"));
        let body = Bytes::from(vec![b'd'; 300 * number]);
        wait(store.put_document(&key, body, Expect::Anything, None)).expect("the store answers");
        let stream = StreamKey::new(Namespace::default(), STREAMS[number % STREAMS.len()]);
        let bodies = [Bytes::from(vec![b'j'; 500]), Bytes::from_static(b"short")];
        wait(store.append_entries(&stream, &bodies)).expect("the store answers");
    }
    contents(store).expect("the store answers")
}

/// The bytes of such a store: closed cleanly, and as a killed process leaves them.
pub(crate) struct Images {
    pub(crate) clean: Vec<u8>,
    pub(crate) unclean: Vec<u8>,
    pub(crate) contents: Contents,
}

pub(crate) fn images() -> Images {
    let medium = RamMedium::new();
    let store = open_on(medium.clone()).expect("an empty medium opens");
    let contents = fill(&store);
    let unclean = medium.bytes();
    drop(store);
    Images { clean: medium.bytes(), unclean, contents }
}

/// Outcome of opening a damaged store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Same,
    /// Refused, with an error that names the file.
    Refused,
}

/// Opens what is on the medium. Anything but the same data or a clear refusal is an error.
pub(crate) fn fate(medium: &RamMedium, wanted: &Contents) -> Result<Fate, String> {
    let store = match open_on(medium.clone()) {
        Ok(store) => store,
        Err(error) => {
            let text = error.to_string();
            let is_clear = matches!(error, StoreError::Damaged { .. }) && text.contains(&medium.name());
            return if is_clear { Ok(Fate::Refused) } else { Err(format!("refused with `{text}`")) };
        }
    };
    let found = contents(&store).map_err(|error| format!("it opened, and then: {error}"))?;
    if found != *wanted {
        return Err("it opened, and shows other data".to_owned());
    }
    let report = store.check().map_err(|error| format!("it opened, and then: {error}"))?;
    if report.is_clean() { Ok(Fate::Same) } else { Err(format!("a check found {:?}", report.problems)) }
}
