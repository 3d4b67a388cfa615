//! Confinement of this process's commands, from the operator's settings.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use weaver::core::clock::Clock;
use weaver_process::confine::{ConfinerOptions, Purpose, probe};
use weaver_process::guard::OWN_BINARY;
use weaver_process::{Confiner, Isolation, Rules, secrecy};

use crate::cli::local::Places;
use crate::cli::merge::side::key_file;
use crate::config::{Config, keys};
use crate::exit::{Exit, Failure};
use crate::wiring::StoreUrl;

/// The isolation of this process's commands; each kind of command adds its own rules.
pub(crate) fn isolation(config: &Config) -> Result<Isolation, Failure> {
    isolation_with(config, protected(config))
}

/// The same for agents of a project. If the project contains the configuration file, the agent may read it.
pub(crate) fn of_agents(config: &Config, rules: Rules, project: &Path) -> Result<Isolation, Failure> {
    let project = project.canonicalize().unwrap_or_else(|_| project.to_owned());
    let is_inside = |path: &PathBuf| path.canonicalize().is_ok_and(|path| path.starts_with(&project));
    if let Some(file) = config.file.as_ref().filter(|file| is_inside(file)) {
        trusts_no_project(config, &rules, file)?;
    }
    let mut hidden = protected(config);
    hidden.retain(|path| Some(path) != config.file.as_ref() || !is_inside(path));
    Ok(Isolation { rules, ..isolation_with(config, hidden)? })
}

fn isolation_with(config: &Config, protected: Vec<PathBuf>) -> Result<Isolation, Failure> {
    let (confine, origin) = &config.confine;
    let user = confine.user().map_err(|problem| {
        Failure::new(Exit::Usage, format!("{origin}: {problem}")).next("correct that section of weaver.toml")
    })?;
    let options = ConfinerOptions {
        mode: confine.mode,
        user,
        protected,
        home: std::env::var_os("HOME").map(PathBuf::from),
        is_root: rustix::process::geteuid().is_root(),
        is_restricted: secrecy::is_restricted(std::process::id()),
    };
    let confiner = cfg!(target_os = "linux").then(|| Arc::new(Confiner::new(OWN_BINARY, options)));
    Ok(Isolation { confiner, rules: Rules::default() })
}

/// Paths no command may see: configuration, store, sockets, keys and tokens of the server.
fn protected(config: &Config) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = config.file.iter().cloned().collect();
    let url = StoreUrl::parse(config.text(keys::STORE));
    paths.extend(url.ok().and_then(|url| url.place().map(Path::to_owned)));
    let Places { sockets, registrations, workers, .. } = Places::of_process();
    paths.extend([sockets, registrations, workers, key_file(config)]);
    let keys =
        [keys::SERVE_TLS_KEY, keys::SERVE_TLS_CERTIFICATE, keys::SERVE_ADMIN_TOKEN_FILE, keys::SERVE_SOCKET];
    paths.extend(keys.iter().filter_map(|key| config.path(key)).map(Path::to_owned));
    paths.extend(config.secret_files.iter().cloned());
    paths
}

/// A configuration that the agent can write must neither set its confinement nor hold a token.
fn trusts_no_project(config: &Config, rules: &Rules, file: &Path) -> Result<(), Failure> {
    let shown = file.display();
    let has_rules = *rules != Rules::default() || config.confine.0 != Default::default();
    if has_rules {
        let message =
            format!("{shown} is inside the project: the agent could change its own confinement there");
        return Err(Failure::new(Exit::Refused, message)
            .next("keep it elsewhere and name it: --config ~/.config/weaver/weaver.toml"));
    }
    if matches!(config.origin(keys::TOKEN), crate::config::Origin::File { .. }) {
        let message = format!("{shown} is inside the project and holds a token: the agent could read it");
        return Err(Failure::new(Exit::Refused, message)
            .next("put the token into a separate file outside the project: WEAVER_TOKEN_FILE=FILE"));
    }
    Ok(())
}

/// Logs a warning if commands cannot be confined here. The server starts anyway.
pub(crate) async fn warn_if_impossible(isolation: &Isolation, clock: &dyn Clock) {
    if let Err(reason) = probe(isolation, &Purpose::Check, clock).await {
        tracing::warn!("commands cannot be confined on this machine and will not start: {reason}");
    }
}
