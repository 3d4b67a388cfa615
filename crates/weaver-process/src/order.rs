//! The order for a guard, and its reply if it cannot start the command: a memory file (memfd) that is the
//! guard's standard input.
//!
//! Not arguments, which every user can read; not the environment, which is the *command's* and would affect
//! the guard outside the sandbox (`LD_PRELOAD`).
//!
//! The file has the order as JSON, followed by the command's standard input. The command gets a copy of the
//! latter in a file of its own: it never has this one, so it cannot forge the guard's reply.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{MemfdFlags, memfd_create};
use serde::{Deserialize, Serialize};

use crate::confine::Confinement;
use crate::run::{ProcessSpec, StartError};

/// The prefix of a reply: the sandbox could not be built, and nothing was run.
const NO_SANDBOX: &[u8] = b"no sandbox\n";
/// The prefix of a reply: the program cannot be run in the sandbox.
const NO_PROGRAM: &[u8] = b"no program\n";

/// The command and its confinement.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    /// The process id of the server: when it ends, the guard ends everything.
    pub(crate) supervisor: i32,
    grace_ms: u64,
    pub(crate) program: PathBuf,
    /// Bytes: arguments need not be UTF-8.
    args: Vec<Vec<u8>>,
    env: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) current_dir: PathBuf,
    pub(crate) beneath: Option<PathBuf>,
    pub(crate) confinement: Option<Confinement>,
    stdin_bytes: Option<u64>,
}

impl Order {
    fn of(spec: &ProcessSpec, supervisor: u32) -> Self {
        let bytes = |text: &OsString| text.as_bytes().to_vec();
        Self {
            supervisor: i32::try_from(supervisor).unwrap_or_default(),
            grace_ms: u64::try_from(spec.grace.as_millis()).unwrap_or(u64::MAX),
            program: spec.program.clone(),
            args: spec.args.iter().map(bytes).collect(),
            env: spec.env.iter().map(|(name, value)| (bytes(name), bytes(value))).collect(),
            current_dir: spec.current_dir.clone(),
            beneath: spec.beneath.clone(),
            confinement: spec.confinement.clone(),
            stdin_bytes: spec.stdin.as_ref().map(|bytes| bytes.len() as u64),
        }
    }

    pub(crate) fn grace(&self) -> Duration {
        Duration::from_millis(self.grace_ms)
    }

    pub(crate) fn args(&self) -> impl Iterator<Item = OsString> {
        self.args.iter().map(|arg| OsString::from_vec(arg.clone()))
    }

    pub(crate) fn env(&self) -> impl Iterator<Item = (OsString, OsString)> {
        self.env
            .iter()
            .map(|(name, value)| (OsString::from_vec(name.clone()), OsString::from_vec(value.clone())))
    }
}

/// The memory file of an order.
#[derive(Debug)]
pub(crate) struct OrderFile(File);

impl OrderFile {
    /// Writes an order, and the command's standard input.
    pub(crate) fn write(spec: &ProcessSpec) -> io::Result<Self> {
        let order = serde_json::to_vec(&Order::of(spec, std::process::id()))?;
        let mut file = memory_file()?;
        file.write_all(&(order.len() as u64).to_le_bytes())?;
        file.write_all(&order)?;
        file.write_all(spec.stdin.as_deref().unwrap_or_default())?;
        file.rewind()?;
        Ok(Self(file))
    }

    /// A descriptor for the guard's standard input.
    pub(crate) fn for_guard(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Why the guard did not start the command, if it did not.
    pub(crate) fn refusal(mut self) -> Option<StartError> {
        let mut text = Vec::new();
        self.0.rewind().ok()?;
        self.0.read_to_end(&mut text).ok()?;
        let reason = |rest: &[u8]| String::from_utf8_lossy(rest).into_owned();
        let no_sandbox = text.strip_prefix(NO_SANDBOX).map(|rest| StartError::Sandbox(reason(rest)));
        no_sandbox.or_else(|| text.strip_prefix(NO_PROGRAM).map(|rest| StartError::Program(reason(rest))))
    }

    /// The order file that is this process's standard input.
    pub(crate) fn of_stdin() -> io::Result<Self> {
        use std::os::fd::AsFd;
        Ok(Self(io::stdin().as_fd().try_clone_to_owned()?.into()))
    }

    /// The order, and a file for the command's standard input.
    pub(crate) fn read(&mut self) -> io::Result<(Order, Option<File>)> {
        self.0.rewind()?;
        let mut length = [0; 8];
        self.0.read_exact(&mut length)?;
        let mut order = Vec::new();
        (&self.0).take(u64::from_le_bytes(length)).read_to_end(&mut order)?;
        let order: Order = serde_json::from_slice(&order)?;
        let stdin = match order.stdin_bytes {
            Some(count) => {
                let mut file = memory_file()?;
                io::copy(&mut (&self.0).take(count), &mut file)?;
                file.rewind()?;
                Some(file)
            }
            None => None,
        };
        Ok((order, stdin))
    }

    /// Replies that the command was not started.
    pub(crate) fn refuse(&mut self, error: &StartError) {
        let kind = match error {
            StartError::Sandbox(_) => NO_SANDBOX,
            StartError::Program(_) => NO_PROGRAM,
        };
        // If this fails too, only the guard's exit code reports it.
        let _ = self.0.seek(SeekFrom::Start(0)).and_then(|_| self.0.set_len(0));
        let _ = self.0.write_all(kind).and_then(|()| self.0.write_all(error.to_string().as_bytes()));
    }
}

fn memory_file() -> io::Result<File> {
    Ok(memfd_create("weaver", MemfdFlags::CLOEXEC)?.into())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::run::OutputLimits;

    #[test]
    fn an_order_survives_the_round_trip_and_a_refusal_reaches_the_server() {
        let spec = ProcessSpec {
            program: "/bin/echo".into(),
            args: vec![OsString::from_vec(vec![0xff, b'a'])],
            env: vec![("A".into(), "b c".into())],
            current_dir: "/".into(),
            beneath: None,
            stdin: Some(Bytes::from_static(b"a prompt")),
            grace: Duration::from_millis(1500),
            limits: OutputLimits::default(),
            guard: None,
            confinement: None,
        };
        let mut file = OrderFile::write(&spec).unwrap();
        let (order, stdin) = file.read().unwrap();
        assert_eq!(order.args().collect::<Vec<_>>(), spec.args);
        assert_eq!(order.env().collect::<Vec<_>>(), spec.env);
        assert_eq!(order.grace(), spec.grace);
        let mut text = String::new();
        stdin.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "a prompt");
        let server_side = OrderFile(file.for_guard().unwrap());
        let refusal = StartError::Sandbox("no namespaces".to_owned());
        file.refuse(&refusal);
        assert_eq!(server_side.refusal(), Some(refusal));
    }
}
