use reqwest::redirect::Policy;
use reqwest::{Client, RequestBuilder, Response, StatusCode};
use weaver_core::prelude::*;
use weaver_server::security::{Role, TokenText};
use weaver_testkit::services::browser::Driver;

use crate::browser::{Browser, http};
use crate::site::{Harness, Site};

fn client() -> Client {
    http(Policy::none())
}

trait Filled {
    /// URL-encoded, as a browser submits a form.
    fn fields(self, fields: &[(&str, &str)]) -> Self;
}

impl Filled for RequestBuilder {
    fn fields(self, fields: &[(&str, &str)]) -> Self {
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.header("content-type", "application/x-www-form-urlencoded").body(body)
    }
}

async fn cookie(response: &Response) -> String {
    let header = response.headers()["set-cookie"].to_str().expect("as the test expects");
    header.split(';').next().expect("as the test expects").to_owned()
}

/// Logs in by a token for all namespaces. Returns the cookie and the form key.
pub(crate) async fn log_in(site: &Site, role: Role) -> (String, String) {
    log_in_with(site, &site.token(role).await).await
}

/// Logs in by token. Returns the cookie and the form key.
pub(crate) async fn log_in_with(site: &Site, token: &TokenText) -> (String, String) {
    let form = [("token", token.expose()), ("next", "/tasks")];
    let answer = client()
        .post(site.url("/login"))
        .header("origin", site.url(""))
        .fields(&form)
        .send()
        .await
        .expect("as the test expects");
    assert_eq!(
        (answer.status(), &answer.headers()["location"]),
        (StatusCode::SEE_OTHER, &"/tasks".parse().expect("as the test expects"))
    );
    let cookie = cookie(&answer).await;
    let page = client()
        .get(site.url("/tasks"))
        .header("cookie", &cookie)
        .send()
        .await
        .expect("as the test expects")
        .text()
        .await
        .expect("as the test expects");
    let key = page
        .split("name=\"form_key\" value=\"")
        .nth(1)
        .expect("as the test expects")
        .split('"')
        .next()
        .expect("as the test expects")
        .to_owned();
    (cookie, key)
}

pub(crate) async fn post(
    site: &Site,
    path: &str,
    cookie: &str,
    origin: &str,
    form: &[(&str, &str)],
) -> Response {
    let request = client().post(site.url(path)).header("cookie", cookie).header("accept", "text/html");
    request.header("origin", origin).fields(form).send().await.expect("as the test expects")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_link_logs_one_browser_in_once_and_logging_out_ends_it() {
    let (harness, driver) = (Harness::memory(), Driver::start());
    let site = Site::start(&harness).await;
    let (one, two) = (Browser::open(&driver).await, Browser::open(&driver).await);
    let link = site.link(Role::Admin).await;
    one.enter(&link).await;
    two.go(&link).await;
    two.press("Log in").await;
    two.sees(".alert", "already used").await;
    // After login the user is redirected to the page requested before.
    two.go(&site.url("/tasks?state=dead")).await;
    two.sees("h1", "Log in").await;
    two.type_into("#token", site.token(Role::Viewer).await.expose()).await;
    two.press("Log in").await;
    two.sees("h1", "Tasks").await;
    two.until("location.search === '?state=dead'").await;
    two.press("Log out").await;
    two.sees("h1", "Log in").await;
    two.go(&site.url("/tasks")).await;
    two.sees("h1", "Log in").await;
    assert_eq!(one.script("return document.cookie").await, "", "scripts cannot read the session");
    one.close().await;
    two.close().await;
}

#[tokio::test]
async fn a_session_is_a_strict_http_only_cookie_and_ends_when_its_token_is_revoked() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let token = site.token(Role::Operator).await;
    let form = [("token", token.expose())];
    let answer = client()
        .post(site.url("/login"))
        .header("origin", site.url(""))
        .fields(&form)
        .send()
        .await
        .expect("as the test expects");
    let header = answer.headers()["set-cookie"].to_str().expect("as the test expects");
    assert!(header.contains("; HttpOnly; SameSite=Strict") && header.contains("Max-Age=43200"), "{header}");
    let cookie = cookie(&answer).await;
    let status = async |path: &str| {
        client()
            .get(site.url(path))
            .header("cookie", &cookie)
            .send()
            .await
            .expect("as the test expects")
            .status()
    };
    assert_eq!(status("/tasks").await, StatusCode::OK);
    assert_eq!(status("/api/v1/events").await, StatusCode::OK, "a page's session reads the API");
    // It may not write there: only our own forms do.
    let changed = client()
        .post(site.url("/api/v1/queues/q/pause"))
        .header("cookie", &cookie)
        .send()
        .await
        .expect("as the test expects");
    assert_eq!(changed.status(), StatusCode::UNAUTHORIZED);
    site.tokens.revoke(&token.id()).await.expect("as the test expects");
    assert_eq!(status("/tasks").await, StatusCode::SEE_OTHER);
    assert_eq!(status("/api/v1/tasks").await, StatusCode::UNAUTHORIZED);
}

#[tokio::test]
async fn a_form_without_its_key_or_from_another_site_changes_nothing() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let (cookie, key) = log_in(&site, Role::Admin).await;
    let (own, pause) = (site.url(""), ("action", "pause"));
    let refused = [
        post(&site, "/queues", &cookie, &own, &[("queue", "mail"), pause]).await,
        post(&site, "/queues", &cookie, &own, &[("queue", "mail"), pause, ("form_key", &key[1..])]).await,
        post(
            &site,
            "/queues",
            &cookie,
            "http://evil.example",
            &[("queue", "mail"), pause, ("form_key", &key)],
        )
        .await,
        post(
            &site,
            "/queues",
            &cookie,
            "http://127.0.0.1:1",
            &[("queue", "mail"), pause, ("form_key", &key)],
        )
        .await,
        post(&site, "/queues", &cookie, "null", &[("queue", "mail"), pause, ("form_key", &key)]).await,
    ];
    for answer in refused {
        assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    }
    let no_origin = client().post(site.url("/queues")).header("cookie", &cookie).fields(&[
        ("queue", "mail"),
        pause,
        ("form_key", &key),
    ]);
    assert_eq!(no_origin.send().await.expect("as the test expects").status(), StatusCode::FORBIDDEN);
    assert!(site.store.list_queues(&Namespace::default()).await.expect("as the test expects").is_empty());
    let done = post(&site, "/queues", &cookie, &own, &[("queue", "mail"), pause, ("form_key", &key)]).await;
    assert_eq!(done.status(), StatusCode::SEE_OTHER);
    assert!(
        site.store.list_queues(&Namespace::default()).await.expect("as the test expects")[0].settings.paused
    );
}

/// Fetches a page with a session.
pub(crate) async fn page_of(site: &Site, cookie: &str, path: &str) -> Response {
    let request = client().get(site.url(path)).header("cookie", cookie).header("accept", "text/html");
    request.send().await.expect("as the test expects")
}

#[tokio::test]
async fn an_action_that_a_role_may_not_do_is_neither_offered_nor_done() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let task = site.enqueue(NewTask::new("anything")).await;
    let (cookie, key) = log_in(&site, Role::Viewer).await;
    let page = async |path: &str| page_of(&site, &cookie, path).await;
    for path in ["/", "/tasks", "/tasks/1", "/queues", "/workers", "/groups"] {
        let text = page(path).await.text().await.expect("as the test expects");
        let forms = text.matches("method=\"post\"").count() - text.matches("action=\"/logout\"").count();
        let harmless = text.matches("action=\"/bulk\"").count();
        assert_eq!(forms, harmless, "a viewer is offered something on {path}: {text}");
        assert!(!text.contains("Cancel</button>") && !text.contains("href=\"/tokens\""), "{path}: {text}");
    }
    assert_eq!(page("/tokens").await.status(), StatusCode::FORBIDDEN);
    assert_eq!(page("/audit").await.status(), StatusCode::FORBIDDEN);
    let actions: [(&str, &[(&str, &str)]); 11] = [
        ("/tasks/1/cancel", &[]),
        ("/tasks/1/retry", &[]),
        ("/tasks/1/run-now", &[]),
        ("/bulk", &[("action", "retry-all"), ("confirmed", "yes")]),
        ("/queues", &[("queue", "q"), ("action", "resume")]),
        ("/queues", &[("queue", "q"), ("max_running", "3")]),
        ("/workers", &[("worker", "w"), ("directive", "drain")]),
        ("/bulk", &[("action", "cancel-all"), ("confirmed", "yes")]),
        ("/queues", &[("queue", "q"), ("action", "pause")]),
        ("/prompts", &[("prompt", "hello")]),
        ("/tokens", &[("name", "x"), ("role", "admin")]),
    ];
    for (path, fields) in actions {
        let fields: Vec<_> = fields.iter().copied().chain([("form_key", key.as_str())]).collect();
        let answer = post(&site, path, &cookie, &site.url(""), &fields).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{path}");
        assert!(answer.text().await.expect("as the test expects").contains("role `viewer` lacks"), "{path}");
    }
    assert_eq!(site.store.get_task(&task).await.expect("as the test expects").state, TaskState::Queued);
}

#[tokio::test]
async fn every_page_has_a_strict_content_security_policy_and_the_overview_is_small() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    for number in 0..60 {
        site.enqueue(NewTask::new(format!("type-{number}")).queue(format!("queue-{}", number % 10))).await;
    }
    let (cookie, _) = log_in(&site, Role::Admin).await;
    let get = async |path: &str| page_of(&site, &cookie, path).await;
    for path in [
        "/",
        "/tasks",
        "/tasks/1",
        "/tasks/none",
        "/queues",
        "/workers",
        "/groups",
        "/group?id=x",
        "/schedules",
        "/schedules/new",
        "/schedule?name=none",
        "/merge",
        "/settings",
        "/tokens",
        "/audit",
        "/login",
        "/no/such",
    ] {
        let answer = get(path).await;
        let policy =
            answer.headers()["content-security-policy"].to_str().expect("as the test expects").to_owned();
        assert!(policy.starts_with("default-src 'none'") && !policy.contains("unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers()["x-frame-options"], "DENY", "{path}");
        let text = answer.text().await.expect("as the test expects");
        assert!(
            text.starts_with("<!DOCTYPE html>") && !text.contains(" style=") && !text.contains("http://"),
            "{path}: {text}"
        );
    }
    let first = get("/").await.text().await.expect("as the test expects");
    let part = |mark: &str| {
        first
            .split(mark)
            .nth(1)
            .expect("as the test expects")
            .split('"')
            .next()
            .expect("as the test expects")
            .to_owned()
    };
    let mut total = first.len();
    for path in [part("stylesheet\" href=\""), part("script src=\"")] {
        total += get(&path).await.text().await.expect("as the test expects").len();
    }
    assert!(total < 100_000, "the first page costs {total} bytes");
}

/// Submits the form of a login link.
pub(crate) async fn redeem(site: &Site, link: &str) -> Response {
    let secret = link.split("link=").nth(1).expect("a link has a secret");
    let form = [("link", secret)];
    let request = client().post(site.url("/login")).header("origin", site.url("")).fields(&form);
    request.send().await.expect("the server answers")
}

#[tokio::test]
async fn opening_a_login_link_does_not_redeem_it_and_its_button_does() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    let link = site.link(Role::Operator).await;
    for _ in 0..2 {
        let shown = client().get(&link).send().await.expect("the server answers");
        assert_eq!(shown.status(), StatusCode::OK);
        assert!(!shown.headers().contains_key("set-cookie"));
        assert!(shown.text().await.expect("a page").contains("<form"));
    }
    let entered = redeem(&site, &link).await;
    assert_eq!(
        (entered.status(), &entered.headers()["location"]),
        (StatusCode::SEE_OTHER, &"/".parse().expect("a path"))
    );
    let cookie = cookie(&entered).await;
    assert_eq!(page_of(&site, &cookie, "/tasks").await.status(), StatusCode::OK);
    assert_eq!(redeem(&site, &link).await.status(), StatusCode::GONE);
}

#[tokio::test]
async fn logins_logouts_and_denials_are_in_the_audit_log_of_the_server() {
    let harness = Harness::memory();
    let site = Site::start(&harness).await;
    redeem(&site, &site.link(Role::Operator).await).await;
    let (cookie, key) = log_in(&site, Role::Viewer).await;
    let own = site.url("");
    for _ in 0..3 {
        let denied =
            post(&site, "/queues", &cookie, &own, &[("queue", "q"), ("action", "pause"), ("form_key", &key)])
                .await;
        assert_eq!(denied.status(), StatusCode::FORBIDDEN);
    }
    let viewer = site.token(Role::Viewer).await;
    let pause = client().post(site.url("/api/v1/queues/q/pause")).bearer_auth(viewer.expose());
    assert_eq!(pause.send().await.expect("the server answers").status(), StatusCode::FORBIDDEN);
    post(&site, "/logout", &cookie, &own, &[("form_key", &key)]).await;
    let admin = site.token(Role::Admin).await;
    let journal =
        client().get(site.url("/api/v1/audit?namespace=weaver.internal")).bearer_auth(admin.expose());
    let journal = journal.send().await.expect("the server answers").text().await.expect("a page");
    let journal: serde_json::Value = serde_json::from_str(&journal).expect("JSON");
    let entries = journal["entries"].as_array().expect("a list");
    let of = |action: &str| entries.iter().filter(|entry| entry["action"] == action).collect::<Vec<_>>();
    let (logins, denials) = (of("login"), of("denied"));
    assert_eq!(logins.len(), 2, "{journal}");
    assert!(logins[0]["detail"].as_str().is_some_and(|detail| detail.contains("by link, from 127.0.0.1")));
    assert_eq!(of("logout").len(), 1);
    // The third in a minute is not recorded; the fourth would be. The caller of the API is another one.
    let targets: Vec<_> = denials.iter().map(|entry| entry["target"].as_str().unwrap_or_default()).collect();
    assert_eq!(targets, ["POST /queues", "POST /queues", "POST /api/v1/queues/q/pause"], "{journal}");
}
