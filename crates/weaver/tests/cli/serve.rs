//! A real server: the first start, the commands against it, and its end.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use crate::support::{Place, Run};

/// A server in a place, on a free port; killed if a test ends before it does.
struct Server {
    child: Option<Child>,
    address: String,
}

impl Server {
    /// Started, and answering.
    fn start(place: &Place, arguments: &str) -> Self {
        let mut command = place.command(&format!("{arguments} --listen 127.0.0.1:0 --log warn"));
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        let mut lines = BufReader::new(child.stdout.as_mut().expect("it is piped")).lines();
        let line = lines.next().and_then(Result::ok);
        let Some(address) = line.as_ref().and_then(|line| line.strip_prefix("Weaver listens on ")) else {
            let run = Run::from(child.wait_with_output().expect("it ends"));
            panic!("no address: {line:?} {}{}", run.out, run.errors);
        };
        Self { address: address.to_owned(), child: Some(child) }
    }

    fn run(&self, place: &Place, arguments: &str) -> Run {
        Run::of(place.command(arguments).env("WEAVER_SERVER", &self.address))
    }

    /// Told to stop; how it ended.
    fn stop(mut self) -> Run {
        let child = self.child.take().expect("it was not stopped before");
        terminate(&child);
        Run::from(child.wait_with_output().expect("it ends"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill(); // It may have ended by itself.
            let _ = child.wait();
        }
    }
}

fn terminate(child: &Child) {
    let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(told.expect("there is a `kill`").success());
}

#[test]
fn a_first_start_makes_a_store_and_a_token_that_the_command_line_uses_by_itself() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let token = place.run("token").succeeded();
    assert!(token.starts_with("wvr_"), "{token}");
    let id = server.run(&place, "enqueue nobody {\"a\":1} --queue mail").succeeded();
    let listed = server.run(&place, "tasks list --output json").json();
    assert_eq!(listed["items"][0]["id"], id.trim());
    let explained = server.run(&place, &format!("tasks explain {}", id.trim())).succeeded();
    assert!(explained.contains("is queued"), "{explained}");
    assert!(server.run(&place, "queues pause mail").succeeded().contains("paused"));
    assert!(server.run(&place, "queues list").succeeded().contains("mail"));
    assert!(server.run(&place, &format!("tasks cancel {}", id.trim())).succeeded().contains("cancelled"));
    server.run(&place, &format!("tasks wait {}", id.trim())).failed(7, &["is cancelled"]);
    let again = server.run(&place, &format!("tasks retry {}", id.trim())).succeeded();
    assert!(again.contains("runs again as"), "{again}");
    server.run(&place, "tasks show 999").failed(3, &["999", "next: "]);
    server.run(&place, "runners list").succeeded();

    let stopped = server.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.errors);
    assert!(place.run("store check").succeeded().contains("nothing is wrong"));
    assert_eq!(place.run("token").succeeded(), token, "a second start keeps the token");
}

#[test]
fn without_its_token_a_server_refuses_with_the_next_step() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let elsewhere = Place::new();
    server.run(&elsewhere, "tasks list").failed(6, &["error: ", "next: "]);
    server.run(&place, "tasks list").succeeded();
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_demo_is_alive_at_the_first_look() {
    let place = Place::new();
    let server = Server::start(&place, "demo");
    assert_eq!(server.run(&place, "tasks wait 1").succeeded(), "\"Hello, Ada!\"\n");
    server.run(&place, "tasks wait 4").failed(7, &["no such recipient"]);
    let kinds = server.run(&place, "tasks list").succeeded();
    for kind in ["demo.slow", "demo.pulse", "demo.nobody", "scheduled", "http"] {
        assert!(kinds.contains(kind), "no {kind} in\n{kinds}");
    }
    assert!(server.run(&place, "tasks explain 6").succeeded().contains("paused"));
}

#[test]
fn an_address_that_others_reach_needs_tls_or_a_proxy_and_a_taken_one_is_busy() {
    let place = Place::new();
    place.run("serve --listen 0.0.0.0:0").failed(6, &["0.0.0.0:0", "TLS", "--behind-proxy"]);
    place.run("serve --listen nonsense").failed(2, &["nonsense", "--listen 127.0.0.1:7117"]);
    place.run("serve --tls-certificate a.pem --tls-key b.pem").failed(2, &["a.pem"]);
    assert!(!place.path("weaver-data").exists(), "nothing is made by a start that is refused");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let address = taken.local_addr().expect("it is bound");
    place.run(&format!("serve --listen {address}")).failed(4, &[&address.to_string(), "--listen"]);
}

#[test]
fn a_token_that_does_not_exist_yet_is_told_with_what_makes_it() {
    Place::new().run("token").failed(3, &["./weaver-data", "next: "]);
}

#[test]
fn tokens_are_made_listed_and_revoked() {
    let place = Place::with_store();
    let made = place.run("tokens create ci --role producer --namespaces build --output json").json();
    let id = made["info"]["id"].as_str().expect("it has an id");
    assert!(made["token"].as_str().is_some_and(|token| token.starts_with("wvr_")));
    let listed = place.run("tokens list").succeeded();
    assert!(listed.contains(id) && listed.contains("producer"), "{listed}");
    assert!(!listed.contains(made["token"].as_str().unwrap_or_default()));
    place.run(&format!("tokens revoke {id}")).succeeded();
    place.run(&format!("tokens revoke {id}")).failed(3, &[id]);
    place.run("tokens create x --role king").failed(2, &["king", "viewer, producer"]);
}
