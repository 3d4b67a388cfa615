//! Leases over HTTP are bound to the subject of the token that took them (ADR 0029).
//!
//! ```text
//! worker draws D ──▶ nonce = MAC(subject, D) ──▶ in the store:  MAC(subject, nonce)
//!                                            └─▶ to the worker: nonce ‖ MAC(subject, task, version, attempt, worker, nonce)
//! ```
//!
//! The token that the worker holds proves the lease's subject and attempt, also after the attempt has ended
//! and the store no longer has its fencing token. The token in the store is useless over HTTP: a lease that
//! was taken directly from the store has no subject.

use subtle::ConstantTimeEq;
use weaver_core::id::LeaseToken;
use weaver_core::lease::Lease;

use super::sealing_key::SealingKey;

/// A lease of another subject, or of another store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ForeignLease;

impl SealingKey {
    /// The fencing token that the store keeps for a lease call. The same for a repeated call.
    pub(crate) fn stored_token(&self, subject: &str, drawn: LeaseToken) -> LeaseToken {
        self.stored(subject, self.nonce(subject, drawn))
    }

    /// Turns the store's lease into the worker's.
    pub(crate) fn issue(&self, subject: &str, drawn: LeaseToken, lease: &mut Lease) {
        let nonce = self.nonce(subject, drawn);
        lease.token = LeaseToken(u128::from(nonce) << 64 | u128::from(self.proof(subject, nonce, lease)));
    }

    /// Turns a worker's lease back into the store's, if it belongs to the subject.
    pub(crate) fn open(&self, subject: &str, mut lease: Lease) -> Result<Lease, ForeignLease> {
        let (nonce, shown) = ((lease.token.0 >> 64) as u64, lease.token.0 as u64);
        let proof = self.proof(subject, nonce, &lease);
        if !bool::from(proof.to_le_bytes().ct_eq(&shown.to_le_bytes())) {
            return Err(ForeignLease);
        }
        lease.token = self.stored(subject, nonce);
        Ok(lease)
    }

    fn nonce(&self, subject: &str, drawn: LeaseToken) -> u64 {
        first_u64(&self.mac("lease nonce", &[subject.as_bytes(), &drawn.0.to_le_bytes()]))
    }

    fn stored(&self, subject: &str, nonce: u64) -> LeaseToken {
        let mac = self.mac("lease in the store", &[subject.as_bytes(), &nonce.to_le_bytes()]);
        LeaseToken(u128::from(first_u64(&mac)) << 64 | u128::from(first_u64(&mac[8..])))
    }

    fn proof(&self, subject: &str, nonce: u64, lease: &Lease) -> u64 {
        let parts: [&[u8]; 8] = [
            subject.as_bytes(),
            &nonce.to_le_bytes(),
            lease.key.namespace.as_str().as_bytes(),
            &lease.key.id.0.to_le_bytes(),
            &lease.version.0.to_le_bytes(),
            &lease.attempt.to_le_bytes(),
            lease.worker.as_str().as_bytes(),
            &lease.epoch.0.to_le_bytes(),
        ];
        first_u64(&self.mac("lease of a worker", &parts))
    }
}

fn first_u64(bytes: &[u8]) -> u64 {
    let first = bytes.first_chunk().expect("a keyed hash has 32 bytes, and is cut at 8");
    u64::from_le_bytes(*first)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weaver_core::id::{Epoch, TaskId, TaskKey, Version};
    use weaver_core::name::{Namespace, WorkerId};

    use super::*;

    const DRAWN: LeaseToken = LeaseToken(7);

    fn lease(token: LeaseToken) -> Lease {
        Lease {
            key: TaskKey::new(Namespace::default(), TaskId(1)),
            version: Version(2),
            attempt: 1,
            worker: WorkerId::new("w").unwrap(),
            token,
            epoch: Epoch(0),
            ttl: Duration::from_secs(30),
        }
    }

    #[test]
    fn a_lease_opens_for_its_subject_only_and_becomes_the_stores() {
        let key = SealingKey::of_test(1);
        let stored = lease(key.stored_token("a", DRAWN));
        let mut held = stored.clone();
        key.issue("a", DRAWN, &mut held);
        assert_eq!(key.open("a", held.clone()), Ok(stored));
        assert_eq!(key.open("b", held.clone()), Err(ForeignLease));
        assert_eq!(SealingKey::of_test(2).open("a", held), Err(ForeignLease));
    }

    #[test]
    fn a_lease_with_a_forged_field_or_a_token_of_the_store_does_not_open() {
        let key = SealingKey::of_test(1);
        let mut held = lease(DRAWN);
        key.issue("a", DRAWN, &mut held);
        let worker = WorkerId::new("x").unwrap();
        for forged in [
            Lease { version: Version(3), ..held.clone() },
            Lease { attempt: 2, ..held.clone() },
            Lease { worker, ..held.clone() },
            Lease { epoch: Epoch(1), ..held.clone() },
            Lease { key: TaskKey::new(Namespace::default(), TaskId(2)), ..held.clone() },
            lease(DRAWN),
            lease(key.stored_token("a", DRAWN)),
        ] {
            assert_eq!(key.open("a", forged), Err(ForeignLease));
        }
    }
}
