//! A retry policy.

use weaver_core::retry::RetryPolicy;

use crate::codec::{Reader, Undecodable, Writer};

const NONE: u8 = 0;
const FIXED: u8 = 1;
const EXPONENTIAL: u8 = 2;
const EXPONENTIAL_JITTER: u8 = 3;

pub(super) fn encode(writer: &mut Writer, policy: RetryPolicy) {
    match policy {
        RetryPolicy::None => writer.u8(NONE),
        RetryPolicy::Fixed { delay } => {
            writer.u8(FIXED);
            writer.duration(delay);
        }
        RetryPolicy::Exponential { base, factor, cap, jitter } => {
            writer.u8(if jitter { EXPONENTIAL_JITTER } else { EXPONENTIAL });
            writer.duration(base);
            writer.varint(factor.into());
            writer.duration(cap);
        }
    }
}

pub(super) fn decode(reader: &mut Reader<'_>) -> Result<RetryPolicy, Undecodable> {
    match reader.u8("retry")? {
        NONE => Ok(RetryPolicy::None),
        FIXED => Ok(RetryPolicy::Fixed { delay: reader.duration("retry.delay")? }),
        kind @ (EXPONENTIAL | EXPONENTIAL_JITTER) => Ok(RetryPolicy::Exponential {
            base: reader.duration("retry.base")?,
            factor: reader.varint_u32("retry.factor")?,
            cap: reader.duration("retry.cap")?,
            jitter: kind == EXPONENTIAL_JITTER,
        }),
        other => Err(Undecodable::unknown("retry", other)),
    }
}
