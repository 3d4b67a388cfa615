//! What can be said about a store in PostgreSQL without changing it: the server is asked.

use crate::cli::doctor::Finding;
use crate::wiring::StoreUrl;

pub(super) async fn examine(url: &StoreUrl) -> Vec<Finding> {
    let migrations = match url.migrate(true).await {
        Ok(migrations) => migrations,
        Err(failure) => return vec![Finding::of_failure("store", failure)],
    };
    let newest = migrations.before + migrations.steps.len() as i32;
    let next = "run `weaver store migrate`; `weaver serve` does it when it starts";
    vec![match migrations.before {
        0 => Finding::warn("store", format!("{url} answers, and has no schema yet"), next),
        at if at < newest => Finding::warn("store", format!("{url} answers: schema {at} of {newest}"), next),
        at => Finding::ok("store", format!("{url} answers: schema {at}")),
    }]
}
