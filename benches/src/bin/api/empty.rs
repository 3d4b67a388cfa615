//! The minimal server: axum with a handler that does nothing, in its own process.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use tokio::net::TcpListener;

/// Argument that makes the benchmark this server.
pub const PART: &str = "serve-empty";

/// A valid answer to an enqueue request.
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
