//! A real browser: Debian's `chromium` with its driver; and axe-core, which finds accessibility problems.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

const INSTALL: &str = "tests of the dashboard need a browser: `apt-get install chromium chromium-driver`";
const AXE_PACKAGE: &str = "axe-core@4.10.3";
const AXE_ARCHIVE: &str = "axe-core-4.10.3.tgz";
/// Startup time limit of the driver.
const STARTS_WITHIN_S: u32 = 20;

/// A chromedriver process; killed with its browsers on drop.
#[derive(Debug)]
pub struct Driver {
    process: Child,
    port: u16,
    /// Profiles of its browsers.
    directory: PathBuf,
}

impl Driver {
    /// Starts chromedriver on a free port.
    ///
    /// # Panics
    /// If it is not installed; the message says what to install.
    #[expect(clippy::disallowed_methods, reason = "a program on this machine starts in real time")]
    pub fn start() -> Self {
        let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let port = free.local_addr().expect("it is bound").port();
        drop(free);
        let directory = std::env::temp_dir().join(format!("weaver-browser-{}-{port}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("the system's directory for such things can be written");
        let spawned = Command::new("chromedriver")
            .arg(format!("--port={port}"))
            .env("TMPDIR", &directory)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let process = spawned.unwrap_or_else(|error| panic!("chromedriver: {error}; {INSTALL}"));
        let driver = Self { process, port, directory };
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        for _ in 0..STARTS_WITHIN_S * 40 {
            if TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok() {
                return driver;
            }
            std::thread::sleep(Duration::from_millis(25));
        }
        panic!("chromedriver did not start within {STARTS_WITHIN_S} s; {INSTALL}");
    }

    /// Base URL of the WebDriver API.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The engine alone, where it is installed: the same pages without the browser's own windows, in half the
    /// time.
    ///
    /// # Panics
    /// If there is no browser; the message says what to install.
    pub fn engine() -> &'static str {
        // Not the script in `/usr/bin`: it does not `exec`, so that killing it would leave the engine
        // running.
        let shell = "/usr/lib/chromium/chromium-headless-shell";
        if Path::new(shell).exists() { shell } else { Self::browser() }
    }

    /// A whole browser: a tab behind another one is hidden, as on a person's screen.
    ///
    /// # Panics
    /// If there is none; the message says what to install.
    pub fn browser() -> &'static str {
        let places = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
        let found = places.into_iter().find(|place| Path::new(place).exists());
        found.unwrap_or_else(|| panic!("{INSTALL}"))
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // A failed test has not closed its browsers, and the driver leaves them behind: they would keep
        // sending requests.
        let browsers = children_of(self.process.id());
        let _ = self.process.kill(); // It may have exited already.
        let _ = self.process.wait(); // Its status says nothing about the test.
        for browser in browsers {
            let _ = Command::new("kill").args(["-KILL", &browser]).stderr(Stdio::null()).status(); // As above.
        }
        let _ = std::fs::remove_dir_all(&self.directory); // Leftover files do no harm.
    }
}

/// The processes that a process has started, as far as they run.
fn children_of(parent: u32) -> Vec<String> {
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|entry| entry.file_name().into_string().ok());
    let is_child = |number: &String| {
        let stat = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // After the name, which may hold anything: the state, and the parent.
        let after = stat.rsplit(')').next().unwrap_or_default();
        after.split_whitespace().nth(1) == Some(&parent.to_string())
    };
    numbers.filter(|number| number.bytes().all(|byte| byte.is_ascii_digit())).filter(is_child).collect()
}

/// The script of axe-core, fetched once into the build's own directory.
///
/// # Panics
/// If it cannot be fetched; the message says what to install.
pub fn axe_script() -> String {
    let directory = directory();
    let script = directory.join("package/axe.min.js");
    std::fs::create_dir_all(&directory).expect("the build's directory can be written");
    let lock = std::fs::File::create(directory.join("LOCK")).expect("the build's directory can be written");
    lock.lock().expect("files can be locked");
    if !script.exists() {
        run(&directory, Command::new("npm").args(["pack", "--silent", AXE_PACKAGE]), "apt-get install npm");
        run(&directory, Command::new("tar").args(["xzf", AXE_ARCHIVE]), "apt-get install tar");
    }
    std::fs::read_to_string(script).expect("the package has the script")
}

/// A directory that outlives the run: the pipeline's cache, or the build directory.
fn directory() -> PathBuf {
    if let Some(cache) = std::env::var_os("WEAVER_CI_CACHE").filter(|cache| Path::new(cache).is_dir()) {
        return PathBuf::from(cache).join("services/axe");
    }
    let test = std::env::current_exe().expect("a test is a file");
    // <target>/<profile>/deps/<test>
    let target = test.ancestors().nth(3).expect("tests lie in the build's directory");
    target.join("services/axe")
}

fn run(directory: &Path, command: &mut Command, install: &str) {
    let shown = format!("{command:?}");
    let done = command.current_dir(directory).stdout(Stdio::null()).status();
    assert!(done.is_ok_and(|status| status.success()), "{shown} failed: axe-core comes by npm: `{install}`");
}
