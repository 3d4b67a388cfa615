//! Encodes numbers, strings and times, and decodes them from untrusted input.

mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

/// Bits of a number per byte of a varint; the highest bit says that another byte follows.
const VARINT_BITS: u32 = 7;
/// The longest varint of 64 bits.
const VARINT_MAX_BYTES: usize = 10;
