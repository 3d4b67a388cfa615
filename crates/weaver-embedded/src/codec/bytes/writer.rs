//! Encoding a body.

use std::time::Duration;

use weaver_core::time::Timestamp;

use super::{VARINT_BITS, VARINT_MAX_BYTES};
use crate::codec::SEAL_BYTES;

/// A buffer for a body, with space reserved in front for its checksum, so that sealing does not copy. Cleared
/// and reused for the next value, it does not allocate.
#[derive(Debug, Clone)]
pub struct Writer {
    /// [`SEAL_BYTES`], then the body.
    bytes: Vec<u8>,
}

impl Default for Writer {
    fn default() -> Self {
        Self::new()
    }
}

impl Writer {
    /// An empty body, with 256 bytes preallocated.
    pub fn new() -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.resize(SEAL_BYTES, 0);
        Self { bytes }
    }

    /// Starts a new body in the same allocation.
    pub fn clear(&mut self) {
        self.bytes.truncate(SEAL_BYTES);
    }

    /// The bytes written since the last [`clear`](Writer::clear), without the checksum.
    pub fn body(&self) -> &[u8] {
        &self.bytes[SEAL_BYTES..]
    }

    pub(in crate::codec) fn sealed_with(&mut self, seal: [u8; SEAL_BYTES]) -> &[u8] {
        self.bytes[..SEAL_BYTES].copy_from_slice(&seal);
        &self.bytes
    }

    /// Bytes without a length prefix: the reader must know how many.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// One byte as an unsigned number.
    pub fn u8(&mut self, number: u8) {
        self.bytes.push(number);
    }

    /// Two bytes, little-endian; used for presence bits.
    pub fn u16(&mut self, number: u16) {
        self.raw(&number.to_le_bytes());
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// Two booleans in one byte.
    pub fn two_bools(&mut self, first: bool, second: bool) {
        self.u8(u8::from(first) | u8::from(second) << 1);
    }

    /// One to ten bytes; numbers below 128 take one.
    #[inline]
    pub fn varint(&mut self, number: u64) {
        if number < 1 << VARINT_BITS {
            self.bytes.push(number as u8);
        } else {
            self.long_varint(number);
        }
    }

    fn long_varint(&mut self, mut number: u64) {
        // Built on the stack: one capacity check of the vector instead of one per byte.
        let mut scratch = [0; VARINT_MAX_BYTES];
        let mut length = 0;
        while number >= 1 << VARINT_BITS {
            scratch[length] = number as u8 | 1 << VARINT_BITS;
            number >>= VARINT_BITS;
            length += 1;
        }
        scratch[length] = number as u8;
        self.raw(&scratch[..=length]);
    }

    /// A varint whose lowest bit is the sign: small distances in either direction are short.
    pub fn signed(&mut self, number: i64) {
        self.varint(((number << 1) ^ (number >> 63)) as u64);
    }

    /// A varint length, then the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.varint(bytes.len() as u64);
        self.raw(bytes);
    }

    /// A varint length, then the text in UTF-8.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// A presence byte (0 or 1), then the value that `write` encodes.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    /// An absolute instant, in microseconds since 1970: eight bytes for present-day dates.
    pub fn timestamp(&mut self, instant: Timestamp) {
        self.varint(instant.as_micros() as u64);
    }

    /// An instant as its distance from `base`, which the reader must know.
    pub fn timestamp_from(&mut self, base: Timestamp, instant: Timestamp) {
        self.signed(instant.as_micros() - base.as_micros());
    }

    /// A span, exactly: seconds, then nanoseconds. Most are whole seconds and take two or three bytes.
    pub fn duration(&mut self, span: Duration) {
        self.varint(span.as_secs());
        self.varint(span.subsec_nanos().into());
    }
}
