//! `weaver merge certificates`.

use clap::Args;

use super::Common;
use super::access::Access;
use crate::exit::Failure;
use crate::output::{Table, instant};

#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  weaver merge certificates\n  weaver merge certificates --limit 100 --output json\n\n\
    A certificate names the commit that landed, the tree that was tested and the checks it passed.\n\
    `weaver merge verify` compares certificates with the repository and the signed chain."
)]
pub(crate) struct CertificatesArgs {
    /// Entries of the history to search for landings
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

pub(super) async fn list(access: &Access<'_>, queue: &str, args: &CertificatesArgs) -> Result<(), Failure> {
    let certificates = access.certificates(queue, args.limit).await?;
    let output = &access.context().output;
    output.answer(&certificates, || {
        if certificates.items.is_empty() {
            return format!("No landings in the last {} entries of {queue}.\n", args.limit);
        }
        let mut table = Table::new(["ENTRY", "CHANGE", "HEAD", "COMMIT", "TREE", "CHECKS", "LANDED"]);
        for landed in &certificates.items {
            let checks: Vec<&str> = landed.checks.iter().map(|check| check.name.as_str()).collect();
            table.row([
                landed.entry.to_string(),
                landed.change.clone(),
                short(&landed.head),
                short(&landed.commit),
                short(&landed.tree),
                checks.join(", "),
                landed.landed_at.map_or_else(|| "-".to_owned(), instant),
            ]);
        }
        output.render(&table)
    })
}

/// Enough of a hash to find the commit; JSON has all of it.
fn short(hash: &str) -> String {
    hash.chars().take(12).collect()
}
