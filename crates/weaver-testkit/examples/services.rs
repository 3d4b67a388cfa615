//! Starts the throw-away databases of the tests and keeps them until interrupted:
//! `cargo xtask services`.

use weaver_testkit::services::postgres::Shared;

fn main() {
    let postgres = Shared::server();
    println!("postgres  {}", postgres.url());
    println!("try       weaver serve --store '{}'", postgres.url());
    println!("Ctrl-C ends this; the servers go a few seconds later, with everything in them.");
    loop {
        std::thread::park();
    }
}
