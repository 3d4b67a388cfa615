//! A program that uses the library alone does not build the command line.

use std::path::Path;
use std::process::Command;

/// The crates that the library needs with these features.
fn needed(features: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--package", "weaver", "--edges", "normal", "--prefix", "none", "--offline"])
        .args(features)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .expect("cargo is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn without_default_features_the_library_needs_nothing_of_the_command_line() {
    let has = |tree: &str, name: &str| tree.lines().any(|line| line.split(' ').next() == Some(name));
    let all = needed(&[]);
    let lean = needed(&["--no-default-features"]);
    let embedded = needed(&["--no-default-features", "--features", "embedded"]);
    assert!(has(&lean, "weaver-runtime") && has(&embedded, "redb"));
    assert!(!has(&lean, "redb"));
    for name in ["clap", "clap_complete", "reqwest", "rustls", "terminal_size", "toml", "weaver-client"] {
        assert!(has(&all, name), "{name} is not even in the whole: correct this list");
        assert!(!has(&lean, name) && !has(&embedded, name), "{name}");
    }
}
