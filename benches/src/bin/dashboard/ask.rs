//! The requests of one browser: one connection, one request after the other.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::Instant;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weaver_benches::Samples;

pub struct Site {
    pub address: SocketAddr,
    pub cookie: String,
    /// A static page on another server.
    pub still: SocketAddr,
}

/// Result for one page.
pub struct Page {
    /// Latencies in milliseconds, sorted.
    pub times: Samples,
    pub bytes: usize,
    pub packed: usize,
}

struct Connection {
    stream: TcpStream,
    address: SocketAddr,
    cookie: String,
}

impl Connection {
    async fn open(address: SocketAddr, cookie: &str) -> Self {
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a socket");
        Self { stream, address, cookie: cookie.to_owned() }
    }

    /// Headers and body of a GET.
    async fn get(&mut self, path: &str) -> (String, Vec<u8>) {
        let request = format!(
            "GET {path} HTTP/1.1\r\nhost: {}\r\naccept: text/html\r\ncookie: {}\r\n\r\n",
            self.address, self.cookie
        );
        self.send(&request).await
    }

    /// Headers and body of a form POST.
    async fn post(&mut self, path: &str, form: &str) -> (String, Vec<u8>) {
        let (address, length) = (self.address, form.len());
        let request = format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\norigin: http://{address}\r\n\
             content-type: application/x-www-form-urlencoded\r\ncontent-length: {length}\r\n\r\n{form}"
        );
        self.send(&request).await
    }

    async fn send(&mut self, request: &str) -> (String, Vec<u8>) {
        self.stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::with_capacity(64 * 1024);
        loop {
            let read = self.stream.read_buf(&mut answer).await.expect("read");
            assert!(read > 0, "the server closed the connection");
            let Some(end) = answer.windows(4).position(|four| four == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&answer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.expect("pages have a length").trim().parse().expect("a number");
            if answer.len() >= end + 4 + length {
                return (head, answer.split_off(end + 4));
            }
        }
    }
}

/// The session cookie of a login link.
pub async fn log_in(address: SocketAddr, path: &str) -> String {
    let secret = path.split_once('?').expect("a link has its secret in the query").1;
    let (head, _) = Connection::open(address, "").await.post("/login", secret).await;
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: "));
    cookie.expect("the link logs in").split(';').next().expect("a cookie").to_owned()
}

/// Requests a page and the static page in turn.
pub async fn both(site: &Site, path: &str, count: usize) -> (Page, Page) {
    let mut ours = Connection::open(site.address, &site.cookie).await;
    let mut still = Connection::open(site.still, "").await;
    let (mut mine, mut theirs) = (Vec::with_capacity(count), Vec::with_capacity(count));
    let (mut page, mut plain) = (Vec::new(), Vec::new());
    for round in 0..count + 10 {
        let begun = Instant::now();
        let (head, body) = ours.get(path).await;
        let took = begun.elapsed().as_secs_f64() * 1e3;
        assert!(head.starts_with("http/1.1 200"), "{path}: {head}");
        let begun = Instant::now();
        plain = still.get("/").await.1;
        let took_still = begun.elapsed().as_secs_f64() * 1e3;
        page = body;
        // The first few are a warm-up.
        if round >= 10 {
            mine.push(took);
            theirs.push(took_still);
        }
    }
    let of = |times: Vec<f64>, body: &[u8]| Page {
        times: Samples::of(times),
        bytes: body.len(),
        packed: packed(body),
    };
    (of(mine, &page), of(theirs, &plain))
}

/// Size of the first page with everything it loads: raw and compressed.
pub async fn first_page_bytes(site: &Site) -> (usize, usize) {
    let mut connection = Connection::open(site.address, &site.cookie).await;
    let (_, page) = connection.get("/").await;
    let text = String::from_utf8_lossy(&page).into_owned();
    let (mut raw, mut small) = (page.len(), packed(&page));
    for mark in ["stylesheet\" href=\"", "script src=\""] {
        let path =
            text.split(mark).nth(1).and_then(|rest| rest.split('"').next()).expect("the page names it");
        let (_, asset) = connection.get(path).await;
        raw += asset.len();
        small += packed(&asset);
    }
    (raw, small)
}

/// Size after gzip. The server sends pages uncompressed; a proxy in front of it may compress them.
fn packed(bytes: &[u8]) -> usize {
    let gzip = Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut gzip = gzip.expect("gzip is installed");
    let mut input = gzip.stdin.take().expect("a pipe");
    let owned = bytes.to_vec();
    let writing = std::thread::spawn(move || input.write_all(&owned));
    let output = gzip.wait_with_output().expect("it ends");
    writing.join().expect("it ends").expect("gzip reads");
    output.stdout.len()
}
