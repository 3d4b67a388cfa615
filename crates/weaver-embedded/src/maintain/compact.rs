//! Compaction of the file.

use weaver_core::error::Error;

use crate::EmbeddedStore;
use crate::error::StoreError;

impl EmbeddedStore {
    /// Compacts the file and returns the number of bytes freed. Every other call waits meanwhile: about a
    /// second per few hundred megabytes.
    pub async fn compact(&self) -> Result<u64, StoreError> {
        let before = self.file_bytes()?;
        let (sender, receiver) = tokio::sync::oneshot::channel();
        self.writer.submit_exclusive(Box::new(move |engine| {
            let compacted =
                engine.with_database(|database| database.compact().map_err(|error| error.to_string()));
            drop(sender.send(compacted.and_then(|compacted| compacted)));
        }));
        match receiver.await {
            Ok(Ok(_)) => Ok(before.saturating_sub(self.file_bytes()?)),
            Ok(Err(reason)) => Err(Error::Unavailable { reason }.into()),
            Err(_) => Err(Error::Unavailable { reason: "the store is closed".to_owned() }.into()),
        }
    }

    /// Size of the data file, in bytes.
    pub fn file_bytes(&self) -> Result<u64, StoreError> {
        self.medium.open().and_then(|file| file.len()).map_err(|source| StoreError::io(&self.name, source))
    }
}
