//! Pages of the dashboard with a million tasks, compared with a static page:
//! `cargo xtask bench dashboard [embedded[=DIRECTORY]] [postgres[=URL]]`.
//!
//! Filling takes minutes and measuring seconds. A named store is kept, and measured as it is if it has tasks:
//! the machine needs to be quiet only then.

mod ask;
mod fill;
mod subject;

use weaver_benches::scratch::Scratch;

use crate::ask::Page;
use crate::subject::Subject;

/// Requests for every page.
const ASKED: usize = 400;
const LIMIT_MS: f64 = 50.0;
const FIRST_PAGE_MAX_BYTES: usize = 100_000;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let asked =
        |name: &str| arguments.is_empty() || arguments.iter().any(|argument| argument.starts_with(name));
    let place =
        |name: &str| arguments.iter().find_map(|argument| argument.strip_prefix(name)?.strip_prefix('='));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let scratch = Scratch::new("dashboard");
    let mut subjects = Vec::new();
    if asked("embedded") {
        let directory = place("embedded").map_or_else(|| scratch.path().join("store"), Into::into);
        subjects.push(runtime.block_on(Subject::embedded(&directory)));
    }
    if asked("postgres") {
        subjects.push(runtime.block_on(Subject::postgres(place("postgres"))));
    }
    let ok = subjects.iter().fold(true, |ok, subject| runtime.block_on(measure(subject)) && ok);
    drop(subjects);
    std::process::exit(i32::from(!ok));
}

async fn measure(subject: &Subject) -> bool {
    println!("{}: {} tasks, {ASKED} requests for each page, one after the other", subject.name, fill::TASKS);
    let mut ok = true;
    for (what, path) in subject.pages() {
        let (page, still) = ask::both(&subject.site, &path, ASKED).await;
        ok &= report(what, &page, &still);
    }
    let (raw, packed) = ask::first_page_bytes(&subject.site).await;
    let fits = raw < FIRST_PAGE_MAX_BYTES;
    println!(
        "  {} the first page with its style and script: {raw} bytes, {packed} when packed by gzip (limit {FIRST_PAGE_MAX_BYTES})",
        mark(fits)
    );
    ok && fits
}

fn report(what: &str, page: &Page, still: &Page) -> bool {
    let (half, most) = (page.times.quantile(0.5), page.times.quantile(0.99));
    let holds = most < LIMIT_MS;
    println!(
        "  {} {what}: p50 {half:.1}, p99 {most:.1} ms (limit {LIMIT_MS}); {} bytes, {} packed; a page that stands still: p50 {:.2}, p99 {:.2} ms; {:.1} ×",
        mark(holds),
        page.bytes,
        page.packed,
        still.times.quantile(0.5),
        still.times.quantile(0.99),
        half / still.times.quantile(0.5),
    );
    holds
}

fn mark(holds: bool) -> &'static str {
    if holds { "ok  " } else { "MISS" }
}
