//! The place of one connection (or, behind a proxy, of one request), and who it counts for.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedSemaphorePermit;
use weaver_core::time::Monotonic;

use super::admission::{Admission, Arrival, Full};

/// Who a place counts for. What it holds is given back when it changes or is dropped.
#[derive(Debug)]
pub(super) enum Held {
    /// An address, before a token was shown.
    Anonymous { _arrival: Option<Arrival>, _place: OwnedSemaphorePermit },
    /// A trusted proxy: its requests are counted one by one.
    Proxied,
    /// A token.
    Token(Arc<str>),
}

/// The place of a connection. In the extensions of its requests.
#[derive(Debug, Clone)]
pub(crate) struct Slot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    admission: Arc<Admission>,
    held: Mutex<Held>,
    /// Since when no request is under way; `None` while one is.
    idle_since: Mutex<Option<Monotonic>>,
}

impl Slot {
    pub(super) fn new(admission: Arc<Admission>, held: Held) -> Self {
        Self(Arc::new(Inner { admission, held: Mutex::new(held), idle_since: Mutex::new(None) }))
    }

    /// Counts for a token from now on, instead of for an address.
    pub(crate) fn count_for(&self, token: &str) -> Result<(), Full> {
        let mut held = self.0.held.lock();
        if matches!(&*held, Held::Token(shown) if **shown == *token) {
            return Ok(());
        }
        let token: Arc<str> = token.into();
        self.0.admission.take_token(&token)?;
        let before = std::mem::replace(&mut *held, Held::Token(token));
        drop(held);
        self.0.admission.give_back(before);
        Ok(())
    }

    /// Whether no token was shown yet.
    pub(super) fn is_anonymous(&self) -> bool {
        matches!(&*self.0.held.lock(), Held::Anonymous { .. })
    }

    /// Since when no request is under way.
    pub(super) fn idle_since(&self) -> Option<Monotonic> {
        *self.0.idle_since.lock()
    }

    pub(super) fn set_idle(&self, since: Option<Monotonic>) {
        *self.0.idle_since.lock() = since;
    }
}

impl Admission {
    fn give_back(&self, held: Held) {
        match held {
            Held::Anonymous { .. } => {}
            Held::Proxied => self.leave_known(),
            Held::Token(token) => self.leave_token(&token),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        match self.held.get_mut() {
            Held::Anonymous { .. } => {}
            Held::Proxied => self.admission.leave_known(),
            Held::Token(token) => self.admission.leave_token(token),
        }
    }
}
