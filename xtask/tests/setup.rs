//! `cargo xtask setup` as a process, on a machine whose `PATH` has a fake `apt-get` and a fake `cargo`, and
//! nothing else.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail by panicking")]

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What the fake `apt-get` can bring: the programs that are looked for by name. What is looked for by its
/// place (the browser, PostgreSQL) is this machine's own.
const PROGRAMS: [&str; 11] = [
    "cc",
    "git",
    "curl",
    "pgrep",
    "faketime",
    "python3",
    "java",
    "npm",
    "chromedriver",
    "chromium-headless-shell",
    "pgbouncer",
];

struct Bare(PathBuf);

impl Bare {
    fn new(name: &str) -> Self {
        let root =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("setup-{}-{name}", std::process::id()));
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("target")).unwrap();
        let bare = Self(root);
        // The fakes use what a shell has built in: their PATH is as empty as ours.
        bare.script(
            "apt-get",
            &format!(
                "echo \"apt-get $*\" >> '{log}'\n\
             [ \"$1\" = install ] || exit 0\n\
             for name in {programs}; do\n\
               printf '#!/bin/sh\\nexit 0\\n' > '{bin}'/$name\n\
               {chmod} 755 '{bin}'/$name\n\
             done\n",
                log = bare.log().display(),
                bin = bare.bin().display(),
                programs = PROGRAMS.join(" "),
                chmod = chmod(),
            ),
        );
        bare.script(
            "cargo",
            &format!(
                "if [ \"$1\" = nextest ]; then command -v cargo-nextest; exit; fi\n\
             echo \"cargo $*\" >> '{log}'\n\
             {mkdir} -p \"$5/bin\" && printf '#!/bin/sh\\n' > \"$5/bin/cargo-nextest\" \
             && {chmod} 755 \"$5/bin/cargo-nextest\"\n",
                log = bare.log().display(),
                mkdir = mkdir(),
                chmod = chmod(),
            ),
        );
        bare
    }

    fn bin(&self) -> PathBuf {
        self.0.join("bin")
    }

    fn log(&self) -> PathBuf {
        self.0.join("calls")
    }

    fn script(&self, name: &str, body: &str) {
        let file = self.bin().join(name);
        std::fs::write(&file, format!("#!/bin/sh\n{body}")).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.log()).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    fn xtask(&self, verb: &str) -> Output {
        let mut xtask = Command::new(env!("CARGO_BIN_EXE_xtask"));
        xtask.arg(verb).env("PATH", self.bin()).env("CARGO", self.bin().join("cargo"));
        xtask.env("CARGO_TARGET_DIR", self.0.join("target")).output().unwrap()
    }
}

impl Drop for Bare {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0); // What is left lies in the build's own directory.
    }
}

fn chmod() -> &'static str {
    "/bin/chmod"
}

fn mkdir() -> &'static str {
    "/bin/mkdir"
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_bare_machine_gets_everything_by_one_install_and_nextest_in_a_directory_of_the_build() {
    let bare = Bare::new("root");
    let output = bare.xtask("setup");
    if !is_root() {
        assert!(!output.status.success());
        assert!(text(&output).contains("sudo sh -c 'apt-get update && apt-get install"), "{}", text(&output));
        assert_eq!(bare.calls(), [""; 0], "a user installs nothing");
        return;
    }
    assert!(output.status.success(), "{}", text(&output));
    let calls = bare.calls();
    assert_eq!(calls.len(), 3, "{calls:#?}");
    assert_eq!(calls[0], "apt-get update -o Acquire::Retries=5");
    assert!(
        calls[1].starts_with("apt-get install --yes --no-install-recommends gcc git curl procps"),
        "{}",
        calls[1]
    );
    assert!(calls[1].contains("python3-venv default-jre-headless npm"), "{}", calls[1]);
    let tools = bare.0.join("target/xtask-tools");
    assert_eq!(calls[2], format!("cargo install cargo-nextest --locked --root {}", tools.display()));

    // What is there is not installed again.
    let output = bare.xtask("setup");
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(bare.calls(), calls);
}

#[test]
fn the_gate_stops_before_it_compiles_anything_where_nothing_can_be_installed() {
    let bare = Bare::new("refused");
    std::fs::remove_file(bare.bin().join("apt-get")).unwrap();
    let output = bare.xtask("test");
    assert!(!output.status.success());
    assert!(text(&output).contains("there is no apt-get to install them"), "{}", text(&output));
    assert!(text(&output).contains("chromium-driver"), "{}", text(&output));
    assert_eq!(bare.calls(), [""; 0], "cargo was not called");
}
