//! The stylesheet and the script, embedded in the binary. Their names hold a hash of their content, so
//! browsers cache them without revalidation.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("assets/style.css");
const SCRIPT: &str = include_str!("assets/script.js");

static STYLE_NAME: LazyLock<String> = LazyLock::new(|| named(STYLE, "css"));
static SCRIPT_NAME: LazyLock<String> = LazyLock::new(|| named(SCRIPT, "js"));

fn named(text: &str, extension: &str) -> String {
    let hash: String =
        Sha256::digest(text.as_bytes()).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    format!("weaver-{hash}.{extension}")
}

pub(super) fn style_path() -> String {
    format!("/assets/{}", *STYLE_NAME)
}

pub(super) fn script_path() -> String {
    format!("/assets/{}", *SCRIPT_NAME)
}

pub(super) async fn serve(Path(name): Path<String>) -> Response {
    let (text, kind) = match &name {
        name if *name == *STYLE_NAME => (STYLE, "text/css; charset=utf-8"),
        name if *name == *SCRIPT_NAME => (SCRIPT, "text/javascript; charset=utf-8"),
        _ => return StatusCode::NOT_FOUND.into_response(),
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(kind)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, text).into_response()
}
