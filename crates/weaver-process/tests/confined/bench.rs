//! One command in one sandbox.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use weaver_process::confine::{Confinement, ConfinerOptions, Mode, NetworkRule, Purpose, Rules, User};
use weaver_process::{Confiner, Finished, OutputLimits, ProcessSpec, run};
use weaver_runtime::SystemClock;

use crate::harness::{Dir, in_time};

/// A user without files, for the tests that run as root.
pub(crate) const OTHER: User = User { uid: 65534, gid: 65534 };

use weaver_process::confine::HOME_DEFAULT as HOME;

pub(crate) fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// A directory to work in, and the rules.
pub(crate) struct Bench {
    pub(crate) dir: Dir,
    pub(crate) rules: Rules,
    pub(crate) options: ConfinerOptions,
    pub(crate) purpose: Purpose,
    pub(crate) stdin: Option<Bytes>,
    pub(crate) env: Vec<(String, String)>,
}

impl Bench {
    pub(crate) fn new() -> Self {
        let dir = Dir::new();
        if is_root() {
            chown(dir.path(), Some(OTHER.uid), Some(OTHER.gid)).unwrap();
        }
        let options = ConfinerOptions { is_root: is_root(), ..ConfinerOptions::default() };
        let env = [("PATH", std::env::var("PATH").unwrap()), ("HOME", HOME.to_owned())];
        let env = env.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Self { dir, rules: Rules::default(), options, purpose: Purpose::Check, stdin: None, env }
    }

    pub(crate) fn with_network(mut self, ports: &[u16]) -> Self {
        self.rules.network = Some(NetworkRule::On);
        self.rules.ports = Some(ports.to_vec());
        self
    }

    pub(crate) fn in_mode(mut self, mode: Mode) -> Self {
        self.options.mode = mode;
        self
    }

    pub(crate) fn confinement(&self) -> Result<Confinement, String> {
        let confiner = Confiner::new(guard(), self.options.clone());
        let own = [self.dir.path().to_owned()];
        let home = Path::new(HOME);
        let made = confiner.confinement(&self.rules, &self.purpose, &own, home, confiner.user_for(None))?;
        Ok(made.expect("nothing here is unconfined"))
    }

    pub(crate) fn spec(&self, script: &str) -> ProcessSpec {
        ProcessSpec {
            program: "/bin/sh".into(),
            args: vec!["-c".into(), script.into()],
            env: self.env.iter().map(|(name, value)| (name.into(), value.into())).collect(),
            current_dir: self.dir.path().to_owned(),
            beneath: None,
            stdin: self.stdin.clone(),
            grace: Duration::from_secs(5),
            limits: OutputLimits { tail_bytes: 64 * 1024, ..OutputLimits::default() },
            guard: Some(guard()),
            confinement: Some(self.confinement().unwrap()),
        }
    }

    /// Runs a script in the sandbox.
    pub(crate) fn try_sh(&self, script: &str) -> std::io::Result<Finished<()>> {
        let spec = self.spec(script);
        wait(in_time("it ends", run(&spec, &SystemClock::new(), |_, _| {}, std::future::pending::<()>())))
    }

    pub(crate) fn sh(&self, script: &str) -> Finished<()> {
        self.try_sh(script).unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The output of a script that must succeed.
    pub(crate) fn says(&self, script: &str) -> String {
        let finished = self.sh(script);
        assert!(finished.status.success(), "{script}: {:?}\n{}", finished.status, finished.tail);
        finished.tail.trim_end().to_owned()
    }

    /// The output of a script that must fail.
    pub(crate) fn fails(&self, script: &str) -> String {
        let finished = self.sh(script);
        assert!(!finished.status.success(), "{script} succeeded:\n{}", finished.tail);
        finished.tail
    }
}

pub(crate) fn guard() -> PathBuf {
    std::env::current_exe().unwrap()
}

pub(crate) fn wait<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
