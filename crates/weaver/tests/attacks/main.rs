//! Attacks of code that is not ours on the server or runner that runs it: as a merge check, as an `exec`
//! task, as an agent; on a server that runs as root and on one that runs as a plain user.
//!
//! `programs.rs` has the attacks: each prints `ESCAPED` if it succeeds. Every one is run confined, with the
//! defaults, where none may; and unconfined, where each must: an attack that cannot succeed shows nothing.

#![expect(clippy::unwrap_used, reason = "in a test, a surprise is a failure")]

mod programs;
mod real_work;
mod stage;
mod work;

use programs::{Program, programs};
use stage::{Stage, User};

/// What each program printed, by its name.
type Printed = Vec<(&'static str, String)>;

#[track_caller]
fn none_escaped(printed: &Printed) {
    let escaped: Vec<_> = printed.iter().filter(|(_, text)| text.contains("ESCAPED")).collect();
    assert!(escaped.is_empty(), "{escaped:#?}");
    // Each came to its end: one that was never run would look the same.
    let silent: Vec<_> = printed.iter().filter(|(_, text)| !text.contains("DONE")).collect();
    assert!(silent.is_empty(), "{silent:#?}");
}

#[track_caller]
fn all_escaped(printed: &Printed) {
    let held: Vec<_> = printed.iter().filter(|(_, text)| !text.contains("ESCAPED")).collect();
    assert!(held.is_empty(), "these attacks show nothing: {held:#?}");
}

/// For each kind of user there is here.
fn for_each_user(attack: impl Fn(User)) {
    for user in User::all() {
        attack(user);
    }
}

/// Runs all attacks in each of these ways, on a server of each user.
fn attacked(config: &str, run: impl Fn(&Stage, &[&Program]) -> Printed) {
    for_each_user(|user| {
        let stage = Stage::new(user, config);
        let all = programs(&stage);
        none_escaped(&run(&stage, &all.iter().collect::<Vec<_>>()));
        stage.is_unharmed();
    });
}

#[test]
fn no_attack_of_a_merge_check_succeeds() {
    attacked("", Stage::as_check);
}

#[test]
fn no_attack_of_an_exec_task_succeeds() {
    attacked("", Stage::as_exec);
}

#[test]
fn no_attack_of_an_agent_succeeds_on_its_runner_or_the_server() {
    attacked("", Stage::as_agent);
}

#[test]
fn a_command_whose_ports_include_the_servers_is_answered_401() {
    for_each_user(|user| {
        let port = Stage::free_port();
        let rules = format!("[handlers.exec.confine]\nnetwork = \"on\"\nports = [{port}]\n");
        let stage = Stage::listening(user, &rules, port);
        let script = "curl -s -o /dev/null -w '%{http_code}' http://127.0.0.1:$PORT/api/v1/tasks";
        let program = Program { name: "ask the API", script: stage.fill(script), needs_sandbox: true };
        assert_eq!(stage.as_exec(&[&program])[0].1.trim(), "401");
    });
}

/// With Landlock alone the command has the server's user and can reach its socket, by which that user is an
/// admin.
#[test]
fn a_command_confined_by_landlock_alone_is_no_admin_on_the_servers_socket() {
    for_each_user(|user| {
        let stage = Stage::new(user, "[confine]\nmode = \"landlock\"\n");
        let script = "s=$(ls -d $RUN/weaver/*.sock 2>/dev/null || echo $RUN/weaver/$PORT.sock); \
            curl -s --unix-socket $s http://localhost/api/v1/tokens | grep -q items && echo ESCAPED; echo DONE";
        let program =
            Program { name: "be an admin by the socket", script: stage.fill(script), needs_sandbox: true };
        none_escaped(&stage.as_exec(&[&program]));
        // The same program, where nothing keeps it.
        let open = Stage::new(user, "[handlers.exec.confine]\nunconfined = true\n");
        let program =
            Program { name: "be an admin by the socket", script: open.fill(script), needs_sandbox: true };
        all_escaped(&open.as_exec(&[&program]));
    });
}

/// Without a sandbox nothing but `PR_SET_DUMPABLE` stands between processes of one user. Root is another
/// matter.
#[test]
fn not_even_an_unconfined_command_of_the_same_user_can_look_into_the_server() {
    for user in User::all().into_iter().filter(|user| *user == User::Plain || User::all().len() == 1) {
        let stage = Stage::new(user, "[handlers.exec.confine]\nunconfined = true\n");
        let all = programs(&stage);
        let looks = |program: &&Program| {
            let name = program.name;
            name.starts_with("read the environment of the server")
                || name.starts_with("read the memory")
                || name.starts_with("list the descriptors")
        };
        let looking: Vec<&Program> = all.iter().filter(looks).collect();
        assert_eq!(looking.len(), 3);
        none_escaped(&stage.as_exec(&looking));
    }
}

#[test]
fn each_attack_succeeds_where_nothing_is_confined() {
    for_each_user(|user| {
        let stage = Stage::debuggable(user, "[handlers.exec.confine]\nunconfined = true\n");
        let all = programs(&stage);
        // The others end with their command by the guard alone, or depend on the machine.
        let escaping: Vec<&Program> = all.iter().filter(|program| program.needs_sandbox).collect();
        all_escaped(&stage.as_exec(&escaping));
    });
}
