//! A throw-away PgBouncer in transaction mode, in front of a test's PostgreSQL.

use std::io::{Error, ErrorKind};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::postgres::Account;

const INSTALL: &str = "PgBouncer is missing: install it with `apt-get install pgbouncer`";

/// A pooler for one test, stopped on drop.
#[derive(Debug)]
pub struct Pooler {
    child: Child,
    directory: PathBuf,
    port: u16,
    database: String,
}

impl Pooler {
    /// Starts a pooler for the server of this URL, with this many server connections in total.
    ///
    /// # Panics
    /// If it is not installed or does not start; the message says what to do.
    pub fn in_front_of(url: &str, connections: u16) -> Self {
        start(url, connections).unwrap_or_else(|error| panic!("no pooler to test with: {error}"))
    }

    /// URL of the database through the pooler; options can be appended.
    pub fn url(&self) -> String {
        format!("postgres://weaver@127.0.0.1:{}/{}", self.port, self.database)
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// On the path, or where Debian puts it, which is not on the path of most users.
fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let places = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    places.map(|place| place.join("pgbouncer")).find(|file| file.is_file())
}

fn start(url: &str, connections: u16) -> Result<Pooler, Error> {
    let program = program().ok_or_else(|| Error::new(ErrorKind::NotFound, INSTALL))?;
    let (server_port, database) = place(url).ok_or_else(|| Error::other(format!("{url} has no port")))?;
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let directory = std::env::temp_dir().join(format!("weaver-test-pooler-{}-{port}", std::process::id()));
    std::fs::create_dir_all(&directory)?;
    let configuration = directory.join("pgbouncer.ini");
    let log = directory.join("log");
    std::fs::write(
        &configuration,
        format!(
            "[databases]\n* = host=127.0.0.1 port={server_port} user=weaver\n[pgbouncer]\nlisten_addr = 127.0.0.1\n\
             listen_port = {port}\nunix_socket_dir =\nauth_type = any\npool_mode = transaction\n\
             default_pool_size = {connections}\nmax_client_conn = 500\nignore_startup_parameters = extra_float_digits\n"
        ),
    )?;
    let output = std::fs::File::create(&log)?;
    let mut command = Command::new(program);
    // Like PostgreSQL, it refuses to run as root.
    let account = Account::current()?;
    if account.is_root {
        command.args(["-u", &account.name]);
    }
    let child =
        command.arg(&configuration).stdin(Stdio::null()).stdout(Stdio::null()).stderr(output).spawn()?;
    let mut pooler = Pooler { child, directory, port, database };
    wait_until_up(&mut pooler, &log)?;
    Ok(pooler)
}

/// The port and the database of a URL.
fn place(url: &str) -> Option<(String, String)> {
    let (_, after_host) = url.rsplit_once(':')?;
    let (port, database) = after_host.split_once('/')?;
    Some((port.to_owned(), database.split('?').next()?.to_owned()))
}

#[expect(clippy::disallowed_methods, reason = "a process does not announce that it is up: it is polled")]
fn wait_until_up(pooler: &mut Pooler, log: &Path) -> Result<(), Error> {
    const TRIES: usize = 600;
    for _ in 0..TRIES {
        if TcpStream::connect(("127.0.0.1", pooler.port)).is_ok() {
            return Ok(());
        }
        if pooler.child.try_wait()?.is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    Err(Error::other(format!("it does not come up: {}", std::fs::read_to_string(log).unwrap_or_default())))
}
