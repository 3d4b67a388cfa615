//! The checksum (seal) on every value. If the file was closed cleanly, `redb` returns a page with a flipped
//! bit as data. The seal detects that, and a value that was read from another key or table.

use crc32fast::Hasher;

use super::Writer;

/// Length of the checksum in front of a body, in bytes.
pub const SEAL_BYTES: usize = 4;

/// A stored value that is not what was written under its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It is shorter than a checksum.
    #[error("the value has {bytes} bytes, which is shorter than its checksum")]
    TooShort {
        /// Length of the value, in bytes.
        bytes: usize,
    },
    /// The checksum does not match table, key and body.
    #[error("checksum mismatch: stored {stored:08x}, computed {found:08x}; the value was damaged on disk")]
    Checksum {
        /// The checksum in front of the body.
        stored: u32,
        /// The checksum computed over what was read.
        found: u32,
    },
}

/// A body with its checksum in front. `table` is the table's number, which never changes.
///
/// Copies the body; [`Writer::seal`] does not.
pub fn seal(table: u8, key: &[u8], body: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(SEAL_BYTES + body.len());
    value.extend_from_slice(&checksum(table, key, body).to_le_bytes());
    value.extend_from_slice(body);
    value
}

/// The body of a sealed value, if it is the one that was sealed for this table and key.
pub fn unseal<'a>(table: u8, key: &[u8], value: &'a [u8]) -> Result<&'a [u8], Damage> {
    let Some((seal, body)) = value.split_first_chunk::<SEAL_BYTES>() else {
        return Err(Damage::TooShort { bytes: value.len() });
    };
    let stored = u32::from_le_bytes(*seal);
    let found = checksum(table, key, body);
    if found == stored { Ok(body) } else { Err(Damage::Checksum { stored, found }) }
}

impl Writer {
    /// Writes the checksum into the space reserved for it and returns the whole value.
    pub fn seal(&mut self, table: u8, key: &[u8]) -> &[u8] {
        let sum = checksum(table, key, self.body());
        self.sealed_with(sum.to_le_bytes())
    }
}

fn checksum(table: u8, key: &[u8], body: &[u8]) -> u32 {
    let mut hasher = Hasher::new();
    hasher.update(&[table]);
    hasher.update(key);
    hasher.update(body);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: u8 = 3;
    const KEY: &[u8] = b"default\0\0\0\0\0\0\0\x2a";
    const BODY: &[u8] = b"a body that is longer than one block of the checksum's fast path, so that both are used: 0123456789";

    #[test]
    fn a_sealed_value_gives_its_body_back() {
        let value = seal(TABLE, KEY, BODY);
        assert_eq!(unseal(TABLE, KEY, &value), Ok(BODY));
        assert_eq!(unseal(TABLE, KEY, &seal(TABLE, KEY, b"")), Ok(&b""[..]));
    }

    #[test]
    fn any_single_flipped_bit_of_the_value_the_key_or_the_table_is_refused() {
        let value = seal(TABLE, KEY, BODY);
        for bit in 0..value.len() * 8 {
            let damaged = flipped(&value, bit);
            assert!(matches!(unseal(TABLE, KEY, &damaged), Err(Damage::Checksum { .. })), "bit {bit}");
        }
        for bit in 0..KEY.len() * 8 {
            assert!(unseal(TABLE, &flipped(KEY, bit), &value).is_err(), "bit {bit} of the key");
        }
        for bit in 0..8 {
            assert!(unseal(TABLE ^ (1 << bit), KEY, &value).is_err(), "bit {bit} of the table");
        }
    }

    #[test]
    fn a_truncated_value_is_refused_at_every_length() {
        let value = seal(TABLE, KEY, BODY);
        for length in 0..value.len() {
            assert!(unseal(TABLE, KEY, &value[..length]).is_err(), "{length} bytes");
        }
    }

    #[test]
    fn sealing_in_place_gives_the_same_value_as_sealing_a_copy() {
        let mut writer = Writer::new();
        for body in [BODY, b"", b"another"] {
            writer.clear();
            writer.raw(body);
            assert_eq!(writer.seal(TABLE, KEY), seal(TABLE, KEY, body));
        }
    }

    fn flipped(bytes: &[u8], bit: usize) -> Vec<u8> {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        bytes
    }
}
