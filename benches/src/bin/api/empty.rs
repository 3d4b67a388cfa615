//! The least a server can do: axum with a handler that does nothing, in a process of its own.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

/// The argument that makes the benchmark this server.
pub const PART: &str = "serve-empty";

/// What a client can read as the answer to an enqueue.
const ANSWER: &str = r#"{"id":"1","namespace":"default","existing":false}"#;

pub async fn serve() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    println!(
        "{}",
        serde_json::json!({"address": format!("http://{}", listener.local_addr().expect("bound"))})
    );
    let router = Router::new().route("/api/v1/tasks", post(|| async { (StatusCode::CREATED, ANSWER) }));
    axum::serve(listener, router).await.expect("served");
}
