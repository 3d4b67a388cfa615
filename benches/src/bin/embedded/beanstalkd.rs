//! Draining 50,000 tasks, beside beanstalkd with a sync per write.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::{ROUNDS, Samples, per_second, verdict};
use weaver_embedded::EmbeddedOptions;

use crate::disk::Scratch;
use crate::weaver::{self, PAYLOAD_BYTES, Subject};
use weaver_core::prelude::*;

const TASKS: usize = 50_000;
const CLIENTS: usize = 64;
const PORT: u16 = 21_300;

pub fn run(runtime: &Runtime) -> bool {
    println!("draining {TASKS} tasks with {CLIENTS} clients, one task per call, medians of {ROUNDS} rounds");
    let (mut mine, mut theirs) = (Samples::default(), Samples::default());
    for round in 0..=ROUNDS {
        let one = drain_weaver(runtime);
        let other = drain_beanstalkd();
        if round > 0 {
            mine.push(one);
            theirs.push(other);
        }
        eprint!("\r  round {round}/{ROUNDS}");
    }
    eprint!("\r                \r");
    println!("       weaver: {:.0} tasks/s ± {:.0} %", mine.median(), mine.spread() * 100.0);
    println!(
        "       beanstalkd -b DIR -f0: {:.0} tasks/s ± {:.0} %",
        theirs.median(),
        theirs.spread() * 100.0
    );
    verdict("weaver / beanstalkd", mine.median() / theirs.median(), 5.0, true)
}

fn drain_weaver(runtime: &Runtime) -> f64 {
    let subject = Subject::new("drain", EmbeddedOptions::default());
    let store = &subject.store;
    for _ in 0..TASKS / 5_000 {
        runtime.block_on(store.enqueue_batch(vec![weaver::task(); 5_000])).expect("valid");
    }
    let begun = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let store = Arc::clone(store);
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
    // It has no way to say that it is ready.
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
