//! Confined with the defaults, real work still runs: nothing is declared but a toolchain that is not part of
//! the system.

use std::process::Command;

use crate::stage::{Stage, User};

/// A merge queue whose check is this command line of a shell, and a change that adds these files; how the
/// change ended, and what its check printed.
fn checked(stage: &Stage, command: &str, files: &[(&str, &str)]) -> (String, String) {
    let config = format!("[[check]]\nname = \"unit\"\ncommand = [\"sh\", \"-ec\", '''{command}''']\n");
    std::fs::write(stage.path.join("config"), config).unwrap();
    stage.sh(
        "git init -q -b main work && mkdir work/.weaver && cp config work/.weaver/merge.toml && git -C work add -A && \
         git -C work commit -q -m first && git clone -q --bare work project.git && git -C work switch -q -c change main",
    );
    stage.says("merge add-repo project.git --base main");
    for (name, text) in files {
        std::fs::write(stage.path.join("file"), text).unwrap();
        stage.sh(&format!("mkdir -p $(dirname work/{name}) && cp file work/{name}"));
    }
    stage.sh(
        "git -C work add -A && git -C work commit -q -m change && git -C work push -q ../project.git change",
    );
    stage.says("merge enqueue --head change");
    stage.says("merge wait");
    let status: serde_json::Value = serde_json::from_str(&stage.says("merge status --output json")).unwrap();
    (status["history"][0]["status"].as_str().unwrap_or("none").to_owned(), stage.logs("--queue merge"))
}

#[track_caller]
fn lands(stage: &Stage, command: &str, files: &[(&str, &str)]) -> String {
    let (status, log) = checked(stage, command, files);
    assert_eq!(status, "landed", "{log}");
    log
}

/// The link leads to a program of the host that the sandbox does not have: outside it looks fine.
#[test]
fn a_program_of_the_change_that_is_none_is_a_red_check_and_the_queue_goes_on() {
    let stage = Stage::new(User::Ours, "");
    let outside = stage.path.join("outside/program");
    std::fs::copy("/bin/true", &outside).unwrap();
    let config = "[[check]]\nname = \"unit\"\ncommand = [\"./test\"]\n";
    std::fs::write(stage.path.join("config"), config).unwrap();
    stage.sh(&format!(
        "git init -q -b main work && mkdir work/.weaver && cp config work/.weaver/merge.toml && cp /bin/true work/test && \
         git -C work add -A && git -C work commit -q -m first && git clone -q --bare work project.git && \
         git -C work switch -q -c hostile main && ln -sf {} work/test && git -C work commit -q -a -m link && \
         git -C work switch -q -c honest main && touch work/honest && git -C work add -A && git -C work commit -q -m honest && \
         git -C work push -q ../project.git hostile honest",
        outside.display()
    ));
    stage.says("merge add-repo project.git --base main");
    stage.says("merge enqueue --head hostile");
    stage.says("merge enqueue --head honest");
    stage.says("merge wait");
    let status: serde_json::Value = serde_json::from_str(&stage.says("merge status --output json")).unwrap();
    let left = |name: &str| {
        let all = status["history"].as_array().unwrap().iter();
        all.clone()
            .find(|entry| entry["change"] == name)
            .map(|entry| entry["status"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(
        (left("hostile").as_deref(), left("honest").as_deref()),
        (Some("failed"), Some("landed")),
        "{status}"
    );
}

#[test]
fn a_check_with_cargo_runs_offline_and_builds_into_its_cache() {
    let sysroot = Command::new("rustc").args(["--print", "sysroot"]).output().unwrap();
    let sysroot = String::from_utf8(sysroot.stdout).unwrap().trim().to_owned();
    // Where the toolchain is: installed by rustup, it is in a home directory.
    let config = format!("[confine]\ncache = \"{{cache}}\"\n[confine.check]\nread_only = [\"{sysroot}\"]\n");
    let stage = Stage::new(User::Ours, &config);
    let cargo = format!(
        "PATH={sysroot}/bin:$PATH CARGO_HOME=$WEAVER_CACHE/cargo CARGO_TARGET_DIR=$WEAVER_CACHE/target cargo"
    );
    let command = format!(
        "test ! -e Cargo.toml || {{ {cargo} test --offline 2>&1; {cargo} test --offline --no-run -v 2>&1; }}"
    );
    let files = [
        ("Cargo.toml", "[package]\nname = \"sample\"\nversion = \"0.1.0\"\nedition = \"2021\"\n"),
        ("Cargo.lock", "version = 3\n\n[[package]]\nname = \"sample\"\nversion = \"0.1.0\"\n"),
        ("src/lib.rs", "#[test]\nfn it_works() { assert_eq!(1 + 1, 2); }\n"),
    ];
    let log = lands(&stage, &command, &files);
    assert!(log.contains("it_works ... ok") && log.contains("Fresh sample"), "{log}");
}

#[test]
fn a_check_with_npm_installs_offline_and_runs_its_script() {
    let stage = Stage::new(User::Ours, "");
    let files = [
        (
            "package.json",
            "{\"name\": \"sample\", \"version\": \"1.0.0\", \"scripts\": {\"test\": \"node test.js\"}}",
        ),
        (
            "package-lock.json",
            "{\"name\": \"sample\", \"version\": \"1.0.0\", \"lockfileVersion\": 3, \"packages\": {\"\": {\"name\": \"sample\", \"version\": \"1.0.0\"}}}",
        ),
        (
            "test.js",
            "require('assert').equal(require('os').userInfo().username, 'weaver'); console.log('tested by node')",
        ),
    ];
    let log = lands(&stage, "test ! -e package.json || { npm ci --offline; npm test; }", &files);
    assert!(log.contains("tested by node"), "{log}");
}

#[test]
fn a_check_with_git_makes_a_repository_of_its_own() {
    for user in User::all() {
        let stage = Stage::new(user, "");
        let git = "git -c user.name=a -c user.email=b";
        let command = format!(
            "git init -q . && {git} add -A && {git} commit -q -m x && git log --format=%s && git clone -q . ~/copy && ls ~/copy"
        );
        let log = lands(&stage, &command, &[("sample", "text")]);
        assert!(log.contains("sample"), "{log}");
    }
}

#[test]
fn an_exec_task_runs_a_pipeline_of_the_shell_and_leaves_its_files() {
    for user in User::all() {
        let stage = Stage::new(user, "");
        let script = "printf 'b\\na\\n' | sort | tee sorted | wc -l; date > /dev/null; mktemp > /dev/null";
        let payload = serde_json::json!({"command": "sh", "values": {"script": script}}).to_string();
        let output = stage.weaver("enqueue exec --wait").arg(payload).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert_eq!(std::fs::read_to_string(stage.path.join("exec/sorted")).unwrap(), "a\nb\n");
    }
}

#[test]
fn an_agent_edits_its_project_and_commits() {
    use std::os::unix::fs::MetadataExt;

    for user in User::all() {
        let stage = Stage::new(user, "");
        stage.sh("git init -q -b main project && echo one > project/file && git -C project add -A && git -C project commit -q -m first");
        let agent = "sed -i s/one/two/ file; cat > notes; git -c user.name=a -c user.email=b commit -q -a -m edited; git log --format=%s -n 1";
        std::fs::write(stage.path.join("agent.sh"), agent).unwrap();
        stage.sh("cp agent.sh project/agent.sh");
        let _runner = stage.runner("project");
        let answer = stage.weaver("prompt -n app --wait").args(["--", "replace one"]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&answer.stdout), "edited\n", "{answer:?}");
        let read = |name: &str| std::fs::read_to_string(stage.path.join("project").join(name)).unwrap();
        assert_eq!((read("file").as_str(), read("notes").as_str()), ("two\n", "replace one"));
        let owner = |name: &str| std::fs::metadata(stage.path.join("project").join(name)).unwrap().uid();
        assert_eq!(owner("notes"), owner("."), "what it made belongs to the project's owner");
    }
}
