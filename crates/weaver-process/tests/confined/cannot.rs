//! What a confined command cannot do. Each of these succeeds for a command that is not confined
//! (`unconfined_it_works`).

use std::io::Read;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::{Command, Stdio};

use weaver_process::confine::Mode;
use weaver_process::{ProcessSpec, run};
use weaver_runtime::SystemClock;

use crate::Test;
use crate::bench::{Bench, OTHER, guard, is_root, wait};
use crate::harness::{Dir, in_time, is_alive};

pub(crate) fn tests() -> Vec<Test> {
    vec![
        ("a_confined_command_sees_no_process_but_its_own", no_processes),
        ("a_confined_command_cannot_read_or_signal_or_trace_the_server", no_server),
        ("a_confined_command_sees_no_file_that_is_not_declared", no_files),
        ("a_confined_command_writes_only_to_writable_paths", no_writes),
        ("symlinks_and_dots_do_not_lead_out_of_the_sandbox", no_links),
        ("a_store_inside_the_commands_own_directory_is_masked", masked),
        ("without_a_network_no_port_of_the_host_is_reachable", no_network),
        ("with_a_network_only_the_listed_ports_can_be_connected_to", listed_ports),
        ("abstract_and_pathname_sockets_of_the_host_are_unreachable", no_sockets),
        ("a_daemon_ends_with_its_command", no_daemon),
        ("a_fork_bomb_ends_at_its_limit_and_does_not_affect_other_sandboxes", no_fork_bomb),
        ("the_sizes_of_files_and_of_tmp_are_limited", no_huge_file),
        ("a_command_that_uses_too_much_memory_fails", no_memory),
        ("a_command_that_uses_too_much_cpu_time_is_killed", no_processor_time),
        ("a_confined_command_is_in_namespaces_of_its_own", own_namespaces),
        ("a_command_inherits_no_descriptors_and_no_environment", nothing_inherited),
        ("a_command_gains_no_privileges", no_privileges),
        ("the_environment_of_a_command_does_not_reach_its_guard", guard_is_not_fooled),
        ("with_landlock_only_undeclared_files_and_other_processes_are_inaccessible", landlock_alone),
        (
            "a_command_that_cannot_be_confined_does_not_start_and_the_error_names_alternatives",
            cannot_be_confined,
        ),
    ]
}

fn no_processes() {
    // PID 1, the shell, and at most three of the pipe.
    let count: u32 = Bench::new().says("ls /proc | grep -c '^[0-9]'").parse().unwrap();
    assert!(count <= 5, "{count}");
}

/// This process is in the place of the server: it started the guard.
fn no_server() {
    weaver_process::secrecy::forbid_inspection();
    let bench = Bench::new();
    let me = std::process::id();
    bench.fails(&format!("cat /proc/{me}/environ || kill -0 {me}"));
    bench.fails("cat /proc/1/environ");
    bench.fails("ls -l /proc/1/fd || cat /proc/1/mem");
    let alone = Bench::new().in_mode(Mode::Landlock).with_network(&[443]);
    alone.fails(&format!("cat /proc/{me}/environ"));
    // Signal 0 only checks the permission. A server that runs as root has given its command another user.
    alone.fails(&format!("kill -0 {me}"));
}

fn no_files() {
    let secret = Dir::new();
    std::fs::write(secret.path().join("token"), "secret").unwrap();
    let bench = Bench::new();
    bench.fails(&format!("cat {}/token", secret.path().display()));
    for path in ["/etc/shadow", "/etc/weaver", "/var/lib/dpkg/status", "/etc/ssl/private"] {
        assert_eq!(bench.says(&format!("test -e {path} && cat {path} || echo none")), "none", "{path}");
    }
    let shown = Bench {
        rules: weaver_process::Rules { read_only: vec![secret.path().into()], ..bench.rules.clone() },
        ..bench
    };
    if is_root() {
        std::os::unix::fs::chown(secret.path().join("token"), Some(65534), None).unwrap();
    }
    assert_eq!(shown.says(&format!("cat {}/token", secret.path().display())), "secret");
    shown.fails(&format!("echo x > {}/token", secret.path().display()));
}

fn no_writes() {
    let bench = Bench::new();
    for path in ["/usr/x", "/etc/x", "/x", "/sys/x", "/bin/x", "/proc/sys/kernel/hostname"] {
        bench.fails(&format!("echo x > {path}"));
    }
    bench.fails("mount -t tmpfs none /usr || unshare -m true");
    bench.says("echo x > /tmp/left-behind; echo x > /var/tmp/left-behind; echo x > /dev/shm/left-behind; echo > /run/x");
    for path in ["/tmp/left-behind", "/var/tmp/left-behind", "/dev/shm/left-behind", "/run/x"] {
        assert!(!Path::new(path).exists(), "{path}");
    }
}

fn no_links() {
    let secret = Dir::new();
    std::fs::write(secret.path().join("token"), "secret").unwrap();
    let bench = Bench::new();
    symlink(secret.path(), bench.dir.path().join("out")).unwrap();
    bench.fails("cat out/token");
    bench.fails("echo x > out/token");
    bench.fails(&format!("cat ../{}/token", secret.path().file_name().unwrap().to_string_lossy()));
    // The directory was checked before; it is checked again when it is entered, with or without a sandbox.
    for confinement in [Some(bench.confinement().unwrap()), None] {
        let spec = ProcessSpec {
            beneath: Some(bench.dir.path().to_owned()),
            current_dir: bench.dir.path().join("out"),
            confinement,
            ..bench.spec("cat token")
        };
        let refused =
            wait(run(&spec, &SystemClock::new(), |_, _| {}, std::future::pending::<()>())).unwrap_err();
        assert!(refused.to_string().contains("cannot enter"), "{refused}");
    }
}

fn masked() {
    let mut bench = Bench::new();
    let store = bench.dir.path().join("weaver-data");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("weaver.redb"), "records").unwrap();
    std::fs::write(bench.dir.path().join("weaver.toml"), "token = 1").unwrap();
    bench.options.protected = vec![store.clone(), bench.dir.path().join("weaver.toml")];
    bench.fails("cat weaver-data/weaver.redb");
    assert_eq!(bench.says("cat weaver.toml"), "");
    bench.fails("rm -rf weaver-data");
    bench.fails("mv weaver-data elsewhere");
    assert!(store.join("weaver.redb").exists());
}

fn connect(port: u16) -> String {
    format!("timeout 5 bash -c 'exec 3<>/dev/tcp/127.0.0.1/{port}'")
}

fn no_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    Bench::new().fails(&connect(port));
    assert_eq!(
        Bench::new().says("ls /sys/class/net >/dev/null; cat /proc/net/dev | grep -c :"),
        "1",
        "only its own `lo`"
    );
}

fn listed_ports() {
    let (listed, other) =
        (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
    let port = |listener: &TcpListener| listener.local_addr().unwrap().port();
    let bench = Bench::new().with_network(&[port(&listed)]);
    bench.says(&connect(port(&listed)));
    bench.fails(&connect(port(&other)));
    let free = port(&other);
    drop(other);
    bench.fails(&format!("python3 -c 'import socket; socket.create_server((\"127.0.0.1\", {free}))'"));
}

fn no_sockets() {
    let name = format!("weaver-test-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let _abstract = UnixListener::bind_addr(&address).unwrap();
    let dir = Dir::new();
    let _path = UnixListener::bind(dir.path().join("socket")).unwrap();
    let script = |address: &str| {
        format!("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect({address})\"")
    };
    // With the host's network, abstract sockets are in the same namespace: Landlock denies them.
    for bench in [Bench::new(), Bench::new().with_network(&[443])] {
        bench.fails(&script(&format!("'\\0{name}'")));
        bench.fails(&script(&format!("'{}/socket'", dir.path().display())));
        assert_eq!(bench.says("find /run -type s | wc -l"), "0");
    }
}

fn no_daemon() {
    let bench = Bench::new();
    let script = "setsid sh -c 'trap \"\" TERM HUP; echo $(readlink /proc/self) > pid; exec sleep 1000' >/dev/null 2>&1 &
        while ! test -s pid; do :; done; cp /proc/self/stat /dev/null; exit 0";
    let spec = ProcessSpec { grace: std::time::Duration::from_millis(50), ..bench.spec(script) };
    let mark = format!("sleep 1000{}", std::process::id());
    let spec = ProcessSpec { args: vec!["-c".into(), script.replace("sleep 1000", &mark).into()], ..spec };
    let finished =
        wait(in_time("it ends", run(&spec, &SystemClock::new(), |_, _| {}, std::future::pending::<()>())));
    assert!(finished.unwrap().status.success());
    let left = Command::new("pgrep").args(["-f", &mark]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&left.stdout), "");
}

/// It keeps its processes, while another sandbox of the same user starts some under a smaller limit.
fn no_fork_bomb() {
    let mut bench = Bench::new();
    bench.rules.limits.processes_max = 64;
    let begun = bench.dir.pipe("begun");
    if is_root() {
        std::os::unix::fs::chown(bench.dir.path().join("begun"), Some(OTHER.uid), None).unwrap();
    }
    let bomb = "python3 - <<'E'\nimport os,time\nn=0\ntry:\n  while True:\n    if os.fork()==0: time.sleep(1000)\n    n+=1\n\
        except BlockingIOError:\n  open('begun','w').write(str(n)); time.sleep(1000)\nE";
    let spec = bench.spec(bomb);
    let mut small = Bench::new();
    small.rules.limits.processes_max = 8;
    let other = small.spec("for i in 1 2 3; do (sleep 0 & wait); done; echo fine");
    let clock = SystemClock::new();
    wait(async {
        let held = run(&spec, &clock, |_, _| {}, async {
            let count: u32 = begun.read().await.parse().unwrap();
            assert!(count < 64, "{count}");
            let finished = run(&other, &clock, |_, _| {}, std::future::pending::<()>()).await.unwrap();
            assert_eq!(finished.tail, "fine\n");
        });
        in_time("the bomb is stopped", held).await.unwrap();
    });
}

fn no_huge_file() {
    let mut bench = Bench::new();
    let said = bench.fails("truncate -s 100G big");
    assert!(said.to_lowercase().contains("too large") || said.contains("ile size limit"), "{said}");
    assert!(std::fs::metadata(bench.dir.path().join("big")).map_or(0, |file| file.len()) == 0);
    bench.rules.limits.tmp_max_mb = 4;
    let said = bench.fails("head -c 10M /dev/zero > /tmp/big");
    assert!(said.contains("No space left"), "{said}");
}

fn no_memory() {
    let mut bench = Bench::new();
    bench.rules.limits.memory_max_mb = 64;
    assert!(bench.fails("python3 -c 'x = bytearray(200 << 20)'").contains("MemoryError"));
}

fn no_processor_time() {
    let mut bench = Bench::new();
    bench.rules.limits.cpu_max_s = 1;
    assert_eq!(bench.sh("while :; do :; done").status.code(), Some(137), "128 + SIGKILL");
}

/// The names of namespaces are the same inside and outside, so they can be compared.
fn own_namespaces() {
    let bench = Bench::new();
    for kind in ["user", "mnt", "pid", "ipc", "net"] {
        let ours = std::fs::read_link(format!("/proc/self/ns/{kind}")).unwrap();
        assert_ne!(bench.says(&format!("readlink /proc/self/ns/{kind}")), ours.to_string_lossy(), "{kind}");
    }
}

fn nothing_inherited() {
    let bench = Bench::new();
    assert_eq!(bench.says("ls /proc/self/fd | sort | tr '\\n' ' '"), "0 1 2 3", "3 is that of `ls`");
    let names = bench.says("env | sed 's/=.*//' | sort | tr '\\n' ' '");
    assert_eq!(names.trim(), "HOME PATH PWD", "and nothing of ours");
}

fn no_privileges() {
    let bench = Bench::new();
    let status = bench
        .says("grep -E '^(Cap(Eff|Prm|Bnd|Amb|Inh)|NoNewPrivs|Uid)' /proc/self/status | tr '\\t\\n' '  '");
    for word in
        ["CapEff: 0000000000000000", "CapPrm: 0000000000000000", "CapBnd: 0000000000000000", "NoNewPrivs: 1"]
    {
        assert!(status.contains(word), "{status}");
    }
    assert!(!status.contains("Uid: 0 "), "{status}");
}

/// The guard is outside the sandbox: a library named by the command's environment would be loaded there with
/// the server's rights.
fn guard_is_not_fooled() {
    let mut bench = Bench::new();
    let witness = bench.dir.path().join("loaded-by");
    let source = format!(
        "#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) static void f(void) {{ FILE *o = fopen(\"{}\", \"a\"); \
         char e[256] = {{0}}; readlink(\"/proc/self/exe\", e, 255); if (o) {{ fprintf(o, \"%s\\n\", e); fclose(o); }} }}\n",
        witness.display()
    );
    let library = bench.dir.path().join("evil.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-x", "c", "-", "-o"]).arg(&library).stdin(Stdio::piped());
    let mut child = compiler.spawn().expect("a C compiler: apt-get install gcc");
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), source.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    bench.env.push(("LD_PRELOAD".to_owned(), library.display().to_string()));
    bench.says("true");
    let mut loaded = String::new();
    std::fs::File::open(witness).unwrap().read_to_string(&mut loaded).unwrap();
    let own = guard().display().to_string();
    assert!(!loaded.is_empty() && !loaded.contains(&own), "{loaded}");
}

fn landlock_alone() {
    let secret = Dir::new();
    std::fs::write(secret.path().join("token"), "secret").unwrap();
    let bench = Bench::new().in_mode(Mode::Landlock).with_network(&[443]);
    bench.fails(&format!("cat {}/token", secret.path().display()));
    bench.fails(&format!("echo x > {}/new", secret.path().display()));
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    bench.fails(&connect(listener.local_addr().unwrap().port()));
    let mut sleeper = Command::new("sleep").arg("1000").spawn().unwrap();
    bench.fails(&format!("kill {}", sleeper.id()));
    assert!(is_alive(sleeper.id()));
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
}

fn cannot_be_confined() {
    let mut bench = Bench::new().in_mode(Mode::SecondUid).with_network(&[443]);
    if is_root() {
        // As root it can: the command is another user.
        assert_eq!(bench.says("id -u"), "65534");
        bench = Bench::new();
        bench.options.user = None;
        let mut spec = bench.spec("true");
        spec.confinement.as_mut().unwrap().writable.push("/no/such/directory".into());
        let refused =
            wait(run(&spec, &SystemClock::new(), |_, _| {}, std::future::pending::<()>())).unwrap_err();
        assert!(refused.to_string().contains("/no/such/directory"), "{refused}");
        return;
    }
    let refused = bench.try_sh("true").unwrap_err().to_string();
    assert!(refused.contains("run the server as root") && refused.contains("unconfined = true"), "{refused}");
}
