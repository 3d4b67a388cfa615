//! Idle workers on one server, each with its own long poll: `cargo xtask bench idle [workers]` (default
//! 10,000).
//!
//! The workers are connections of a second process, so that the memory of the first is the server's: the
//! limit on open files counts for each process, and 10,000 of them fit where the hard limit is above 10,600.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;
use weaver_core::clock::Clock;
use weaver_core::queue::QueueExt;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_core::task::NewTask;
use weaver_runtime::SystemClock;
use weaver_server::api::AppState;
use weaver_server::dashboard::site;
use weaver_server::security::{Guard, GuardOptions, NamespaceScope, NewToken, Role, Tokens};
use weaver_server::serve::{raise_file_limit, serve};

const WORKERS: usize = 10_000;
/// The argument of the process that holds the connections.
const CLIENT: &str = "client";

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    raise_file_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime");
    match &args[..] {
        [role, address, token, workers] if role == CLIENT => {
            let workers = workers.parse().expect("a number");
            runtime.block_on(hold(address.parse().expect("an address"), token, workers));
        }
        _ => {
            let workers = args.first().map_or(WORKERS, |text| text.parse().expect("how many workers"));
            runtime.block_on(measure(workers));
        }
    }
}

async fn measure(workers: usize) {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(Arc::clone(&clock)));
    let tokens = Arc::new(Tokens::new(store.clone(), Arc::clone(&clock)));
    let new = NewToken {
        name: "idle".to_owned(),
        role: Role::Worker,
        namespaces: NamespaceScope::All,
        may_exec: false,
        expires_at: None,
        created_by: "the benchmark".to_owned(),
    };
    let (token, _) = tokens.create(new).await.expect("a token");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let listen = listener.local_addr().expect("it is bound");
    let guard = GuardOptions {
        tokens: Some(tokens.clone()),
        clock: Arc::clone(&clock),
        listen,
        hosts: Vec::new(),
        tls: false,
        behind_proxy: false,
    };
    let state = AppState::new(store.clone(), clock).with_tokens(tokens);
    let router = site(state.clone(), Arc::new(Guard::new(guard).expect("no hosts")));
    let stop = CancellationToken::new();
    let serving = tokio::spawn(serve(listener, router, state, stop.clone()));
    health(listen).await;
    let before = resident_kib();
    let started = Instant::now();
    let mut client = Command::new(std::env::current_exe().expect("this program"))
        .args([CLIENT, &listen.to_string(), token.expose(), &workers.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .expect("a second process");
    let mut said = BufReader::new(client.stdout.take().expect("it is piped"));
    let line = tokio::task::spawn_blocking(move || {
        let mut line = String::new();
        said.read_line(&mut line).map(|_| line)
    });
    let line = line.await.expect("it reads").expect("it prints a line when all wait");
    let connected = started.elapsed();
    // By now, or within a moment, all requests have been read and wait.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let after = resident_kib();
    let mut healths: Vec<Duration> = Vec::new();
    for _ in 0..100 {
        let asked = Instant::now();
        health(listen).await;
        healths.push(asked.elapsed());
    }
    healths.sort();
    let asked = Instant::now();
    let enqueued = store.enqueue(NewTask::new("t")).await.expect("in memory");
    while store.get_task(&enqueued.key).await.expect("it is there").executions == 0 {
        tokio::task::yield_now().await;
    }
    let woken = asked.elapsed();
    println!("{} workers wait ({}) after {connected:.1?}", workers, line.trim());
    println!(
        "memory per idle worker: {:.1} KiB ({before} KiB before, {after} KiB with all)",
        (after - before) as f64 / workers as f64
    );
    println!("/healthz beside them: {:.2?} median, {:.2?} at most", healths[50], healths[99]);
    println!("a task reaches one of them after {woken:.2?}");
    client.kill().expect("it runs");
    client.wait().expect("it ends");
    stop.cancel();
    serving.await.expect("it ends in order");
}

/// Opens the connections, prints that, and keeps them: each polls again after its answer.
async fn hold(address: SocketAddr, token: &str, workers: usize) {
    let mut connections = Vec::with_capacity(workers);
    for number in 0..workers {
        let mut stream = TcpStream::connect(address).await.expect("the server listens");
        stream.write_all(poll(address, token, number).as_bytes()).await.expect("the server reads");
        connections.push(stream);
    }
    println!("{workers} connections");
    let again = connections.into_iter().enumerate().map(|(number, mut stream)| {
        let poll = poll(address, token, number);
        tokio::spawn(async move {
            let mut answer = vec![0; 1024];
            // An answer fits one read unless it has a task in it; either way the next poll follows.
            while stream.read(&mut answer).await.is_ok_and(|read| read > 0) {
                if stream.write_all(poll.as_bytes()).await.is_err() {
                    return;
                }
            }
        })
    });
    for connection in again.collect::<Vec<_>>() {
        connection.await.expect("it does not panic");
    }
}

fn poll(address: SocketAddr, token: &str, number: usize) -> String {
    let body = format!("{{\"worker\":\"w{number}\",\"token\":\"{number:032x}\",\"wait_ms\":30000}}");
    format!(
        "POST /api/v1/work/lease HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

async fn health(address: SocketAddr) {
    let mut stream = TcpStream::connect(address).await.expect("the server listens");
    let request = format!("GET /healthz HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("the server answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("it has one");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}
