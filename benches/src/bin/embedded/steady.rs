//! Two million lifecycles with a short retention: the file stays proportional, and nothing gets slower.

use tokio::runtime::Runtime;
use weaver_benches::{Samples, cpu_seconds, verdict};
use weaver_embedded::EmbeddedOptions;

use crate::weaver::{self, Subject};

const LIFECYCLES: usize = 2_000_000;
const CLIENTS: usize = 1024;
const KEPT: u64 = 50_000;
const STRETCHES: usize = 20;

pub fn run(runtime: &Runtime) -> bool {
    println!("{LIFECYCLES} lifecycles by {CLIENTS} clients, the last {KEPT} finished tasks kept");
    let options = EmbeddedOptions { retention_count: Some(KEPT), ..EmbeddedOptions::default() };
    let subject = Subject::new("steady", options);
    let each = LIFECYCLES / STRETCHES / CLIENTS;
    let mut rates = Vec::new();
    let mut costs = Vec::new();
    let mut sizes = Vec::new();
    for stretch in 0..STRETCHES {
        let before = cpu_seconds();
        rates.push(weaver::lifecycles(runtime, &subject.store, CLIENTS, each).per_second);
        costs.push((cpu_seconds() - before) * 1e6 / (CLIENTS * each) as f64);
        sizes.push(subject.store.file_bytes().expect("a size"));
        eprint!("\r  {} of {STRETCHES} stretches", stretch + 1);
    }
    eprint!("\r                                        \r");
    let thousands: Vec<String> = rates.iter().map(|rate| format!("{:.0}", rate / 1e3)).collect();
    println!("       thousands of lifecycles/s, stretch by stretch: {}", thousands.join(" "));
    let micros: Vec<String> = costs.iter().map(|cost| format!("{cost:.0}")).collect();
    println!("       µs of processor time per lifecycle: {}", micros.join(" "));
    // The first stretch fills an empty file.
    let (first, last) = (Samples::of(rates[1..8].to_vec()), Samples::of(rates[STRETCHES - 7..].to_vec()));
    println!(
        "       at the start {:.0} lifecycles/s ± {:.0} %, at the end {:.0} ± {:.0} % (medians of 7 stretches)",
        first.median(),
        first.spread() * 100.0,
        last.median(),
        last.spread() * 100.0
    );
    let mebibytes = |bytes: u64| bytes >> 20;
    let file = *sizes.last().expect("stretches");
    println!(
        "       the file: {} MiB after a tenth, {} MiB at the end",
        mebibytes(sizes[1]),
        mebibytes(file)
    );
    runtime.block_on(subject.store.compact()).expect("compacted");
    let compacted = subject.store.file_bytes().expect("a size");
    let scratch = weaver_benches::scratch::Scratch::new("live");
    subject.store.backup(scratch.path()).expect("copied");
    let live = std::fs::metadata(scratch.path().join("weaver.redb")).expect("a file").len();
    println!(
        "       compacted {} MiB; its contents alone, freshly written: {} MiB",
        mebibytes(compacted),
        mebibytes(live)
    );
    let middle = |part: &[f64]| Samples::of(part.to_vec()).median();
    let cost = middle(&costs[STRETCHES - 7..]) / middle(&costs[1..8]);
    let noise = first.spread().max(last.spread());
    let mut ok =
        verdict("at the end / at the start", last.median() / first.median(), 1.0 - noise.max(0.1), true);
    ok &= verdict("processor time per lifecycle, at the end / at the start", cost, 1.1, false);
    ok & verdict("compacted file / contents alone", compacted as f64 / live as f64, 2.0, false)
}
