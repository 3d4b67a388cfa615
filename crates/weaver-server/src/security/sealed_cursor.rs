//! Cursors of the change log, sealed for clients.
//!
//! Positions count the changes of *all* namespaces: in plain text they would show a token of one namespace
//! how much happens in the others. Two sealed ids reveal nothing about the changes between them, not even
//! whether they are the same position: every id has its own nonce.

use subtle::ConstantTimeEq;
use weaver_core::event::ChangeCursor;

use super::sealing_key::SealingKey;
use super::token_text::to_hex;

const NONCE: usize = 12;
const PLACE: usize = 16;
const TAG: usize = 8;
const PURPOSE: &str = "place in the changes";

impl SealingKey {
    /// The event id of a position.
    pub(crate) fn seal_place(&self, place: ChangeCursor) -> String {
        let mut nonce = [0; NONCE];
        getrandom::fill(&mut nonce).expect("the system has randomness");
        let mut hidden = [0; PLACE];
        hidden[..8].copy_from_slice(&place.incarnation.to_le_bytes());
        hidden[8..].copy_from_slice(&place.position.to_le_bytes());
        self.mask(&nonce, &mut hidden);
        let tag = self.mac(PURPOSE, &[b"tag", &nonce, &hidden]);
        to_hex(&[&nonce[..], &hidden, &tag[..TAG]].concat())
    }

    /// The position of an event id, if a server of this store sealed it.
    pub(crate) fn open_place(&self, id: &str) -> Option<ChangeCursor> {
        let bytes = from_hex(id).filter(|bytes| bytes.len() == NONCE + PLACE + TAG)?;
        let (nonce, rest) = bytes.split_first_chunk::<NONCE>()?;
        let (hidden, tag) = rest.split_first_chunk::<PLACE>()?;
        let right = self.mac(PURPOSE, &[b"tag", nonce, hidden]);
        if !bool::from(right[..TAG].ct_eq(tag)) {
            return None;
        }
        let mut place = *hidden;
        self.mask(nonce, &mut place);
        let (incarnation, position) = place.split_at(8);
        Some(ChangeCursor {
            incarnation: u64::from_le_bytes(incarnation.try_into().ok()?),
            position: u64::from_le_bytes(position.try_into().ok()?),
        })
    }

    /// XOR: masks and unmasks.
    fn mask(&self, nonce: &[u8; NONCE], place: &mut [u8; PLACE]) {
        let mask = self.mac(PURPOSE, &[b"mask", nonce]);
        place.iter_mut().zip(mask).for_each(|(byte, mask)| *byte ^= mask);
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks_exact(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.bytes().all(|digit| digit.is_ascii_hexdigit()).then(|| pairs.map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sealed_cursor_opens_again_and_two_ids_of_it_differ() {
        let key = SealingKey::of_test(3);
        let place = ChangeCursor { incarnation: 5, position: u64::MAX };
        let (one, other) = (key.seal_place(place), key.seal_place(place));
        assert_ne!(one, other);
        assert_eq!((key.open_place(&one), key.open_place(&other)), (Some(place), Some(place)));
        let zeros = "0".repeat(one.len());
        for wrong in ["", "5.7", &one[2..], &zeros, "é".repeat(36).as_str()] {
            assert_eq!(key.open_place(wrong), None, "{wrong}");
        }
        assert_eq!(SealingKey::of_test(4).open_place(&one), None);
    }
}
