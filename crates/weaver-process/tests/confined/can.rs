//! What a confined command can do: real work.

use bytes::Bytes;
use weaver_process::confine::{Mode, Overlay};
use weaver_process::{Finished, StartError, run};
use weaver_runtime::SystemClock;

use crate::Test;
use crate::bench::{Bench, OTHER, is_root, wait};
use crate::harness::{Dir, in_time};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("a_confined_command_reads_its_input_writes_its_directory_and_returns_its_exit_code", ordinary_work),
        ("a_confined_command_has_a_home_a_tmp_devices_and_a_user_name", a_machine_of_its_own),
        ("without_a_network_a_command_still_has_its_own_loopback", own_loopback),
        (
            "a_directory_of_another_user_is_the_commands_own_and_stays_that_users_on_disk",
            another_users_directory,
        ),
        ("what_a_command_writes_to_shared_files_stays_in_a_layer_of_its_own", a_layer_of_its_own),
        ("with_landlock_only_ordinary_work_succeeds", landlock_alone),
    ]
}

fn ordinary_work() {
    let mut bench = Bench::new();
    bench.stdin = Some(Bytes::from_static(b"a prompt\n"));
    assert_eq!(
        bench.says("cat > here; mkdir -p a/b; cat here | tr a-z A-Z; pwd | xargs basename >/dev/null"),
        "A PROMPT"
    );
    assert_eq!(std::fs::read_to_string(bench.dir.path().join("here")).unwrap(), "a prompt\n");
    assert_eq!(bench.sh("exit 7").status.code(), Some(7));
    assert_eq!(bench.sh("kill -9 $$").status.code(), Some(137));
}

fn a_machine_of_its_own() {
    let bench = Bench::new();
    assert_eq!(bench.says("id -un; echo x > ~/f && cat ~/f; echo y > /tmp/f && cat /tmp/f"), "weaver\nx\ny");
    bench.says("head -c 8 /dev/urandom > /dev/null; echo > /dev/null; test -w /dev/shm; ls /proc/self/fd > /dev/null");
    bench.says("git init -q . && git -c user.name=a -c user.email=b commit -q --allow-empty -m x && git log --oneline");
    assert_eq!(
        bench.says("cd /tmp && ls -A | grep -v weaver | wc -l"),
        "0",
        "of the host's /tmp only what is declared"
    );
}

fn another_users_directory() {
    use std::os::unix::fs::{MetadataExt, chown};

    let bench = Bench::new();
    if is_root() {
        chown(bench.dir.path(), Some(0), Some(0)).unwrap();
    }
    std::fs::write(bench.dir.path().join("old"), "a").unwrap();
    bench.says("echo b >> old && mkdir new && echo c > new/file && stat -c %U old | grep weaver");
    let owner = std::fs::metadata(bench.dir.path()).unwrap().uid();
    for path in ["old", "new", "new/file"] {
        assert_eq!(std::fs::metadata(bench.dir.path().join(path)).unwrap().uid(), owner, "{path}");
    }
    assert_ne!(bench.says("grep Uid /proc/self/status | cut -f2"), "0", "and the command is not root");
}

/// Runs a script whose directory is an overlay over `lower`.
fn over(bench: &Bench, lower: &Dir, layers: &Dir, script: &str) -> std::io::Result<Finished<()>> {
    let mut spec = bench.spec(script);
    if let Some(confinement) = &mut spec.confinement {
        confinement.overlay = Some(Overlay {
            target: bench.dir.path().to_owned(),
            lower: lower.path().join("files"),
            upper: layers.path().join("upper"),
            work: layers.path().join("work"),
        });
    }
    wait(in_time("it ends", run(&spec, &SystemClock::new(), |_, _| {}, std::future::pending::<()>())))
}

fn a_layer_of_its_own() {
    use std::os::unix::fs::chown;

    let (bench, lower, layers) = (Bench::new(), Dir::new(), Dir::new());
    let files = lower.path().join("files");
    let own = |path: &std::path::Path| {
        if is_root() {
            chown(path, Some(OTHER.uid), Some(OTHER.gid)).unwrap();
        }
    };
    for directory in [&files, &layers.path().join("upper"), &layers.path().join("work")] {
        std::fs::create_dir(directory).unwrap();
        own(directory);
    }
    for (name, text) in [("changed", "old"), ("removed", "old")] {
        std::fs::write(files.join(name), text).unwrap();
        own(&files.join(name));
    }
    let script = "cat changed && echo new > changed && rm removed && echo new > added && cat changed && ls";
    match over(&bench, &lower, &layers, script) {
        Ok(finished) => {
            assert_eq!(finished.tail.trim_end(), "oldnew\nadded\nchanged", "{:?}", finished.status);
            assert_eq!(std::fs::read_to_string(layers.path().join("upper/added")).unwrap(), "new\n");
        }
        // Not every file system can be a layer. The caller must be able to tell.
        Err(error) => assert!(StartError::of(&error).unwrap().is_about_overlay(), "{error}"),
    }
    assert_eq!(std::fs::read_to_string(files.join("changed")).unwrap(), "old");
    assert!(files.join("removed").exists() && !files.join("added").exists());
    assert!(!bench.dir.path().join("added").exists());
    let error = over(&bench, &Dir::new(), &layers, "true").unwrap_err();
    assert!(StartError::of(&error).unwrap().is_about_overlay(), "{error}");
}

fn own_loopback() {
    let bench = Bench::new();
    let script = "python3 - <<'E'\nimport socket,threading\ns=socket.create_server(('127.0.0.1',0))\n\
        threading.Thread(target=lambda: s.accept()[0].sendall(b'hello')).start()\n\
        print(socket.create_connection(s.getsockname()).recv(5).decode())\nE";
    assert_eq!(bench.says(script), "hello");
}

fn landlock_alone() {
    let bench = Bench::new().in_mode(Mode::Landlock).with_network(&[443]);
    bench.says("echo x > f && cat f && ls /usr/bin > /dev/null && date");
}
