//! Every operation of the OpenAPI document with generated requests, valid and invalid: no response is a 5xx,
//! and every response is as documented. The generator is schemathesis, from PyPI, in a virtual environment
//! beside the compiled tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use weaver_core::queue::memory::InMemoryQueue;
use weaver_runtime::SystemClock;
use weaver_server::api::{ApiLimits, AppState, router};
use weaver_server::security::Tokens;
use weaver_server::serve::serve;
use weaver_testkit::sample;

const VERSION: &str = "4.32.5";
/// Generated requests per operation, beside those that cover each field of it. All of them under `GATE_ALL`.
const EXAMPLES: usize = 50;
/// How many of them a gate sends.
const SAMPLE: usize = 20;
/// Fixed, so that a failure can be reproduced.
const SEED: &str = "7117";

const INSTALL: &str = "it needs python3 with venv, and PyPI: apt-get update && apt-get install python3-venv";

#[tokio::test(flavor = "multi_thread")]
async fn generated_requests_find_no_server_error_and_no_undocumented_response() {
    let program = tokio::task::spawn_blocking(installed).await.expect("it ran");
    let (url, stop) = server().await;
    let mut command = Command::new(program);
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/schemathesis.toml");
    command.args(["--config-file", settings, "run", &format!("{url}/api/openapi.json")]);
    // The same requests for each commit: a new finding would have nothing to do with the change it blocks.
    let examples = if std::env::var_os(sample::ALL).is_some() { EXAMPLES } else { SAMPLE };
    command.args(["--max-examples", &examples.to_string(), "--seed", SEED]);
    command.args(["--phases", "examples,coverage,fuzzing", "--no-color", "--generation-database", "none"]);
    // Streams: their responses never end.
    command.args(["--exclude-name", "GET /api/v1/events"]);
    command.args(["--exclude-name", "GET /api/v1/merge/queues/{queue}/events"]);
    command.current_dir(env!("CARGO_TARGET_TMPDIR"));
    let output = tokio::task::spawn_blocking(move || command.output()).await.expect("it ran");
    let output = output.expect("schemathesis starts");
    stop.cancel();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
    let number = |name: &str| -> usize {
        let digits =
            printed.split(name).nth(1).and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        digits.and_then(|digits| digits.parse().ok()).unwrap_or_else(|| panic!("no {name}\n{printed}"))
    };
    let selected = number("Selected: ");
    assert_eq!(
        number(&format!("Selected: {selected}/")),
        selected + 2,
        "all but the two that are left out\n{printed}"
    );
    assert_eq!(number("Tested: "), selected, "{printed}");
}

/// The server over a store in memory. Waits are short, since some hundred requests are long polls.
#[expect(clippy::disallowed_methods, reason = "a test is its own runtime")]
async fn server() -> (String, CancellationToken) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("http://{}", listener.local_addr().expect("it is bound"));
    let clock = Arc::new(SystemClock::new());
    let store = Arc::new(InMemoryQueue::new(clock.clone()));
    let limits = ApiLimits { wait_max: Duration::from_millis(1), ..ApiLimits::default() };
    let tokens = Arc::new(Tokens::new(store.clone(), clock.clone()));
    let state = AppState::with_limits(store, clock, limits).with_tokens(tokens);
    let stop = CancellationToken::new();
    tokio::spawn(serve(listener, router(state.clone()), state, stop.clone()));
    (url, stop)
}

/// The generator, installed if it is missing. Atomically: an installation may be killed in the middle.
fn installed() -> PathBuf {
    let shared = std::env::var_os("WEAVER_CI_CACHE").map(PathBuf::from).filter(|cache| cache.is_dir());
    let cache = shared.unwrap_or_else(|| PathBuf::from(env!("CARGO_TARGET_TMPDIR")));
    let place = cache.join(format!("schemathesis-{VERSION}"));
    let (program, complete) = (place.join("bin/schemathesis"), place.join("complete"));
    if !complete.exists() {
        let place = place.to_string_lossy();
        run(Path::new("python3"), &["-m", "venv", "--clear", &place]);
        let package = format!("schemathesis=={VERSION}");
        run(&Path::new(&*place).join("bin/pip"), &["install", "--quiet", &package]);
        std::fs::write(complete, "").expect("the environment can be written");
    }
    program
}

fn run(program: &Path, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}; {INSTALL}", program.display()));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {}: {said}\n{INSTALL}", program.display(), arguments.join(" "));
}
