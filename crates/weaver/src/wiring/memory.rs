//! The in-memory store: it does not outlive its process.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use weaver::core::clock::Clock;
use weaver::core::ports::Store;
use weaver::core::quarantine::{CheckProgress, CheckReport};
use weaver::core::queue::memory::InMemoryQueue;

use super::kind::no_schema;
use super::{DirectoryStore, IfMissing, Kind, Made, Migrated, Opener, StoreKind, StoreUrl};
use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::finding::Finding;

pub(super) const KIND: Kind = Kind { schemes: &["memory"], example: "`memory:`", parse };

struct Memory;

fn parse(text: &str) -> Result<StoreUrl, Failure> {
    if text != "memory:" {
        let message = format!("`{text}`: an in-memory store has no name");
        return Err(Failure::new(Exit::Usage, message).next("write `memory:`"));
    }
    Ok(StoreUrl::new(Memory))
}

fn not_persistent() -> Failure {
    let message = "an in-memory store does not outlive its process: there is none to open";
    Failure::new(Exit::Usage, message).next("name a directory with --store")
}

impl fmt::Display for Memory {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("memory:")
    }
}

#[async_trait]
impl StoreKind for Memory {
    fn place(&self) -> Option<&Path> {
        None
    }

    fn holder(&self) -> Option<u32> {
        None
    }

    async fn open_to_serve(&self, opener: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        Ok(Arc::new(InMemoryQueue::new(Arc::clone(&opener.clock))))
    }

    async fn open_to_work(&self, _: &Opener<'_>) -> Result<Arc<dyn Store>, Failure> {
        Err(not_persistent())
    }

    async fn open_directory(&self, _: &Opener<'_>, _: IfMissing) -> Result<DirectoryStore, Failure> {
        Err(not_persistent())
    }

    async fn init(&self, _: &Opener<'_>) -> Result<Made, Failure> {
        Err(not_persistent())
    }

    async fn migrate(&self, _: bool) -> Result<Migrated, Failure> {
        Err(no_schema(self))
    }

    async fn check_records(
        &self,
        _: &Config,
        _: &Arc<dyn Clock>,
        _: CheckProgress<'_>,
    ) -> Result<Option<CheckReport>, Failure> {
        Ok(None)
    }

    async fn examine(&self, _: &Config, _: &Arc<dyn Clock>) -> Vec<Finding> {
        let next = "for durable tasks, name a directory with --store";
        vec![Finding::warn("store", "memory: nothing is kept after the process ends", next)]
    }
}
