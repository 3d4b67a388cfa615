//! The connection to the server: cut between any two packets, lost for a while, encrypted.

mod support;

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use support::Schema;
use support::proxy::Proxy;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use weaver_core::clock::{Clock, Sleep};
use weaver_core::event::Changes;
use weaver_core::lease::{Renewal, Renewed};
use weaver_core::lifecycle::{Command, decide};
use weaver_core::ports::Tasks;
use weaver_core::prelude::*;
use weaver_core::queue::Committed;
use weaver_core::time::Monotonic;
use weaver_postgres::{OpenError, PostgresOptions, PostgresStore};
use weaver_runtime::SystemClock;
use weaver_testkit::services::postgres::Private;

async fn open(url: &str) -> Result<PostgresStore, OpenError> {
    let options = PostgresOptions::parse(url).expect("the URL can be read");
    PostgresStore::open(options, Arc::new(SystemClock::new())).await
}

/// Repeats a call until it is answered, as every caller does after a cut.
async fn answered<T, F: Future<Output = Result<T>>>(call: impl Fn() -> F) -> T {
    for _ in 0..100 {
        match call().await {
            Ok(answer) => return answer,
            Err(Error::Unavailable { .. }) => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store does not recover");
}

/// Two tasks from enqueue to end, one that fails once and then succeeds, one that is cancelled; every call is
/// repeated until it is answered. Compares what is stored with the answers.
async fn two_lives(store: &PostgresStore, number: u64) {
    let namespace = Namespace::new(format!("n{number}")).expect("a name");
    let task = |name: &str| {
        let task =
            NewTask::new("t").namespace(namespace.as_str().to_owned()).idempotency_key(name.to_owned());
        task.retry(RetryPolicy::Fixed { delay: Duration::ZERO })
    };
    let enqueued = answered(|| store.enqueue_batch(vec![task("a"), task("b")])).await;
    let keys: Vec<TaskKey> = enqueued.into_iter().map(|each| each.expect("it is stored").key).collect();
    let worker = WorkerId::new("w").expect("a name");
    for (attempt, outcome) in [(1, Outcome::failed("once")), (2, Outcome::DONE)] {
        let token = LeaseToken((number * 10 + attempt).into());
        let request = LeaseRequest::new(namespace.clone(), QueueName::default(), worker.clone(), token);
        // The retried first task would queue behind the second, so both are leased.
        let mut leased = answered(|| store.lease(LeaseRequest { max: 2, slots: 2, ..request.clone() })).await;
        leased.retain(|each| each.lease.key == keys[0]);
        let leased = leased.pop().expect("it is due");
        let renewed = answered(|| store.renew(vec![Renewal::of(leased.lease.clone())])).await;
        assert_eq!(renewed, [Renewed::Extended]);
        let command = Command::Finish { lease: leased.lease.clone(), outcome };
        let end = decide(&leased.record, command, leased.record.updated_at).expect("it holds the lease");
        let made = answered(|| store.commit(vec![end.clone()], None)).await;
        assert_ne!(made, [Committed::Stale], "no other worker had it");
    }
    match store.cancel(&keys[1]).await {
        Ok(()) | Err(Error::Unavailable { .. }) => {}
        Err(error) => panic!("{error}"),
    }
    // Repeating a cancel without an answer shows whether it was applied: then the task has ended already.
    let again = store.cancel(&keys[1]).await;
    assert!(matches!(again, Ok(()) | Err(Error::Refused { .. } | Error::Unavailable { .. })), "{again:?}");
    let found = answered(|| store.get_tasks(&keys)).await;
    let (first, second) = (found[0].as_ref().expect("there"), found[1].as_ref().expect("there"));
    assert_eq!((first.state, first.executions, first.failures), (TaskState::Succeeded, 2, 1));
    assert_eq!((first.version.0, first.attempts.len()), (5, 2), "each transition was applied once");
    assert_eq!((second.state, second.executions), (TaskState::Cancelled, 1));
}

#[tokio::test]
async fn a_connection_cut_between_any_two_packets_loses_and_duplicates_nothing() {
    let schema = Schema::new();
    let (proxy, through) = Proxy::to(&schema.url()).await;
    // LISTEN connects directly: only packets of calls are counted.
    let direct = schema.server_url().replace(':', "%3A").replace('/', "%2F").replace('@', "%40");
    let store = open(&format!("{through}&pool_max=1&listen_url={direct}")).await.expect("it opens");
    let follower = open(&schema.url()).await.expect("it opens");
    let begin = follower.changes(None, 1).await.expect("it answers");
    let (Changes::Next { next, .. } | Changes::Resync { next }) = begin;
    let mut cuts = 0;
    for packets in 0.. {
        for delivers in [false, true] {
            proxy.cut_after(packets, delivers);
            two_lives(&store, packets as u64 * 2 + u64::from(delivers)).await;
            cuts += u64::from(proxy.was_cut());
        }
        if !proxy.was_cut() {
            break;
        }
    }
    assert!(cuts > 30, "two tasks take more than {cuts} packets");
    // G10, whatever was cut: every transition is published, in order per task, and none twice.
    let Changes::Next { items, .. } = follower.changes(Some(next), 100_000).await.expect("it answers") else {
        panic!("nothing was missed");
    };
    let mut last = std::collections::HashMap::new();
    for change in items {
        let before = last.insert(change.key.clone(), change.version.0).unwrap_or(0);
        assert_eq!(change.version.0, before + 1, "{} in order, each once", change.key);
    }
    schema.drop(follower.pool()).await;
}

/// Collects the store's log messages.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<(Level, String)>>>);

struct Message<'a>(&'a mut String);

impl Visit for Message<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            *self.0 = format!("{value:?}");
        }
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("weaver_postgres") && *metadata.level() <= Level::INFO
    }
    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut text = String::new();
        event.record(&mut Message(&mut text));
        self.0.lock().push((*event.metadata().level(), text));
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

/// A clock whose sleeps return at once and are recorded.
#[derive(Debug)]
struct Hasty {
    clock: SystemClock,
    slept: Arc<Mutex<Vec<Duration>>>,
}

impl Clock for Hasty {
    fn now(&self) -> Timestamp {
        self.clock.now()
    }
    fn monotonic(&self) -> Monotonic {
        self.clock.monotonic()
    }
    fn sleep_until(&self, deadline: Monotonic) -> Sleep {
        self.slept.lock().push(deadline.0.saturating_sub(self.clock.monotonic().0));
        Box::pin(tokio::task::yield_now())
    }
}

async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let looking = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), looking)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen in time"));
}

#[tokio::test]
async fn a_lost_server_causes_one_warning_growing_backoff_and_a_reconnect() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let schema = Schema::new();
    let (proxy, through) = Proxy::to(&schema.url()).await;
    let slept = Arc::new(Mutex::new(Vec::new()));
    let clock = Arc::new(Hasty { clock: SystemClock::new(), slept: Arc::clone(&slept) });
    let options =
        PostgresOptions::parse(&format!("{through}&acquire_timeout_ms=500")).expect("it can be read");
    let store = PostgresStore::open(options, clock).await.expect("it opens");
    until("the listener", || proxy.connections() >= 3).await;
    proxy.down(true);
    until("ten attempts", || slept.lock().len() >= 10).await;
    let refused = store.get_tasks(&[]).await.err().or(store.cancel(&absent()).await.err());
    assert!(matches!(refused, Some(Error::Unavailable { .. })), "{refused:?}");
    proxy.down(false);
    until("the reconnect", || {
        log.0.lock().iter().any(|(_, text)| text.contains("reconnected to PostgreSQL"))
    })
    .await;
    let logged = log.0.lock().clone();
    let warnings: Vec<_> = logged.iter().filter(|(level, _)| *level == Level::WARN).collect();
    assert_eq!(warnings.len(), 1, "one clear warning, not one per attempt: {logged:?}");
    assert!(warnings[0].1.contains("lost the connection to PostgreSQL"), "{warnings:?}");
    let slept: Vec<u128> =
        slept.lock().iter().take(9).map(|span| span.as_millis().next_multiple_of(100)).collect();
    assert_eq!(slept, [100, 200, 400, 800, 1600, 3200, 5000, 5000, 5000], "the backoff grows to its maximum");
    answered(|| store.enqueue_batch(vec![NewTask::new("t")])).await;
    schema.drop(store.pool()).await;
}

fn absent() -> TaskKey {
    TaskKey::new(Namespace::default(), TaskId(1))
}

#[tokio::test]
async fn tls_verifies_the_servers_name_and_its_certificate_authority() {
    let server = Private::durable();
    let certify = || rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let (certified, foreign) = (certify(), certify());
    let certificate = server.install("server.crt", &certified.cert.pem());
    let key = server.install("server.key", &certified.signing_key.serialize_pem());
    let pool = sqlx::PgPool::connect(&server.url()).await.expect("the server answers");
    for (name, value) in [
        ("ssl", "on".to_owned()),
        ("ssl_cert_file", certificate.display().to_string()),
        ("ssl_key_file", key.display().to_string()),
    ] {
        let text = format!("ALTER SYSTEM SET {name} = '{value}'");
        sqlx::query(sqlx::AssertSqlSafe(text)).execute(&pool).await.expect("the server answers");
    }
    pool.close().await;
    server.stop("fast");
    server.restart();
    let place = std::env::temp_dir().join(format!("weaver-test-tls-{}", std::process::id()));
    std::fs::create_dir_all(&place).expect("a directory");
    let root = |name: &str, pem: String| {
        std::fs::write(place.join(name), pem).expect("a file");
        place.join(name).display().to_string()
    };
    let (right, wrong) = (root("right.pem", certified.cert.pem()), root("wrong.pem", foreign.cert.pem()));
    let by_name = server.url().replace("127.0.0.1", "localhost");
    let store =
        open(&format!("{by_name}?sslmode=verify-full&sslrootcert={right}")).await.expect("it is trusted");
    let text = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
    let encrypted: bool = sqlx::query_scalar(text).fetch_one(store.pool()).await.expect("the server answers");
    assert!(encrypted);
    for (url, why) in [(&by_name, &wrong), (&server.url(), &right)] {
        let refused =
            open(&format!("{url}?sslmode=verify-full&sslrootcert={why}")).await.expect_err("not trusted");
        assert!(matches!(refused, OpenError::Connect { .. }), "{refused}");
    }
    drop(store);
    std::fs::remove_dir_all(&place).expect("it is ours");
}
