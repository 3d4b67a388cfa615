//! A server as one user, with everything around it that is worth attacking.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

const WEAVER: &str = env!("CARGO_BIN_EXE_weaver");
/// A user that is not there, for servers that do not run as root.
const PLAIN_USER: u32 = 54_322;
/// In the environment of the server, where a command looks for it.
const WITNESS: &str = "WITNESS-of-the-server";

/// Who the server is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum User {
    /// Who runs the tests.
    Ours,
    /// Another one, without rights.
    Plain,
}

impl User {
    /// Tests that do not run as root have only themselves.
    pub(crate) fn all() -> Vec<Self> {
        let is_root = std::fs::metadata("/proc/self").is_ok_and(|found| found.uid() == 0);
        if is_root { vec![Self::Ours, Self::Plain] } else { vec![Self::Ours] }
    }
}

/// A server, a store, a repository, a directory outside, and a socket in it.
pub(crate) struct Stage {
    pub(crate) path: PathBuf,
    user: User,
    server: Child,
    pub(crate) port: String,
    flags: &'static str,
    _socket: UnixListener,
}

impl Stage {
    /// With this besides what the tests need in its configuration.
    pub(crate) fn new(user: User, config: &str) -> Self {
        Self::with(user, config, "", 0)
    }

    /// One that listens there.
    pub(crate) fn listening(user: User, config: &str, port: u16) -> Self {
        Self::with(user, config, "", port)
    }

    /// A port that was free a moment ago.
    pub(crate) fn free_port() -> u16 {
        std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    /// A server that other processes of its user may look into.
    pub(crate) fn debuggable(user: User, config: &str) -> Self {
        Self::with(user, config, "--debuggable", 0)
    }

    fn with(user: User, config: &str, flags: &'static str, port: u16) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        // Not in the target directory: a plain user may not get there.
        let path = std::env::temp_dir().join(format!("weaver-attacks-{}-{number}", std::process::id()));
        for name in ["", "outside", "exec", "run"] {
            std::fs::create_dir_all(path.join(name)).unwrap();
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        if std::fs::hard_link(WEAVER, path.join("weaver")).is_err() {
            std::fs::copy(WEAVER, path.join("weaver")).unwrap();
        }
        std::fs::write(path.join("outside/secret"), "secret").unwrap();
        let socket = UnixListener::bind(path.join("outside/socket")).unwrap();
        for name in ["outside", "outside/secret", "outside/socket"] {
            std::fs::set_permissions(path.join(name), std::fs::Permissions::from_mode(0o777)).unwrap();
        }
        let policy = format!(
            "[handlers.exec]\nworking_root = \"{}\"\n[handlers.exec.commands.sh]\nprogram = \"/bin/sh\"\nargs = [\"-c\", \"{{script}}\"]\n{}",
            path.join("exec").display(),
            config.replace("{cache}", &path.join("cache").display().to_string())
        );
        std::fs::write(path.join("weaver.toml"), policy).unwrap();
        if user == User::Plain {
            for name in ["", "exec", "run", "weaver.toml"] {
                chown(path.join(name), Some(PLAIN_USER), Some(PLAIN_USER)).unwrap();
            }
        }
        let mut stage = Self {
            path,
            user,
            server: Command::new("true").spawn().unwrap(),
            port: String::new(),
            flags,
            _socket: socket,
        };
        stage.server.wait().unwrap();
        stage.start(port);
        stage
    }

    fn start(&mut self, port: u16) {
        let mut command = self.weaver(&format!("serve --listen 127.0.0.1:{port} --log warn {}", self.flags));
        let mut server = command.env("WITNESS", WITNESS).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(server.stdout.take().unwrap()).read_line(&mut line).unwrap();
        self.port = line.trim().rsplit(':').next().unwrap_or_default().to_owned();
        assert!(self.port.parse::<u16>().is_ok(), "{line}");
        self.server = server;
    }

    /// `weaver` as the user of the server.
    pub(crate) fn weaver(&self, arguments: &str) -> Command {
        let mut command = self.as_user(&self.path.join("weaver"));
        command.args(arguments.split_whitespace());
        if !self.port.is_empty() {
            command.env("WEAVER_SERVER", format!("http://127.0.0.1:{}", self.port));
        }
        command
    }

    pub(crate) fn sh(&self, script: &str) {
        let output = self.as_user(Path::new("/bin/sh")).args(["-ec", script]).output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    }

    fn as_user(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.path).env_clear().env("PATH", std::env::var_os("PATH").unwrap());
        command.env("HOME", &self.path).env("XDG_RUNTIME_DIR", self.path.join("run"));
        command.env("XDG_STATE_HOME", self.path.join("run"));
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Ada")
                .env(format!("GIT_{role}_EMAIL"), "ada@example.org");
        }
        if self.user == User::Plain {
            command.uid(PLAIN_USER).gid(PLAIN_USER);
        }
        command
    }

    /// What a command says; it must succeed.
    pub(crate) fn says(&self, arguments: &str) -> String {
        let output = self.weaver(arguments).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A script, with the names of what it attacks.
    pub(crate) fn fill(&self, script: &str) -> String {
        let path = |name: &str| self.path.join(name).display().to_string();
        script
            .replace("$SERVER", &self.server.id().to_string())
            .replace("$PORT", &self.port)
            .replace("$STORE", &path("weaver-data"))
            .replace("$CONFIG", &path("weaver.toml"))
            .replace("$RUN", &path("run"))
            .replace("$OUTSIDE", &path("outside"))
            .replace("$REPOSITORY", &path("project.git"))
    }

    /// Whatever the attacks printed, these are as they were.
    pub(crate) fn is_unharmed(&self) {
        assert!(self.says("tasks list").contains("TASK") || !self.says("doctor").is_empty());
        assert!(!self.path.join("outside/written").exists());
        assert!(!self.path.join("project.git/refs/heads/stolen").exists());
        assert!(!self.path.join("project.git/hooks/post-receive").exists());
        let daemon = format!("sleep 10{}", self.server.id());
        let left = Command::new("pgrep").args(["-f", &daemon]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&left.stdout), "", "a daemon is left");
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let _ = self.server.kill(); // It may have ended already.
        let _ = self.server.wait();
        let _ = std::fs::remove_dir_all(&self.path); // Best effort: the system's own cleaning does the rest.
    }
}
