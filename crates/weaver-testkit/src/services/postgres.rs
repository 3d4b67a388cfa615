//! A throw-away PostgreSQL from the installed binaries: a shared one for tests that only need a schema of
//! their own, and private ones for tests that stop or kill the server.
//!
//! The shared server is started by the first test and watched by a separate process, which stops it when no
//! test has used it for a while. Every test holds a lock on a file while it runs, and the kernel releases it
//! however the test ends.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Environment variable with the URL of a server to use instead of a throw-away one.
pub const URL_VARIABLE: &str = "WEAVER_TEST_POSTGRES_URL";

const INSTALL: &str =
    "PostgreSQL's server binaries are missing: install them with `apt-get install postgresql`";

/// Settings of a shared server, without durability: nothing of it outlives the tests.
const FAST: &str = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nmax_connections = 300\n\
                    shared_buffers = 128MB\nmax_wal_size = 2GB\n";
/// Settings of a server that survives a kill: full durability.
const DURABLE: &str = "fsync = on\nsynchronous_commit = on\nmax_connections = 100\n";

/// The watcher script: stops the server when no test holds `users` any more. The test that starts the server
/// holds `starting`.
///
/// First it closes every inherited file: a lock of the test runner must not outlive the tests.
const WATCH: &str = r#"
exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-
"$1" -D "$2" >"$3/log" 2>&1 &
server=$!
unused=0
while kill -0 $server 2>/dev/null; do
  sleep 5
  unused=$((unused + 1))
  flock -n -x "$3/users" true || unused=0
  [ $unused -lt 12 ] || flock -n "$3/starting" flock -n -x "$3/users" kill -INT $server
done
"#;

/// A reference to the shared server, until it is dropped.
#[derive(Debug)]
pub struct Shared {
    url: String,
    _user: Option<File>,
}

impl Shared {
    /// URL of its database; options can be appended.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds the shared server, or starts it.
    ///
    /// # Panics
    /// If it is not installed or does not start; the message says what to do.
    pub fn server() -> Self {
        if let Ok(url) = std::env::var(URL_VARIABLE) {
            return Self { url, _user: None };
        }
        find_or_start().unwrap_or_else(|error| panic!("no PostgreSQL to test with: {error}"))
    }
}

fn find_or_start() -> Result<Shared, Error> {
    let binaries = binaries()?;
    let place = std::env::temp_dir().join(format!("weaver-test-postgres-{}", Account::current()?.name));
    std::fs::create_dir_all(&place)?;
    let open = |name: &str| File::options().create(true).append(true).open(place.join(name));
    let user = open("users")?;
    let starting = open("starting")?;
    starting.lock()?;
    // Held from here on: the watcher stops the server only when it gets this lock exclusively.
    user.lock_shared()?;
    let port_file = place.join("port");
    if let Ok(port) = std::fs::read_to_string(&port_file)
        && is_up(&binaries, port.trim())
    {
        return Ok(Shared { url: url(port.trim()), _user: Some(user) });
    }
    let data = place.join("data");
    // Data of an earlier server is useless, and may be incomplete.
    if data.exists() {
        std::fs::remove_dir_all(&data)?;
    }
    let port = start_watched(&binaries, &place, &data)?;
    std::fs::write(&port_file, &port)?;
    Ok(Shared { url: url(&port), _user: Some(user) })
}

fn start_watched(binaries: &Path, place: &Path, data: &Path) -> Result<String, Error> {
    let account = Account::current()?;
    let port = free_port()?;
    initialise(binaries, &account, data)?;
    configure(data, &port, FAST)?;
    let mut watch = account.command_of(Path::new("sh"));
    watch
        .args(["-c", WATCH, "watch"])
        .arg(binaries.join("postgres"))
        .arg(data)
        .arg(place)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // In its own process group: interrupting the tests does not interrupt it.
        .process_group(0)
        .spawn()?;
    wait_until_up(binaries, &port, &place.join("log"))?;
    Ok(port)
}

/// A server for one test, stopped on drop.
#[derive(Debug)]
pub struct Private {
    binaries: PathBuf,
    directory: PathBuf,
    port: String,
}

impl Private {
    /// Starts a durable server.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn durable() -> Self {
        Self::start(DURABLE).unwrap_or_else(|error| panic!("no PostgreSQL to test with: {error}"))
    }

    fn start(settings: &str) -> Result<Self, Error> {
        static NEXT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
        let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("weaver-test-postgres-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&directory)?;
        let account = Account::current()?;
        let server = Self { binaries: binaries()?, directory, port: free_port()? };
        initialise(&server.binaries, &account, &server.data())?;
        configure(&server.data(), &server.port, settings)?;
        server.up()?;
        Ok(server)
    }

    /// URL of its database, without options.
    pub fn url(&self) -> String {
        url(&self.port)
    }

    /// Writes a file next to its data that only the server can read, and returns its path.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn install(&self, name: &str, contents: &str) -> PathBuf {
        use std::os::unix::fs::PermissionsExt;
        let path = self.directory.join(name);
        std::fs::write(&path, contents).expect("the directory can be written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("the file is ours");
        let account = Account::current().expect("the account was found before");
        if account.is_root {
            let owned =
                Command::new("chown").arg(&account.name).arg(&path).status().expect("chown can be run");
            assert!(owned.success(), "the file can be given to {}", account.name);
        }
        path
    }

    /// Restarts it after a stop.
    ///
    /// # Panics
    /// If it does not come up.
    pub fn restart(&self) {
        self.up().unwrap_or_else(|error| panic!("PostgreSQL does not restart: {error}"));
    }

    /// Stops it: `fast` closes connections and flushes; `immediate` is a crash.
    ///
    /// # Panics
    /// If it cannot be stopped.
    pub fn stop(&self, mode: &str) {
        let stopped = self.control().args(["stop", "-w", "-m", mode, "-t", "60"]).output();
        let stopped = stopped.expect("pg_ctl can be run");
        assert!(stopped.status.success(), "{}", String::from_utf8_lossy(&stopped.stderr));
    }

    fn up(&self) -> Result<(), Error> {
        let log = self.directory.join("log");
        let mut start = self.control();
        start.arg("-l").arg(&log).args(["start", "-w", "-t", "60"]);
        let started = start.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        if started.success() {
            return Ok(());
        }
        Err(Error::other(format!("pg_ctl start failed: {}", tail(&log))))
    }

    fn control(&self) -> Command {
        let mut control = Account::current()
            .expect("the account was found before")
            .command_of(&self.binaries.join("pg_ctl"));
        control.arg("-D").arg(self.data());
        control
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        let _ = self
            .control()
            .args(["stop", "-m", "immediate"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The account that the server runs as: PostgreSQL refuses to run as root.
#[derive(Debug)]
pub(super) struct Account {
    pub(super) name: String,
    pub(super) is_root: bool,
}

impl Account {
    pub(super) fn current() -> Result<Self, Error> {
        static CURRENT: OnceLock<String> = OnceLock::new();
        let name = match CURRENT.get() {
            Some(name) => name.clone(),
            None => {
                let output = Command::new("id").arg("-un").output()?;
                let name = String::from_utf8_lossy(&output.stdout).trim().to_owned();
                CURRENT.get_or_init(|| name).clone()
            }
        };
        if name != "root" {
            return Ok(Self { name, is_root: false });
        }
        let there =
            Command::new("id").arg("postgres").stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        let name = if there.success() { "postgres" } else { "nobody" };
        Ok(Self { name: name.to_owned(), is_root: true })
    }

    fn command_of(&self, program: &Path) -> Command {
        if !self.is_root {
            return Command::new(program);
        }
        let mut command = Command::new("runuser");
        command.args(["-u", &self.name, "--"]).arg(program);
        // It may have no access to the current directory.
        command.current_dir("/");
        command
    }
}

fn initialise(binaries: &Path, account: &Account, data: &Path) -> Result<(), Error> {
    if let (true, Some(parent)) = (account.is_root, data.parent()) {
        let owned = Command::new("chown").args(["-R", &account.name]).arg(parent).status()?;
        if !owned.success() {
            return Err(Error::other(format!("chown {} {} failed", account.name, parent.display())));
        }
    }
    let output = account
        .command_of(&binaries.join("initdb"))
        .arg("-D")
        .arg(data)
        .args(["-A", "trust", "-U", "weaver", "--no-sync", "-E", "UTF8", "--locale=C"])
        .output()?;
    if output.status.success() {
        return Ok(());
    }
    Err(Error::other(format!("initdb: {}", String::from_utf8_lossy(&output.stderr))))
}

fn configure(data: &Path, port: &str, settings: &str) -> Result<(), Error> {
    let mut file = File::options().append(true).open(data.join("postgresql.conf"))?;
    writeln!(
        file,
        "\nlisten_addresses = '127.0.0.1'\nport = {port}\nunix_socket_directories = ''\n{settings}"
    )
}

fn url(port: &str) -> String {
    format!("postgres://weaver@127.0.0.1:{port}/postgres")
}

fn free_port() -> Result<String, Error> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string())
}

fn is_up(binaries: &Path, port: &str) -> bool {
    let ready = Command::new(binaries.join("pg_isready"))
        .args(["-q", "-h", "127.0.0.1", "-p", port])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    ready.is_ok_and(|status| status.success())
}

#[expect(clippy::disallowed_methods, reason = "a process does not announce that it is up: it is polled")]
fn wait_until_up(binaries: &Path, port: &str, log: &Path) -> Result<(), Error> {
    const TRIES: usize = 600;
    for _ in 0..TRIES {
        if is_up(binaries, port) {
            return Ok(());
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    Err(Error::new(ErrorKind::TimedOut, format!("PostgreSQL does not come up: {}", tail(log))))
}

fn tail(log: &Path) -> String {
    let mut text = String::new();
    if let Ok(mut file) = File::open(log) {
        let _ = file.read_to_string(&mut text);
    }
    let lines: Vec<&str> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}

/// Directory of the server's binaries: Debian's, the newest first, or on the path.
fn binaries() -> Result<PathBuf, Error> {
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    let mut debian: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|versions| versions.flatten().map(|version| version.path().join("bin")).collect())
        .unwrap_or_default();
    debian.sort();
    let whole = |place: &PathBuf| {
        ["initdb", "postgres", "pg_ctl", "pg_isready"].iter().all(|name| place.join(name).exists())
    };
    let found = debian.into_iter().rev().chain(on_path).find(whole);
    found.ok_or_else(|| Error::new(ErrorKind::NotFound, INSTALL))
}
