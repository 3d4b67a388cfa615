//! A fault-injecting proxy in front of DynamoDB: by a plan, it loses requests or responses, refuses requests,
//! does not answer, or processes a batch partly.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weaver_dynamodb::Connection;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// The connection is closed before the request is forwarded.
    RequestLost,
    /// The request is applied, and the connection is closed before the response.
    ResponseLost,
    /// The request is refused with this error code, and not applied.
    Refused(&'static str),
    /// The request is applied, and no response comes, though the connection stays open.
    NoResponse,
    /// Only the first member of a batch is processed.
    PartlyProcessed,
}

/// A request to the proxy.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    /// API operation, such as `PutItem`.
    pub(crate) operation: &'a str,
    pub(crate) body: &'a str,
}

type Plan = Arc<dyn Fn(&Request<'_>) -> Fault + Send + Sync>;

/// The proxy; dropping it closes its connections.
pub(crate) struct Proxy {
    address: SocketAddr,
    /// Notified when a request gets no response.
    pub(crate) held: Arc<Notify>,
    _server: JoinSet<()>,
}

impl Proxy {
    /// In front of a database; `plan` says what happens to each request.
    pub(crate) async fn before(
        database: &Connection,
        plan: impl Fn(&Request<'_>) -> Fault + Send + Sync + 'static,
    ) -> Self {
        let upstream = database.endpoint.trim_start_matches("http://").to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let address = listener.local_addr().expect("it is bound");
        let plan: Plan = Arc::new(plan);
        let held = Arc::new(Notify::new());
        let holds = Arc::clone(&held);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut lines = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                let (upstream, plan, held) = (upstream.clone(), Arc::clone(&plan), Arc::clone(&holds));
                lines.spawn(async move {
                    // Closed connections are expected here.
                    let _ = serve(client, &upstream, &plan, &held).await;
                });
            }
        });
        Self { address, held, _server: server }
    }

    /// The same database through the proxy.
    pub(crate) fn connection(&self, database: &Connection) -> Connection {
        Connection { endpoint: format!("http://{}", self.address), ..database.clone() }
    }
}

async fn serve(client: TcpStream, upstream: &str, plan: &Plan, held: &Notify) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut client = BufStream::new(client);
    let server = TcpStream::connect(upstream).await?;
    server.set_nodelay(true)?;
    let mut server = BufStream::new(server);
    while let Some((head, body)) = message(&mut client).await? {
        let target = header(&head, "x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default();
        let body = String::from_utf8(body).expect("DynamoDB speaks JSON");
        let fault = plan(&Request { operation, body: &body });
        match fault {
            Fault::RequestLost => return Ok(()),
            Fault::Refused(code) => {
                let what = json!({ "__type": format!("com.amazonaws.dynamodb.v20120810#{code}"), "message": "as planned" });
                answer(&mut client, 400, &what.to_string()).await?;
                continue;
            }
            Fault::PartlyProcessed => {
                let (some, rest) = halves(operation, &body);
                let (_, done) = ask(&mut server, &head, &some).await?;
                let mut done: Value = serde_json::from_slice(&done).expect("DynamoDB speaks JSON");
                let left = if operation == "BatchGetItem" { "UnprocessedKeys" } else { "UnprocessedItems" };
                done[left] = rest;
                answer(&mut client, 200, &done.to_string()).await?;
                continue;
            }
            Fault::None | Fault::ResponseLost | Fault::NoResponse => {}
        }
        let (head, body) = ask(&mut server, &head, &body).await?;
        match fault {
            Fault::ResponseLost => return Ok(()),
            Fault::NoResponse => {
                held.notify_one();
                std::future::pending::<()>().await;
            }
            _ => {}
        }
        client.write_all(head.as_bytes()).await?;
        client.write_all(&body).await?;
        client.flush().await?;
    }
    Ok(())
}

/// Sends a request with the length of `body`, whatever its head says, and reads the response.
async fn ask(server: &mut BufStream<TcpStream>, head: &str, body: &str) -> io::Result<(String, Vec<u8>)> {
    for line in head.lines().filter(|line| !line.is_empty()) {
        if !line.to_ascii_lowercase().starts_with("content-length") {
            server.write_all(format!("{line}\r\n").as_bytes()).await?;
        }
    }
    server.write_all(format!("content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await?;
    server.flush().await?;
    message(server).await?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

async fn answer(client: &mut BufStream<TcpStream>, status: u16, body: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status} As-Planned\r\ncontent-type: application/x-amz-json-1.0\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    client.write_all(head.as_bytes()).await?;
    client.write_all(body.as_bytes()).await?;
    client.flush().await
}

/// A message's head, up to its empty line, and its body; `None` if the connection was closed.
async fn message(stream: &mut BufStream<TcpStream>) -> io::Result<Option<(String, Vec<u8>)>> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await? == 0 {
            return Ok(None);
        }
    }
    let mut body = Vec::new();
    if header(&head, "transfer-encoding").is_some_and(|coding| coding.eq_ignore_ascii_case("chunked")) {
        while take(stream, &mut body).await? {}
        // Forwarded without chunked encoding.
        let rest: Vec<_> =
            head.lines().filter(|line| !line.to_ascii_lowercase().starts_with("transfer-")).collect();
        let length = format!("content-length: {}", body.len());
        head = format!("{}\r\n{length}\r\n\r\n", rest.join("\r\n").trim_end());
    } else {
        let length = header(&head, "content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        body.resize(length, 0);
        stream.read_exact(&mut body).await?;
    }
    Ok(Some((head, body)))
}

/// Takes one chunk; `false` after the last.
async fn take(stream: &mut BufStream<TcpStream>, body: &mut Vec<u8>) -> io::Result<bool> {
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let length = usize::from_str_radix(line.trim(), 16).map_err(|_| io::ErrorKind::InvalidData)?;
    // A chunk ends with CRLF.
    let mut chunk = vec![0; length + 2];
    stream.read_exact(&mut chunk).await?;
    body.extend_from_slice(&chunk[..length]);
    Ok(length > 0)
}

fn header(head: &str, name: &str) -> Option<String> {
    let mut lines = head.lines().filter_map(|line| line.split_once(':'));
    lines.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim().to_owned())
}

/// The first member of a batch, and the rest in the form of a response's unprocessed members.
fn halves(operation: &str, body: &str) -> (String, Value) {
    let mut some: Value = serde_json::from_str(body).expect("DynamoDB speaks JSON");
    let mut rest = json!({});
    for (table, wanted) in some["RequestItems"].as_object_mut().expect("a batch") {
        let members = if operation == "BatchGetItem" { &mut wanted["Keys"] } else { wanted };
        let left = members.as_array_mut().expect("a batch has members").split_off(1);
        if left.is_empty() {
            continue;
        }
        rest[table] = if operation == "BatchGetItem" { json!({ "Keys": left }) } else { json!(left) };
    }
    (some.to_string(), rest)
}
