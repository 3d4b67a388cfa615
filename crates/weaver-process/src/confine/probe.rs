//! Whether commands can be confined on this machine: builds a sandbox and runs `true` in it.

use std::path::PathBuf;
use std::time::Duration;

use weaver_core::clock::Clock;

use super::{HOME_DEFAULT, Isolation, Purpose};
use crate::{OutputLimits, ProcessSpec, program, run};

/// The longest that building a sandbox may take.
const PROBE_MAX: Duration = Duration::from_secs(20);

/// Runs `true` like a command of this purpose.
///
/// # Errors
/// If the sandbox cannot be built; the message names the alternatives.
pub async fn probe(isolation: &Isolation, purpose: &Purpose, clock: &dyn Clock) -> Result<(), String> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    let program = program::find("true".as_ref(), &PathBuf::from("/"), Some(&path))?;
    let home = PathBuf::from(HOME_DEFAULT);
    let confinement = isolation.confinement(purpose, &[], &home, isolation.user_for(None))?;
    let spec = ProcessSpec {
        program,
        args: Vec::new(),
        env: Vec::new(),
        current_dir: "/".into(),
        beneath: None,
        stdin: None,
        grace: Duration::ZERO,
        limits: OutputLimits::default(),
        guard: isolation.guard(),
        confinement,
    };
    let too_late = clock.sleep_until(clock.monotonic().saturating_add(PROBE_MAX));
    let finished = run(&spec, clock, |_, _| {}, too_late).await.map_err(|error| error.to_string())?;
    match (finished.stopped_by, finished.status.success()) {
        (None, true) => Ok(()),
        (Some(()), _) => Err(format!("the sandbox was not ready after {PROBE_MAX:?}")),
        (None, false) => {
            Err(format!("`true` failed in the sandbox: {}: {}", finished.status, finished.tail.trim()))
        }
    }
}
