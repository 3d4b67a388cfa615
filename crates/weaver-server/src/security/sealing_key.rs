//! The key that all servers of a store share: what one seals, the others can open, also after a restart.
//!
//! It is a document of the internal namespace, created by the first server that needs it. It keeps *callers*
//! from forging leases and reading cursors; a process that can read the store can read it, and everything it
//! protects.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::OnceCell;
use weaver_core::error::Error;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, Expect, Store};

/// The document kind of the key; internal namespace, id `1`.
pub const SERVER_KEY_KIND: &str = "weaver.server-key";

const KEY_BYTES: usize = 32;

/// The shared key, read when it is first needed.
pub(crate) struct ServerKey {
    store: Arc<dyn Store>,
    // Cached for good: the document is never written again.
    key: OnceCell<SealingKey>,
}

impl ServerKey {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, key: OnceCell::new() }
    }

    /// The key; created if the store has none.
    pub(crate) async fn get(&self) -> Result<&SealingKey, Error> {
        self.key.get_or_try_init(|| self.read_or_make()).await
    }

    async fn read_or_make(&self) -> Result<SealingKey, Error> {
        let name = DocumentKey::new(Namespace::internal(), SERVER_KEY_KIND, "1");
        if let Some(found) = self.store.get_document(&name).await? {
            return decode(&found);
        }
        let mut key = [0; KEY_BYTES];
        // Tokens need it too: without randomness the server must not run.
        getrandom::fill(&mut key).expect("the system has randomness");
        match self.store.put_document(&name, Bytes::copy_from_slice(&key), Expect::Absent, None).await {
            Ok(_) => Ok(SealingKey(key)),
            // Another server created one at the same moment: use that.
            Err(Error::Conflict { .. }) => match self.store.get_document(&name).await? {
                Some(found) => decode(&found),
                None => Err(Error::Unavailable { reason: "the servers' key is being replaced".to_owned() }),
            },
            Err(error) => Err(error),
        }
    }
}

fn decode(document: &Document) -> Result<SealingKey, Error> {
    <[u8; KEY_BYTES]>::try_from(&document.body[..]).map(SealingKey).map_err(|_| Error::Damaged {
        what: format!("document {SERVER_KEY_KIND}/1 ({} bytes instead of {KEY_BYTES})", document.body.len()),
        remedy: "delete the document: the server creates a new one, and leases held over HTTP are lost once"
            .to_owned(),
    })
}

/// Its `Debug` shows no bytes.
#[derive(Clone)]
pub(crate) struct SealingKey([u8; KEY_BYTES]);

impl SealingKey {
    /// HMAC-SHA256 of the parts, separated by purpose. Each part is preceded by its length, so that two lists
    /// of parts never hash the same bytes.
    pub(super) fn mac(&self, purpose: &'static str, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in std::iter::once(&purpose.as_bytes()).chain(parts) {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        mac.finalize().into_bytes().into()
    }

    #[cfg(test)]
    pub(super) fn of_test(byte: u8) -> Self {
        Self([byte; KEY_BYTES])
    }
}

impl fmt::Debug for SealingKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("SealingKey(…)")
    }
}
