//! A browser, driven by its own protocol. (The crates that do this bring a licence that Weaver does not take
//! in.)

use std::time::Duration;

use serde_json::{Value, json};
use weaver_core::clock::Clock;
use weaver_runtime::SystemClock;
use weaver_testkit::services::browser::Driver;

/// How long anything may take to be on screen; what must be faster says so itself.
const PATIENCE: Duration = Duration::from_secs(40);

/// How long one look at a page may take.
const LOOK_MAX_MS: u64 = 5_000;

/// A client of HTTP. Nothing here is encrypted, but reqwest wants to know how it would be.
pub(crate) fn http(policy: reqwest::redirect::Policy) -> reqwest::Client {
    let _ = rustls::crypto::ring::default_provider().install_default(); // Another test of the process may have.
    reqwest::Client::builder().redirect(policy).build().expect("a client")
}

/// How a browser is set up.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) dark: bool,
}

impl Default for Look {
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
        Self::with(driver, Look::default()).await
    }

    pub(crate) async fn with(driver: &Driver, look: Look) -> Self {
        Self::start(driver, look, Driver::engine()).await
    }

    /// With windows, so that a tab behind another one is hidden.
    pub(crate) async fn with_windows(driver: &Driver) -> Self {
        Self::start(driver, Look::default(), Driver::browser()).await
    }

    async fn start(driver: &Driver, look: Look, program: &str) -> Self {
        let http = http(reqwest::redirect::Policy::none());
        let arguments = [
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            // It asks for updates, lists and time servers otherwise, which are not what is tested.
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
            .command("timeouts", json!({"script": LOOK_MAX_MS, "implicit": PATIENCE.as_millis() as u64}))
            .await;
        browser.look(look).await;
        browser
    }

    pub(crate) async fn look(&self, look: Look) {
        let phone = look.width < 500;
        let size =
            json!({"width": look.width, "height": look.height, "deviceScaleFactor": 1, "mobile": phone});
        self.tool("Emulation.setDeviceMetricsOverride", size).await;
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.tool("Emulation.setEmulatedMedia", media).await;
    }

    pub(crate) async fn go(&self, url: &str) {
        self.command("url", json!({"url": url})).await;
    }

    /// Logs in by a link.
    pub(crate) async fn enter(&self, link: &str) {
        self.go(link).await;
        self.press("Log in").await;
        self.sees("h1", "Overview").await;
    }

    /// To the page before, as the button of the browser does.
    pub(crate) async fn back(&self) {
        self.command("back", json!({})).await;
    }

    /// A new tab, which from now on is the one in front.
    pub(crate) async fn tab(&self) {
        let made = self.command("window/new", json!({"type": "tab"})).await;
        self.command("window", json!({"handle": made["handle"]})).await;
    }

    /// What a script returns.
    pub(crate) async fn script(&self, script: &str) -> Value {
        self.command("execute/sync", json!({"script": script, "args": []})).await
    }

    pub(crate) async fn text(&self, css: &str) -> String {
        let script = format!("return document.querySelector({})?.innerText ?? ''", json!(css));
        self.script(&script).await.as_str().expect("a text").to_owned()
    }

    /// Waits until an expression is true in the page, and gives how long that took. Pages may come and go
    /// meanwhile.
    pub(crate) async fn until(&self, expression: &str) -> Duration {
        // A look lasts a moment: one that is under way when its page is left may never be answered.
        let script = format!(
            "const done = arguments[arguments.length - 1], began = performance.now(); \
             const look = () => {{ let is = false; try {{ is = {expression}; }} catch {{}} \
             is || performance.now() - began > 400 ? done(Boolean(is)) : setTimeout(look, 20); }}; look();"
        );
        let asked = json!({"script": script, "args": []});
        let (clock, mut last) = (SystemClock::new(), String::new());
        let began = clock.monotonic();
        loop {
            let answer = post(&self.http, &format!("{}/execute/async", self.session), &asked).await;
            let took = clock.monotonic().0.saturating_sub(began.0);
            match answer {
                Ok(Value::Bool(true)) => return took,
                Ok(_) => {}
                // The page was left while it was looked at.
                Err(error) => last = error,
            }
            if took > PATIENCE {
                panic!("`{expression}` never ({last}) on a page that says: {}", self.text("body").await);
            }
        }
    }

    /// Waits until some element has a text in it.
    pub(crate) async fn sees(&self, css: &str, text: &str) -> Duration {
        let (css, text) = (json!(css), json!(text));
        self.until(&format!(
            "[...document.querySelectorAll({css})].some((e) => e.innerText.includes({text}))"
        ))
        .await
    }

    /// Clicks as a person does: what is covered or off the screen cannot be.
    pub(crate) async fn click(&self, css: &str) {
        self.click_on("css selector", css).await;
    }

    /// Clicks the link or button that says this.
    pub(crate) async fn press(&self, text: &str) {
        let path = format!("//*[self::a or self::button][normalize-space()={}]", json!(text));
        self.click_on("xpath", &path).await;
    }

    async fn click_on(&self, using: &str, value: &str) {
        let mut last = String::new();
        // A page that is just being left still has the element.
        for _ in 0..10 {
            let element = self.find(using, value).await;
            match post(&self.http, &format!("{}/element/{element}/click", self.session), &json!({})).await {
                Ok(_) => return,
                Err(error) if error.contains("stale") => last = error,
                Err(error) => panic!("`{value}` cannot be clicked: {error}"),
            }
        }
        panic!("`{value}` cannot be clicked: {last}");
    }

    pub(crate) async fn type_into(&self, css: &str, text: &str) {
        let element = self.element(css).await;
        self.command(&format!("element/{element}/value"), json!({"text": text})).await;
    }

    /// What the browser complained about: refused by the policy, or thrown by the script.
    pub(crate) async fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", json!({"type": "browser"})).await;
        let entries = log.as_array().cloned().unwrap_or_default();
        let text = |entry: &Value| entry["message"].as_str().unwrap_or_default().to_owned();
        let is_serious = |line: &String| {
            line.contains("Content Security") || line.contains("Uncaught") || line.contains("Refused")
        };
        entries.iter().map(text).filter(is_serious).collect()
    }

    /// A command of the browser's own tools.
    pub(crate) async fn tool(&self, name: &str, parameters: Value) -> Value {
        self.command("goog/cdp/execute", json!({"cmd": name, "params": parameters})).await
    }

    pub(crate) async fn close(self) {
        let _ = self.http.delete(&self.session).send().await; // The driver ends what is left.
    }

    async fn element(&self, css: &str) -> String {
        self.find("css selector", css).await
    }

    async fn find(&self, using: &str, value: &str) -> String {
        let asked = json!({"using": using, "value": value});
        let url = format!("{}/element", self.session);
        let found = post(&self.http, &url, &asked).await;
        let found = match found {
            Ok(found) => found,
            Err(error) => panic!("no `{value}`: {error}\non a page that says: {}", self.text("body").await),
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
