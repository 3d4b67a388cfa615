//! Whether external commands can be confined on this machine, and which ones are not.

use weaver::core::clock::Clock;
use weaver_process::confine::{Purpose, landlock_support, probe};

use crate::cli::confinement;
use crate::config::Config;
use crate::finding::Finding;

const CHECK: &str = "confine";
const PAGE: &str = "docs/operating/security.md";

pub(super) async fn examine(config: &Config, clock: &dyn Clock) -> Vec<Finding> {
    let isolation = match confinement::isolation(config) {
        Ok(isolation) => isolation.with_rules(config.confine.0.check.clone()),
        Err(failure) => return vec![Finding::of_failure(CHECK, failure)],
    };
    let mut findings = Vec::new();
    findings.push(match probe(&isolation, &Purpose::Check, clock).await {
        Ok(()) if isolation.rules.unconfined => {
            Finding::ok(CHECK, "commands can be run under a guard process")
        }
        Ok(()) => Finding::ok(CHECK, "commands can be confined"),
        Err(reason) => Finding::fail(
            CHECK,
            format!("commands cannot be confined and will not start: {reason}"),
            format!("see {PAGE}"),
        ),
    });
    if let Err(lacking) = landlock_support() {
        findings.push(Finding::warn(CHECK, lacking, "upgrade the kernel: Linux 6.12 supports all of it"));
    }
    let unconfined = unconfined(config);
    if !unconfined.is_empty() {
        let detail = format!("not confined, with all permissions of the server: {}", unconfined.join(", "));
        findings.push(Finding::warn(
            CHECK,
            detail,
            format!("remove `unconfined = true` where it is not needed: {PAGE}"),
        ));
    }
    findings
}

/// What the operator's configuration runs without a sandbox, by the name it has there.
fn unconfined(config: &Config) -> Vec<String> {
    let mut names = Vec::new();
    if config.confine.0.check.unconfined {
        names.push("merge checks (confine.check)".to_owned());
    }
    if let Some(policy) = &config.handlers.0.exec {
        let commands = policy.commands.iter();
        let open =
            commands.filter(|(_, command)| command.confine.as_ref().unwrap_or(&policy.confine).unconfined);
        names.extend(open.map(|(name, _)| format!("handlers.exec.commands.{name}")));
    }
    let profiles = config.profiles.0.iter().filter(|(_, profile)| profile.confine.unconfined);
    names.extend(profiles.map(|(name, _)| format!("profiles.{name}")));
    names
}
