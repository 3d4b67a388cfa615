//! A real server: the first start, the commands against it, and its end.

use crate::private::chmod;
use crate::server::Server;
use crate::support::{Place, Run};

#[test]
fn a_first_start_makes_a_store_and_commands_of_its_user_need_no_token() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let id = server.run(&place, "enqueue unhandled {\"a\":1} --queue mail").succeeded();
    let listed = server.run(&place, "tasks list --output json").json();
    assert_eq!(listed["items"][0]["id"], id.trim());
    let explained = server.run(&place, &format!("tasks explain {}", id.trim())).succeeded();
    assert!(explained.contains("is queued"), "{explained}");
    assert!(server.run(&place, "queues pause mail").succeeded().contains("paused"));
    assert!(server.run(&place, "queues list").succeeded().contains("mail"));
    assert!(server.run(&place, &format!("tasks cancel {}", id.trim())).succeeded().contains("cancelled"));
    server.run(&place, &format!("tasks wait {}", id.trim())).failed(7, &["is cancelled"]);
    let again = server.run(&place, &format!("tasks retry {}", id.trim())).succeeded();
    assert!(again.contains("is retried as task"), "{again}");
    server.run(&place, "tasks show 999").failed(3, &["999", "next: "]);
    server.run(&place, "workers list").succeeded();

    let stopped = server.stop();
    assert_eq!(stopped.code, Some(0), "{}", stopped.errors);
    assert!(place.run("store check").succeeded().contains("no problems found"));
}

#[test]
fn without_a_token_a_server_of_another_user_refuses_with_the_next_step() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let elsewhere = Place::new();
    server.run(&elsewhere, "tasks list").failed(6, &["error: ", "next: "]);
    server.run(&place, "tasks list").succeeded();
    assert_eq!(server.stop().code, Some(0));
}

#[test]
fn a_demo_has_tasks_in_every_state() {
    let place = Place::new();
    let server = Server::start(&place, "demo");
    assert_eq!(server.run(&place, "tasks wait 1").succeeded(), "\"Hello, Ada!\"\n");
    server.run(&place, "tasks wait 4").failed(7, &["no such recipient"]);
    let kinds = server.run(&place, "tasks list").succeeded();
    for kind in ["demo.slow", "demo.pulse", "demo.unhandled", "scheduled", "http"] {
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
fn tokens_of_a_store_without_a_server_are_made_listed_and_revoked() {
    let place = Place::with_store();
    let store = "--store ./weaver-data";
    let made = place
        .run(&format!("tokens create ci --role producer --namespaces build --output json {store}"))
        .json();
    let id = made["info"]["id"].as_str().expect("it has an id");
    assert!(made["token"].as_str().is_some_and(|token| token.starts_with("wvr_")));
    let listed = place.run(&format!("tokens list {store}")).succeeded();
    assert!(listed.contains(id) && listed.contains("producer"), "{listed}");
    assert!(!listed.contains(made["token"].as_str().unwrap_or_default()));
    place.run(&format!("tokens revoke {id} {store}")).succeeded();
    place.run(&format!("tokens revoke {id} {store}")).failed(3, &[id]);
    place.run("tokens create x --role king").failed(2, &["king", "viewer, producer"]);
}

#[test]
fn tokens_of_a_running_server_are_made_used_and_revoked() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let made = server.run(&place, "tokens create ci --role producer --output json").json();
    let (id, token) = (made["info"]["id"].as_str().expect("an id"), made["token"].as_str().expect("a token"));
    let as_ci = |arguments: &str| {
        let mut command = place.command(arguments);
        Run::of(command.env("WEAVER_SERVER", &server.address).env("WEAVER_TOKEN", token))
    };
    as_ci("enqueue unhandled --queue mail").succeeded();
    as_ci("tasks cancel 1").failed(6, &["manage_tasks"]);
    as_ci("tokens list").failed(6, &["next: "]);
    assert!(server.run(&place, "tokens list").succeeded().contains(id));
    server.run(&place, &format!("tokens revoke {id}")).succeeded();
    as_ci("enqueue unhandled --queue mail").failed(6, &["next: "]);
    server.run(&place, &format!("tokens revoke {id}")).failed(3, &[id]);
}

#[test]
fn a_followed_log_goes_on_with_the_next_attempt_until_the_task_ends() {
    let place = Place::new();
    let server = Server::start(&place, "demo");
    let followed = server.run(&place, "tasks logs 4 -f").succeeded();
    assert!(followed.contains("no such recipient"), "{followed}");
    // Fails twice, five seconds apart, and then ends: the follower is there to the end.
    server.run(&place, "tasks logs 3 -f").succeeded();
    let shown = server.run(&place, "tasks show 3 --output json").json();
    assert_eq!((&shown["state"], &shown["attempt"]), (&"succeeded".into(), &3.into()), "{shown}");
}

#[test]
fn of_two_servers_of_one_directory_each_answers_for_itself() {
    let place = Place::new();
    let (first, demo) = (Server::start(&place, "serve"), Server::start(&place, "demo"));
    assert!(demo.run(&place, "tasks list").succeeded().contains("demo.hello"));
    assert!(!first.run(&place, "tasks list").succeeded().contains("demo.hello"));
}

#[test]
fn a_server_with_a_certificate_answers_over_tls_and_never_in_plain() {
    let place = Place::new();
    let certified = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    place.write("cert.pem", &certified.cert.pem());
    place.write("key.pem", &certified.signing_key.serialize_pem());
    chmod(&place, "key.pem", 0o644);
    place.run("serve --tls-certificate cert.pem --tls-key key.pem").failed(2, &["key.pem", "chmod 600"]);
    chmod(&place, "key.pem", 0o600);
    let server = Server::start(&place, "serve --tls-certificate cert.pem --tls-key key.pem");
    let port = server.address.rsplit(':').next().expect("a port").to_owned();
    assert!(server.address.starts_with("https://"), "{}", server.address);
    let curl = |url: String| {
        let mut command = std::process::Command::new("curl");
        command.args(["-fsS", "--max-time", "20", "--cacert", "cert.pem", &url]).current_dir(place.path(""));
        Run::from(command.output().expect("curl starts: apt-get update && apt-get install curl"))
    };
    assert!(curl(format!("https://localhost:{port}/readyz")).succeeded().contains("ok"));
    assert_ne!(curl(format!("http://localhost:{port}/readyz")).code, Some(0));
    assert_eq!(server.stop().code, Some(0));
}
