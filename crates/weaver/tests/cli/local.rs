//! Servers of this machine: how commands find them, and what never leaves for anywhere else.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;

use crate::canned;
use crate::private::chmod;
use crate::server::Server;
use crate::support::{Place, Run};

const EMPTY: &str = r#"{"items": [], "complete": true}"#;

fn curl(arguments: &[&str]) -> Run {
    let mut command = Command::new("curl");
    command.args(["-sS", "--max-time", "20"]).args(arguments);
    Run::from(command.output().expect("curl starts: apt-get update && apt-get install curl"))
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_command_finds_its_users_server_from_any_directory() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    fs::create_dir(place.path("elsewhere")).expect("a directory");
    let run = |arguments: &str| Run::of(place.command(arguments).current_dir(place.path("elsewhere")));
    let id = run("enqueue unhandled").succeeded();
    assert!(run("tasks list").succeeded().contains(id.trim()));
    assert!(server.run(&place, "tasks list").succeeded().contains(id.trim()), "the same by its address");
    assert_eq!(server.stop().code, Some(0));
    run("tasks list").failed(4, &["no server of this user", "weaver serve", "--server"]);
}

#[test]
fn a_server_that_stops_takes_its_socket_and_registration_with_it_and_both_are_private() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let entries = |directory: &str| -> Vec<_> {
        let entries = fs::read_dir(place.path(directory)).expect("a directory");
        entries.map(|entry| entry.expect("an entry").path()).collect()
    };
    for directory in ["run/weaver", "state/weaver/servers"] {
        let files = entries(directory);
        assert_eq!(files.len(), 1, "{files:?}");
        assert_eq!((mode(&place.path(directory)), mode(&files[0])), (0o700, 0o600), "{directory}");
    }
    assert_eq!(server.stop().code, Some(0));
    assert!(entries("run/weaver").is_empty() && entries("state/weaver/servers").is_empty());
}

#[test]
fn of_several_servers_the_error_lists_each_and_how_to_choose() {
    let place = Place::new();
    let (first, second) = (Server::start(&place, "serve"), Server::start(&place, "serve --store memory:"));
    place.run("tasks list").failed(2, &[&first.address, &second.address, "memory:", "--server http"]);
    let by_name = first.address.replace("127.0.0.1", "localhost");
    place.run(&format!("tasks list --server {by_name}")).succeeded();
    second.kill();
    place.run("tasks list").succeeded();
}

#[test]
fn stale_files_of_a_killed_server_are_ignored_and_replaced() {
    let place = Place::new();
    let killed = Server::start(&place, "serve");
    let listen = killed.address.trim_start_matches("http://").to_owned();
    killed.kill();
    place.run("tasks list").failed(4, &["no server of this user"]);
    let again = Server::at(&place, "serve", &listen);
    place.run("tasks list").succeeded();
    assert_eq!(again.stop().code, Some(0));
    assert_eq!(fs::read_dir(place.path("state/weaver/servers")).expect("a directory").count(), 0);
}

#[test]
fn no_listener_on_this_machine_is_shown_a_token_unless_one_is_set() {
    let place = Place::new();
    let _server = Server::start(&place, "serve");
    let (requests, run) = canned::run(&place, "workers list", &[(200, EMPTY)]);
    run.succeeded();
    assert!(!requests[0].head.to_lowercase().contains("authorization"), "{}", requests[0].head);
}

#[test]
fn a_token_of_the_environment_is_not_sent_to_a_server_that_only_a_file_names() {
    let place = Place::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let with_token = |arguments: &str| Run::of(place.command(arguments).env("WEAVER_TOKEN", "wvr_secret"));
    for line in [format!("server = \"http://{address}\""), format!("server = \"https://{address}\"")] {
        place.write("weaver.toml", &line);
        with_token("tasks list").failed(6, &["WEAVER_TOKEN", "weaver.toml:1", "--server or WEAVER_SERVER"]);
    }
    place.write("weaver.toml", &format!("proxy = \"http://{address}\""));
    with_token("tasks list --server http://127.0.0.1:9").failed(6, &["`proxy`", "--proxy"]);
    place.write("weaver.toml", "insecure_http = true");
    with_token("tasks list --server http://192.0.2.1:9").failed(6, &["`insecure_http`"]);
    place.write("weaver.toml", "");
    with_token("tasks list").failed(2, &["no server is named", "--server"]);
    listener.set_nonblocking(true).expect("sockets can do that");
    assert!(listener.accept().is_err(), "the command did connect");
}

#[test]
fn a_proxy_of_the_environment_is_used_only_if_it_is_asked_for() {
    let place = Place::new();
    let proxied = |arguments: &str| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let proxy = format!("http://{}", listener.local_addr().expect("it is bound"));
        let mut command = place.command(arguments);
        for name in ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env(name, &proxy);
        }
        command.env_remove("no_proxy").env_remove("NO_PROXY");
        // No server listens there: what counts is whether the proxy gets the request.
        let run = canned::run_of(
            command.env("WEAVER_SERVER", "http://127.0.0.1:9").env("WEAVER_TOKEN", "wvr_secret"),
            &listener,
            &[(200, EMPTY)],
        );
        (run.0.len(), run.1.code)
    };
    assert_eq!(proxied("workers list"), (0, Some(4)));
    assert_eq!(proxied("workers list --proxy environment"), (1, Some(0)));
}

#[test]
fn a_token_goes_to_another_machine_over_plain_http_only_if_that_is_allowed() {
    let place = Place::new();
    let run = |arguments: &str| Run::of(place.command(arguments).env("WEAVER_TOKEN", "wvr_secret"));
    run("tasks list --server http://192.0.2.1:9")
        .failed(6, &["http://192.0.2.1:9", "https", "--insecure-http"]);
    // Allowed, and then through a proxy that is not there: nothing leaves this machine.
    run("tasks list --server http://192.0.2.1:9 --insecure-http --proxy http://127.0.0.1:9")
        .failed(4, &["cannot be reached"]);
}

#[test]
fn weaver_token_makes_a_short_lived_admin_token_for_curl() {
    let place = Place::new();
    let server = Server::start(&place, "serve");
    let made = place.run("token --output json").json();
    let bearer = format!("Authorization: Bearer {}", made["token"].as_str().expect("a token"));
    assert!(made["expires_at"].is_string(), "{made}");
    let url = format!("{}/api/v1/tokens", server.address);
    let listed = curl(&["-f", "-H", &bearer, &url]).succeeded();
    assert!(listed.contains("weaver-token"), "{listed}");
    assert!(place.run("token").succeeded().starts_with("wvr_"));
    place.run("token --expires-in 0s").failed(2, &["expires_in"]);
}

#[test]
fn a_first_admin_token_comes_from_a_file_where_no_socket_can_be_reached() {
    let place = Place::new();
    place.write("weaver.toml", "[serve]\nadmin_token_file = \"./admin.token\"\n");
    let server = Server::start(&place, "serve");
    assert_eq!(mode(&place.path("admin.token")), 0o600);
    let token = place.read("admin.token");
    let elsewhere = Place::new();
    let mut command = elsewhere.command("tokens list");
    Run::of(command.env("WEAVER_TOKEN", token.trim()).env("WEAVER_SERVER", &server.address)).succeeded();
    assert_eq!(server.stop().code, Some(0));
    chmod(&place, "admin.token", 0o644);
    place.run("serve --listen 127.0.0.1:0").failed(6, &["admin.token", "chmod 600"]);
}

#[test]
fn a_server_whose_output_is_no_terminal_prints_no_login_link() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory:");
    let banner = &server.banner;
    assert!(banner.contains("weaver dashboard") && !banner.contains("login?"), "{banner}");
}

#[test]
fn a_dashboard_link_is_made_over_the_socket_and_names_the_servers_address() {
    let place = Place::new();
    let server = Server::start(&place, "serve --store memory: --socket ./s");
    let link = place.run("dashboard --print").succeeded();
    assert!(link.starts_with(&format!("{}/login?", server.address)), "{link}");
    let socket = place.path("s");
    let by_path = place.run(&format!("dashboard --print --server unix:{}", socket.display())).succeeded();
    assert!(by_path.starts_with(&format!("{}/login?", server.address)), "{by_path}");
    assert_eq!(fs::metadata(&socket).expect("a socket").mode() & 0o777, 0o600);
}

#[test]
fn a_login_link_goes_to_a_terminal_unless_printing_it_is_meant() {
    let place = Place::new();
    let _server = Server::start(&place, "serve --store memory:");
    place.run("dashboard").failed(6, &["not a terminal", "--print"]);
    place.run("dashboard --output json").failed(6, &["--print"]);
    assert!(place.run("dashboard --print").succeeded().contains("/login?link="));
}

#[test]
fn control_characters_from_a_server_are_escaped_in_text_and_verbatim_in_json() {
    let place = Place::new();
    let strange = "a\u{1b}[2Jb \u{202e}c\nnext: run this\r\u{2066}";
    let problem = serde_json::json!({
        "type": "urn:weaver:problem:x", "title": "X", "status": 409, "code": "x", "detail": strange, "hint": strange,
    });
    let (_, run) = canned::run(&place, "tasks list", &[(409, &problem.to_string())]);
    assert!(run.errors.contains("a\u{fffd}[2Jb \u{fffd}c next: run this"), "{:?}", run.errors);
    assert_eq!(run.errors.lines().count(), 2, "{:?}", run.errors);
    let (_, run) = canned::run(&place, "tasks list --output json", &[(409, &problem.to_string())]);
    assert!(run.errors.contains("\\u001b[2J") && run.errors.contains('\u{202e}'), "{:?}", run.errors);
}

#[test]
fn config_show_has_no_password_of_a_url() {
    let place = Place::new();
    let mut command = place.command("config show --output json");
    command.env("WEAVER_STORE", "postgres://ada:secret-1@db/x?password=secret-2");
    let shown = Run::of(command.env("WEAVER_PROXY", "http://u:secret-3@proxy:3128")).succeeded();
    assert!(shown.contains("postgres://ada:***@db/x?password=***") && !shown.contains("secret-"), "{shown}");
}
