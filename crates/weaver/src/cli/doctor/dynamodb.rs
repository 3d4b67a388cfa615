//! What can be said about a store in DynamoDB without changing it.

use std::sync::Arc;

use weaver::core::clock::Clock;

use crate::cli::doctor::Finding;
use crate::config::Config;
use crate::exit::Exit;
use crate::wiring::dynamodb::{self, Examined};

pub(super) async fn examine(url: &str, config: &Config, clock: Arc<dyn Clock>) -> Vec<Finding> {
    let connection = match dynamodb::connection(url, config) {
        Ok(connection) => connection,
        Err(failure) => return vec![Finding::of_failure("store", failure)],
    };
    let Examined { v1_tables, foreign_runners } = match dynamodb::examine(&connection, clock).await {
        Ok(examined) => examined,
        Err(failure) if failure.exit == Exit::NotFound => {
            let next = format!("make the tables with `weaver store init --store {url}`");
            return vec![Finding::warn("store", failure.message, next)];
        }
        Err(failure) => return vec![Finding::of_failure("store", failure)],
    };
    let mut findings =
        vec![Finding::ok("store", format!("{}: the tables are seed 000's", connection.endpoint))];
    for table in v1_tables {
        let detail = format!("table `{table}` is of the first version, which Weaver never reads");
        let next = format!("when nobody needs it: aws dynamodb delete-table --table-name {table}");
        findings.push(Finding::warn("tables", detail, next));
    }
    if !foreign_runners.is_empty() {
        let detail = format!("runners that know only seed 000 are at work: {}", foreign_runners.join(", "));
        let next = "they take tasks without regard to delays, keys and pauses: stop them, or give them a namespace of \
             their own";
        findings.push(Finding::warn("runners", detail, next));
    }
    findings
}
