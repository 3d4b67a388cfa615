//! A server in its own process, killed on drop.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use weaver_client::Client;

use crate::empty;

/// The queue of every task: not the one that the server's own worker takes from.
pub const QUEUE: &str = "bench";

pub struct Server {
    child: Child,
    /// Base URL, such as `http://127.0.0.1:8080`.
    pub address: String,
    pub token: Option<String>,
}

impl Server {
    /// `weaver serve` on a store in this directory.
    pub fn weaver(directory: &Path) -> Self {
        let mut command = Command::new(binary());
        command.arg("serve").arg("--store").arg(directory).args([
            "--listen",
            "127.0.0.1:0",
            "--output",
            "json",
        ]);
        // The settings of a first start are not part of the measurement.
        command.current_dir(directory.parent().expect("a directory to run in")).env("WEAVER_LOG", "warn");
        let file = directory.join("admin.token");
        command.env("WEAVER_SERVE_ADMIN_TOKEN_FILE", &file);
        let own = directory.parent().expect("a directory to run in");
        command.env("XDG_RUNTIME_DIR", own.join("run")).env("XDG_STATE_HOME", own.join("state"));
        let mut server = Self::start(command);
        let token = std::fs::read_to_string(file).expect("the token of the first start");
        server.token = Some(token.trim().to_owned());
        server
    }

    /// The minimal axum server for comparison.
    pub fn empty() -> Self {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.arg(empty::PART);
        Self::start(command)
    }

    pub fn client(&self) -> Client {
        let client = Client::new(&self.address).expect("an address");
        match &self.token {
            Some(token) => client.with_token(token.clone()).expect("it is this machine"),
            None => client,
        }
    }

    fn start(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the server starts");
        let mut line = String::new();
        let mut reader = BufReader::new(child.stdout.take().expect("piped"));
        // It answers from its first line on. The JSON may be indented: read until it parses.
        let banner: serde_json::Value = loop {
            assert!(reader.read_line(&mut line).expect("a line") > 0, "the server ended: {line}");
            if let Ok(banner) = serde_json::from_str(&line) {
                break banner;
            }
        };
        let address = banner["address"].as_str().expect("an address").to_owned();
        Self { child, address, token: None }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> PathBuf {
    std::env::var_os("WEAVER_BIN")
        .map(PathBuf::from)
        .expect("WEAVER_BIN names the command: `cargo xtask bench api` sets it")
}
