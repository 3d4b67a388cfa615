//! Lifecycles: enqueue, lease and finish, in batches and one by one; and the WAL bytes of each.

use tokio::runtime::Runtime;
use weaver_benches::{Samples, interleaved, verdict};

use crate::server::Server;
use crate::{hand_written, weaver};

/// Clients, tasks per call, calls per client and round.
const LOADS: [(usize, usize, usize); 2] = [(4, 500, 10), (16, 1, 60)];

pub fn print(what: &str, samples: &Samples) {
    println!("       {what}: {:.0}/s ± {:.0} %", samples.median(), samples.spread() * 100.0);
}

pub fn run(runtime: &Runtime, server: &Server) -> bool {
    let store = weaver::open(runtime, server);
    hand_written::open(runtime, server);
    let mut ok = true;
    for (clients, batch, calls) in LOADS {
        let what = format!("{clients} clients, {batch} in a call");
        let [ours, bare] =
            interleaved([&mut || weaver::lifecycles(runtime, &store, clients, batch, calls), &mut || {
                hand_written::lifecycles(runtime, server, clients, batch, calls)
            }]);
        print(&format!("weaver, {what}"), &ours);
        print(&format!("hand-written SQL, {what}"), &bare);
        let ratio = ours.median() / bare.median();
        match batch {
            1 => println!("       weaver / hand-written, {what}: {ratio:.2} × (reported)"),
            _ => ok &= verdict(&format!("weaver / hand-written, {what}"), ratio, 0.7, true),
        }
    }
    ok & wal(runtime, server)
}

/// Measured on the server. Full-page images are excluded: they come with checkpoints, not with work.
fn wal(runtime: &Runtime, server: &Server) -> bool {
    const LIMIT_BYTES: f64 = 1600.0;
    server.say(runtime, "postgres", "ALTER SYSTEM SET full_page_writes = off");
    server.say(runtime, "postgres", "SELECT pg_reload_conf()");
    let store = weaver::open(runtime, server);
    let place = || server.wal_bytes(runtime);
    let mut ok = true;
    for (clients, batch, calls) in LOADS {
        let lifecycles = (clients * batch * calls) as f64;
        let count = |subject: &mut dyn FnMut() -> f64| {
            // Twice: the first fills caches and the visibility map.
            subject();
            let before = place();
            subject();
            (place() - before) as f64 / lifecycles
        };
        let ours = count(&mut || weaver::lifecycles(runtime, &store, clients, batch, calls));
        let bare = count(&mut || hand_written::lifecycles(runtime, server, clients, batch, calls));
        let within = ours <= LIMIT_BYTES;
        let word = if batch == 1 {
            "    "
        } else if within {
            "ok  "
        } else {
            "MISS"
        };
        println!(
            "  {word} WAL per lifecycle, {batch} in a call: {ours:.0} bytes (limit ≤ {LIMIT_BYTES:.0} in batches); hand-written {bare:.0}"
        );
        ok &= within || batch == 1;
    }
    server.say(runtime, "postgres", "ALTER SYSTEM RESET full_page_writes");
    server.say(runtime, "postgres", "SELECT pg_reload_conf()");
    ok
}
