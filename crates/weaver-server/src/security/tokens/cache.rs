//! A cache of verified tokens, so that a request does not cost a read of the store.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use weaver_core::time::Monotonic;

use super::record::Record;
use super::{CACHE_TTL, CACHED_MAX};
use crate::security::token_text::TokenId;

/// Only tokens with the right secret are cached, so unauthenticated clients cannot fill it.
#[derive(Default)]
pub(super) struct Cache {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    entries: HashMap<TokenId, Entry>,
    /// Grows with every [`forget`](Cache::forget): a record that was read before must not be cached after.
    epoch: Epoch,
}

struct Entry {
    record: Arc<Record>,
    read_at: Monotonic,
}

/// The time of a lookup, counted in revocations.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Epoch(u64);

impl Cache {
    /// A record younger than [`CACHE_TTL`], and the epoch to pass to [`put`](Cache::put).
    pub(super) fn get(&self, id: &TokenId, now: Monotonic) -> (Option<Arc<Record>>, Epoch) {
        let state = self.state.lock();
        let fresh = state.entries.get(id).filter(|entry| now < entry.read_at.saturating_add(CACHE_TTL));
        (fresh.map(|entry| Arc::clone(&entry.record)), state.epoch)
    }

    /// Caches a record that was read after [`get`](Cache::get), unless a token was revoked in between.
    pub(super) fn put(&self, id: TokenId, record: Arc<Record>, read_at: Monotonic, epoch: Epoch) {
        let mut state = self.state.lock();
        if state.epoch != epoch {
            return;
        }
        if state.entries.len() >= CACHED_MAX && !state.entries.contains_key(&id) {
            let oldest =
                state.entries.iter().min_by_key(|(_, entry)| entry.read_at).map(|(id, _)| id.clone());
            oldest.and_then(|id| state.entries.remove(&id));
        }
        state.entries.insert(id, Entry { record, read_at });
    }

    /// Whether the id is cached, fresh or not.
    pub(super) fn contains(&self, id: &TokenId) -> bool {
        self.state.lock().entries.contains_key(id)
    }

    /// Drops a token that the store no longer has. No new epoch, unlike [`forget`](Cache::forget): any client
    /// can cause this at will, and must not keep other tokens from being cached. Ids are never reused, so a
    /// late record cannot be of another token.
    pub(super) fn drop_entry(&self, id: &TokenId) {
        self.state.lock().entries.remove(id);
    }

    /// Drops a revoked token; a request that read it before cannot cache it again.
    pub(super) fn forget(&self, id: &TokenId) {
        let mut state = self.state.lock();
        state.epoch.0 += 1;
        state.entries.remove(id);
    }
}
