//! `weaver doctor`: checks of the configuration, the store and this machine, each with what to do.

mod confine;
mod records;

use std::sync::Arc;

use clap::Args;
use serde_json::json;
use weaver::core::clock::Clock;

use crate::cli::{Context, StoreArgs};
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::finding::{Finding, Verdict};
use crate::wiring::{FORMAT, StoreUrl};

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  weaver doctor\n  weaver doctor --store ./weaver-data --output json\n\n\
    Read-only. Exit code 1: a check failed; 0: only warnings or none.")]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    pub(crate) store: StoreArgs,
}

/// `from_flags` sets the output format if the configuration cannot be read.
pub(crate) async fn run(
    config: Result<Config, Failure>,
    from_flags: Config,
    clock: Arc<dyn Clock>,
) -> Result<Exit, Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let mut findings =
        vec![Finding::ok("version", format!("weaver {version}, reads stores up to format {FORMAT}"))];
    let config = match config {
        Ok(config) => {
            findings.extend(of_config(&config));
            match StoreUrl::parse(config.text(keys::STORE)) {
                Ok(url) => findings.extend(of_store(&url, &config, &clock).await),
                Err(failure) => findings.push(Finding::of_failure("store", failure)),
            }
            findings.extend(confine::examine(&config, &*clock).await);
            config
        }
        Err(failure) => {
            findings.push(Finding::of_failure("config", failure));
            from_flags
        }
    };
    let context = Context::new(config, clock);
    report(&context, &findings)?;
    let has_failed = findings.iter().any(|finding| finding.verdict == Verdict::Fail);
    Ok(if has_failed { Exit::Failed } else { Exit::Done })
}

async fn of_store(url: &StoreUrl, config: &Config, clock: &Arc<dyn Clock>) -> Vec<Finding> {
    let mut findings = url.examine(config, clock).await;
    if let Some(pid) = url.holder() {
        findings.extend(records::of_server(pid).await);
    }
    // A store that is missing, or has another schema, has no records to read.
    if findings.first().is_some_and(|finding| finding.verdict == Verdict::Ok) {
        findings.extend(records::examine(url, config, clock).await);
    }
    findings
}

fn of_config(config: &Config) -> Vec<Finding> {
    let read = match &config.file {
        Some(path) => format!("using {}", path.display()),
        None => "no weaver.toml: using defaults, variables and flags".to_owned(),
    };
    let mut findings = vec![Finding::ok("config", read)];
    if !config.unknown_variables.is_empty() {
        let names = config.unknown_variables.join(", ");
        let next = "unset them if they were meant for Weaver; `weaver config show` lists all settings";
        findings.push(Finding::warn("config", format!("variables that are not settings: {names}"), next));
    }
    findings
}

fn report(context: &Context, findings: &[Finding]) -> Result<(), Failure> {
    let listed = findings.iter().map(|finding| {
        let Finding { verdict, check, detail, next } = finding;
        json!({"verdict": verdict.word(), "check": check, "detail": detail, "next": next})
    });
    let answer = json!({ "checks": listed.collect::<Vec<_>>() });
    context.output.answer(&answer, || {
        let mut text = String::new();
        for Finding { verdict, check, detail, next } in findings {
            let word = context.output.paint.tone(verdict.tone(), &format!("{:<4}", verdict.word()));
            text.push_str(&format!("{word}  {check:<9}  {detail}\n"));
            if let Some(next) = next {
                text.push_str(&format!("                 next: {next}\n"));
            }
        }
        text
    })
}
