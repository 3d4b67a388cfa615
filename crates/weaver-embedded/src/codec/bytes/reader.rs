//! Decoding a body.

use std::sync::Arc;
use std::time::Duration;

use weaver_core::error::Invalid;
use weaver_core::name::SharedText;
use weaver_core::time::Timestamp;

use super::{VARINT_BITS, VARINT_MAX_BYTES};
use crate::codec::{Defect, FORMAT_VERSION, Undecodable};

/// The unread part of a body. Every read names its field, so that an error says where decoding stopped.
///
/// Lengths in the input are checked against the remaining bytes before memory is allocated.
#[derive(Debug, Clone)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of the body, which is the format version.
    pub fn new(body: &'a [u8]) -> Self {
        Self { rest: body }
    }

    /// Starts after the format version; an error unless it is [`FORMAT_VERSION`].
    pub fn of_version(body: &'a [u8]) -> Result<Self, Undecodable> {
        let mut reader = Self::new(body);
        match reader.u8("format version")? {
            FORMAT_VERSION => Ok(reader),
            other => Err(Undecodable::new("format version", Defect::Version(other))),
        }
    }

    /// An error if bytes remain after the last field.
    pub fn finish(&self, field: &'static str) -> Result<(), Undecodable> {
        if self.rest.is_empty() { Ok(()) } else { Err(Undecodable::new(field, Defect::TrailingBytes)) }
    }

    /// Exactly `length` bytes, borrowed from the body.
    #[inline]
    pub fn raw(&mut self, field: &'static str, length: usize) -> Result<&'a [u8], Undecodable> {
        let Some((bytes, rest)) = self.rest.split_at_checked(length) else {
            return Err(Undecodable::new(field, Defect::Truncated));
        };
        self.rest = rest;
        Ok(bytes)
    }

    /// Exactly `N` bytes, copied.
    #[inline]
    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Undecodable> {
        let Some((bytes, rest)) = self.rest.split_first_chunk() else {
            return Err(Undecodable::new(field, Defect::Truncated));
        };
        self.rest = rest;
        Ok(*bytes)
    }

    /// One byte as an unsigned number.
    #[inline]
    pub fn u8(&mut self, field: &'static str) -> Result<u8, Undecodable> {
        self.array(field).map(|[byte]| byte)
    }

    /// Two bytes, little-endian; used for presence bits.
    pub fn u16(&mut self, field: &'static str) -> Result<u16, Undecodable> {
        self.array(field).map(u16::from_le_bytes)
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, field: &'static str) -> Result<bool, Undecodable> {
        match self.u8(field)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Undecodable::unknown(field, other)),
        }
    }

    /// Two booleans in one byte. The second was added later, to what had been a byte of 0 or 1.
    pub fn two_bools(&mut self, field: &'static str) -> Result<(bool, bool), Undecodable> {
        match self.u8(field)? {
            bits @ 0..=3 => Ok((bits & 1 != 0, bits & 2 != 0)),
            other => Err(Undecodable::unknown(field, other)),
        }
    }

    /// A number of at most 64 bits.
    #[inline]
    pub fn varint(&mut self, field: &'static str) -> Result<u64, Undecodable> {
        match self.rest {
            [byte, rest @ ..] if *byte < 1 << VARINT_BITS => {
                self.rest = rest;
                Ok((*byte).into())
            }
            _ => self.long_varint(field),
        }
    }

    fn long_varint(&mut self, field: &'static str) -> Result<u64, Undecodable> {
        let mut number = 0_u64;
        for (index, byte) in self.rest.iter().take(VARINT_MAX_BYTES).enumerate() {
            let bits = u64::from(byte & 0x7f);
            number |= bits << (VARINT_BITS * index as u32);
            if *byte < 1 << VARINT_BITS {
                // The tenth byte has room for one bit only.
                if index + 1 == VARINT_MAX_BYTES && bits > 1 {
                    return Err(Undecodable::new(field, Defect::OutOfRange));
                }
                self.rest = &self.rest[index + 1..];
                return Ok(number);
            }
        }
        let defect = if self.rest.len() < VARINT_MAX_BYTES { Defect::Truncated } else { Defect::OutOfRange };
        Err(Undecodable::new(field, defect))
    }

    /// A number of at most 32 bits.
    pub fn varint_u32(&mut self, field: &'static str) -> Result<u32, Undecodable> {
        u32::try_from(self.varint(field)?).map_err(|_| Undecodable::new(field, Defect::OutOfRange))
    }

    /// A number with a sign.
    pub fn signed(&mut self, field: &'static str) -> Result<i64, Undecodable> {
        let number = self.varint(field)?;
        Ok((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// The number of members that follow. Each takes at least one byte, so it is at most the remaining
    /// length.
    pub fn count(&mut self, field: &'static str) -> Result<usize, Undecodable> {
        match usize::try_from(self.varint(field)?) {
            Ok(count) if count <= self.rest.len() => Ok(count),
            _ => Err(Undecodable::new(field, Defect::Truncated)),
        }
    }

    /// A varint length, then that many bytes, borrowed from the body.
    pub fn bytes(&mut self, field: &'static str) -> Result<&'a [u8], Undecodable> {
        let length = self.count(field)?;
        self.raw(field, length)
    }

    /// A varint length, then that many bytes of UTF-8.
    pub fn text(&mut self, field: &'static str) -> Result<&'a str, Undecodable> {
        let bytes = self.bytes(field)?;
        std::str::from_utf8(bytes).map_err(|_| Undecodable::new(field, Defect::InvalidUtf8))
    }

    /// Text that is a valid name: `reader.name("queue", QueueName::new)`.
    pub fn name<N>(
        &mut self,
        field: &'static str,
        check: impl FnOnce(SharedText) -> Result<N, Invalid>,
    ) -> Result<N, Undecodable> {
        // Through `Arc` and not `String`, which would allocate and copy twice.
        let text: Arc<str> = self.text(field)?.into();
        check(text.into()).map_err(|_| Undecodable::new(field, Defect::InvalidName))
    }

    /// A presence byte (0 or 1), then the value that `read` decodes.
    pub fn option<T>(
        &mut self,
        field: &'static str,
        read: impl FnOnce(&mut Self) -> Result<T, Undecodable>,
    ) -> Result<Option<T>, Undecodable> {
        if self.bool(field)? { read(self).map(Some) } else { Ok(None) }
    }

    /// An absolute instant, in microseconds since 1970.
    pub fn timestamp(&mut self, field: &'static str) -> Result<Timestamp, Undecodable> {
        instant(field, i64::try_from(self.varint(field)?).ok())
    }

    /// An instant stored as its distance from `base`, in microseconds.
    pub fn timestamp_from(&mut self, field: &'static str, base: Timestamp) -> Result<Timestamp, Undecodable> {
        let distance = self.signed(field)?;
        instant(field, base.as_micros().checked_add(distance))
    }

    /// A span: whole seconds, then nanoseconds below 10⁹.
    pub fn duration(&mut self, field: &'static str) -> Result<Duration, Undecodable> {
        let (seconds, nanos) = (self.varint(field)?, self.varint_u32(field)?);
        // More would carry into the seconds and could overflow them.
        if nanos >= 1_000_000_000 {
            return Err(Undecodable::new(field, Defect::OutOfRange));
        }
        Ok(Duration::new(seconds, nanos))
    }
}

/// Refuses values that [`Timestamp::from_micros`] would clamp: a stored instant is read back exactly.
fn instant(field: &'static str, micros: Option<i64>) -> Result<Timestamp, Undecodable> {
    match micros {
        Some(micros) if (0..=Timestamp::MAX.as_micros()).contains(&micros) => {
            Ok(Timestamp::from_micros(micros))
        }
        _ => Err(Undecodable::new(field, Defect::OutOfRange)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::Writer;

    #[test]
    fn numbers_at_every_border_survive() {
        let mut writer = Writer::new();
        for shift in 0..64 {
            for number in [(1_u64 << shift) - 1, 1 << shift, u64::MAX >> shift] {
                writer.clear();
                writer.varint(number);
                writer.signed(number as i64);
                let mut reader = Reader::new(writer.body());
                assert_eq!(reader.varint("number"), Ok(number));
                assert_eq!(reader.signed("number"), Ok(number as i64));
                assert_eq!(reader.finish("number"), Ok(()));
            }
        }
    }

    #[test]
    fn a_number_of_more_than_64_bits_is_refused_and_not_wrapped() {
        let too_large = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        let refused = Err(Undecodable::new("number", Defect::OutOfRange));
        assert_eq!(Reader::new(&too_large).varint("number"), refused);
        assert_eq!(Reader::new(&[0xff; 11]).varint("number"), refused);
        let ends = Err(Undecodable::new("number", Defect::Truncated));
        assert_eq!(Reader::new(&[0xff; 9]).varint("number"), ends);
    }

    #[test]
    fn a_length_beyond_the_input_is_refused_before_memory_is_allocated() {
        let mut writer = Writer::new();
        writer.varint(u64::MAX);
        let ends = Err(Undecodable::new("payload", Defect::Truncated));
        assert_eq!(Reader::new(writer.body()).bytes("payload"), ends);
    }

    #[test]
    fn an_instant_or_span_that_no_record_can_hold_is_refused_and_not_clamped() {
        let mut writer = Writer::new();
        writer.varint(Timestamp::MAX.as_micros() as u64 + 1);
        let refused = Undecodable::new("at", Defect::OutOfRange);
        assert_eq!(Reader::new(writer.body()).timestamp("at"), Err(refused));
        writer.clear();
        writer.signed(-1);
        assert_eq!(Reader::new(writer.body()).timestamp_from("at", Timestamp::MIN), Err(refused));
        writer.clear();
        writer.varint(u64::MAX);
        writer.varint(1_000_000_000);
        assert_eq!(Reader::new(writer.body()).duration("at"), Err(refused));
    }

    #[test]
    fn a_refusal_names_the_field_and_what_is_wrong() {
        let refusal = Reader::new(&[2, 0xc3, 0x28]).text("worker").unwrap_err().to_string();
        assert!(refusal.contains("worker") && refusal.contains("UTF-8"), "{refusal}");
        let refusal = Reader::of_version(&[9]).unwrap_err().to_string();
        assert!(refusal.contains("version 9"), "{refusal}");
    }
}
