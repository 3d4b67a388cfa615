//! The key of a store's servers: what they seal with it, every one of them can open, also after a restart.
//!
//! It is a document of the internal namespace, made by the first server that needs it. Whoever reads the
//! store can read it, but also everything it protects; it keeps *callers* from inventing leases and from
//! reading cursors.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use tokio::sync::OnceCell;
use weaver_core::error::Error;
use weaver_core::name::Namespace;
use weaver_core::ports::{Document, DocumentKey, Expect, Store};

/// The kind of the document the key is kept in.
pub const SERVER_KEY_KIND: &str = "weaver.server-key";

const KEY_BYTES: usize = 32;

/// The key of a store's servers, read when it is first needed.
pub(crate) struct ServerKey {
    store: Arc<dyn Store>,
    // Read once: the document is never written again.
    key: OnceCell<SealingKey>,
}

impl ServerKey {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, key: OnceCell::new() }
    }

    /// The key; made and stored if the store has none.
    pub(crate) async fn get(&self) -> Result<&SealingKey, Error> {
        self.key.get_or_try_init(|| self.read_or_make()).await
    }

    async fn read_or_make(&self) -> Result<SealingKey, Error> {
        let name = DocumentKey::new(Namespace::internal(), SERVER_KEY_KIND, "1");
        if let Some(found) = self.store.get_document(&name).await? {
            return decode(&found);
        }
        let mut key = [0; KEY_BYTES];
        // Without randomness nothing here is safe: tokens need it too.
        getrandom::fill(&mut key).expect("the system has randomness");
        match self.store.put_document(&name, Bytes::copy_from_slice(&key), Expect::Absent, None).await {
            Ok(_) => Ok(SealingKey(key)),
            // Another server made one at the same moment: that one counts.
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
        way_out: "delete the document: the server makes a new one, and leases held over HTTP are lost once"
            .to_owned(),
    })
}

/// Seals and opens. Never shown.
#[derive(Clone)]
pub(crate) struct SealingKey([u8; KEY_BYTES]);

impl SealingKey {
    /// A keyed hash of parts for one purpose. Each part is preceded by its length: no two lists of parts are
    /// the same.
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
