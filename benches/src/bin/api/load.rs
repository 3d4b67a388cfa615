//! Closed-loop load over keep-alive connections. Hand-written, so that the load generator is cheap; it is the
//! same for every subject.

use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::CONNECTIONS;
use crate::server::Server;

pub struct Load {
    connections: Vec<TcpStream>,
    request: Vec<u8>,
}

/// Result of one round.
pub struct Round {
    pub took: Duration,
    /// Latency of every request, in microseconds.
    pub latencies_us: Vec<f64>,
}

impl Load {
    /// Connects, with the same body for every request.
    pub fn new(runtime: &Runtime, server: &Server, body: &str) -> Self {
        let host = server.address.trim_start_matches("http://");
        let token =
            server.token.as_ref().map_or(String::new(), |token| format!("authorization: Bearer {token}\r\n"));
        let request = format!(
            "POST /api/v1/tasks HTTP/1.1\r\nhost: {host}\r\n{token}content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let connect = async {
            let mut connections = Vec::new();
            for _ in 0..CONNECTIONS {
                let connection = TcpStream::connect(host).await.expect("a connection");
                connection.set_nodelay(true).expect("a socket");
                connections.push(connection);
            }
            connections
        };
        Self { connections: runtime.block_on(connect), request: request.into_bytes() }
    }

    /// Sends this many requests over every connection.
    pub fn round(&mut self, runtime: &Runtime, each: usize) -> Round {
        let started = Instant::now();
        let asking: Vec<_> = std::mem::take(&mut self.connections)
            .into_iter()
            .map(|connection| runtime.spawn(ask(connection, self.request.clone(), each)))
            .collect();
        let mut latencies_us = Vec::new();
        for asked in asking {
            let (connection, latencies) = runtime.block_on(asked).expect("no panic");
            self.connections.push(connection);
            latencies_us.extend(latencies);
        }
        Round { took: started.elapsed(), latencies_us }
    }
}

async fn ask(mut connection: TcpStream, request: Vec<u8>, each: usize) -> (TcpStream, Vec<f64>) {
    let mut answer = Vec::with_capacity(256 * 1024);
    let mut latencies = Vec::with_capacity(each);
    for _ in 0..each {
        let sent = Instant::now();
        connection.write_all(&request).await.expect("sent");
        answer.clear();
        loop {
            let read = connection.read_buf(&mut answer).await.expect("read");
            assert!(read > 0, "the server closed the connection");
            if is_whole(&answer) {
                break;
            }
        }
        assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
        latencies.push(sent.elapsed().as_secs_f64() * 1e6);
    }
    (connection, latencies)
}

/// Whether the headers and the announced body are complete.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else { return false };
    let headers = std::str::from_utf8(&answer[..end]).expect("headers are text");
    let length = headers.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().expect("a number"))
    });
    answer.len() >= end + 4 + length.expect("every answer here has a length")
}
