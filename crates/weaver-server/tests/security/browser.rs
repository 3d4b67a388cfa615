//! Cross-site requests and DNS rebinding.

use weaver_server::security::{Guard, Identity, NamespaceScope, Role};

use crate::server::{Server, bearer, only};

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn a_dns_name_rebound_to_this_machine_is_refused() {
    let server = Server::start().await;
    let token = server.token(Role::Admin, NamespaceScope::All).await;
    let port = server.address.port();
    for host in [
        format!("attacker.example:{port}"),
        "attacker.example".to_owned(),
        format!("localhost.attacker.example:{port}"),
        format!("127.0.0.1.attacker.example:{port}"),
        format!("localhost.:{port}"),
        "0.0.0.0".to_owned(),
        "2130706433".to_owned(),
        "127.1".to_owned(),
        "10.0.0.1".to_owned(),
    ] {
        for path in ["/whoami", "/healthz"] {
            let head =
                format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{}\r\n", bearer(&token));
            server.send(&head).await.refused(421, "host_not_allowed");
        }
    }
}

#[tokio::test]
async fn a_request_with_no_host_or_two_is_refused() {
    let server = Server::start().await;
    let port = server.address.port();
    for (target, hosts) in [
        ("/healthz", String::new()),
        ("/healthz", "Host: \r\n".to_owned()),
        ("/healthz", format!("Host: user@127.0.0.1:{port}\r\n")),
        ("/healthz", format!("Host: 127.0.0.1:{port}\r\nHost: attacker.example\r\n")),
        ("/healthz", "Host: 127.0.0.1:port\r\n".to_owned()),
        ("/healthz", "Host: [::1\r\n".to_owned()),
        ("http://attacker.example/healthz", format!("Host: 127.0.0.1:{port}\r\n")),
    ] {
        let answer = server.send(&format!("GET {target} HTTP/1.1\r\nConnection: close\r\n{hosts}\r\n")).await;
        answer.refused(400, "host_invalid");
    }
}

#[tokio::test]
async fn loopback_names_and_configured_hosts_are_allowed() {
    let server = Server::start_with(|options| {
        options.hosts = vec!["Jobs.example.org".into(), "10.1.2.3".into(), "fd00::5".into()];
    })
    .await;
    let hosts = [
        "localhost",
        "LOCALHOST:1",
        "127.0.0.1",
        "[::1]:7117",
        "jobs.EXAMPLE.org:443",
        "10.1.2.3",
        "[fd00::5]",
    ];
    for host in hosts {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        assert_eq!(server.send(&request).await.allowed(), "ok", "{host}");
    }
}

#[tokio::test]
async fn listening_on_every_address_does_not_allow_every_host() {
    for all in ["0.0.0.0:7117", "[::]:7117"] {
        let server = Server::start_with(|options| options.listen = all.parse().expect("an address")).await;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {all}\r\nConnection: close\r\n\r\n");
        server.send(&request).await.refused(421, "host_not_allowed");
    }
}

#[tokio::test]
async fn a_configured_host_with_a_scheme_a_port_or_a_path_is_refused() {
    let server = Server::start().await;
    for host in ["https://jobs.example.org", "jobs.example.org:80", "jobs.example.org/x", "", "*"] {
        let options = weaver_server::security::GuardOptions {
            tokens: None,
            clock: std::sync::Arc::new(server.clock.clone()),
            listen: server.address,
            hosts: vec![host.to_owned()],
            tls: false,
            behind_proxy: false,
        };
        let refusal = Guard::new(options).expect_err(host).to_string();
        assert!(refusal.contains(&format!("`{host}`")) && refusal.contains("jobs.example.org"), "{refusal}");
    }
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused_even_with_a_token() {
    let server = Server::start().await;
    let token = bearer(&server.token(Role::Admin, NamespaceScope::All).await);
    let port = server.address.port();
    for origin in [
        "https://attacker.example".to_owned(),
        "null".to_owned(),
        "http://127.0.0.1:1".to_owned(),
        "http://127.0.0.1".to_owned(),
        format!("http://localhost:{port}"),
        format!("https://127.0.0.1:{port}"),
        format!("http://127.0.0.1:{port}.attacker.example"),
        format!("http://127.0.0.1:{port}@attacker.example"),
        format!("file://127.0.0.1:{port}"),
    ] {
        let answer = server.post(&format!("{token}{JSON}Origin: {origin}\r\n"), "{}").await;
        answer.refused(403, "cross_site");
        let answer = server.get("/healthz", &format!("Origin: {origin}\r\n")).await;
        answer.refused(403, "cross_site");
    }
    let own = format!("{token}{JSON}Origin: http://127.0.0.1:{port}\r\n");
    server.post(&own, "{}").await.allowed();
    let both = format!("{own}Origin: https://attacker.example\r\n");
    server.post(&both, "{}").await.refused(403, "cross_site");
}

#[tokio::test]
async fn a_request_that_the_browser_marks_as_cross_site_is_refused() {
    let server = Server::start().await;
    let token = bearer(&server.token(Role::Admin, NamespaceScope::All).await);
    for site in ["cross-site", "same-site", "anything-new"] {
        let headers = format!("{token}Sec-Fetch-Site: {site}\r\n");
        server.get("/whoami", &headers).await.refused(403, "cross_site");
        server.get("/healthz", &headers).await.refused(403, "cross_site");
    }
    for site in ["same-origin", "none"] {
        server.get("/whoami", &format!("{token}Sec-Fetch-Site: {site}\r\n")).await.allowed();
    }
}

#[tokio::test]
async fn a_link_from_another_site_opens_a_page_and_never_the_api() {
    let server = Server::start_with(|options| options.tokens = None).await;
    let link = "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document\r\n";
    server.get("/healthz", link).await.allowed();
    server.get("/whoami", link).await.refused(403, "cross_site");
    let frame = link.replace("document", "iframe");
    server.get("/healthz", &frame).await.refused(403, "cross_site");
    server.post(link, "").await.refused(403, "cross_site");
    let form = format!("POST /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{link}\r\n");
    server.send(&form).await.refused(403, "cross_site");
}

#[tokio::test]
async fn a_form_and_any_other_body_that_is_not_json_is_refused() {
    let server = Server::start().await;
    let token = bearer(&server.token(Role::Admin, NamespaceScope::All).await);
    for kind in [
        "Content-Type: application/x-www-form-urlencoded\r\n",
        "Content-Type: multipart/form-data; boundary=x\r\n",
        "Content-Type: text/plain\r\n",
        "Content-Type: text/plain; application/json\r\n",
        "Content-Type: application/jsonp\r\n",
        "Content-Type: application/json\r\nContent-Type: text/plain\r\n",
        "",
    ] {
        let answer = server.post(&format!("{token}{kind}"), "{\"a\":1}").await;
        answer.refused(415, "content_type_not_json");
    }
    let empty_form = format!("{token}Content-Type: application/x-www-form-urlencoded\r\n");
    server.post(&empty_form, "").await.refused(415, "content_type_not_json");
    let chunked = format!(
        "POST /echo HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n{token}\r\n2\r\n{{}}\r\n0\r\n\r\n",
        server.address
    );
    server.send(&chunked).await.refused(415, "content_type_not_json");
    for kind in [JSON, "Content-Type: Application/JSON; charset=utf-8\r\n"] {
        assert_eq!(server.post(&format!("{token}{kind}"), "{}").await.allowed(), "{}");
    }
    server.post(&token, "").await.allowed();
}

#[tokio::test]
async fn no_response_has_cors_headers() {
    let server = Server::start().await;
    let token = bearer(&server.token(Role::Viewer, only("a")).await);
    let preflight = format!(
        "OPTIONS /echo HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nOrigin: https://attacker.example\r\n\
         Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: content-type\r\n\r\n",
        server.address
    );
    let answers = [
        server.send(&preflight).await,
        server.get("/healthz", "").await,
        server.get("/whoami", &token).await,
        server.get("/whoami", "").await,
        server.get("/read/b", &token).await,
        server.get("/nowhere", &token).await,
    ];
    answers[0].refused(403, "cross_site");
    for answer in &answers {
        assert!(!answer.text.to_ascii_lowercase().contains("access-control-"), "{}", answer.text);
        assert_eq!(answer.header("cross-origin-resource-policy"), Some("same-origin"));
        assert_eq!(answer.header("x-frame-options"), Some("DENY"));
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    }
}

#[tokio::test]
async fn without_tokens_every_local_caller_is_an_admin_without_may_exec() {
    let server = Server::start_with(|options| options.tokens = None).await;
    assert_eq!(server.get("/whoami", "").await.allowed(), "local");
    server.get("/enqueue/a/exec", "").await.refused(403, "exec_not_granted");
    assert!(!Identity::local().may_exec);
    server.get("/whoami", "Origin: https://attacker.example\r\n").await.refused(403, "cross_site");
}

#[tokio::test]
async fn with_tls_responses_have_hsts_except_for_localhost() {
    let hosts = vec!["jobs.example.org".to_owned()];
    let strict = async |tls: bool, host: &str| {
        let hosts = hosts.clone();
        let server = Server::start_with(move |options| (options.tls, options.hosts) = (tls, hosts)).await;
        let answer =
            server.send(&format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")).await;
        answer.allowed();
        answer.header("strict-transport-security").map(str::to_owned)
    };
    assert_eq!(strict(true, "jobs.example.org").await.as_deref(), Some("max-age=31536000"));
    assert_eq!(strict(true, "localhost").await, None, "programs without TLS listen there too");
    assert_eq!(strict(false, "jobs.example.org").await, None);
}
