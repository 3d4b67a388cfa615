//! The attacks, as shell scripts. Each says `ESCAPED` if it got what it wanted.

use crate::stage::Stage;

pub(crate) struct Program {
    pub(crate) name: &'static str,
    pub(crate) script: String,
    /// Whether only a sandbox keeps it from succeeding; others are ended by the guard, sandbox or not.
    pub(crate) needs_sandbox: bool,
}

/// Connects to an address of the machine and says what it hears.
fn python(body: &str) -> String {
    format!("python3 - <<'E'\n{body}\nE\n")
}

/// What the attacked server is and has, by the words that stand for it in scripts.
pub(crate) fn programs(stage: &Stage) -> Vec<Program> {
    let all = [
        ("read the environment of the server", "cat /proc/$SERVER/environ 2>/dev/null | grep -q PATH && echo ESCAPED".to_owned()),
        ("read the environment of any process", "cat /proc/[0-9]*/environ 2>/dev/null | tr '\\0' '\\n' | grep -q WITNESS && echo ESCAPED".to_owned()),
        ("read the memory of the server", python("try:\n  open('/proc/$SERVER/mem','rb'); print('ESCAPED')\nexcept OSError: pass")),
        ("list the descriptors of the server", "ls /proc/$SERVER/fd >/dev/null 2>&1 && echo ESCAPED".to_owned()),
        ("signal the server", "kill -0 $SERVER 2>/dev/null && echo ESCAPED".to_owned()),
        ("read the store", "head -c 1 $STORE/weaver.redb >/dev/null 2>&1 && echo ESCAPED".to_owned()),
        ("list the store", "ls $STORE 2>/dev/null | grep -q . && echo ESCAPED".to_owned()),
        ("read the configuration", "grep -q . $CONFIG 2>/dev/null && echo ESCAPED".to_owned()),
        ("write outside", "echo x > $OUTSIDE/written 2>/dev/null && echo ESCAPED".to_owned()),
        ("read outside by a link", "ln -s $OUTSIDE out 2>/dev/null; cat out/secret 2>/dev/null | grep -q secret && echo ESCAPED".to_owned()),
        ("read outside by dots", "cat ../../../../../../../../$OUTSIDE/secret 2>/dev/null | grep -q secret && echo ESCAPED".to_owned()),
        ("move the base branch", "git --git-dir $REPOSITORY update-ref refs/heads/stolen refs/heads/main 2>/dev/null && echo ESCAPED".to_owned()),
        ("plant a hook", "printf '#!/bin/sh\\n' > $REPOSITORY/hooks/post-receive 2>/dev/null && echo ESCAPED".to_owned()),
        (
            "talk to the API",
            python("import socket\ntry:\n  socket.create_connection(('127.0.0.1',$PORT),5); print('ESCAPED')\nexcept OSError: pass"),
        ),
        (
            "talk to a socket outside",
            python("import socket\ns=socket.socket(socket.AF_UNIX)\ntry:\n  s.connect('$OUTSIDE/socket'); print('ESCAPED')\nexcept OSError: pass"),
        ),
        (
            "trace the server",
            python("import ctypes,os,signal\nl=ctypes.CDLL(None,use_errno=True)\nif l.ptrace(0x4206,$SERVER,0,0)==0:\n  print('ESCAPED'); l.ptrace(17,$SERVER,0,0)"),
        ),
        ("write a file of 100 GB", "truncate -s 100G huge 2>/dev/null && echo ESCAPED; rm -f huge".to_owned()),
        ("become root", "su -c true root 2>/dev/null </dev/null && echo ESCAPED; test $(id -u) = 0 && echo ESCAPED".to_owned()),
        ("mount something", "mount -t tmpfs none /mnt 2>/dev/null && echo ESCAPED && umount /mnt".to_owned()),
        ("leave a daemon", "setsid sh -c 'trap \"\" HUP; exec sleep 10$SERVER' >/dev/null 2>&1 &".to_owned()),
    ];
    // As a plain user these fail without a sandbox too; `trace` depends on the machine's settings.
    let needs_no_sandbox = ["leave a daemon", "become root", "mount something", "trace the server"];
    let of = |(name, script): (&'static str, String)| Program {
        name,
        script: format!("{}\necho DONE\n", stage.fill(&script)),
        needs_sandbox: !needs_no_sandbox.contains(&name),
    };
    all.into_iter().map(of).collect()
}

/// All of them in one script, each under its name.
pub(crate) fn one_script(programs: &[&Program]) -> String {
    programs.iter().map(|program| format!("echo '== {}'\n(\n{})\n", program.name, program.script)).collect()
}

/// What each printed, of what the script printed.
pub(crate) fn printed(programs: &[&Program], log: &str) -> Vec<(&'static str, String)> {
    let part = |program: &&Program| {
        let after = log.split_once(&format!("== {}\n", program.name)).map_or("", |(_, after)| after);
        (program.name, after.split("== ").next().unwrap_or_default().to_owned())
    };
    programs.iter().map(part).collect()
}
