//! Startup time: from starting the command to its first answer.

use std::time::Instant;

use tokio::runtime::Runtime;
use weaver_benches::scratch::Scratch;
use weaver_benches::{ROUNDS, Samples, verdict};

use crate::server::Server;

/// Limit of the median, in milliseconds.
const LIMIT_MS: f64 = 50.0;

pub fn start(runtime: &Runtime) -> bool {
    println!("start to first answer, {ROUNDS} times");
    let scratch = Scratch::new("api-start");
    let (mut new, mut again) = (Samples::default(), Samples::default());
    for round in 0..ROUNDS {
        let directory = scratch.path().join(format!("store-{round}"));
        for samples in [&mut new, &mut again] {
            let began = Instant::now();
            let server = Server::weaver(&directory);
            runtime.block_on(server.client().ready()).expect("ready");
            samples.push(began.elapsed().as_secs_f64() * 1e3);
        }
    }
    println!("       on a new directory: {:.1} ms ± {:.0} %", new.median(), new.spread() * 100.0);
    println!("       on an empty store: {:.1} ms ± {:.0} %", again.median(), again.spread() * 100.0);
    verdict("on a new directory / 50 ms", new.median() / LIMIT_MS, 1.0, false)
        & verdict("on an empty store / 50 ms", again.median() / LIMIT_MS, 1.0, false)
}
