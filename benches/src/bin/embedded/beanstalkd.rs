//! Draining 50,000 tasks, compared with beanstalkd with one fsync per write.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use weaver_benches::scratch::Scratch;
use weaver_benches::{ROUNDS, Samples, per_second, verdict};
use weaver_embedded::EmbeddedOptions;
use weaver_runtime::{Ctx, LocalSource, Registry, Shutdown, SystemClock, TaskError, Worker};

use crate::weaver::{self, PAYLOAD_BYTES, Subject};
use weaver_core::prelude::*;

const TASKS: usize = 50_000;
const CLIENTS: usize = 64;
const PORT: u16 = 21_300;

pub fn run(runtime: &Runtime) -> bool {
    println!("draining {TASKS} tasks, medians of {ROUNDS} rounds");
    let [mut worker, mut calls, mut theirs] = [const { Vec::new() }; 3].map(|_: Vec<f64>| Samples::default());
    for round in 0..=ROUNDS {
        let measurements = [drain_by_worker(runtime), drain_by_calls(runtime), drain_beanstalkd()];
        if round > 0 {
            for (samples, measurement) in [&mut worker, &mut calls, &mut theirs].into_iter().zip(measurements)
            {
                samples.push(measurement);
            }
        }
        eprint!("\r  round {round}/{ROUNDS}");
    }
    eprint!("\r                \r");
    let print = |name: &str, samples: &Samples| {
        println!("       {name}: {:.0} tasks/s ± {:.0} %", samples.median(), samples.spread() * 100.0);
    };
    print(&format!("a weaver worker running {CLIENTS} at once (leases and ends in batches)"), &worker);
    print(&format!("{CLIENTS} weaver clients, one task per call"), &calls);
    print(&format!("beanstalkd -b DIR -f0, {CLIENTS} connections"), &theirs);
    let ratio = calls.median() / theirs.median();
    println!("       weaver, one task per call / beanstalkd: {ratio:.2} × (reported)");
    verdict("a weaver worker / beanstalkd", worker.median() / theirs.median(), 5.0, true)
}

/// A store with all tasks enqueued.
fn filled(runtime: &Runtime) -> Subject {
    let subject = Subject::new("drain", EmbeddedOptions::default());
    for _ in 0..TASKS / 5_000 {
        runtime.block_on(subject.store.enqueue_batch(vec![weaver::task(); 5_000])).expect("valid");
    }
    subject
}

fn drain_by_worker(runtime: &Runtime) -> f64 {
    let subject = filled(runtime);
    let done = Arc::new((AtomicUsize::new(0), Notify::new()));
    let counted = Arc::clone(&done);
    let registry = Registry::new().handle("bench", move |_: String, _: Ctx| {
        let counted = Arc::clone(&counted);
        async move {
            if counted.0.fetch_add(1, Ordering::Relaxed) + 1 == TASKS {
                counted.1.notify_one();
            }
            Ok::<_, TaskError>(())
        }
    });
    let registry = registry.expect("a name");
    let source = Arc::new(LocalSource::new(subject.store.clone()));
    let worker =
        Worker::builder(source, Arc::new(SystemClock::new())).registry(registry).concurrency(CLIENTS as u32);
    let worker = worker.build().expect("a worker");
    runtime.block_on(async {
        let begun = Instant::now();
        let shutdown = Shutdown::new();
        let running = tokio::spawn(worker.run(shutdown.clone()));
        done.1.notified().await;
        // Until the last outcomes are synced.
        shutdown.request();
        running.await.expect("it ends well");
        per_second(TASKS as u64, begun.elapsed())
    })
}

fn drain_by_calls(runtime: &Runtime) -> f64 {
    let subject = filled(runtime);
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let store = Arc::clone(&subject.store);
            runtime.spawn(async move {
                let mut done = 0;
                loop {
                    let leased = store.lease(weaver::request(1)).await.expect("the store answers");
                    if leased.is_empty() {
                        return done;
                    }
                    weaver::end(&store, &leased).await;
                    done += leased.len();
                }
            })
        })
        .collect();
    let done: usize = clients.into_iter().map(|client| runtime.block_on(client).expect("it ends well")).sum();
    assert_eq!(done, TASKS);
    per_second(TASKS as u64, begun.elapsed())
}

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn drain_beanstalkd() -> f64 {
    let scratch = Scratch::new("beanstalkd");
    let port = PORT.to_string();
    let mut command = Command::new("beanstalkd");
    command.args(["-l", "127.0.0.1", "-p", &port, "-f0", "-b"]).arg(scratch.path());
    let server = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let _server = Server(server.expect("beanstalkd starts: apt-get update && apt-get install beanstalkd"));
    let mut first = connect();
    let body = "x".repeat(PAYLOAD_BYTES);
    // Filling is not measured; one connection sends many and reads the answers afterwards.
    for _ in 0..TASKS / 500 {
        let puts = format!("put 5 0 600 {PAYLOAD_BYTES}\r\n{body}\r\n").repeat(500);
        first.get_mut().write_all(puts.as_bytes()).expect("it listens");
        for _ in 0..500 {
            assert!(line(&mut first).starts_with("INSERTED"));
        }
    }
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS).map(|_| std::thread::spawn(drain_one)).collect();
    let done: usize = clients.into_iter().map(|client| client.join().expect("it ends well")).sum();
    assert_eq!(done, TASKS);
    per_second(TASKS as u64, begun.elapsed())
}

fn drain_one() -> usize {
    let mut connection = connect();
    let mut done = 0;
    loop {
        connection.get_mut().write_all(b"reserve-with-timeout 0\r\n").expect("it listens");
        let answer = line(&mut connection);
        let Some(rest) = answer.strip_prefix("RESERVED ") else { return done };
        let id = rest.split(' ').next().expect("an id").to_owned();
        line(&mut connection);
        connection.get_mut().write_all(format!("delete {id}\r\n").as_bytes()).expect("it listens");
        assert_eq!(line(&mut connection), "DELETED");
        done += 1;
    }
}

fn connect() -> BufReader<TcpStream> {
    // It does not announce that it is ready.
    for _ in 0..200 {
        if let Ok(stream) = TcpStream::connect(("127.0.0.1", PORT)) {
            stream.set_nodelay(true).expect("a socket");
            return BufReader::new(stream);
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("beanstalkd does not listen on port {PORT}");
}

fn line(connection: &mut BufReader<TcpStream>) -> String {
    let mut text = String::new();
    connection.read_line(&mut text).expect("it answers");
    text.trim_end().to_owned()
}
