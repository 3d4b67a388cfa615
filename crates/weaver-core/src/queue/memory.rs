//! In-memory store. (Written next.)
