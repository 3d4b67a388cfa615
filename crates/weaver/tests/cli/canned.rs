//! A server whose answers are written down, for what a real one does not do on demand. It answers on the
//! thread of the test, while the command runs.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use crate::support::{Place, Run};

/// A request as it came.
pub(crate) struct Request {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// Runs a command against a server that gives these answers (status and JSON), one per request.
pub(crate) fn run(place: &Place, arguments: &str, answers: &[(u16, &str)]) -> (Vec<Request>, Run) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = format!("http://{}", listener.local_addr().expect("it is bound"));
    run_of(place.command(arguments).env("WEAVER_SERVER", address), &listener, answers)
}

/// The same for a command that has its own idea of where to go, and a listener that it may come to.
pub(crate) fn run_of(
    command: &mut Command,
    listener: &TcpListener,
    answers: &[(u16, &str)],
) -> (Vec<Request>, Run) {
    let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary starts");
    let requests =
        answers.iter().map_while(|(status, body)| Some(answer(&next(listener, &mut child)?, *status, body)));
    let requests = requests.collect();
    (requests, Run::from(child.wait_with_output().expect("it ends")))
}

/// The next connection; none if the command has ended instead.
fn next(listener: &TcpListener, child: &mut Child) -> Option<TcpStream> {
    listener.set_nonblocking(true).expect("sockets can do that");
    loop {
        let has_ended = child.try_wait().expect("it is our child").is_some();
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).expect("sockets can do that");
                return Some(stream);
            }
            Err(_) if has_ended => return None,
            Err(_) => std::thread::yield_now(),
        }
    }
}

fn answer(mut stream: &TcpStream, status: u16, body: &str) -> Request {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).expect("the command sends text");
        if line.trim_end().is_empty() {
            break;
        }
        lines.push(line.trim_end().to_owned());
    }
    let length = lines
        .iter()
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut sent = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut sent).expect("the body is as long as it says");
    let kind = if status < 400 { "application/json" } else { "application/problem+json" };
    let head = format!(
        "HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).expect("the command listens");
    let line = lines.first().map(|line| line.trim_end_matches(" HTTP/1.1").to_owned()).unwrap_or_default();
    Request { line, head: lines.join("\n"), body: String::from_utf8(sent).expect("bodies are JSON") }
}
