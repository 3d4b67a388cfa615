//! SQL types of core's values: instants as `timestamptz`, tokens as `uuid`, without a calendar crate.

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::types::Oid;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};
use weaver_core::id::LeaseToken;
use weaver_core::time::Timestamp;

const TIMESTAMPTZ: Oid = Oid(1184);
const TIMESTAMPTZ_ARRAY: Oid = Oid(1185);
const UUID: Oid = Oid(2950);
const UUID_ARRAY: Oid = Oid(2951);
/// From the Unix epoch to PostgreSQL's, 2000-01-01.
const EPOCH_OFFSET_US: i64 = 946_684_800_000_000;

/// An instant in PostgreSQL's binary format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct At(pub(crate) Timestamp);

impl Type<Postgres> for At {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ)
    }

    fn compatible(found: &PgTypeInfo) -> bool {
        found.oid() == Some(TIMESTAMPTZ)
    }
}

impl PgHasArrayType for At {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(TIMESTAMPTZ_ARRAY)
    }
}

impl Encode<'_, Postgres> for At {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        Encode::<Postgres>::encode_by_ref(&(self.0.as_micros() - EPOCH_OFFSET_US), buffer)
    }
}

impl Decode<'_, Postgres> for At {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(Timestamp::from_micros(i64::from_be_bytes(bytes(&value)?).saturating_add(EPOCH_OFFSET_US))))
    }
}

/// A lease token, a `uuid` in PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token(pub(crate) LeaseToken);

impl Type<Postgres> for Token {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUID)
    }

    fn compatible(found: &PgTypeInfo) -> bool {
        found.oid() == Some(UUID)
    }
}

impl PgHasArrayType for Token {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::with_oid(UUID_ARRAY)
    }
}

impl Encode<'_, Postgres> for Token {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        buffer.extend_from_slice(&self.0.0.to_be_bytes());
        Ok(IsNull::No)
    }
}

impl Decode<'_, Postgres> for Token {
    fn decode(value: PgValueRef<'_>) -> Result<Self, BoxDynError> {
        Ok(Self(LeaseToken(u128::from_be_bytes(bytes(&value)?))))
    }
}

fn bytes<const N: usize>(value: &PgValueRef<'_>) -> Result<[u8; N], BoxDynError> {
    match value.format() {
        PgValueFormat::Binary => Ok(value.as_bytes()?.try_into()?),
        PgValueFormat::Text => Err("value in text format: use the extended query protocol".into()),
    }
}

/// Whole microseconds, as columns named `…_us` store them.
pub(crate) fn micros(span: std::time::Duration) -> i64 {
    i64::try_from(span.as_micros()).unwrap_or(i64::MAX)
}

/// The inverse of [`micros`].
pub(crate) fn span(micros: i64) -> std::time::Duration {
    std::time::Duration::from_micros(micros.unsigned_abs())
}

/// Text that PostgreSQL can store: NUL becomes U+FFFD.
pub(crate) fn storable(text: &str) -> std::borrow::Cow<'_, str> {
    if text.contains('\0') { text.replace('\0', "\u{fffd}").into() } else { text.into() }
}
