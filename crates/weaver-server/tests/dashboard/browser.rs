//! A WebDriver client for Chromium. (The existing crates have a licence that this project does not accept.)

use std::time::Duration;

use serde_json::{Value, json};
use weaver_core::clock::Clock;
use weaver_runtime::SystemClock;
use weaver_testkit::services::browser::Driver;

/// How long to wait for anything on a page; tests of speed assert their own limit.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Time limit of one script in a page.
const SCRIPT_MAX_MS: u64 = 5_000;

/// An HTTP client. reqwest needs a TLS provider even for plain HTTP.
pub(crate) fn http(policy: reqwest::redirect::Policy) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default(); // Another test of the process may have.
    reqwest::Client::builder().redirect(policy).build().expect("a client")
}

#[derive(Clone, Copy)]
pub(crate) struct Viewport {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Default for Viewport {
    fn default() -> Self {
        Self { width: 1280, height: 900, dark: false }
    }
}

pub(crate) struct Browser {
    http: reqwest::Client,
    session: String,
}

impl Browser {
    pub(crate) async fn open(driver: &Driver) -> Self {
        Self::with(driver, Viewport::default()).await
    }

    pub(crate) async fn with(driver: &Driver, viewport: Viewport) -> Self {
        Self::start(driver, viewport, Driver::engine()).await
    }

    /// With windows, so that background tabs are hidden.
    pub(crate) async fn with_windows(driver: &Driver) -> Self {
        Self::start(driver, Viewport::default(), Driver::browser()).await
    }

    async fn start(driver: &Driver, viewport: Viewport, program: &str) -> Self {
        let http = http(reqwest::redirect::Policy::none());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            // No updates, block lists or time servers.
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--disable-quic",
            "--no-first-run",
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": program, "args": arguments},
        }}});
        let url = format!("{}/session", driver.url());
        let answer = post(&http, &url, &wanted).await.expect("a browser starts");
        let id = answer["sessionId"].as_str().expect("a session has an id");
        let browser = Self { http, session: format!("{url}/{id}") };
        browser
            .command("timeouts", json!({"script": SCRIPT_MAX_MS, "implicit": TIMEOUT.as_millis() as u64}))
            .await;
        browser.set_viewport(viewport).await;
        browser
    }

    pub(crate) async fn set_viewport(&self, viewport: Viewport) {
        let phone = viewport.width < 500;
        let Viewport { width, height, dark } = viewport;
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tool("Emulation.setEmulatedMedia", media).await;
    }

    pub(crate) async fn go(&self, url: &str) {
        self.command("url", json!({"url": url})).await;
    }

    /// Logs in by a one-time link.
    pub(crate) async fn enter(&self, link: &str) {
        self.go(link).await;
        self.press("Log in").await;
        self.sees("h1", "Overview").await;
    }

    pub(crate) async fn back(&self) {
        self.command("back", json!({})).await;
    }

    /// Opens a new tab in the foreground.
    pub(crate) async fn tab(&self) {
        let created = self.command("window/new", json!({"type": "tab"})).await;
        self.command("window", json!({"handle": created["handle"]})).await;
    }

    /// Runs a script in the page and returns its result.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.command("execute/sync", json!({"script": script, "args": []})).await
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(css));
        self.script(&script).await.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is true in the page, across navigations. Returns how long that took.
    pub(crate) async fn until(&self, expression: &str) -> Duration {
        // In short polls: a script that is running during a navigation may never return.
        let script = format!(
            "const done = arguments[arguments.length - 1], began = performance.now(); \
             const poll = () => {{ let is = false; try {{ is = {expression}; }} catch {{}} \
             is || performance.now() - began > 400 ? done(Boolean(is)) : setTimeout(poll, 20); }}; poll();"
        );
        let request = json!({"script": script, "args": []});
        let (clock, mut last) = (SystemClock::new(), String::new());
        let began = clock.monotonic();
        loop {
            let result = post(&self.http, &format!("{}/execute/async", self.session), &request).await;
            let took = clock.monotonic().0.saturating_sub(began.0);
            match result {
                Ok(Value::Bool(true)) => return took,
                Ok(_) => {}
                // Navigation interrupted the script.
                Err(error) => last = error,
            }
            if took > TIMEOUT {
                panic!(
                    "`{expression}` timed out ({last}) on a page with the text: {}",
                    self.text("body").await
                );
            }
        }
    }

    /// Waits until the text of some element contains `text`.
    pub(crate) async fn sees(&self, css: &str, text: &str) -> Duration {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!(
            "[...document.querySelectorAll({css})].some((e) => e.innerText.includes({text}))"
        ))
        .await
    }

    /// Fails if the element is covered or off the screen.
    pub(crate) async fn click(&self, css: &str) {
        self.click_on("css selector", css).await;
    }

    /// Clicks the link or button with this label.
    pub(crate) async fn press(&self, text: &str) {
        let path = format!("//*[self::a or self::button][normalize-space()={}]", json!(text));
        self.click_on("xpath", &path).await;
    }

    async fn click_on(&self, using: &str, value: &str) {
        let mut last = String::new();
        // During a navigation the element of the old page is found, and is stale; if the page goes while the
        // driver looks at the element, it says so in the words of the browser.
        let is_stale =
            |error: &str| error.contains("stale") || error.contains("does not belong to the document");
        for _ in 0..10 {
            let element = self.find(using, value).await;
            match post(&self.http, &format!("{}/element/{element}/click", self.session), &json!({})).await {
                Ok(_) => return,
                Err(error) if is_stale(&error) => last = error,
                Err(error) => panic!("`{value}` cannot be clicked: {error}"),
            }
        }
        panic!("`{value}` cannot be clicked: {last}");
    }

    pub(crate) async fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.command(&format!("element/{element}/value"), json!({"text": text})).await;
    }

    /// Console entries about violations of the content security policy and uncaught errors.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", json!({"type": "browser"})).await;
        let entries = log.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        let is_serious = |line: &String| {
            line.contains("Content Security") || line.contains("Uncaught") || line.contains("Refused")
        };
        entries.iter().map(text).filter(is_serious).collect()
    }

    /// A command of the Chrome DevTools Protocol.
    pub(crate) async fn tool(&self, name: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({"cmd": name, "params": parameters})).await
    }

    pub(crate) async fn close(self) {
        let _ = self.http.delete(&self.session).send().await; // The driver closes remaining sessions.
    }

    async fn element(&self, css: &str) -> String {
        self.find("css selector", css).await
    }

    async fn find(&self, using: &str, value: &str) -> String {
        let request = json!({"using": using, "value": value});
        let url = format!("{}/element", self.session);
        let found = post(&self.http, &url, &request).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                panic!("no `{value}`: {error}\non a page with the text: {}", self.text("body").await)
            }
        };
        let id = found.as_object().and_then(|object| object.values().next()).and_then(Value::as_str);
        id.expect("an element has an id").to_owned()
    }

    async fn command(&self, path: &str, body: Value) -> Value {
        let done = post(&self.http, &format!("{}/{path}", self.session), &body).await;
        done.unwrap_or_else(|error| panic!("{path}: {error}"))
    }
}

async fn post(http: &reqwest::Client, url: &str, body: &Value) -> Result<Value, String> {
    let answer = http.post(url).json(body).send().await.map_err(|error| error.to_string())?;
    let is_fine = answer.status().is_success();
    let mut answer: Value = answer.json().await.map_err(|error| error.to_string())?;
    let value = answer["value"].take();
    if is_fine { Ok(value) } else { Err(format!("{}: {}", value["error"], value["message"])) }
}
