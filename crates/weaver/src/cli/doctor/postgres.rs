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
    let mut findings = vec![match migrations.before {
        0 => Finding::warn("store", format!("{url} answers, and has no schema yet"), next),
        at if at < newest => Finding::warn("store", format!("{url} answers: schema {at} of {newest}"), next),
        at => Finding::ok("store", format!("{url} answers: schema {at}")),
    }];
    if migrations.before == newest {
        findings.extend(guards(url).await);
    }
    findings
}

/// Triggers that were disabled or dropped: hand-written SQL can then break what Weaver relies on.
async fn guards(url: &StoreUrl) -> Vec<Finding> {
    let weak = match url.weak_guards().await {
        Ok(weak) => weak,
        Err(failure) => return vec![Finding::of_failure("guards", failure)],
    };
    if weak.is_empty() {
        return vec![Finding::ok(
            "guards",
            "every trigger of the schema is there and enabled for all sessions",
        )];
    }
    let finding = |guard: &weaver::postgres::WeakGuard| {
        let (table, name) = (&guard.trigger.table, &guard.trigger.name);
        let state = if guard.is_missing { "is missing" } else { "is disabled" };
        let detail =
            format!("trigger {name} of {table} {state}: SQL from outside Weaver can damage what it guards");
        Finding::warn("guards", detail, format!("run as the owner of the schema: {}", guard.remedy()))
    };
    weak.iter().map(finding).collect()
}
